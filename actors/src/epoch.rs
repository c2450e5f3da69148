//! One epoch of a device, from its opening to its close or loss. Assembles the parts, with threads or
//! without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use millstream_client::DeviceShared;
use millstream_protocol::backend::{Backend, HostContext, Open};
use millstream_protocol::channel::{ComputeChannel, StepIn};
use millstream_protocol::device_status::DeviceStatus;
use millstream_protocol::error::OpenError;
use millstream_protocol::id::QueueId;
use millstream_protocol::message::Task;
use millstream_protocol::options::DeviceOptions;
use millstream_protocol::report::Report;
use millstream_protocol::table::{DropSink, Table};
use millstream_protocol::threads::{Spawner, Thread, ThreadRole};
use millstream_server::observers::meter::{Meter, ReadClock};
use millstream_server::server::Server;
use millstream_sync::facade::{Edges, SpinPolicy, lock, with_stack};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Sender, mailbox};
use millstream_sync::reply::{ReplyReceiver, reply};
use millstream_sync::slots::Slots;

use crate::actor::DeviceActor;
use crate::control::{Control, ControlSender, watch_timeline_ends};
use crate::driven::{DirectChannel, Driven};
use crate::effects::Threads;
use crate::gc::{Gc, GcThread};
use crate::host::HostThreads;
use crate::mailbox::{DeviceThread, EpochEnd, MailboxChannel};
use crate::shared_actor::SharedActor;

/// The handles of the current epoch that the `Device` keeps.
pub(crate) struct Running {
    device: ControlSender,
    pub(crate) end: EpochEnd,
    pub(crate) thread: Option<DeviceThreadHandle>,
    /// The device was closed: no further epoch follows.
    pub(crate) closed: bool,
}

/// The handle of a device thread, and its report when the device is closed. The report may arrive before the thread
/// ends.
pub(crate) struct DeviceThreadHandle {
    thread: Thread<()>,
    report: ReplyReceiver<Report>,
}

impl DeviceThreadHandle {
    /// Returns `true` if the report has arrived.
    pub(crate) fn is_reported(&self) -> bool {
        self.report.is_ready()
    }

    /// Runs the thread's body on this thread if no thread has started it.
    pub(crate) fn run_unless_begun(&self) {
        self.thread.run_unless_begun();
    }

    /// Returns the report, and joins the thread if it leaves nothing behind. Call it after the close was requested.
    /// Blocks until the device has ended or its deadline has passed.
    pub(crate) fn report(mut self) -> Report {
        self.run_unless_begun();
        let report = self.report.wait(&SpinPolicy::never()).unwrap_or_default();
        if report.threads_left == 0 {
            // A panic of the thread was reported as the loss of the device.
            let _ = self.thread.join();
        }
        report
    }
}

impl Running {
    /// Requests the close of the device, which finishes its work until `deadline`.
    pub(crate) fn begin_close(&self, deadline: Instant) {
        *lock(&self.end.deadline) = Some(deadline);
        *lock(&self.end.closer) = Some(std::thread::current().id());
        self.device.send(Control::Close);
    }
}

/// An epoch that is ready to start.
pub(crate) struct Opened {
    pub(crate) shared: Arc<DeviceShared>,
    pub(crate) running: Running,
}

/// The parts of a device before it has a channel.
pub(crate) struct DeviceParts<B: Backend> {
    pub(crate) actor: DeviceActor<B>,
    pub(crate) sender: Sender<Task>,
    pub(crate) device: ControlSender,
    pub(crate) gc: Gc,
    pub(crate) table: Arc<Table>,
    pub(crate) edges: Arc<Edges>,
    pub(crate) spawner: Spawner,
}

pub(crate) fn build_parts<O: Open>(
    kind: O,
    options: &DeviceOptions,
    driven: bool,
    gone: Arc<DeviceStatus>,
    before: Option<&DeviceShared>,
) -> Result<DeviceParts<O::Backend>, OpenError> {
    options.check()?;
    let settings = options.settings();
    // Each epoch counts its own threads.
    let spawner = settings.spawner.counting_anew();
    let gate = Arc::new(Gate::new());
    let edges = Arc::new(Edges::default());
    // A call that must not wait sends both of its messages or none.
    let mailbox_capacity = settings.mailbox_capacity.max(2);
    let (sender, receiver) = mailbox::<Task>(mailbox_capacity, gate.clone());
    let sender = sender.with_spin(settings.spin);
    let table: Arc<Table> = {
        let outlet = DropSink::new(sender.probe(), edges.clone());
        Slots::new(settings.max_handles, outlet)
    };
    let context = HostContext {
        driven,
        table: table.clone(),
        trace_capacity: settings.trace_capacity,
        spin: settings.spin,
        gone: gone.clone(),
        spawner: spawner.clone(),
    };
    let backend = kind.open(context)?;
    backend.properties().check()?;
    if let Some(lost) = before.map(DeviceShared::properties)
        && let Some((field, expected, given)) = lost.difference(backend.properties())
    {
        return Err(OpenError::Another {
            field,
            expected: expected.into(),
            given: given.into(),
            lost: lost.name.as_str().into(),
            opened: backend.properties().name.as_str().into(),
        });
    }
    let queues = 0..backend.properties().queues;
    let timelines: Vec<_> = queues
        .map(|queue| backend.timeline(QueueId(queue as u8)).clone())
        .collect();
    let meter = match settings.latencies_every {
        0 => Meter::new(),
        _ => Meter::timed(clock_from_now()),
    };
    let mut server = Server::new(backend, settings.clone(), table.clone())
        .with_gone(gone.clone())
        .with_meter(meter.clone());
    // A run of a simulated device, or of a model, must not depend on the machine's time.
    if !O::Backend::IS_SIMULATED && !cfg!(any(loom, shuttle)) {
        server = server.with_clock(clock_from_now());
    }
    let (device, controls) = ControlSender::new(gate, edges.clone());
    let gc = Gc::new(timelines.clone(), device.clone(), gone, meter);
    watch_timeline_ends(&timelines, &device);
    let actor = DeviceActor::new(
        server,
        receiver,
        controls,
        table.clone(),
        timelines,
        settings.flush_every,
    );
    Ok(DeviceParts {
        actor,
        sender,
        device,
        gc,
        table,
        edges,
        spawner,
    })
}

/// Returns a clock in nanoseconds that starts now; it overflows after 584 years.
fn clock_from_now() -> ReadClock {
    let began = Instant::now();
    Arc::new(move || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// A device with threads, before its device thread is started.
struct Unstarted<B: Backend> {
    shared_actor: Arc<SharedActor<B>>,
    shared: Arc<DeviceShared>,
    device: ControlSender,
    spawner: Spawner,
}

fn open_unstarted<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: &EpochEnd,
    before: Option<&DeviceShared>,
) -> Result<Unstarted<O::Backend>, OpenError> {
    let parts = build_parts(kind, options, false, end.gone.clone(), before)?;
    let spawner = parts.spawner;
    let host = HostThreads::start(spawner.clone())?;
    let threads = Threads {
        gc: GcThread::start(parts.gc, &spawner)?,
        host: host.clone(),
        device: parts.device.clone(),
        spawner: spawner.clone(),
    };
    let shared_actor = SharedActor::new(parts.actor, threads, parts.sender.probe());
    let steps_in: Arc<dyn StepIn> = shared_actor.clone();
    parts.table.sink().set_station(Arc::downgrade(&steps_in));
    parts.device.set_station(Arc::downgrade(&steps_in));
    let channel = Box::new(MailboxChannel::new(parts.sender, host, steps_in));
    let (table, gone) = (parts.table, end.gone.clone());
    let shared = shared_actor
        .with_actor(|actor| client_state(actor, channel, table, options.clone(), gone, before));
    Ok(Unstarted {
        shared_actor,
        shared,
        device: parts.device,
        spawner,
    })
}

/// A device without its device thread, whose part the test plays.
#[cfg(test)]
type Threadless<B> = (Arc<SharedActor<B>>, Opened);

/// Opens a device without its device thread, whose part the test plays.
#[cfg(test)]
pub(crate) fn open_without_thread<O: Open>(
    kind: O,
    options: &DeviceOptions,
) -> Result<Threadless<O::Backend>, OpenError> {
    let end = EpochEnd::default();
    let Unstarted {
        shared_actor,
        shared,
        device,
        ..
    } = open_unstarted(kind, options, &end, None)?;
    let running = Running {
        device,
        end,
        thread: None,
        closed: false,
    };
    Ok((shared_actor, Opened { shared, running }))
}

/// Opens an epoch with threads, after the epoch `before`.
pub(crate) fn open_threads<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: EpochEnd,
    before: Option<&DeviceShared>,
) -> Result<Opened, OpenError> {
    let Unstarted {
        shared_actor,
        shared,
        device,
        spawner,
    } = open_unstarted(kind, options, &end, before)?;
    let opened = Arc::new(AtomicBool::new(false));
    let (spin, ending) = (options.settings().spin, end.clone());
    let (sender, report) = reply();
    let body = DeviceThread::new(shared_actor, spin, ending, opened.clone(), sender);
    let thread = spawner.spawn(ThreadRole::Device, "millstream-device", move || body.run())?;
    // Relaxed: a dropped body records that under a lock. Either `never_ran` reads the record below, or the drop takes
    // that lock after us and reads this store.
    opened.store(true, Ordering::Relaxed);
    if thread.never_ran() {
        return Err(OpenError::Thread(
            "the device thread's body was dropped without being run".to_owned(),
        ));
    }
    let running = Running {
        device,
        end,
        thread: Some(DeviceThreadHandle { thread, report }),
        closed: false,
    };
    Ok(Opened { shared, running })
}

/// Opens an epoch without threads, after the epoch `before`.
pub(crate) fn open_driven<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: EpochEnd,
    before: Option<&DeviceShared>,
) -> Result<(Opened, Arc<dyn Driven>), OpenError> {
    // On a larger stack: the parts of a device are moved by value.
    with_stack(|| open_driven_here(kind, options, end, before))
}

fn open_driven_here<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: EpochEnd,
    before: Option<&DeviceShared>,
) -> Result<(Opened, Arc<dyn Driven>), OpenError> {
    let parts = build_parts(kind, options, true, end.gone.clone(), before)?;
    let device = parts.device.clone();
    let gone = end.gone.clone();
    let channel = DirectChannel::new(
        parts.actor,
        parts.sender,
        parts.device,
        parts.gc,
        gone.clone(),
        parts.edges,
    );
    let face = Box::new(channel.clone());
    let shared = channel
        .with_actor(|actor| client_state(actor, face, parts.table, options.clone(), gone, before));
    let running = Running {
        device,
        end,
        thread: None,
        closed: false,
    };
    Ok((Opened { shared, running }, Arc::new(channel)))
}

/// Creates the state that clients of an opened device share.
pub(crate) fn client_state<B: Backend>(
    actor: &DeviceActor<B>,
    channel: Box<dyn ComputeChannel>,
    table: Arc<Table>,
    options: DeviceOptions,
    gone: Arc<DeviceStatus>,
    before: Option<&DeviceShared>,
) -> Arc<DeviceShared> {
    DeviceShared::new(
        actor.server.backend(),
        channel,
        table,
        options,
        gone,
        before,
    )
}
