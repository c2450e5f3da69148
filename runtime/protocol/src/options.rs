//! How a device is to behave. Every limit has a reason beside its default.

use millstream_sync::facade::SpinPolicy;

use crate::error::OpenError;
use crate::memory::MemoryOptions;
use crate::threads::{Spawner, ThreadBody};

/// Most messages of a mailbox: half a gigabyte of slots, far beyond what hides any latency.
const MAILBOX_CAPACITY_MAX: usize = 1 << 20;

/// Most handles: what an index and its tag leave room for.
const HANDLES_MAX: u32 = (1 << 28) - 1;

/// In which order the streams that sit on one queue are submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strategy {
    /// One task from each stream in turn: equal work reaches the device side by side.
    #[default]
    Interleave,
    /// Stream after stream, at most a batch at a time, so that no stream starves.
    Sequential,
}

/// How much a part of the runtime logs, through `tracing`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum LogLevel {
    /// Nothing, at the price of one comparison.
    #[default]
    Disabled,
    /// What happens: which streams flush and why, what waits on what.
    Basic,
    /// All that, with every shared binding and its reason.
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

/// Options of a device.
///
/// ```
/// use millstream_protocol::options::{DeviceOptions, Strategy};
/// let options = DeviceOptions::default().strategy(Strategy::Sequential).max_tasks(64);
/// ```
#[derive(Clone, Default, Debug)]
pub struct DeviceOptions(Settings);

/// The values of [`DeviceOptions`], each named as what sets it: for actors, clients and the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// [`DeviceOptions::strategy`].
    pub strategy: Strategy,
    /// [`DeviceOptions::max_tasks`].
    pub max_tasks: usize,
    /// [`DeviceOptions::mailbox_capacity`].
    pub mailbox_capacity: usize,
    /// [`DeviceOptions::max_in_flight`].
    pub max_in_flight: usize,
    /// [`DeviceOptions::max_held`].
    pub max_held: u64,
    /// [`DeviceOptions::max_upload_bytes`].
    pub max_upload_bytes: u64,
    /// [`DeviceOptions::staging_bytes`].
    pub staging_bytes: u64,
    /// [`DeviceOptions::max_jobs`].
    pub max_jobs: u64,
    /// [`DeviceOptions::callback_headroom`].
    pub callback_headroom: u64,
    /// [`DeviceOptions::callback_upload_headroom`].
    pub callback_upload_headroom: u64,
    /// [`DeviceOptions::flush_every`].
    pub flush_every: usize,
    /// [`DeviceOptions::max_handles`].
    pub max_handles: u32,
    /// [`DeviceOptions::trace`].
    pub trace_capacity: usize,
    /// [`DeviceOptions::profile_spans`].
    pub profile_spans: usize,
    /// [`DeviceOptions::profile_tasks`].
    pub profile_tasks: u64,
    /// [`DeviceOptions::sample_latencies`].
    pub latencies_every: u64,
    /// [`DeviceOptions::memory`].
    pub memory: MemoryOptions,
    /// [`DeviceOptions::logs`].
    pub logs: Logs,
    /// [`DeviceOptions::spin`].
    pub spin: SpinPolicy,
    /// [`DeviceOptions::spawn_with`].
    pub spawner: Spawner,
    /// [`DeviceOptions::log_submissions`].
    pub journal_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            max_tasks: 32,
            mailbox_capacity: 256,
            max_in_flight: 512,
            max_held: 65_536,
            max_upload_bytes: 1 << 30,
            staging_bytes: 128 << 20,
            max_jobs: 65_536,
            callback_headroom: 65_536,
            callback_upload_headroom: 1 << 30,
            flush_every: 256,
            max_handles: 1 << 24,
            trace_capacity: 0,
            profile_spans: 1 << 16,
            profile_tasks: 1 << 24,
            latencies_every: 0,
            memory: MemoryOptions::default(),
            logs: Logs::default(),
            spin: SpinPolicy::default(),
            spawner: Spawner::default(),
            journal_bytes_max: 0,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.0.$name = $name;
            self
        }
    )*};
}

impl DeviceOptions {
    setters! {
        /// The order of streams on one queue. Default: [`Strategy::Interleave`].
        strategy: Strategy;
        /// A stream that holds this many tasks is flushed at once. Default 32, past which a larger
        /// batch no longer lowers the price of a task.
        max_tasks: usize;
        /// Tasks that the mailbox holds; rounded up to a power of two. Default 256: 128 KiB, which
        /// stays in a core's second-level cache.
        mailbox_capacity: usize;
        /// Tasks that one queue has in flight; the rest wait in their streams. Default 512, below the
        /// depth (about 1,000) at which a CUDA launch blocks.
        max_in_flight: usize;
        /// Tasks that one stream may have accepted and not yet issued; beyond it callers wait or get
        /// `Busy`. Default 65,536.
        max_held: u64;
        /// Bytes of one client's uploads that may be on their way; beyond it callers wait or get
        /// `Busy`. Default 1 GiB.
        max_upload_bytes: u64;
        /// Bytes of memory of the host that are kept for uploads to come, pinned where the device has such. Uploads of
        /// 64 KiB and more are copied to memory that was in use before, which takes a fraction of the time that fresh memory takes, as long
        /// as this is enough for those on their way. `memory_cleanup`
        /// gives it back. Default 128 MiB; 0 keeps none.
        staging_bytes: u64;
        /// Host functions, callbacks and values to drop of one client that may be on their way; beyond it
        /// callers wait or get `Busy`. Default 65,536, as many as tasks of a stream: what a closure
        /// costs is a few hundred bytes, so that is some tens of megabytes.
        max_jobs: u64;
        /// What callbacks, host functions and other code on the runtime's threads may have on its way beyond a bound, since it
        /// cannot wait there: this many tasks beyond [`max_held`](Self::max_held), or a client's own bound, and as many jobs beyond
        /// [`max_jobs`](Self::max_jobs). Beyond that it gets [`Error::NoRoomHere`](crate::error::Error::NoRoomHere). Default
        /// 65,536, as many again; 0 allows nothing beyond.
        callback_headroom: u64;
        /// The same for uploads: bytes beyond [`max_upload_bytes`](Self::max_upload_bytes). Default 1 GiB.
        callback_upload_headroom: u64;
        /// After at most this many messages everything held is flushed, so that a busy client cannot
        /// keep another's lone task from starting. Default 256.
        flush_every: usize;
        /// Slices, streams, kernels, recordings and clients that may live at once, and dropped ones with tasks that have not completed.
        /// Where live ones leave no room a call that makes one fails; else it waits for the dropped ones, or gets `Busy`.
        /// Default 16,777,216.
        max_handles: u32;
        /// Times of tasks that one queue keeps until the device's thread takes them, while a profile is open; tasks that find no
        /// room are counted as [`untimed`](crate::profile::Profile::untimed). They are taken whenever that thread turns, so only
        /// a recording of more tasks fills it. Default 65,536.
        profile_spans: usize;
        /// Tasks of one profile, after which it counts no more: so one that nobody ends does not cost its times for ever.
        /// Default 16,777,216.
        profile_tasks: u64;
        /// How memory is pooled.
        memory: MemoryOptions;
        /// What is logged. Default: nothing.
        logs: Logs;
        /// How long threads spin before they park.
        spin: SpinPolicy;
    }

    /// Spans of the timeline to keep until somebody asks for them: of more, the oldest give way. 0, the default, records none.
    pub fn trace(mut self, spans: usize) -> Self {
        self.0.trace_capacity = spans;
        self
    }

    /// Follows one task of `every`, and tells how long it waited and ran ([`Latencies`](crate::metrics::Latencies)); 1 follows all, as far
    /// as at most 64 are in flight, and 0, the default, follows none and reads no clock. What is dropped while tasks use it is timed as well.
    ///
    /// A task that is followed costs two or three looks at the clock and a waker at its queue, some nine hundred instructions; the others,
    /// about fifty.
    ///
    /// ```
    /// use millstream_protocol::options::DeviceOptions;
    /// let options = DeviceOptions::default().sample_latencies(64);
    /// ```
    pub fn sample_latencies(mut self, every: u64) -> Self {
        self.0.latencies_every = every;
        self
    }

    /// Starts every thread of the device by `spawn`, none by the system: the device's own, the backend's, and
    /// those for user code, of which some are started later. Default: threads of the system.
    ///
    /// `spawn` gives the body a thread of its own, on which it calls [`ThreadBody::run`], and returns at once. If
    /// it answers an error, or panics, opening fails with [`OpenError::Thread`] and ends what was started; later,
    /// when another thread for user code is refused, those that there are go on. It may be called on any thread that
    /// uses the device, the device's own included, so it must not wait for the device: calls that would block answer `WouldDeadlock` in
    /// it. Whoever closes the device waits until every body has returned.
    ///
    /// ```
    /// use millstream_protocol::options::DeviceOptions;
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

    /// Logs what the device takes, to be had from `Device::take_log` and replayed
    /// ([`SubmissionLog`](crate::journal::SubmissionLog)). It keeps at most so many bytes between two takes, uploads
    /// included, and ends where there is no room; 0, the default, logs nothing.
    pub fn log_submissions(mut self, bytes_max: u64) -> Self {
        self.0.journal_bytes_max = bytes_max;
        self
    }

    /// The values.
    pub fn settings(&self) -> &Settings {
        &self.0
    }

    /// Are all values ones that can be?
    ///
    /// # Errors
    /// The first that cannot.
    pub fn check(&self) -> Result<(), OpenError> {
        let positive = [
            ("max_tasks", self.0.max_tasks as u64),
            ("mailbox_capacity", self.0.mailbox_capacity as u64),
            ("max_in_flight", self.0.max_in_flight as u64),
            ("max_held", self.0.max_held),
            ("max_upload_bytes", self.0.max_upload_bytes),
            ("max_jobs", self.0.max_jobs),
            ("flush_every", self.0.flush_every as u64),
            ("max_handles", u64::from(self.0.max_handles)),
            ("profile_spans", self.0.profile_spans as u64),
            ("profile_tasks", self.0.profile_tasks),
        ];
        if let Some((option, value)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(OpenError::Option {
                option,
                given: value.to_string(),
                must: "at least 1",
            });
        }
        let (given, most) = (self.0.mailbox_capacity.to_string(), MAILBOX_CAPACITY_MAX);
        if self.0.mailbox_capacity > most {
            return Err(OpenError::Option {
                option: "mailbox_capacity",
                given,
                must: "at most 1,048,576",
            });
        }
        if self.0.max_handles > HANDLES_MAX {
            let given = self.0.max_handles.to_string();
            return Err(OpenError::Option {
                option: "max_handles",
                given,
                must: "at most 268,435,455",
            });
        }
        Ok(())
    }
}
