//! What all clients of a device share.

use std::any::{Any, TypeId};
use std::sync::{Arc, Weak};

use millstream_protocol::backend::{Backend, Compiler};
use millstream_protocol::channel::{ComputeChannel, Refusal, Slot};
use millstream_protocol::device_status::Gone;
use millstream_protocol::error::{Error, Full};
use millstream_protocol::failure::{FailureRef, Reason};
use millstream_protocol::id::Point;
use millstream_protocol::journal::SubmissionLog;
use millstream_protocol::message::{Ask, Scope};
use millstream_protocol::message::{Op, Registration, Task};
use millstream_protocol::options::{DeviceOptions, Settings};
use millstream_protocol::properties::DeviceProperties;
use millstream_protocol::table::Table;
use millstream_sync::credit::Credit;
use millstream_sync::facade::SpinPolicy;
use millstream_sync::timeline::Timeline;

use crate::arguments::ArgumentError;
use crate::profile_tokens::Tokens;

/// One epoch of a device as its clients see it: a channel, a table, timelines.
pub struct DeviceShared {
    channel: Box<dyn ComputeChannel>,
    table: Arc<Table>,
    timelines: Vec<Arc<Timeline>>,
    properties: DeviceProperties,
    compiler: Arc<dyn Compiler>,
    raw: Option<Arc<dyn Any + Send + Sync>>,
    backend: TypeId,
    options: DeviceOptions,
    jobs: Arc<Credit>,
    tokens: Tokens,
    gone: Arc<Gone>,
    /// The tables of epochs that were lost, while anybody holds something of them.
    before: Vec<(Weak<Table>, Arc<Gone>)>,
}

impl DeviceShared {
    /// What clients of `backend`, reached through `channel`, share; after the epoch `before`, if there was one.
    pub fn new<B: Backend>(
        backend: &B,
        channel: Box<dyn ComputeChannel>,
        table: Arc<Table>,
        options: DeviceOptions,
        gone: Arc<Gone>,
        before: Option<&Self>,
    ) -> Arc<Self> {
        let properties = backend.properties().clone();
        table
            .sink()
            .staging
            .set_bytes_max(options.settings().staging_bytes);
        let queues = 0..properties.queues;
        Arc::new(Self {
            channel,
            table,
            timelines: queues
                .map(|queue| {
                    backend
                        .timeline(millstream_protocol::id::QueueId(queue as u8))
                        .clone()
                })
                .collect(),
            properties,
            compiler: backend.compiler(),
            raw: backend.raw(),
            backend: TypeId::of::<B>(),
            jobs: gone.credit(options.settings().max_jobs),
            tokens: Tokens::after(before.map(|before| &before.tokens)),
            options,
            gone,
            before: before.map(Self::lineage).unwrap_or_default(),
        })
    }

    /// The tables of the epochs up to this one.
    fn lineage(&self) -> Vec<(Weak<Table>, Arc<Gone>)> {
        let held = |(table, _): &&(Weak<Table>, _)| table.strong_count() > 0;
        let mut tables: Vec<_> = self.before.iter().filter(held).cloned().collect();
        tables.push((Arc::downgrade(&self.table), self.gone.clone()));
        tables
    }

    /// Which epoch it is.
    pub fn epoch(&self) -> u64 {
        self.gone.epoch()
    }

    /// What it is to code that knows its kind of backend, if it is a `T` to that.
    pub fn raw<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.raw.clone()?.downcast().ok()
    }

    /// What the device is.
    pub fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    /// How it was opened.
    pub fn settings(&self) -> &Settings {
        self.options.settings()
    }

    /// # Errors
    /// If the device is closed, so that no thread would call a callback.
    pub(crate) fn check_callbacks(&self) -> Result<(), Error> {
        match self.gone.has_no_callbacks() {
            true => Err(self.gone()),
            false => Ok(()),
        }
    }

    /// Why nothing answers any more.
    #[cold]
    pub(crate) fn gone(&self) -> Error {
        self.gone.error()
    }

    /// The failure of a task, or the loss of the device that is behind it.
    #[cold]
    pub(crate) fn told(&self, failure: FailureRef) -> Error {
        match (&failure.root().reason, self.gone.lost()) {
            (Reason::Lost, Some(_)) | (Reason::Closed, _) => self.gone(),
            _ => Error::Failed(failure),
        }
    }

    /// The error of `task`, whose arguments do not fit.
    #[cold]
    pub(crate) fn misfit(&self, error: ArgumentError, task: &Arc<str>) -> Error {
        error.of(task, |table| self.foreign("handle", table))
    }

    /// Why a thing of `table` is not taken: it is of an epoch that was lost, or this one is, or it belongs to
    /// another device.
    #[cold]
    pub(crate) fn foreign(&self, what: &'static str, table: &Arc<Table>) -> Error {
        let theirs =
            |(other, _): &&(Weak<Table>, _)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(table));
        match self.before.iter().find(theirs) {
            Some((_, gone)) => gone.error(),
            None if self.gone.lost().is_some() => self.gone(),
            None => Error::Foreign { what },
        }
    }

    /// A credit that ends with the epoch.
    pub(crate) fn credit(&self, limit: u64) -> Arc<Credit> {
        self.gone.credit(limit)
    }

    /// What tells its profiles apart.
    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Callbacks of what is asked of the device itself.
    pub(crate) fn jobs(&self) -> &Arc<Credit> {
        &self.jobs
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(crate) fn compiler(&self) -> &Arc<dyn Compiler> {
        &self.compiler
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

    /// Reserves a slot for a message. May wait for room, if `wait` says so.
    #[inline]
    pub(crate) fn reserve(&self, wait: bool) -> Result<Slot<'_>, Error> {
        Slot::reserve(self.channel(), wait).map_err(|refusal| self.refused(refusal))
    }

    /// Sends a message that is moved into its slot. May wait for room.
    pub(crate) fn send(&self, wait: bool, task: Task) -> Result<(), Error> {
        self.reserve(wait).map(|slot| slot.send(task))
    }

    #[cold]
    pub(crate) fn refused(&self, refusal: Refusal) -> Error {
        match refusal {
            Refusal::Closed => self.gone(),
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

    /// Makes a thing known under its slot. May wait for room.
    pub(crate) fn register(&self, registration: Registration) -> Result<(), Error> {
        self.send(true, Task::new(None, Op::Register(Box::new(registration))))
    }

    /// Submits what the streams of `scope` hold. May wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn flush(&self, scope: Scope) -> Result<(), Error> {
        self.send(
            true,
            Task::new(None, Op::Ask(Box::new(Ask::Flush { scope }))),
        )
    }

    /// The same of a device that was lost, once: what it had taken by then.
    pub fn lost_log(&self) -> Option<SubmissionLog> {
        self.gone.take_log()
    }
}
