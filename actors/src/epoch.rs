//! One epoch of a device, from its opening to its close or loss. Assembles the parts, with threads or
//! without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use millstream_client::DeviceShared;
use millstream_protocol::backend::{Backend, HostContext, Open};
use millstream_protocol::channel::StepIn;
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
use crate::channel::Channel;
use crate::closing::EpochEnd;
use crate::control::{Control, ControlSender, watch_timeline_ends};
use crate::device_thread::DeviceThread;
use crate::driven::Drive;
use crate::effects::{Collector, Effects, UserCode};
use crate::executor::Executor;
use crate::gc::{Gc, GcThread};
use crate::host::HostThreads;

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
struct DeviceParts<B: Backend> {
    actor: DeviceActor<B>,
    sender: Sender<Task>,
    device: ControlSender,
    gc: Gc,
    table: Arc<Table>,
    edges: Arc<Edges>,
    spawner: Spawner,
    meter: Arc<Meter>,
}

fn build_parts<O: Open>(
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
    let gc = Gc::new(timelines.clone(), device.clone(), gone, meter.clone());
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
        meter,
    })
}

/// Returns a clock in nanoseconds that starts now; it overflows after 584 years.
fn clock_from_now() -> ReadClock {
    let began = Instant::now();
    Arc::new(move || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// A device of an epoch that no thread runs yet.
type Unstarted<B> = (Arc<Executor<B>>, Opened, Spawner);

/// Opens an epoch, without its device thread.
fn open_unstarted<O: Open>(
    kind: O,
    options: &DeviceOptions,
    driven: bool,
    end: EpochEnd,
    before: Option<&DeviceShared>,
) -> Result<Unstarted<O::Backend>, OpenError> {
    let DeviceParts {
        actor,
        sender,
        device,
        gc,
        table,
        edges,
        spawner,
        meter,
    } = build_parts(kind, options, driven, end.gone.clone(), before)?;
    let (collector, user_code) = match driven {
        true => (Collector::Inline(gc), UserCode::Due(Arc::default())),
        false => {
            let host = HostThreads::start(spawner.clone())?;
            let gc = GcThread::start(gc, &spawner)?;
            (Collector::Thread(gc), UserCode::Threads(host))
        }
    };
    let effects = Effects {
        collector,
        user_code,
        device: device.clone(),
        spawner: spawner.clone(),
        meter,
    };
    let executor = Executor::new((actor, effects), (sender, edges), end.clone());
    if !driven {
        let steps_in: Arc<dyn StepIn> = executor.clone();
        table.sink().set_station(Arc::downgrade(&steps_in));
        device.set_station(Arc::downgrade(&steps_in));
    }
    let channel = Box::new(Channel::new(executor.clone()));
    let gone = end.gone.clone();
    let shared = executor.with_actor(|actor| {
        let backend = actor.server.backend();
        DeviceShared::new(backend, channel, table, options.clone(), gone, before)
    });
    let running = Running {
        device,
        end,
        thread: None,
        closed: false,
    };
    Ok((executor, Opened { shared, running }, spawner))
}

/// Opens a device that the test runs.
#[cfg(test)]
pub(crate) fn open_for_test<O: Open>(
    kind: O,
    options: &DeviceOptions,
    driven: bool,
) -> Result<(Arc<Executor<O::Backend>>, Opened), OpenError> {
    let (executor, opened, _) = open_unstarted(kind, options, driven, EpochEnd::default(), None)?;
    Ok((executor, opened))
}

/// Opens an epoch with threads, after the epoch `before`.
pub(crate) fn open_threads<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: EpochEnd,
    before: Option<&DeviceShared>,
) -> Result<Opened, OpenError> {
    let (executor, mut epoch, spawner) = open_unstarted(kind, options, false, end, before)?;
    let opened = Arc::new(AtomicBool::new(false));
    let (sender, report) = reply();
    let body = DeviceThread::new(executor, options.settings().spin, opened.clone(), sender);
    let thread = spawner.spawn(ThreadRole::Device, "millstream-device", move || body.run())?;
    // Relaxed: a dropped body records that under a lock. Either `never_ran` reads the record below, or the drop takes
    // that lock after us and reads this store.
    opened.store(true, Ordering::Relaxed);
    if thread.never_ran() {
        return Err(OpenError::Thread(
            "the device thread's body was dropped without being run".to_owned(),
        ));
    }
    epoch.running.thread = Some(DeviceThreadHandle { thread, report });
    Ok(epoch)
}

/// Opens an epoch without threads, after the epoch `before`.
pub(crate) fn open_driven<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: EpochEnd,
    before: Option<&DeviceShared>,
) -> Result<(Opened, Arc<dyn Drive>), OpenError> {
    // On a larger stack: the parts of a device are moved by value.
    let (executor, epoch, _) = with_stack(|| open_unstarted(kind, options, true, end, before))?;
    Ok((epoch, executor))
}
