//! A device: the value that owns its lifetime, and its close.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_client::{ClientBuilder, ComputeClient, DeviceEpochs, Pending, Stream};
#[cfg(feature = "journal")]
use millstream_protocol::journal::SubmissionLog;
use millstream_protocol::{
    DeviceOptions, DeviceProperties, Error, Health, HealthWatch, MemoryReport, Profile,
    ProfileToken, ReopenError, Report, Scope, Stats, TraceSpan, marks::is_runtime_thread,
    metrics::Metrics,
};
use millstream_sync::facade::{Mutex, lock, thread};

use crate::driver::Driver;
use crate::epoch::{DeviceThreadHandle, Running};

/// A device: one GPU, or the CPU. It is a plain value without a global registry; several devices in one process are
/// independent.
///
/// The value owns the device's lifetime. Dropping it drains the device, joins its threads and frees its memory. That
/// may block as long as work in flight takes; on a thread of the runtime the drop only starts the close. A guard
/// ([`Stream::get_resource`](millstream_client::Stream::get_resource)) counts as work in flight: drop it first.
/// [`Device::close`] is a close with a time limit and a report. A device in a `static` is never dropped, so close it.
///
/// # On its own threads
/// Host functions, callbacks, native kernels, custom tasks, and destructors of values that were handed to the runtime
/// run on threads that the device may need. A call there that waits for an answer always returns
/// [`Error::WouldDeadlock`], even if the answer has arrived, so that the mistake shows the first time. A call that
/// submits exceeds the limits by a headroom instead of blocking, and returns [`Error::NoRoomHere`] beyond it; only host
/// functions and callbacks wait for room in the mailbox. Its [`nowait`](millstream_client::Stream::nowait) variant
/// returns [`Error::Busy`] if the mailbox is full, as everywhere.
///
/// # When it is lost
/// Every outstanding request is answered with [`Error::DeviceLost`], and [`Device::health`] reports the loss. If this
/// process can recover, [`Device::reopen`] starts a new epoch.
pub struct Device {
    pub(crate) epochs: Arc<DeviceEpochs>,
    pub(crate) options: DeviceOptions,
    /// Shared with the driver of a driven device.
    pub(crate) running: Arc<Mutex<Running>>,
    /// The driver of a device inside a model, which every caller runs. Dropped, and so closed, with the device.
    pub(crate) driver: Option<Driver>,
    /// Reopens the device with its last options. Locked while the device is reopened.
    pub(crate) reopen_fn: Mutex<Reopen>,
}

/// Reopens a lost device with the options that it was last opened with.
pub(crate) type Reopen = Box<dyn Fn(&Device) -> Result<Report, ReopenError> + Send>;

impl Device {
    /// Creates a client with the default settings.
    pub fn new_client(&self) -> ComputeClient {
        self.client_builder().build()
    }

    /// Creates a stream, of a client of its own with the default settings. Streams that should share limits, or a
    /// priority, are of one client: [`ComputeClient::new_stream`].
    pub fn new_stream(&self) -> Stream {
        self.new_client().new_stream()
    }

    /// Returns a builder of a client with a name, or limits.
    pub fn client_builder(&self) -> ClientBuilder {
        self.epochs.client_builder()
    }

    /// Returns the properties of the device.
    pub fn properties(&self) -> &DeviceProperties {
        self.epochs.properties()
    }

    /// Returns the backend's raw handle of the current epoch, if it has one of type `T`: for example `CudaRaw` of a
    /// CUDA GPU, with its context and streams. A reopened device has a new one.
    pub fn raw<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.epochs.current().raw()
    }

    /// Returns an answer that is ready once everything that was submitted before has completed. May block while the
    /// mailbox is full.
    pub fn sync(&self) -> Pending<()> {
        self.epochs.current().sync(Scope::Device)
    }

    /// Returns the health of the device. Never blocks.
    pub fn health(&self) -> Health {
        self.epochs.health_state().health()
    }

    /// Watches the health of the device, from now on.
    ///
    /// ```
    /// # fn f(device: &millstream_actors::Device) {
    /// let mut watch = device.watch_health();
    /// std::thread::spawn(move || {
    ///     while let Ok(Some(health)) = watch.wait_timeout(std::time::Duration::MAX) {
    ///         eprintln!("device health: {health:?}");
    ///     }
    /// });
    /// # }
    /// ```
    pub fn watch_health(&self) -> HealthWatch {
        self.epochs.health_state().watch()
    }

    /// Returns the device's counters. Blocks for one round trip.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn stats(&self) -> Result<Stats, Error> {
        self.epochs.current().stats().wait()
    }

    /// Returns everything that the device counts and measures: its counters, figures per client, batch sizes, faults,
    /// memory that waits to be freed, and latencies if they are sampled ([`DeviceOptions::sample_latencies`]). Blocks
    /// for one round trip; [`ComputeClient::metrics`] does not.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`].
    pub fn metrics(&self) -> Result<Metrics, Error> {
        self.epochs.current().metrics().wait()
    }

    /// Returns the memory usage of the device and of each client. Blocks for one round trip.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn memory_usage(&self) -> Result<MemoryReport, Error> {
        self.epochs.current().memory().wait()
    }

    /// Takes the submissions that the device has admitted since the last call, in order. Requires
    /// [`DeviceOptions::log_submissions`]. The parts that several calls return make one log
    /// ([`SubmissionLog::append`]). A reopened device starts another log. Blocks for one round trip. Requires the feature
    /// `journal`.
    ///
    /// After a loss one more call returns what the device had admitted until then, before the device is reopened.
    ///
    /// # Errors
    /// [`Error::NoLog`], [`Error::Closed`]; [`Error::DeviceLost`] if there is nothing left to take.
    #[cfg(feature = "journal")]
    pub fn take_log(&self) -> Result<SubmissionLog, Error> {
        let device = self.epochs.current();
        match device.log().wait() {
            Err(lost @ Error::DeviceLost { .. }) => device.lost_log().ok_or(lost),
            answer => answer,
        }
    }

    /// Takes the timeline's spans since the last call, if the device was opened with
    /// [`DeviceOptions::trace`]. Blocks for one round trip.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn trace(&self) -> Result<Vec<TraceSpan>, Error> {
        self.epochs.current().trace().wait()
    }

    /// Starts a profile of all tasks submitted to streams of the device from now on, including streams made later. May
    /// block while the mailbox is full. Otherwise like
    /// [`Stream::start_profile`](millstream_client::Stream::start_profile).
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`].
    pub fn start_profile(&self) -> Result<ProfileToken, Error> {
        self.epochs.current().start_profile(true, Scope::Device)
    }

    /// Ends a profile of this device, as [`Stream::end_profile`](millstream_client::Stream::end_profile). May block
    /// while the mailbox is full.
    pub fn end_profile(&self, token: ProfileToken) -> Pending<Profile> {
        self.epochs.current().end_profile(true, token)
    }

    /// Closes the device: accepts no further messages, finishes the accepted ones, joins the threads and frees the
    /// memory. Blocks until then, but not much longer than `timeout`. The report counts what has not ended by then:
    /// tasks, user code, guards, and the threads and memory that they hold. Waiting callers receive [`Error::Closed`].
    /// The device thread waits for the rest in the background, and then frees the memory and ends the threads.
    ///
    /// A driven device is closed on the calling thread, as by [`Driver::close`], which reports nothing afterwards. The
    /// close waits for a pump on another thread, but not for what a guard holds back. No thread waits for the rest: the
    /// host function that ends last, or the guard that is dropped last, frees it. Tasks that a GPU still runs are
    /// waited for when the driver is dropped, or a pump frees the rest once they have completed; other tasks that have
    /// not run by then are dropped.
    ///
    /// A second close reports nothing. Neither does a close on a thread of the runtime, which only starts it, nor one in
    /// a child that was forked since the device was opened, which does nothing.
    pub fn close(&self, timeout: Duration) -> Report {
        if !self.epochs.health_state().is_of_this_process() {
            return Report::default();
        }
        let span = tracing::info_span!(target: "millstream", "close");
        let _entered = span.enter();
        let started = Instant::now();
        let deadline = started
            .checked_add(timeout)
            .unwrap_or(started + DROP_TIMEOUT);
        let mut running = lock(&self.running);
        let first = !std::mem::replace(&mut running.closed, true);
        running.begin_close(deadline);
        if is_runtime_thread() {
            drop(running);
            if matches!(self.health(), Health::Lost { .. }) {
                self.epochs.health_state().change(Health::Closed);
            }
            return Report::default();
        }
        let (thread, driven) = (running.thread.take(), running.driven.clone());
        drop(running);
        if let Some(thread) = &thread {
            thread.run_unless_begun();
            self.warn_if_slow(thread, started + CLOSE_WARNING_DELAY);
        }
        let ends = first || thread.is_some() || driven.is_some();
        let mut report = Running::finish((thread, driven), deadline);
        if ends {
            self.epochs.health_state().change(Health::Closed);
            report.took = started.elapsed();
        }
        report
    }
}

/// A close that takes longer than this logs a warning: the owner may have forgotten a guard.
const CLOSE_WARNING_DELAY: Duration = Duration::from_secs(2);

impl Device {
    /// Waits until the device thread has reported. If that takes until `until`, logs a warning that says what the close
    /// may be waiting for.
    fn warn_if_slow(&self, thread: &DeviceThreadHandle, until: Instant) {
        let mut nap = Duration::from_micros(10);
        while !thread.is_reported() {
            if thread::is_past(until) {
                tracing::warn!(
                    target: "millstream::device",
                    device = %self.properties().name,
                    "close is waiting for work in flight: a kernel or host function that still runs, or a guard of \
                     `get_resource` that is still held; call `Device::close` with a shorter timeout to stop waiting"
                );
                return;
            }
            thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(10));
        }
    }
}

/// How long dropping a device waits for its work. A drop has no parameter for it, so this is effectively forever; use
/// [`Device::close`] for work that never ends.
const DROP_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

impl Drop for Device {
    fn drop(&mut self) {
        if !self.epochs.health_state().is_of_this_process() {
            // Leaked: the device is that of the parent. Here it has no threads to join, and its driver cannot be called.
            std::mem::forget((self.epochs.clone(), self.running.clone()));
            return;
        }
        let (has_thread, is_driven) = {
            let running = lock(&self.running);
            (running.thread.is_some(), running.driven.is_some())
        };
        if has_thread {
            self.close(DROP_TIMEOUT);
        } else if !is_driven {
            // Lost, and not reopened: notify watchers that nothing will follow.
            self.epochs.health_state().change(Health::Closed);
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let properties = self.properties();
        write!(f, "Device({}, {:?})", properties.backend, properties.name)
    }
}
