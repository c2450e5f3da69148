//! Launching: arguments are checked and packed on the caller's stack, and moved into the mailbox slot.
//!
//! This is the hot path of a client: no heap, no counts, one credit and one message a launch (I9).

use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::error::{Error, LaunchError};
use millstream_protocol::kernel::ExecutionMode;
use millstream_protocol::launch::LaunchCount;
use millstream_protocol::message::{Op, Task};

use crate::arguments::{ArgumentWriter, Arguments, Bound, CubeCount, Packed, Untyped};
use crate::handle::Handle;
use crate::{KernelHandle, Stream};

impl Stream {
    /// Runs a kernel with `count` cubes. Returns as soon as the task is in the mailbox; may wait for
    /// room there ([`Stream::try_launch`] does not).
    ///
    /// Arguments are a tuple of bindings, in declared order, and then scalars; a single one needs no tuple. Counts are a
    /// [`CubeCount`], a reference to one, or numbers.
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
    /// [`Error::Launch`] when the arguments do not fit the kernel's signature, [`Error::Foreign`],
    /// [`Error::Closed`]. What goes wrong later reaches whoever reads what the launch writes.
    #[inline]
    pub fn launch(
        &self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.launch_checked(self.waits(), kernel, count.into(), &arguments)
    }

    /// As [`Stream::launch`], but never waits.
    ///
    /// # Errors
    /// Also [`Error::Busy`] when there is no room; nothing was submitted then.
    #[inline]
    pub fn try_launch(
        &self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.launch_checked(false, kernel, count.into(), &arguments)
    }

    /// As [`Stream::launch`], with arguments that are made at run time and have no element types: bindings as bytes
    /// (whole elements of what the signature declares, whether or not a Rust type stands for it), and all scalars as
    /// packed words, each in its place ([`ScalarSpec::offset`](millstream_protocol::kernel::ScalarSpec)). For a kernel of
    /// [`Kernel::from_program`](millstream_protocol::kernel::Kernel::from_program) the words are the program's. May wait for room
    /// in the mailbox; through [`Stream::nowait`] it does not.
    ///
    /// What the kernel declares as [`Access::ReadWrite`](millstream_protocol::access::Access) may be bound with
    /// [`write`](crate::arguments::write) if nothing that is in the memory is needed: it is undefined then, and a failure that
    /// lies there is not inherited.
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
    /// As [`Stream::launch`]; [`LaunchError::WordCount`], [`LaunchError::Indivisible`].
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

    /// As [`Stream::launch`], with nothing checked: neither that the arguments fit, nor, while it runs,
    /// that a native kernel asks for them as they are declared
    /// ([`ExecutionMode::Unchecked`](millstream_protocol::kernel::ExecutionMode)).
    ///
    /// # Safety
    /// - The kernel and all handles belong to this device, and the cubes are within its limit.
    /// - The arguments fit the signature: number, order, element types, alignment, accesses. They do not
    ///   overlap where one of them is written.
    /// - The kernel uses them as declared: every index exists, the element types are those of the
    ///   signature, bindings are taken as they are shared (`read`, `chunk`, `atomics`), and no cube holds
    ///   its chunk of a binding twice at a time.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Launch`] for a scalar or a tensor map that has no place.
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
            .map_err(|error| self.device().misfit(error, kernel.name()))?;
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

    /// Checks a launch, packs its arguments and submits it. A known count is three numbers from here on, which stay in registers.
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
        self.check_known_count(kernel, [x, y, z])?;
        self.submit_known(wait, kernel, [x, y, z], ExecutionMode::Checked, &mut packed)
    }

    /// As [`Self::launch_checked`], with a count that the device reads.
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
        self.check_read_count(kernel, count)?;
        check_own_count(kernel, count, packed.bindings())?;
        self.submit_counted(wait, kernel, count, ExecutionMode::Checked, &mut packed)
    }

    /// Checks that the kernel is of this device, and packs the arguments of a launch.
    #[inline(always)]
    fn pack(
        &self,
        kernel: &KernelHandle,
        arguments: &impl Arguments,
        packed: &mut Packed,
    ) -> Result<(), Error> {
        let device = self.device();
        if !Arc::ptr_eq(kernel.hold.table(), device.table()) {
            return Err(device.foreign("kernel", kernel.hold.table()));
        }
        let (signature, table) = (kernel.kernel.signature(), device.table());
        let fits = ArgumentWriter::new(signature, table, packed, arguments.count())
            .and_then(|mut writer| arguments.write(&mut writer));
        fits.map_err(|error| device.misfit(error, kernel.name()))
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
        self.own(count)?;
        match count.len() {
            3 => Ok(()),
            elements => Err(Error::Launch {
                task: kernel.name().clone(),
                why: LaunchError::DynamicCount { elements },
            }),
        }
    }

    /// Submits a launch with a known count.
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

    /// Submits a launch with a count that the device reads, which is its last binding.
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
            return self.known().map(drop);
        };
        self.pay(wait)?;
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

/// Checks that a launch does not write the count that it reads: part of its cubes would have begun by then.
pub(crate) fn check_own_count(
    kernel: &KernelHandle,
    count: &Handle<u32>,
    mut bindings: impl Iterator<Item = Binding>,
) -> Result<(), Error> {
    let read = count.binding(Access::Read);
    let Some(index) = bindings.position(|binding| binding.conflicts(&read)) else {
        return Ok(());
    };
    let specs = kernel.kernel.signature().bindings();
    let first = specs.get(index).map(|spec| spec.name.clone());
    Err(Error::Launch {
        task: kernel.name().clone(),
        why: LaunchError::Overlap {
            first: first.unwrap_or_default(),
            second: "cube count".into(),
        },
    })
}
