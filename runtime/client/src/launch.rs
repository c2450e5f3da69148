//! Launching: arguments are checked and packed on the caller's stack, and moved into the mailbox slot.
//!
//! This is the hot path of a client: no heap, no counts, one credit and one message a launch (I9).

use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::error::{Error, LaunchError};
use millstream_protocol::kernel::ExecutionMode;
use millstream_protocol::launch::LaunchCount;
use millstream_protocol::message::Op;

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
        let (count, mut packed) = (count.into(), Packed::new());
        self.pack(kernel, &count, &arguments, &mut packed)?;
        self.submit_launch(
            self.waits(),
            kernel,
            &count,
            ExecutionMode::Checked,
            &mut packed,
        )
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
        let (count, mut packed) = (count.into(), Packed::new());
        self.pack(kernel, &count, &arguments, &mut packed)?;
        self.submit_launch(false, kernel, &count, ExecutionMode::Checked, &mut packed)
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
        let (count, mut packed) = (count.into(), Packed::new());
        let table = self.device().table();
        let given = arguments.count();
        let mut writer = ArgumentWriter::unchecked(signature, table, &mut packed, given);
        arguments
            .write(&mut writer)
            .map_err(|error| self.device().misfit(error, kernel.name()))?;
        self.submit_launch(
            self.waits(),
            kernel,
            &count,
            ExecutionMode::Unchecked,
            &mut packed,
        )
    }

    /// Checks a launch and packs its arguments.
    #[inline(always)]
    fn pack(
        &self,
        kernel: &KernelHandle,
        count: &CubeCount,
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
        if let Err(error) = fits {
            return Err(device.misfit(error, kernel.name()));
        }
        self.check_count(kernel, count)?;
        if let CubeCount::Dynamic(handle) = count {
            check_own_count(kernel, handle, packed.bindings())?;
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn check_count(
        &self,
        kernel: &KernelHandle,
        count: &CubeCount,
    ) -> Result<(), Error> {
        let refuse = |why| {
            Err(Error::Launch {
                task: kernel.name().clone(),
                why,
            })
        };
        match count {
            CubeCount::Static(x, y, z) => {
                let limits = &self.device().properties().max_cube_count;
                if *x <= limits[0] && *y <= limits[1] && *z <= limits[2] {
                    return Ok(());
                }
                let given = [*x, *y, *z];
                let over = (0..3).find(|axis| given[*axis] > limits[*axis]);
                let axis = over.unwrap_or(0);
                refuse(LaunchError::TooManyCubes {
                    axis,
                    given: given[axis],
                    limit: limits[axis],
                })
            }
            CubeCount::Dynamic(handle) => {
                self.own(handle)?;
                if handle.len() != 3 {
                    return refuse(LaunchError::DynamicCount {
                        elements: handle.len(),
                    });
                }
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn submit_launch(
        &self,
        wait: bool,
        kernel: &KernelHandle,
        count: &CubeCount,
        mode: ExecutionMode,
        packed: &mut Packed,
    ) -> Result<(), Error> {
        let Some(stream) = self.id() else {
            return self.known().map(drop);
        };
        self.pay(wait)?;
        let slot = self.slot(wait)?;
        let kernel = kernel.id();
        // Each arm writes its fields straight into the slot.
        let op = |count| Op::Launch { kernel, count };
        let mut message = match count {
            CubeCount::Static(x, y, z) => {
                slot.begin(Some(stream), op(LaunchCount::Static([*x, *y, *z])))
            }
            CubeCount::Dynamic(_) => slot.begin(Some(stream), op(LaunchCount::Dynamic)),
        };
        message.mode = mode;
        packed.move_to(&mut message);
        if let CubeCount::Dynamic(handle) = count {
            message.push_binding(handle.binding(Access::Read));
        }
        self.bind_terms(&mut message);
        message.send();
        Ok(())
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
