//! Launches: arguments are checked and packed on the caller's stack, then moved into the mailbox slot.
//!
//! This is a client's hot path: no heap, no reference counts, one credit and one message for each launch (I9).

use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::error::{Error, LaunchError};
use millstream_protocol::kernel::ExecutionMode;
use millstream_protocol::launch::LaunchCount;
use millstream_protocol::message::{Op, Task};

use crate::arguments::{
    ArgumentCount, ArgumentError, ArgumentWriter, Arguments, Bound, CubeCount, Packed, Untyped,
};
use crate::handle::Handle;
use crate::{KernelHandle, Stream};

impl Stream {
    /// Runs a kernel with `count` cubes. Returns as soon as the task is in the mailbox. May block while
    /// there is no room for the task ([`Stream::try_launch`] does not).
    ///
    /// Arguments are a tuple of bindings, in declared order, followed by scalars; a single argument needs no tuple. The
    /// count is a [`CubeCount`], a reference to one, or numbers.
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Stream};
    /// # use millstream_protocol::error::Error;
    /// # use millstream_client::handle::Handle;
    /// use millstream_client::arguments::{CubeCount, read, update, write};
    /// # fn f(stream: &Stream, double: &KernelHandle, blur: &KernelHandle, x: &Handle<f32>, y: &Handle<f32>) -> Result<(), Error> {
    /// let count = CubeCount::cover(x.len(), 256);
    /// stream.launch(double, &count, update(x))?;
    /// stream.launch(blur, &count, (read(x), write(y), 3_u32, x.len()))?; // a length is a u64
    /// stream.launch(double, [4, 2, 1], update(y))
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Launch`] if the arguments do not fit the kernel's signature, [`Error::Foreign`], [`Error::Closed`]. A
    /// failure that occurs later poisons what the launch writes, and tasks and callers that read it receive it.
    #[inline]
    pub fn launch(
        &self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.launch_checked(self.waits(), kernel, count.into(), &arguments)
    }

    /// As [`Stream::launch`], but never blocks.
    ///
    /// # Errors
    /// Also [`Error::Busy`] if there is no room; nothing is submitted then.
    #[inline]
    pub fn try_launch(
        &self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.launch_checked(false, kernel, count.into(), &arguments)
    }

    /// As [`Stream::launch`], with arguments that are built at run time and have no element types. Bindings are bytes,
    /// which must be whole elements of the type that the signature declares, also of types that no Rust type
    /// represents. Scalars are packed words, each scalar at its place
    /// ([`ScalarSpec::offset`](millstream_protocol::kernel::ScalarSpec)). For a kernel of
    /// [`Kernel::from_program`](millstream_protocol::kernel::Kernel::from_program) the words are the program's launch
    /// words. May block while there is no room for the task, unless the stream is a [`Stream::nowait`].
    ///
    /// A binding that the kernel declares as [`Access::ReadWrite`](millstream_protocol::access::Access) may be bound
    /// with [`write`](crate::arguments::write) if its previous contents are not needed. They are undefined then, and a
    /// failure that poisons them is not inherited.
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Stream};
    /// # use millstream_protocol::error::Error;
    /// # use millstream_client::handle::Handle;
    /// use millstream_client::arguments::{CubeCount, read, write};
    /// # fn f(stream: &Stream, kernel: &KernelHandle, x: &Handle<f32>, y: &Handle<f32>) -> Result<(), Error> {
    /// let bindings = [read(x.as_bytes()), write(y.as_bytes())];
    /// stream.launch_words(kernel, CubeCount::single(), &bindings, &[x.len() as u64])
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Stream::launch`]; [`LaunchError::WordCount`], [`LaunchError::PartialElement`].
    pub fn launch_words(
        &self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        bindings: &[Bound<'_, u8>],
        words: &[u64],
    ) -> Result<(), Error> {
        let arguments = Untyped {
            signature: kernel.kernel.signature(),
            bindings,
            words,
            metadata: &[],
        };
        self.launch(kernel, count, arguments)
    }

    /// As [`Stream::launch`], with arguments that `write` writes one by one, in declared order: for bindings to other
    /// languages, which learn of each argument at run time. Submits nothing and returns `false` if `write` returns
    /// `false`. May block while there is no room for the task, unless the stream is a [`Stream::nowait`].
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Stream};
    /// # use millstream_protocol::error::Error;
    /// # use millstream_client::handle::Handle;
    /// use millstream_client::arguments::{Argument, CubeCount, update};
    /// # fn f(stream: &Stream, kernel: &KernelHandle, buffers: &[Handle<f32>], scalars: &[u32]) -> Result<bool, Error> {
    /// stream.launch_with(kernel, CubeCount::single(), |arguments| {
    ///     for buffer in buffers {
    ///         update(buffer).write(arguments)?;
    ///     }
    ///     for scalar in scalars {
    ///         scalar.write(arguments)?;
    ///     }
    ///     Ok(true)
    /// })
    /// # }
    /// ```
    ///
    /// The handles must live until the launch is sent (I4), longer than what `write` owns:
    ///
    /// ```compile_fail,E0597
    /// # use millstream_client::{KernelHandle, Stream};
    /// # use millstream_protocol::error::Error;
    /// use millstream_client::arguments::{Argument, CubeCount, update};
    /// # fn f(stream: &Stream, kernel: &KernelHandle) -> Result<bool, Error> {
    /// let owned = stream.create(&[1.0_f32])?;
    /// stream.launch_with(kernel, CubeCount::single(), move |arguments| {
    ///     let buffer = owned;
    ///     update(&buffer).write(arguments)?;
    ///     Ok(true) // `buffer` is dropped here, before the launch is sent
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Stream::launch`]. The errors of `write` are those of [`Argument::write`](crate::arguments::Argument).
    #[inline]
    pub fn launch_with<'h>(
        &self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        write: impl FnOnce(&mut ArgumentWriter<'_, 'h>) -> Result<bool, ArgumentError>,
    ) -> Result<bool, Error> {
        match count.into() {
            CubeCount::Static(x, y, z) => self.write_and_submit(kernel, write, |packed| {
                self.submit_checked(self.waits(), kernel, [x, y, z], packed)
            }),
            CubeCount::Dynamic(count) => self.write_and_submit(kernel, write, |packed| {
                self.submit_checked_count(self.waits(), kernel, &count, packed)
            }),
        }
    }

    /// Packs what `write` writes, and submits it, unless `write` returns `false`.
    #[inline(always)]
    fn write_and_submit<'h>(
        &self,
        kernel: &KernelHandle,
        write: impl FnOnce(&mut ArgumentWriter<'_, 'h>) -> Result<bool, ArgumentError>,
        submit: impl FnOnce(&mut Packed) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let signature = kernel.kernel.signature();
        let declared = ArgumentCount {
            bindings: signature.bindings().len(),
            scalars: signature.scalars().len(),
        };
        let mut packed = Packed::new();
        let complete = self.pack_with(kernel, declared, &mut packed, |writer| {
            Ok(write(writer)? && writer.finish().map(|()| true)?)
        })?;
        if complete {
            submit(&mut packed)?;
        }
        Ok(complete)
    }

    /// As [`Stream::launch`], without any check: neither that the arguments fit, nor, while the kernel runs,
    /// that a native kernel accesses them as declared
    /// ([`ExecutionMode::Unchecked`](millstream_protocol::kernel::ExecutionMode)).
    ///
    /// # Safety
    /// - The kernel and all handles belong to this device, and the cube count is within its limit.
    /// - The arguments fit the signature: number, order, element types, alignment, accesses. Those of which one is
    ///   written do not overlap.
    /// - The kernel uses them as declared: every index is in bounds, the element types are those of the
    ///   signature, bindings are accessed as they are shared (`read`, `chunk`, `atomics`), and no cube holds
    ///   its chunk of a binding twice at a time.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Launch`] for a scalar or a tensor map that the signature has no place for.
    pub unsafe fn launch_unchecked(
        &self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        let signature = kernel.kernel.signature();
        let mut packed = Packed::new();
        let table = self.device().table();
        let given = arguments.count();
        let mut writer = ArgumentWriter::unchecked(signature, table, &mut packed, given);
        arguments
            .write(&mut writer)
            .map_err(|error| self.device().argument_error(error, kernel.name()))?;
        let (wait, mode) = (self.waits(), ExecutionMode::Unchecked);
        match count.into() {
            CubeCount::Static(x, y, z) => {
                self.submit_known(wait, kernel, [x, y, z], mode, &mut packed)
            }
            CubeCount::Dynamic(handle) => {
                self.submit_counted(wait, kernel, &handle, mode, &mut packed)
            }
        }
    }

    /// Checks a launch, packs its arguments and submits it. A static count stays three numbers from here on, in
    /// registers.
    #[inline(always)]
    fn launch_checked(
        &self,
        wait: bool,
        kernel: &KernelHandle,
        count: CubeCount,
        arguments: &impl Arguments,
    ) -> Result<(), Error> {
        let (x, y, z) = match count {
            CubeCount::Static(x, y, z) => (x, y, z),
            CubeCount::Dynamic(handle) => {
                return self.launch_counted(wait, kernel, &handle, arguments);
            }
        };
        let mut packed = Packed::new();
        self.pack(kernel, arguments, &mut packed)?;
        self.submit_checked(wait, kernel, [x, y, z], &mut packed)
    }

    /// As [`Self::launch_checked`], for a count that the device reads.
    #[cold]
    fn launch_counted(
        &self,
        wait: bool,
        kernel: &KernelHandle,
        count: &Handle<u32>,
        arguments: &impl Arguments,
    ) -> Result<(), Error> {
        let mut packed = Packed::new();
        self.pack(kernel, arguments, &mut packed)?;
        self.submit_checked_count(wait, kernel, count, &mut packed)
    }

    /// Checks that the kernel is of this device, and packs the arguments of a launch.
    #[inline(always)]
    fn pack(
        &self,
        kernel: &KernelHandle,
        arguments: &impl Arguments,
        packed: &mut Packed,
    ) -> Result<(), Error> {
        let given = arguments.count();
        self.pack_with(kernel, given, packed, |writer| arguments.write(writer))
    }

    /// As [`Self::pack`], for arguments that `write` writes.
    #[inline(always)]
    fn pack_with<'h, T>(
        &self,
        kernel: &KernelHandle,
        given: ArgumentCount,
        packed: &mut Packed,
        write: impl FnOnce(&mut ArgumentWriter<'_, 'h>) -> Result<T, ArgumentError>,
    ) -> Result<T, Error> {
        let device = self.device();
        if !Arc::ptr_eq(kernel.hold.table(), device.table()) {
            return Err(device.foreign(
                "kernel",
                format!("`{}`", kernel.name()),
                kernel.hold.table(),
            ));
        }
        let (signature, table) = (kernel.kernel.signature(), device.table());
        let fits = ArgumentWriter::new(signature, table, packed, given)
            .and_then(|mut writer| write(&mut writer));
        fits.map_err(|error| device.argument_error(error, kernel.name()))
    }

    pub(crate) fn check_count(
        &self,
        kernel: &KernelHandle,
        count: &CubeCount,
    ) -> Result<(), Error> {
        match count {
            CubeCount::Static(x, y, z) => self.check_known_count(kernel, [*x, *y, *z]),
            CubeCount::Dynamic(handle) => self.check_read_count(kernel, handle),
        }
    }

    #[inline(always)]
    fn check_known_count(&self, kernel: &KernelHandle, given: [u32; 3]) -> Result<(), Error> {
        let limits = &self.device().properties().max_cube_count;
        if given[0] <= limits[0] && given[1] <= limits[1] && given[2] <= limits[2] {
            return Ok(());
        }
        Err(too_many_cubes(kernel, given, *limits))
    }

    fn check_read_count(&self, kernel: &KernelHandle, count: &Handle<u32>) -> Result<(), Error> {
        self.check_handle(count)?;
        match count.len() {
            3 => Ok(()),
            elements => Err(Error::Launch {
                task: kernel.name().clone(),
                why: LaunchError::DynamicCount { elements },
            }),
        }
    }

    /// Submits a launch with a static count, after a check of the count.
    #[inline(always)]
    fn submit_checked(
        &self,
        wait: bool,
        kernel: &KernelHandle,
        count: [u32; 3],
        packed: &mut Packed,
    ) -> Result<(), Error> {
        self.check_known_count(kernel, count)?;
        self.submit_known(wait, kernel, count, ExecutionMode::Checked, packed)
    }

    /// As [`Self::submit_checked`], for a count that the device reads.
    #[cold]
    fn submit_checked_count(
        &self,
        wait: bool,
        kernel: &KernelHandle,
        count: &Handle<u32>,
        packed: &mut Packed,
    ) -> Result<(), Error> {
        self.check_read_count(kernel, count)?;
        check_own_count(kernel, count, packed.bindings())?;
        self.submit_counted(wait, kernel, count, ExecutionMode::Checked, packed)
    }

    /// Submits a launch with a static count.
    #[inline(always)]
    fn submit_known(
        &self,
        wait: bool,
        kernel: &KernelHandle,
        count: [u32; 3],
        mode: ExecutionMode,
        packed: &mut Packed,
    ) -> Result<(), Error> {
        let count = LaunchCount::Static(count);
        self.submit_launch(wait, kernel, count, mode, |message| packed.move_to(message))
    }

    /// Submits a launch with a count that the device reads; the count is its last binding.
    fn submit_counted(
        &self,
        wait: bool,
        kernel: &KernelHandle,
        count: &Handle<u32>,
        mode: ExecutionMode,
        packed: &mut Packed,
    ) -> Result<(), Error> {
        self.submit_launch(wait, kernel, LaunchCount::Dynamic, mode, |message| {
            packed.move_to(message);
            message.push_binding(count.binding(Access::Read));
        })
    }

    #[inline(always)]
    fn submit_launch(
        &self,
        wait: bool,
        kernel: &KernelHandle,
        count: LaunchCount,
        mode: ExecutionMode,
        complete: impl FnOnce(&mut Task),
    ) -> Result<(), Error> {
        let Some(stream) = self.id() else {
            return self.registered_id().map(drop);
        };
        self.acquire_task_credit(wait)?;
        let slot = self.slot(wait)?;
        let kernel = kernel.id();
        let mut message = slot.begin(Some(stream), Op::Launch { kernel, count });
        message.mode = mode;
        complete(&mut message);
        self.bind_terms(&mut message);
        message.send();
        Ok(())
    }
}

#[cold]
fn too_many_cubes(kernel: &KernelHandle, given: [u32; 3], limits: [u32; 3]) -> Error {
    let over = (0..3).find(|axis| given[*axis] > limits[*axis]);
    let axis = over.unwrap_or(0);
    Error::Launch {
        task: kernel.name().clone(),
        why: LaunchError::TooManyCubes {
            axis,
            given: given[axis],
            limit: limits[axis],
        },
    }
}

/// Returns an error if a launch writes the count that it reads: some of its cubes would have started by then.
pub(crate) fn check_own_count(
    kernel: &KernelHandle,
    count: &Handle<u32>,
    bindings: impl Iterator<Item = Binding>,
) -> Result<(), Error> {
    let read = count.binding(Access::Read);
    let mut bindings = bindings.enumerate();
    let Some((index, written)) = bindings.find(|(_, binding)| binding.conflicts(&read)) else {
        return Ok(());
    };
    let specs = kernel.kernel.signature().bindings();
    let first = specs.get(index).map(|spec| spec.name.clone());
    Err(Error::Launch {
        task: kernel.name().clone(),
        why: LaunchError::Overlap {
            first: first.unwrap_or_default(),
            second: "cube count".into(),
            bytes: written.shared_bytes(&read),
        },
    })
}
