//! The state that all clients of a device share.

use std::any::{Any, TypeId};
use std::sync::{Arc, Weak};

use millstream_protocol::{
    Backend, Compiler, ComputeChannel, DeviceOptions, DeviceProperties, DeviceRequest,
    DeviceStatus, Error, FailureRef, Full, Op, Point, Process, Reason, Refusal, Registration,
    Scope, Settings, Slot, Stored, Table, Task, journal::SubmissionLog,
};
use millstream_sync::credit::Credit;
use millstream_sync::facade::SpinPolicy;
use millstream_sync::timeline::Timeline;

use crate::handle::Handle;
use crate::helpers::Helpers;
use crate::kernel::KernelHandle;
use crate::prepared::Prepared;

/// One epoch of a device as its clients see it: a channel, a table and timelines.
pub struct DeviceShared {
    /// The process that opened the device.
    process: Process,
    channel: Box<dyn ComputeChannel>,
    table: Arc<Table>,
    timelines: Vec<Arc<Timeline>>,
    properties: DeviceProperties,
    pub(crate) compiler: Arc<dyn Compiler>,
    raw: Option<Arc<dyn Any + Send + Sync>>,
    backend: TypeId,
    options: DeviceOptions,
    /// Credit for callbacks of requests to the device itself.
    pub(crate) jobs: Arc<Credit>,
    /// The status of the epoch.
    pub(crate) gone: Arc<DeviceStatus>,
    /// The tables of lost epochs of which objects still exist.
    lost_epochs: Vec<(Weak<Table>, Arc<DeviceStatus>)>,
    pub(crate) helpers: Helpers,
    pub(crate) prepared: Prepared<KernelHandle>,
}

impl DeviceShared {
    /// Creates the state that clients of `backend` share and reach through `channel`; after the epoch `before`, if
    /// there was one.
    pub fn new<B: Backend>(
        backend: &B,
        channel: Box<dyn ComputeChannel>,
        table: Arc<Table>,
        options: DeviceOptions,
        gone: Arc<DeviceStatus>,
        before: Option<&Self>,
    ) -> Arc<Self> {
        let properties = backend.properties().clone();
        table
            .sink()
            .staging
            .set_bytes_max(options.settings().staging_bytes);
        let queues = 0..properties.queues;
        Arc::new(Self {
            process: Process::current(),
            channel,
            table,
            timelines: queues
                .map(|queue| {
                    backend
                        .timeline(millstream_protocol::QueueId(queue as u8))
                        .clone()
                })
                .collect(),
            properties,
            compiler: backend.compiler(),
            raw: backend.raw(),
            backend: TypeId::of::<B>(),
            jobs: gone.credit(options.settings().max_jobs),
            options,
            gone,
            lost_epochs: before.map(Self::epochs_so_far).unwrap_or_default(),
            helpers: Helpers::default(),
            prepared: Prepared::default(),
        })
    }

    /// Returns the tables of the lost epochs and of this one.
    fn epochs_so_far(&self) -> Vec<(Weak<Table>, Arc<DeviceStatus>)> {
        let held = |(table, _): &&(Weak<Table>, _)| table.strong_count() > 0;
        let mut tables: Vec<_> = self.lost_epochs.iter().filter(held).cloned().collect();
        tables.push((Arc::downgrade(&self.table), self.gone.clone()));
        tables
    }

    /// Returns the number of the epoch.
    pub fn epoch(&self) -> u64 {
        self.gone.epoch()
    }

    /// Returns the backend's raw handle of the device, if it has one of type `T`.
    pub fn raw<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.raw.clone()?.downcast().ok()
    }

    /// Returns the properties of the device.
    pub fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    /// Returns the options that the device was opened with.
    pub fn settings(&self) -> &Settings {
        self.options.settings()
    }

    /// Returns an error in a child that was forked since the device was opened: no thread of the device would answer.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline(always)]
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        match self.process.is_current() {
            true => Ok(()),
            false => Err(Error::Forked),
        }
    }

    /// Returns `true` unless the calling process is a child that was forked since the device was opened.
    pub fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }

    /// Returns an error if the device is closed, so that no thread would run a callback.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`] or [`Error::Forked`].
    pub(crate) fn check_callbacks(&self) -> Result<(), Error> {
        self.check_process()?;
        match self.gone.has_no_callbacks() {
            true => Err(self.terminal_error()),
            false => Ok(()),
        }
    }

    /// Returns the error that ended the epoch.
    #[cold]
    pub(crate) fn terminal_error(&self) -> Error {
        self.gone.error()
    }

    /// Converts the failure of a task to an error: the end of the device, if that caused the failure.
    #[cold]
    pub(crate) fn failure_error(&self, failure: FailureRef) -> Error {
        match (&failure.root().reason, self.gone.lost()) {
            (Reason::Lost, Some(_)) | (Reason::Closed, _) => self.terminal_error(),
            _ => Error::Failed(failure),
        }
    }

    /// Returns an error unless the handle is of this device.
    #[inline]
    pub(crate) fn check_handle<T: Stored>(&self, handle: &Handle<T>) -> Result<(), Error> {
        match Arc::ptr_eq(handle.hold().table(), &self.table) {
            true => Ok(()),
            false => Err(self.foreign_handle(handle, "")),
        }
    }

    /// Returns why a handle that was passed for this `place` is refused.
    #[cold]
    pub(crate) fn foreign_handle<T: Stored>(&self, handle: &Handle<T>, place: &str) -> Error {
        let which = format!("of {}{place}", handle.id());
        self.foreign("handle", which, handle.hold().table())
    }

    /// Returns why an object of `table` is refused: it is of a lost epoch, or this epoch is lost, or it belongs to
    /// another device.
    #[cold]
    pub(crate) fn foreign(&self, what: &'static str, which: String, table: &Arc<Table>) -> Error {
        let theirs =
            |(other, _): &&(Weak<Table>, _)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(table));
        match self.lost_epochs.iter().find(theirs) {
            Some((_, gone)) => gone.error(),
            None if self.gone.lost().is_some() => self.terminal_error(),
            None => Error::Foreign { what, which },
        }
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(crate) fn channel(&self) -> &dyn ComputeChannel {
        &*self.channel
    }

    pub(crate) fn spin(&self) -> &SpinPolicy {
        &self.settings().spin
    }

    pub(crate) fn is_backend<B: Backend>(&self) -> bool {
        self.backend == TypeId::of::<B>()
    }

    pub(crate) fn timeline(&self, point: Point) -> &Arc<Timeline> {
        &self.timelines[point.queue.index()]
    }

    /// Reserves a slot for a message. May block while the mailbox is full, if `wait` is set.
    #[inline]
    pub(crate) fn reserve(&self, wait: bool) -> Result<Slot<'_>, Error> {
        self.check_process()?;
        Slot::reserve(self.channel(), wait).map_err(|refusal| self.refused(refusal))
    }

    /// Sends a message by moving it into its slot. May block while the mailbox is full, if `wait` is set.
    pub(crate) fn send(&self, wait: bool, task: Task) -> Result<(), Error> {
        self.reserve(wait).map(|slot| slot.send(task))
    }

    #[cold]
    pub(crate) fn refused(&self, refusal: Refusal) -> Error {
        match refusal {
            Refusal::Closed => self.terminal_error(),
            Refusal::NoWait => Error::NoRoomHere {
                what: self.full_mailbox(),
            },
            Refusal::Full => Error::Busy {
                what: self.full_mailbox(),
            },
        }
    }

    fn full_mailbox(&self) -> Full {
        Full::Mailbox {
            messages: self.channel.depth(),
        }
    }

    /// Registers an object under its slot. May block while the mailbox is full.
    pub(crate) fn register(&self, registration: Registration) -> Result<(), Error> {
        self.send(true, Task::new(None, Op::Register(Box::new(registration))))
    }

    /// Submits the held tasks of the streams of `scope`. May block while the mailbox is full.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn flush(&self, scope: Scope) -> Result<(), Error> {
        self.request(true, DeviceRequest::Flush { scope })
    }

    /// Takes the submission log that a lost device left, once.
    pub fn lost_log(&self) -> Option<SubmissionLog> {
        self.gone.take_log()
    }
}
