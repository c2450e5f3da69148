//! The options of a device. Every limit has a reason beside its default.

use std::time::Duration;

use millstream_sync::facade::SpinPolicy;

use crate::error::OpenError;
use crate::memory::MemoryOptions;
use crate::threads::{Spawner, ThreadBody};

/// The largest capacity of a mailbox: half a gigabyte of slots, far more than any latency needs.
const MAILBOX_CAPACITY_MAX: u64 = 1 << 20;

/// The largest number of handles: what an index leaves room for beside its tag.
const HANDLES_MAX: u64 = (1 << 28) - 1;

/// The order in which the streams of one queue are issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strategy {
    /// One task from each stream in turn: equal work reaches the device side by side.
    #[default]
    Interleave,
    /// Stream after stream, at most one batch at a time, so that no stream starves.
    Sequential,
}

/// What a request for memory does if live handles leave no room for it within the client's hard limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AtLimit {
    /// It fails with [`MemoryError::Limit`](crate::error::MemoryError::Limit): only a drop of a handle can make room,
    /// and the caller may be the one that must drop it.
    #[default]
    Fail,
    /// It waits in the order of the requests until handles were dropped and their tasks have completed: at most until
    /// the deadline of its stream. For clients whose threads or tasks each drop what they took, as the requests of a
    /// service do.
    Wait,
}

/// How much a part of the runtime logs, with `tracing`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum LogLevel {
    /// Nothing. The cost is one comparison.
    #[default]
    Disabled,
    /// Events: the streams that flush and why, and the waits.
    Basic,
    /// In addition every shared binding with its reason.
    Full,
}

/// Log levels per subject. The `tracing` targets are `millstream::streams`, `millstream::memory` and
/// `millstream::compilation`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Logs {
    /// Streams: flushes, waits, parks.
    pub streams: LogLevel,
    /// Memory: reservations, frees, pages.
    pub memory: LogLevel,
    /// Compilation: kernels prepared.
    pub compilation: LogLevel,
}

/// The options of a device.
///
/// ```
/// use millstream_protocol::{DeviceOptions, Strategy};
/// let options = DeviceOptions::default().strategy(Strategy::Sequential).max_tasks(64);
/// ```
#[derive(Clone, Default, Debug)]
pub struct DeviceOptions(Settings);

/// Defines each option once: the setter with its documentation, the value's type and its default.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr;)*) => {
        /// The values of [`DeviceOptions`], each named after its setter: for actors, clients and the server.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $(#[doc = concat!("[`DeviceOptions::", stringify!($name), "`].")] pub $name: $type,)*
            /// [`DeviceOptions::spawn_with`].
            pub spawner: Spawner,
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)* spawner: Spawner::default() }
            }
        }

        impl DeviceOptions {$(
            $(#[$doc])*
            pub fn $name(mut self, $name: $type) -> Self {
                self.0.$name = $name;
                self
            }
        )*}
    };
}

options! {
    /// Sets the order of the streams of one queue. Default: [`Strategy::Interleave`].
    strategy: Strategy = Strategy::default();
    /// Sets the number of held tasks at which a stream is flushed at once. Default 32; a larger batch no longer
    /// lowers the cost of a task.
    max_tasks: usize = 32;
    /// Sets the capacity of the mailbox in messages; rounded up to a power of two, at least 2. Default 256: 128 KiB, which
    /// fit in a core's second-level cache.
    mailbox_capacity: usize = 256;
    /// Sets the greatest number of tasks that one queue has in flight; other tasks wait in their streams. Default
    /// 512, below the depth (about 1,000) at which a CUDA launch blocks. Long tasks allow fewer:
    /// [`max_in_flight_time`](Self::max_in_flight_time).
    max_in_flight: usize = 512;
    /// Sets the time that the tasks in flight of one queue take together, by the times that the device measures
    /// while a queue is full: at least 2 tasks, at most [`max_in_flight`](Self::max_in_flight). A cancel, a
    /// deadline or an urgent task takes effect after about this time, or after 2 tasks if these take longer. A
    /// device begins with 4 tasks in flight. Default 5 ms: 500 tasks of 10 us, 5 of 1 ms. [`Duration::MAX`]
    /// measures nothing. The simulator, whose runs do not depend on the machine's time, measures nothing either.
    max_in_flight_time: Duration = Duration::from_millis(5);
    /// Sets the number of tasks that one stream may have accepted and not issued; beyond it callers wait or get
    /// `Busy`. Default 65,536.
    max_held: u64 = 65_536;
    /// Sets the number of bytes of one client's uploads in flight; beyond it callers wait or get `Busy`. Default
    /// 1 GiB.
    max_upload_bytes: u64 = 1 << 30;
    /// Sets the number of bytes of host memory that are kept for future uploads, pinned if the device supports it.
    /// Uploads of 64 KiB and more are copied to memory that was used before, as long as this suffices for the
    /// uploads in flight; fresh memory would take several times as long. `memory_cleanup` frees the memory.
    /// Default 128 MiB; 0 keeps none.
    staging_bytes: u64 = 128 << 20;
    /// Sets the number of pending host functions, callbacks and values to drop of one client; beyond it callers
    /// wait or get `Busy`. Default 65,536, as for the tasks of a stream: a closure takes a few hundred bytes, so
    /// the default amounts to some tens of megabytes.
    max_jobs: u64 = 65_536;
    /// Sets how far callbacks, host functions and other code on the runtime's threads may exceed a limit, since
    /// they cannot wait there: by this many tasks beyond [`max_held`](Self::max_held), or a client's own limit,
    /// and by as many jobs beyond [`max_jobs`](Self::max_jobs). Beyond that they get
    /// [`Error::NoRoomHere`](crate::error::Error::NoRoomHere). Default 65,536, as many as the limits themselves;
    /// 0 allows no excess.
    callback_headroom: u64 = 65_536;
    /// Sets the same for uploads, in bytes beyond [`max_upload_bytes`](Self::max_upload_bytes). Default 1
    /// GiB.
    callback_upload_headroom: u64 = 1 << 30;
    /// Sets the number of messages after which all held tasks are flushed, so that a busy client cannot delay the
    /// lone task of another client. Default 256.
    flush_every: usize = 256;
    /// Sets the number of live slices, streams, kernels, recordings and clients, including dropped ones with tasks
    /// that have not completed. If live ones leave no room, a call that makes another one fails; otherwise it
    /// waits for the dropped ones, or gets `Busy`. Default 16,777,216.
    max_handles: u32 = 1 << 24;
    /// Sets the number of time stamps of one queue that are kept until the device thread takes them, while a
    /// profile is open. Tasks that find no room are counted as [`untimed`](crate::profile::Profile::untimed). The
    /// device thread takes the time stamps at each turn, so only a recording of more tasks can fill the room.
    /// Default 65,536.
    profile_spans: usize = 1 << 16;
    /// Sets the number of tasks after which a profile counts no more, so that a profile that is never ended does
    /// not take time stamps for ever. Default 16,777,216.
    profile_tasks: u64 = 1 << 24;
    /// Sets the options of the memory pools.
    memory: MemoryOptions = MemoryOptions::default();
    /// Sets the log levels. Default: nothing is logged.
    logs: Logs = Logs::default();
    /// Sets how long threads spin before they park.
    spin: SpinPolicy = SpinPolicy::default();
    /// Sets the number of spans of the trace that are kept; beyond it the oldest are dropped. 0, the default, records
    /// none.
    trace: usize = 0;
    /// Samples the latencies of one task in this many ([`Latencies`](crate::metrics::Latencies)). 1 samples all tasks,
    /// as long as at most 64 samples are in flight; 0, the default, samples none and reads no clock. Objects that are
    /// dropped while tasks use them are timed as well.
    ///
    /// A sampled task costs two or three clock readings and a waker at its queue, some nine hundred instructions; any
    /// other task costs about fifty.
    ///
    /// ```
    /// use millstream_protocol::DeviceOptions;
    /// let options = DeviceOptions::default().sample_latencies(64);
    /// ```
    sample_latencies: u64 = 0;
    /// Logs the messages that the device accepts. Requires the feature `journal`. `Device::take_log` returns the log, which can be replayed
    /// ([`SubmissionLog`](crate::journal::SubmissionLog)). The log keeps at most this many bytes between two takes,
    /// including uploads, and ends when there is no room; 0, the default, logs nothing.
    #[cfg(feature = "journal")]
    log_submissions: u64 = 0;
}

impl DeviceOptions {
    /// Starts every thread of the device with `spawn` and none with the system: the device thread, the threads of the
    /// backend, and those for user code, some of which are started later. Default: threads of the system.
    ///
    /// `spawn` gives the body a thread of its own, on which it calls [`ThreadBody::run`], and returns at once. If it
    /// returns an error or panics, opening fails with [`OpenError::Thread`] and ends the threads that were started.
    /// If a later thread for user code is refused, the existing ones continue. `spawn` may be called on any thread
    /// that uses the device, including the device thread, so it must not wait for the device: blocking calls in it
    /// return `WouldDeadlock`. A close waits until every body has returned.
    ///
    /// ```
    /// use millstream_protocol::DeviceOptions;
    /// let options = DeviceOptions::default().spawn_with(|body| {
    ///     let thread = std::thread::Builder::new().name(format!("engine {}", body.name()));
    ///     thread.spawn(move || body.run()).map(drop)
    /// });
    /// ```
    pub fn spawn_with(
        mut self,
        spawn: impl Fn(ThreadBody) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.0.spawner = Spawner::new(spawn);
        self
    }

    /// Returns the values.
    pub fn settings(&self) -> &Settings {
        &self.0
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`OpenError::Option`] with the first invalid value.
    pub fn check(&self) -> Result<(), OpenError> {
        let of = &self.0;
        let check = |option, value: u64, most: u64, at_most| {
            let must = if value == 0 { "at least 1" } else { at_most };
            match (1..=most).contains(&value) {
                true => Ok(()),
                false => Err(OpenError::Option {
                    option,
                    given: value.to_string(),
                    must,
                }),
            }
        };
        let positive = |option, value| check(option, value, u64::MAX, "");
        positive("max_tasks", of.max_tasks as u64)?;
        let (messages, most) = (of.mailbox_capacity as u64, MAILBOX_CAPACITY_MAX);
        check("mailbox_capacity", messages, most, "at most 1,048,576")?;
        positive("max_in_flight", of.max_in_flight as u64)?;
        positive("max_held", of.max_held)?;
        positive("max_upload_bytes", of.max_upload_bytes)?;
        positive("max_jobs", of.max_jobs)?;
        positive("flush_every", of.flush_every as u64)?;
        let handles = u64::from(of.max_handles);
        check("max_handles", handles, HANDLES_MAX, "at most 268,435,455")?;
        positive("profile_spans", of.profile_spans as u64)?;
        positive("profile_tasks", of.profile_tasks)
    }
}
