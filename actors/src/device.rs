//! Opening and closing a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_core::backend::{Backend, HostContext, Open};
use millstream_core::channel::{ComputeChannel, is_runtime_thread};
use millstream_core::client::{ClientBuilder, ComputeClient, DeviceShared, Pending};
use millstream_core::error::{Error, OpenError};
use millstream_core::handle::{Outlet, Table};
use millstream_core::id::QueueId;
use millstream_core::message::Task;
use millstream_core::options::DeviceOptions;
use millstream_core::properties::DeviceProperties;
use millstream_core::report::{MemoryReport, Report, Scope, Stats, TraceSpan};
use millstream_core::server::Server;
use millstream_sync::facade::{Mutex, lock, thread};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Sender, mailbox};
use millstream_sync::slots::Slots;

use crate::actor::{Control, DeviceActor, ToDevice};
use crate::driven::{DirectChannel, Driven, Driver};
use crate::gc::{Gc, GcThread};
use crate::host::HostThreads;
use crate::mailbox::{End, MailboxChannel, Threads, run};

/// A device: one GPU, or the CPU. Opened once, a value; two may live in one process and do not meet.
///
/// The value owns the lifetime. Dropping it drains, joins its threads and frees its memory, and may
/// block as long as work in flight takes; on a thread of the runtime it only starts that.
/// A guard ([`Stream::get_resource`](millstream_core::client::Stream::get_resource)) is work in flight: drop it
/// first. [`Device::close`] does the same with a limit and a report. A device in a `static` is never dropped: close it.
///
/// # On its own threads
/// Host functions, callbacks, native kernels, custom tasks, and destructors of values that were given away run
/// on threads that the device may need. There nothing blocks: a call that waits for an answer always answers
/// [`Error::WouldDeadlock`], even where the answer is there already, so that the mistake shows the first time.
/// A call that submits answers so only where it would have to wait for room; its
/// [`nowait`](millstream_core::client::Stream::nowait) twin says [`Error::Busy`] there, as everywhere.
pub struct Device {
    shared: Arc<DeviceShared>,
    to_device: ToDevice,
    end: End,
    thread: Mutex<Option<thread::JoinHandle<Report>>>,
    /// A device without a thread, to be closed by whoever closes it.
    pub(crate) driven: Option<Box<dyn Driven>>,
}

/// The parts of a device before it has a channel.
pub(crate) struct Parts<B: Backend> {
    pub(crate) actor: DeviceActor<B>,
    pub(crate) sender: Sender<Task>,
    pub(crate) device: ToDevice,
    pub(crate) gc: Gc,
    pub(crate) table: Arc<Table>,
}

pub(crate) fn parts<O: Open>(
    kind: O,
    options: &DeviceOptions,
    driven: bool,
) -> Result<Parts<O::Backend>, OpenError> {
    options.check()?;
    let gate = Arc::new(Gate::new());
    let (sender, receiver) = mailbox::<Task>(options.mailbox_messages(), gate.clone());
    let sender = sender.with_spin(*options.spin_policy());
    let table: Arc<Table> = Slots::new(options.handles(), Outlet(sender.probe()));
    let context = HostContext {
        driven,
        table: table.clone(),
        trace_capacity: options.trace_spans(),
        spin: *options.spin_policy(),
    };
    let backend = kind.open(context)?;
    let queues = 0..backend.properties().queues;
    let timelines: Vec<_> = queues
        .map(|queue| backend.timeline(QueueId(queue as u8)).clone())
        .collect();
    let server = Server::new(backend, options.clone(), table.clone());
    let gc = Gc::new(timelines.clone(), gate.clone());
    let (device, controls) = ToDevice::new(gate);
    let actor = DeviceActor::new(
        server,
        receiver,
        controls,
        table.clone(),
        timelines,
        options.burst(),
    );
    Ok(Parts {
        actor,
        sender,
        device,
        gc,
        table,
    })
}

impl Device {
    /// Opens a device with the default options.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub fn open<O: Open>(kind: O) -> Result<Self, OpenError> {
        Self::open_with(kind, DeviceOptions::default())
    }

    /// Opens a device.
    ///
    /// # Errors
    /// What is missing, and what to do; an option that cannot be.
    pub fn open_with<O: Open>(kind: O, options: DeviceOptions) -> Result<Self, OpenError> {
        let parts = parts(kind, &options, false)?;
        let no_thread = |error: std::io::Error| OpenError::Thread(error.to_string());
        let host = HostThreads::new();
        let channel = Box::new(MailboxChannel::new(parts.sender, host.clone()));
        let end = End::default();
        let shared = Self::share(&parts.actor, channel, parts.table, options.clone(), &end);
        let threads = Threads {
            gc: GcThread::start(parts.gc).map_err(no_thread)?,
            host,
            device: parts.device.clone(),
        };
        let (actor, limit) = (parts.actor, end.clone());
        let body = move || run(actor, threads, options.spin_policy(), &limit);
        let thread = thread::spawn_named("millstream-device", body).map_err(no_thread)?;
        Ok(Self {
            shared,
            to_device: parts.device,
            end,
            thread: Mutex::new(Some(thread)),
            driven: None,
        })
    }

    /// Opens a device that starts no thread: its owner runs it with [`Driver::pump`].
    ///
    /// # Errors
    /// As [`Device::open_with`].
    pub fn open_driven<O: Open>(
        kind: O,
        options: DeviceOptions,
    ) -> Result<(Self, Driver), OpenError> {
        let parts = parts(kind, &options, true)?;
        let end = End::default();
        let to_device = parts.device.clone();
        let (channel, driver) = DirectChannel::new(
            parts.actor,
            parts.sender,
            parts.device,
            parts.gc,
            end.gone.clone(),
        );
        let shared = channel.with_actor(|actor| {
            Self::share(
                actor,
                Box::new(channel.clone()) as Box<dyn ComputeChannel>,
                parts.table,
                options,
                &end,
            )
        });
        Ok((
            Self {
                shared,
                to_device,
                end,
                thread: Mutex::new(None),
                driven: Some(Box::new(channel)),
            },
            driver,
        ))
    }

    pub(crate) fn share<B: Backend>(
        actor: &DeviceActor<B>,
        channel: Box<dyn ComputeChannel>,
        table: Arc<Table>,
        options: DeviceOptions,
        end: &End,
    ) -> Arc<DeviceShared> {
        DeviceShared::new(
            actor.server.backend(),
            channel,
            table,
            options,
            end.gone.clone(),
        )
    }

    /// A client with the defaults.
    pub fn client(&self) -> ComputeClient {
        self.client_builder().build()
    }

    /// A client with a name, or limits.
    pub fn client_builder(&self) -> ClientBuilder {
        self.shared.client_builder()
    }

    /// What the device is.
    pub fn properties(&self) -> &DeviceProperties {
        self.shared.properties()
    }

    /// When everything that was sent before has completed.
    pub fn sync(&self) -> Pending<()> {
        self.shared.sync(Scope::Device)
    }

    /// The device's counters. Blocks for one round trip.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn stats(&self) -> Result<Stats, Error> {
        self.shared.stats().wait()
    }

    /// Memory of the device and of each client. Blocks for one round trip.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn memory_usage(&self) -> Result<MemoryReport, Error> {
        self.shared.memory().wait()
    }

    /// The timeline's spans since the last call, if the device was opened with
    /// [`DeviceOptions::trace`]. Blocks for one round trip.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn trace(&self) -> Result<Vec<TraceSpan>, Error> {
        self.shared.trace().wait()
    }

    /// Accepts nothing more, finishes what was accepted, joins the threads and frees the memory.
    /// Blocks until then, but not much longer than `timeout`; what has not ended by then is left to
    /// itself, and the report says so.
    ///
    /// A driven device is closed by the calling thread, as by [`Driver::close`], which reports nothing then. What
    /// somebody pumps at the moment is waited for, and what a guard holds back is not.
    ///
    /// Closing again reports nothing, and so does closing on a thread of the runtime, which only starts it.
    pub fn close(&self, timeout: Duration) -> Report {
        let started = Instant::now();
        let deadline = started
            .checked_add(timeout)
            .unwrap_or(started + DROP_PATIENCE);
        *lock(&self.end.deadline) = Some(deadline);
        self.to_device.tell(Control::Close);
        if is_runtime_thread() {
            return Report::default();
        }
        if let Some(driven) = &self.driven {
            return driven.shut_down(Some(deadline));
        }
        let thread = lock(&self.thread).take();
        if let Some(thread) = &thread {
            self.break_silence(thread, started + SILENCE_MAX);
        }
        match thread.map(thread::JoinHandle::join) {
            Some(Ok(mut report)) => {
                report.took = started.elapsed();
                report
            }
            Some(Err(_)) | None => Report::default(),
        }
    }
}

/// A device that closes for longer than this says so: its owner may have forgotten a guard.
const SILENCE_MAX: Duration = Duration::from_secs(2);

impl Device {
    /// Waits until the device's thread has ended or the time is up, and then tells the log what the close
    /// goes on waiting for.
    fn break_silence(&self, thread: &thread::JoinHandle<Report>, until: Instant) {
        let mut nap = Duration::from_micros(10);
        while !thread.is_finished() {
            if Instant::now() >= until {
                tracing::warn!(
                    target: "millstream::device",
                    device = %self.properties().name,
                    "closing waits for work in flight: a kernel or host function that still runs, or a guard \
                     of `get_resource` that is still held; `Device::close` waits no longer than it is told"
                );
                return;
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(10));
        }
    }
}

/// How long dropping a device waits for its work. Nobody can be asked, so it is for ever by the
/// measure of programs; work that never ends is closed with [`Device::close`].
const DROP_PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

impl Drop for Device {
    fn drop(&mut self) {
        if lock(&self.thread).is_some() {
            self.close(DROP_PATIENCE);
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let properties = self.properties();
        write!(f, "Device({}, {:?})", properties.backend, properties.name)
    }
}
