//! Launches: arguments are checked and packed on the caller's stack, then moved into the mailbox slot.
//!
//! This is a client's hot path: no heap, no reference counts, one credit and one message for each launch (I9).

use std::sync::Arc;

use millstream_protocol::{Access, ArgumentError, ArgumentErrorKind, Binding, Error, Op};

use crate::arguments::{
    ArgumentCount, ArgumentWriter, Arguments, Bound, CubeCount, Packed, Untyped, refused,
};
use crate::handle::Handle;
use crate::{KernelHandle, Stream};

impl Stream {
    /// Runs a kernel with `count` cubes. Returns as soon as the task is in the mailbox. May block while
    /// there is no room for the task, unless the stream is a [`Stream::nowait`].
    ///
    /// Arguments are a tuple of bindings, in declared order, followed by scalars; a single argument needs no tuple. The
    /// count is a [`CubeCount`], a reference to one, or numbers.
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Stream};
    /// # use millstream_protocol::Error;
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
    /// [`Error::Argument`] if the arguments do not fit the kernel's signature, [`Error::Foreign`], [`Error::Closed`]. A
    /// failure that occurs later poisons what the launch writes, and tasks and callers that read it receive it.
    #[inline(always)]
    pub fn launch(
        &self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        // Inlined, so that the count is where the caller builds it: a move of what was just stored field by field would
        // wait for these stores, for a sixth of the launch.
        self.launch_counted(kernel, &count.into(), arguments)
    }

    #[inline]
    fn launch_counted(
        &self,
        kernel: &KernelHandle,
        count: &CubeCount,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        let mut packed = Packed::new();
        self.pack(kernel, arguments.count(), &mut packed, |mut writer| {
            arguments.write(&mut writer)
        })?;
        self.submit_launch(kernel, count, &mut packed)
    }

    /// As [`Stream::launch`], with arguments that are built at run time and have no element types. Bindings are bytes,
    /// which must be whole elements of the type that the signature declares, also of types that no Rust type
    /// represents. Scalars are packed words, each scalar at its place
    /// ([`ScalarSpec::offset`](millstream_protocol::ScalarSpec)). For a kernel of
    /// [`Kernel::from_program`](millstream_protocol::Kernel::from_program) the words are the program's launch
    /// words. May block while there is no room for the task, unless the stream is a [`Stream::nowait`].
    ///
    /// A binding that the kernel declares as [`Access::ReadWrite`](millstream_protocol::Access) may be bound
    /// with [`write`](crate::arguments::write) if its previous contents are not needed. They are undefined then, and a
    /// failure that poisons them is not inherited.
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Stream};
    /// # use millstream_protocol::Error;
    /// # use millstream_client::handle::Handle;
    /// use millstream_client::arguments::{CubeCount, read, write};
    /// # fn f(stream: &Stream, kernel: &KernelHandle, x: &Handle<f32>, y: &Handle<f32>) -> Result<(), Error> {
    /// let bindings = [read(x.as_bytes()), write(y.as_bytes())];
    /// stream.launch_words(kernel, CubeCount::single(), &bindings, &[x.len() as u64])
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Stream::launch`].
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
            tensor_maps: &[],
        };
        self.launch(kernel, count, arguments)
    }

    /// As [`Stream::launch`], with arguments that `write` writes one by one, in declared order: for bindings to other
    /// languages, which learn of each argument at run time. Submits nothing and returns `false` if `write` returns
    /// `false`. May block while there is no room for the task, unless the stream is a [`Stream::nowait`].
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Stream};
    /// # use millstream_protocol::Error;
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
    /// # use millstream_protocol::Error;
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
        write: impl FnOnce(&mut ArgumentWriter<'_, 'h>) -> Result<bool, Box<Error>>,
    ) -> Result<bool, Error> {
        let declared = ArgumentCount::of(kernel.kernel.signature());
        let mut packed = Packed::new();
        let complete = self.pack(kernel, declared, &mut packed, |mut writer| {
            Ok(write(&mut writer)? && writer.finish().map(|()| true)?)
        })?;
        if complete {
            self.submit_launch(kernel, &count.into(), &mut packed)?;
        }
        Ok(complete)
    }

    /// Checks that the kernel is of this device, and packs the arguments that `write` writes.
    #[inline(always)]
    pub(crate) fn pack<'h, T>(
        &self,
        kernel: &KernelHandle,
        given: ArgumentCount,
        packed: &mut Packed,
        write: impl FnOnce(ArgumentWriter<'_, 'h>) -> Result<T, Box<Error>>,
    ) -> Result<T, Error> {
        let device = self.device();
        if !Arc::ptr_eq(kernel.hold.table(), device.table()) {
            return Err(device.foreign(
                "kernel",
                format!("`{}`", kernel.name()),
                kernel.hold.table(),
            ));
        }
        let fits = ArgumentWriter::new((kernel, device), packed, given).and_then(write);
        fits.map_err(|error| *error)
    }

    /// Checks the count of a launch with these bindings, which only a count that the device reads needs.
    #[inline(always)]
    pub(crate) fn check_count<B: Iterator<Item = Binding>>(
        &self,
        kernel: &KernelHandle,
        count: &CubeCount,
        bindings: impl FnOnce() -> B,
    ) -> Result<(), Error> {
        let limits = &self.device().properties().max_cube_count;
        match *count {
            CubeCount::Static(x, y, z) if x <= limits[0] && y <= limits[1] && z <= limits[2] => {
                Ok(())
            }
            CubeCount::Static(x, y, z) => Err(too_many_cubes(kernel, [x, y, z], *limits)),
            CubeCount::Dynamic(ref count) => self.check_read_count(kernel, count, bindings()),
        }
    }

    /// Checks a count that the device reads. A launch must not write it: some of its cubes would have started by then.
    #[cold]
    fn check_read_count(
        &self,
        kernel: &KernelHandle,
        count: &Handle<u32>,
        bindings: impl Iterator<Item = Binding>,
    ) -> Result<(), Error> {
        self.check_handle(count)?;
        if count.len() != 3 {
            let message = format!(
                "a dynamic cube count must be 3 `u32` (x, y, z), got a handle of {}",
                count.len()
            );
            let why = ArgumentError::new(ArgumentErrorKind::Count, message);
            return Err(*refused(kernel, why));
        }
        let read = count.binding(Access::Read);
        let mut bindings = bindings.enumerate();
        let Some((index, written)) = bindings.find(|(_, binding)| binding.conflicts(&read)) else {
            return Ok(());
        };
        let first = &kernel.kernel.signature().bindings()[index].name;
        let why = ArgumentError::overlap(first, "cube count", written.shared_bytes(&read));
        Err(*refused(kernel, why))
    }

    /// Submits a launch, after a check of its count. A count that the device reads is its last binding.
    // Unoptimized programs have one copy for all types of arguments: they build in less time.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn submit_launch(
        &self,
        kernel: &KernelHandle,
        count: &CubeCount,
        packed: &mut Packed,
    ) -> Result<(), Error> {
        self.check_count(kernel, count, || packed.bindings())?;
        let Some(stream) = self.id() else {
            return self.registered_id().map(drop);
        };
        self.acquire_task_credit()?;
        let slot = self.slot()?;
        let op = Op::Launch {
            kernel: kernel.id(),
            count: count.as_launched(),
        };
        let mut message = slot.begin(Some(stream), op);
        packed.move_to(&mut message);
        if let CubeCount::Dynamic(count) = count {
            message.push_binding(count.binding(Access::Read));
        }
        self.bind_terms(&mut message);
        message.send();
        Ok(())
    }
}

#[cold]
fn too_many_cubes(kernel: &KernelHandle, given: [u32; 3], limits: [u32; 3]) -> Error {
    let over = (0..3).find(|axis| given[*axis] > limits[*axis]);
    let axis = over.unwrap_or(0);
    let message = format!(
        "expected at most {} cubes along axis {}, got {}; use more threads per cube, or several launches",
        limits[axis],
        ["x", "y", "z"][axis],
        given[axis]
    );
    *refused(
        kernel,
        ArgumentError::new(ArgumentErrorKind::TooLarge, message),
    )
}
