//! A stream: a logical order of tasks that any thread may add to.

use std::mem::MaybeUninit;
use std::sync::Arc;

use millstream_sync::credit::{AcquireError, Credit};
use millstream_sync::reply::reply;

use crate::access::Access;
use crate::client::{ComputeClient, DeviceShared, KernelHandle, Pending, charge};
use crate::element::Element;
use crate::error::{Error, LaunchError, MemoryError};
use crate::handle::{Binding, Handle, Hold};
use crate::id::{SliceId, StreamId};
use crate::launch::{ArgumentWriter, Arguments, CubeCount, Packed};
use crate::memory::AllocationMode;
use crate::message::{LaunchCount, Op, Registration, Task};

/// What clones of a stream share.
struct StreamShared {
    client: ComputeClient,
    credit: Arc<Credit>,
    /// Its place in the table, or why it has none.
    hold: Result<Hold, Error>,
}

/// A logical order of tasks: what is added first runs first, as far as anybody can tell.
///
/// Cheap to clone, `Send + Sync`; it belongs to no thread. Calls return as soon as the task is in
/// the mailbox. They may wait for room there (their `try_` twins answer [`Error::Busy`] instead).
/// Tasks on different streams overlap unless they touch the same bytes, which orders them.
#[derive(Clone)]
pub struct Stream {
    shared: Arc<StreamShared>,
    /// Do calls wait for room?
    waits: bool,
}

/// A moment of a stream, for other streams to wait for.
#[derive(Clone, Debug)]
pub struct StreamPoint {
    pub(crate) handle: Handle<u8>,
}

impl Stream {
    pub(crate) fn new(client: ComputeClient) -> Self {
        let device = &client.shared.device;
        let credit = Arc::new(Credit::new(device.options().max_held));
        let hold = device.slot().and_then(|hold| {
            let id = StreamId(hold.id());
            device.register(Registration::Stream {
                id,
                client: client.shared.id,
                credit: credit.clone(),
            })?;
            Ok(hold)
        });
        Self {
            shared: Arc::new(StreamShared {
                client,
                credit,
                hold,
            }),
            waits: true,
        }
    }

    /// The same stream, with calls that never wait: where there is no room they answer
    /// [`Error::Busy`], and nothing was submitted. This is the `try_` twin of every call.
    ///
    /// ```
    /// # fn f(stream: &millstream_core::client::Stream, values: &millstream_core::handle::Handle<u32>) {
    /// if let Err(busy) = stream.nowait().fill(values, 0) {
    ///     println!("not now: {busy}");
    /// }
    /// # }
    /// ```
    pub fn nowait(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            waits: false,
        }
    }

    /// Do calls wait for room?
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// The client that made it.
    pub fn client(&self) -> &ComputeClient {
        &self.shared.client
    }

    #[inline]
    pub(crate) fn device(&self) -> &Arc<DeviceShared> {
        &self.shared.client.shared.device
    }

    /// Its place in the device's table, if it has one.
    #[inline]
    pub fn id(&self) -> Option<StreamId> {
        self.shared
            .hold
            .as_ref()
            .ok()
            .map(|hold| StreamId(hold.id()))
    }

    #[inline]
    fn known(&self) -> Result<StreamId, Error> {
        match &self.shared.hold {
            Ok(hold) => Ok(StreamId(hold.id())),
            Err(error) => Err(error.clone()),
        }
    }

    /// Runs a kernel with `count` cubes. Returns as soon as the task is in the mailbox; may wait for
    /// room there ([`Stream::try_launch`] does not).
    ///
    /// Arguments are a tuple of bindings, in declared order, and then scalars.
    ///
    /// # Errors
    /// [`Error::Launch`] when the arguments do not fit the kernel's signature, [`Error::Foreign`],
    /// [`Error::Closed`]. What goes wrong later reaches whoever reads what the launch writes.
    #[inline]
    pub fn launch(
        &self,
        kernel: &KernelHandle,
        count: CubeCount,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        let mut packed = Packed::new();
        self.pack(kernel, &count, &arguments, &mut packed)?;
        self.submit_launch(self.waits, kernel, &count, &mut packed)
    }

    /// As [`Stream::launch`], but never waits.
    ///
    /// # Errors
    /// Also [`Error::Busy`] when there is no room; nothing was submitted then.
    #[inline]
    pub fn try_launch(
        &self,
        kernel: &KernelHandle,
        count: CubeCount,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        let mut packed = Packed::new();
        self.pack(kernel, &count, &arguments, &mut packed)?;
        self.submit_launch(false, kernel, &count, &mut packed)
    }

    /// As [`Stream::launch`], without checking the arguments against the signature.
    ///
    /// # Safety
    /// The arguments fit the signature (number, order, element types, alignment, accesses), belong to
    /// this device, and do not overlap where one of them is written.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub unsafe fn launch_unchecked(
        &self,
        kernel: &KernelHandle,
        count: CubeCount,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        let signature = kernel.kernel.signature();
        let mut packed = Packed::new();
        let table = self.device().table();
        let mut writer = ArgumentWriter::new(signature, table, &mut packed).unchecked();
        arguments
            .write(&mut writer)
            .map_err(|error| error.of(kernel.name()))?;
        self.submit_launch(self.waits, kernel, &count, &mut packed)
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
            return Err(Error::Foreign { what: "kernel" });
        }
        let mut writer = ArgumentWriter::new(kernel.kernel.signature(), device.table(), packed);
        let fits = match arguments.write(&mut writer) {
            Ok(()) => writer.finish(),
            misfit => misfit,
        };
        if let Err(error) = fits {
            return Err(error.of(kernel.name()));
        }
        self.check_count(kernel, count)
    }

    #[inline]
    pub(crate) fn check_count(
        &self,
        kernel: &KernelHandle,
        count: &CubeCount,
    ) -> Result<(), Error> {
        let refuse = |source| {
            Err(Error::Launch {
                task: kernel.name().clone(),
                source,
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
        packed: &mut Packed,
    ) -> Result<(), Error> {
        let Some(stream) = self.id() else {
            return self.known().map(drop);
        };
        let launch_count = match count {
            CubeCount::Static(x, y, z) => LaunchCount::Static([*x, *y, *z]),
            CubeCount::Dynamic(_) => LaunchCount::Dynamic,
        };
        self.pay(wait)?;
        let kernel = kernel.id();
        let mut build = |slot: &mut MaybeUninit<Task>| {
            let op = Op::Launch {
                kernel,
                count: launch_count,
            };
            let task = slot.write(Task::new(Some(stream), op));
            packed.move_to(task);
            if let CubeCount::Dynamic(handle) = count {
                task.push_binding(handle.binding(Access::Read));
            }
        };
        // SAFETY: the closure writes the slot first thing; it copies numbers and panics only if memory
        // for a long list cannot be had, which aborts.
        let sent = unsafe { self.device().send_with(wait, &mut build) };
        self.refund_unless(sent)
    }

    /// Takes credit for one more task that is not issued.
    #[inline]
    pub(crate) fn pay(&self, wait: bool) -> Result<(), Error> {
        if self.shared.credit.try_acquire(1).is_ok() {
            return Ok(());
        }
        self.pay_slowly(wait)
    }

    #[cold]
    fn pay_slowly(&self, wait: bool) -> Result<(), Error> {
        let device = self.device();
        if !wait {
            return Err(device.busy(device.channel().depth()));
        }
        if crate::channel::is_runtime_thread() {
            return Err(Error::WouldDeadlock);
        }
        while device.channel().drive().is_some() {
            if self.shared.credit.try_acquire(1).is_ok() {
                return Ok(());
            }
        }
        self.shared
            .credit
            .acquire(1, device.spin())
            .map_err(|error| match error {
                AcquireError::Ended | AcquireError::TooLarge { .. } => device.gone(),
            })
    }

    /// Gives credit back for a task that was not sent.
    #[inline]
    pub(crate) fn refund_unless(&self, sent: Result<(), Error>) -> Result<(), Error> {
        if sent.is_err() {
            self.shared.credit.release(1);
        }
        sent
    }

    /// Sends a task of this stream. May wait for room.
    pub(crate) fn submit(
        &self,
        wait: bool,
        op: Op,
        fill: impl FnOnce(&mut Task),
    ) -> Result<(), Error> {
        let stream = self.known()?;
        self.pay(wait)?;
        let mut task = Task::new(Some(stream), op);
        fill(&mut task);
        let sent = self.device().send(wait, task);
        self.refund_unless(sent)
    }

    /// Is the handle of this device?
    #[inline]
    pub(crate) fn own<T: Element>(&self, handle: &Handle<T>) -> Result<(), Error> {
        if Arc::ptr_eq(handle.hold().table(), self.device().table()) {
            Ok(())
        } else {
            Err(Error::Foreign { what: "handle" })
        }
    }

    /// Memory for `len` elements, with undefined contents. Returns at once: the device reserves it
    /// when it meets the task. May wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Memory`] for what is known at once: overflow, a client's hard limit, more than the
    /// device ever gives. The device's own lack of memory reaches whoever reads the slice.
    pub fn empty<T: Element>(&self, len: usize) -> Result<Handle<T>, Error> {
        self.reserve(self.waits, len, AllocationMode::Automatic)
    }

    /// As [`Stream::empty`], but never waits.
    ///
    /// # Errors
    /// Also [`Error::Busy`].
    pub fn try_empty<T: Element>(&self, len: usize) -> Result<Handle<T>, Error> {
        self.reserve(false, len, AllocationMode::Automatic)
    }

    /// As [`Stream::empty`], with a say in where the memory comes from.
    ///
    /// # Errors
    /// As [`Stream::empty`].
    pub fn empty_with<T: Element>(
        &self,
        len: usize,
        mode: AllocationMode,
    ) -> Result<Handle<T>, Error> {
        self.reserve(self.waits, len, mode)
    }

    pub(crate) fn reserve<T: Element>(
        &self,
        wait: bool,
        len: usize,
        mode: AllocationMode,
    ) -> Result<Handle<T>, Error> {
        let element_bytes = size_of::<T>() as u64;
        let bytes = (len as u64)
            .checked_mul(element_bytes)
            .ok_or(MemoryError::SizeOverflow {
                elements: len as u64,
                element_bytes,
            })?;
        let limit = self.device().properties().max_allocation_bytes;
        if bytes > limit {
            return Err(MemoryError::TooLarge {
                asked: bytes,
                limit,
            }
            .into());
        }
        self.reserve_bytes(wait, bytes, Some(mode))
            .map(|hold| Handle::whole(hold, bytes))
    }

    /// A fresh slot with a message that makes it a slice of `bytes`.
    fn reserve_bytes(
        &self,
        wait: bool,
        bytes: u64,
        mode: Option<AllocationMode>,
    ) -> Result<Hold, Error> {
        let client = &self.shared.client.shared;
        let hold = self.device().slot()?;
        if let Some(limit) = client
            .limit
            .as_ref()
            .filter(|_| bytes > 0 && mode.is_some())
        {
            limit
                .try_acquire(bytes)
                .map_err(|full| MemoryError::Limit {
                    client: client.name.clone(),
                    asked: bytes,
                    in_use: full.in_use,
                    limit: full.limit,
                })?;
            charge(&hold, limit, bytes);
        }
        let binding = Binding::new(SliceId(hold.id()), 0, bytes, Access::Write);
        let stream = self.known()?;
        self.pay(wait)?;
        let mut build = |slot: &mut MaybeUninit<Task>| {
            slot.write(Task::new(
                Some(stream),
                Op::Reserve {
                    client: client.id,
                    mode,
                },
            ))
            .push_binding(binding);
        };
        // SAFETY: the closure writes the slot and copies plain numbers.
        let sent = unsafe { self.device().send_with(wait, &mut build) };
        if let Err(error) = self.refund_unless(sent) {
            crate::client::credit_charge(&hold);
            return Err(error);
        }
        Ok(hold)
    }

    /// A point that passes once everything added to the stream so far has completed. May wait for room in
    /// the mailbox.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn point(&self) -> Result<StreamPoint, Error> {
        // A point is a slice of one byte without memory that the stream writes: hazards do the rest.
        let handle = Handle::<u8>::whole(self.reserve_bytes(self.waits, 1, None)?, 1);
        let binding = handle.binding(Access::Write);
        self.submit(self.waits, Op::Mark, |task| task.push_binding(binding))?;
        Ok(StreamPoint { handle })
    }

    /// Everything added to this stream from here on comes after `point`. Costs nothing where the
    /// order is known already. May wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`].
    pub fn wait_for(&self, point: &StreamPoint) -> Result<(), Error> {
        self.own(&point.handle)?;
        let binding = point.handle.binding(Access::Read);
        self.submit(self.waits, Op::Mark, |task| task.push_binding(binding))
    }

    /// Drops `value`, on the GC thread, once everything added to the stream so far has completed. May wait
    /// for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Closed`]; the value is dropped at once then.
    pub fn drop_after<V: Send + 'static>(&self, value: V) -> Result<(), Error> {
        self.submit(self.waits, Op::DropAfter(Box::new(value)), |_| {})
    }

    /// Submits what the stream holds. A stream flushes by itself when the device has nothing better
    /// to do; this only says not to wait for more. May wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn flush(&self) -> Result<(), Error> {
        let stream = self.known()?;
        self.device()
            .send(self.waits, Task::new(Some(stream), Op::Flush))
    }

    /// When everything added to the stream so far has completed. Failures of tasks travel with the
    /// data that they would have written, not with this answer. Asking may wait for room in the mailbox.
    pub fn sync(&self) -> Pending<()> {
        let (sender, receiver) = reply();
        match self.submit(self.waits, Op::Answer(sender), |_| {}) {
            Ok(()) => Pending::ticket(self.device().clone(), receiver, Box::new(|| Ok(()))),
            Err(error) => Pending::failed(self.device().clone(), error),
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({:?} of {:?})", self.id(), self.client())
    }
}
