//! Opening and closing a device.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_client::{ClientBuilder, ComputeClient, DeviceEpochs, Pending};
use millstream_protocol::error::{Error, ReopenError};
use millstream_protocol::health::Health;
use millstream_protocol::journal::SubmissionLog;
use millstream_protocol::marks::is_runtime_thread;
use millstream_protocol::message::Scope;
use millstream_protocol::metrics::Metrics;
use millstream_protocol::options::DeviceOptions;
use millstream_protocol::profile::{Profile, ProfileToken};
use millstream_protocol::properties::DeviceProperties;
use millstream_protocol::report::{MemoryReport, Report, Stats, TraceSpan};
use millstream_protocol::vitals::HealthWatch;
use millstream_sync::facade::{Mutex, lock, thread};

use crate::driven::{Driver, Wheel};
use crate::epoch::{Closing, Running};

/// A device: one GPU, or the CPU. Opened once, a value; two may live in one process and do not meet.
///
/// The value owns the lifetime. Dropping it drains, joins its threads and frees its memory, and may
/// block as long as work in flight takes; on a thread of the runtime it only starts that.
/// A guard ([`Stream::get_resource`](millstream_client::Stream::get_resource)) is work in flight: drop it
/// first. [`Device::close`] does the same with a limit and a report. A device in a `static` is never dropped: close it.
///
/// # On its own threads
/// Host functions, callbacks, native kernels, custom tasks, and destructors of values that were given away run
/// on threads that the device may need. There nothing blocks: a call that waits for an answer always answers
/// [`Error::WouldDeadlock`], even where the answer is there already, so that the mistake shows the first time.
/// A call that submits answers so only where it would have to wait for room; its
/// [`nowait`](millstream_client::Stream::nowait) twin says [`Error::Busy`] there, as everywhere.
///
/// # When it is lost
/// Everything outstanding is answered with [`Error::DeviceLost`], and [`Device::health`] says so. Where this
/// process can go on with it, [`Device::reopen`] begins a new epoch.
pub struct Device {
    pub(crate) epochs: Arc<DeviceEpochs>,
    pub(crate) options: DeviceOptions,
    pub(crate) running: Mutex<Running>,
    /// What runs a device without a thread; closed by whoever closes it.
    pub(crate) wheel: Option<Arc<Wheel>>,
    /// Of a device that is part of a model, which whoever calls it runs: it is closed when it is dropped.
    pub(crate) driver: Option<Driver>,
    /// Opens the device with the options that it was opened with last. Held while it is reopened.
    pub(crate) again: Mutex<Again>,
}

/// Opens a lost device with the options that it was opened with last.
pub(crate) type Again = Box<dyn Fn(&Device) -> Result<Report, ReopenError> + Send>;

impl Device {
    /// A client with the defaults.
    pub fn new_client(&self) -> ComputeClient {
        self.client_builder().build()
    }

    /// A client with a name, or limits.
    pub fn client_builder(&self) -> ClientBuilder {
        self.epochs.client_builder()
    }

    /// What the device is.
    pub fn properties(&self) -> &DeviceProperties {
        self.epochs.properties()
    }

    /// What the device is to code that knows its kind of backend: `CudaRaw` of a GPU by CUDA, for one, with its context
    /// and streams. None, if it is no `T` to its backend. Of the epoch that is; a device that is opened again has another.
    pub fn raw<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.epochs.current().raw()
    }

    /// When everything that was sent before has completed.
    pub fn sync(&self) -> Pending<()> {
        self.epochs.current().sync(Scope::Device)
    }

    /// How the device is. Never blocks.
    pub fn health(&self) -> Health {
        self.epochs.vitals().health()
    }

    /// Watches how the device is, from now on.
    ///
    /// ```
    /// # fn f(device: &millstream_actors::Device) {
    /// let mut watch = device.watch_health();
    /// std::thread::spawn(move || {
    ///     while let Ok(Some(health)) = watch.wait_timeout(std::time::Duration::MAX) {
    ///         eprintln!("the device is {health:?}");
    ///     }
    /// });
    /// # }
    /// ```
    pub fn watch_health(&self) -> HealthWatch {
        self.epochs.vitals().watch()
    }

    /// The device's counters. Blocks for one round trip.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn stats(&self) -> Result<Stats, Error> {
        self.epochs.current().stats().wait()
    }

    /// Everything that the device counts and measures: its counters, each client, sizes of batches, faults, what waits to be freed, and
    /// latencies where they are sampled ([`DeviceOptions::sample_latencies`]). Blocks for one round trip;
    /// [`ComputeClient::metrics`] does not.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`].
    pub fn metrics(&self) -> Result<Metrics, Error> {
        self.epochs.current().metrics().wait()
    }

    /// Memory of the device and of each client. Blocks for one round trip.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn memory_usage(&self) -> Result<MemoryReport, Error> {
        self.epochs.current().memory().wait()
    }

    /// What the device has taken since the last call, in the order in which it took it, if it was opened with
    /// [`DeviceOptions::log_submissions`]. The parts that several calls answer make one log
    /// ([`SubmissionLog::append`]). A device that was reopened begins another log. Blocks for one round trip.
    ///
    /// Of a device that was lost, what it had taken until then can be had once more, before it is reopened.
    ///
    /// # Errors
    /// [`Error::NoLog`], [`Error::Closed`]; [`Error::DeviceLost`] where there is nothing left to take.
    pub fn take_log(&self) -> Result<SubmissionLog, Error> {
        let device = self.epochs.current();
        match device.log().wait() {
            Err(lost @ Error::DeviceLost { .. }) => device.lost_log().ok_or(lost),
            answer => answer,
        }
    }

    /// The timeline's spans since the last call, if the device was opened with
    /// [`DeviceOptions::trace`]. Blocks for one round trip.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn trace(&self) -> Result<Vec<TraceSpan>, Error> {
        self.epochs.current().trace().wait()
    }

    /// Starts a profile of what all streams of the device are given from here on, also those that are made later. May wait for
    /// room in the mailbox. Otherwise as
    /// [`Stream::start_profile`](millstream_client::Stream::start_profile).
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`].
    pub fn start_profile(&self) -> Result<ProfileToken, Error> {
        self.epochs.current().start_profile(true, Scope::Device)
    }

    /// Ends a profile of this device, as [`Stream::end_profile`](millstream_client::Stream::end_profile). Asking may wait for
    /// room in the mailbox.
    pub fn end_profile(&self, token: ProfileToken) -> Pending<Profile> {
        self.epochs.current().end_profile(true, token)
    }

    /// Accepts nothing more, finishes what was accepted, joins the threads and frees the memory.
    /// Blocks until then, but not much longer than `timeout`. The report says what has not ended by then: tasks, user code, guards,
    /// and the threads and memory that they keep. Callers that wait are answered with [`Error::Closed`]. The device's own thread
    /// waits for the rest in the background, and frees the memory and ends the threads as soon as that is possible.
    ///
    /// A driven device is closed by the calling thread, as by [`Driver::close`], which reports nothing then. What
    /// another thread pumps at the moment is waited for, and what a guard holds back is not. No thread waits for the rest: the host function that
    /// ends last, or the guard that is dropped last, frees it there. Tasks that a GPU still runs are waited for when the driver is dropped,
    /// and a pump frees what is left once they have ended; other tasks that were not run by then are dropped.
    ///
    /// Closing again reports nothing, and so does closing on a thread of the runtime, which only starts it.
    pub fn close(&self, timeout: Duration) -> Report {
        let span = tracing::info_span!(target: "millstream", "close");
        let _entered = span.enter();
        let started = Instant::now();
        let deadline = started
            .checked_add(timeout)
            .unwrap_or(started + DROP_PATIENCE);
        let mut running = lock(&self.running);
        let first = !std::mem::replace(&mut running.closed, true);
        running.begin_close(deadline);
        if is_runtime_thread() {
            drop(running);
            if matches!(self.health(), Health::Lost { .. }) {
                self.epochs.vitals().change(Health::Closed);
            }
            return Report::default();
        }
        let thread = running.thread.take();
        drop(running);
        if let Some(wheel) = &self.wheel {
            return wheel.close(Some(deadline));
        }
        if let Some(thread) = &thread {
            thread.run_unless_begun();
            self.break_silence(thread, started + SILENCE_MAX);
        }
        let reported = thread.map(Closing::report);
        if first || reported.is_some() {
            self.epochs.vitals().change(Health::Closed);
        }
        match reported {
            Some(mut report) => {
                report.took = started.elapsed();
                report
            }
            None => Report::default(),
        }
    }
}

/// A device that closes for longer than this says so: its owner may have forgotten a guard.
const SILENCE_MAX: Duration = Duration::from_secs(2);

impl Device {
    /// Waits until the device's thread has ended or the time is up, and then tells the log what the close
    /// goes on waiting for.
    fn break_silence(&self, thread: &Closing, until: Instant) {
        let mut nap = Duration::from_micros(10);
        while !thread.is_reported() {
            if thread::is_past(until) {
                tracing::warn!(
                    target: "millstream::device",
                    device = %self.properties().name,
                    "closing waits for work in flight: a kernel or host function that still runs, or a guard \
                     of `get_resource` that is still held; `Device::close` waits no longer than it is told"
                );
                return;
            }
            thread::nap(nap);
            nap = (nap * 2).min(Duration::from_millis(10));
        }
    }
}

/// How long dropping a device waits for its work. Nobody can be asked, so it is for ever by the
/// measure of programs; work that never ends is closed with [`Device::close`].
const DROP_PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

impl Drop for Device {
    fn drop(&mut self) {
        let running = lock(&self.running).thread.is_some();
        if running {
            self.close(DROP_PATIENCE);
        } else if self.wheel.is_none() {
            // Lost, and not reopened: who watches is told that nothing else will come.
            self.epochs.vitals().change(Health::Closed);
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let properties = self.properties();
        write!(f, "Device({}, {:?})", properties.backend, properties.name)
    }
}
