//! One epoch of a device, from its opening to its close or loss. Assembles the parts, with threads or
//! without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::server::Server;
use millstream_client::DeviceShared;
use millstream_protocol::{
    Backend, DeviceOptions, DropSink, HostContext, Open, OpenError, QueueId, Report, StepIn, Table,
    Task,
    threads::{Spawner, Thread, ThreadRole},
};
use millstream_state::observers::meter::{Meter, ReadClock};
use millstream_sync::facade::{Edges, SpinPolicy, lock, with_stack};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::mailbox;
use millstream_sync::reply::{ReplyReceiver, reply};
use millstream_sync::slots::Slots;

use crate::control::{Control, ControlSender, watch_timeline_ends};
use crate::device_actor::DeviceActor;
use crate::effects::{Collector, Effects, UserCode};
use crate::executor::Executor;
use crate::executor::channel::Channel;
use crate::executor::closing::EpochEnd;
use crate::executor::device_thread::DeviceThread;
use crate::executor::driven::Drive;
use crate::gc_actor::{GcActor, GcThread};
use crate::host::HostThreads;

/// The handles of the current epoch that the `Device` keeps.
pub(crate) struct Running {
    device: ControlSender,
    pub(crate) end: EpochEnd,
    pub(crate) thread: Option<DeviceThreadHandle>,
    /// The executor of a driven device, which has no thread.
    pub(crate) driven: Option<Arc<dyn Drive>>,
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

    /// Ends an epoch whose close has begun. Returns the report of a thread, or of a driven device. Blocks until the epoch has
    /// ended or its deadline has passed.
    pub(crate) fn finish(
        (thread, driven): (Option<DeviceThreadHandle>, Option<Arc<dyn Drive>>),
        deadline: Instant,
    ) -> Report {
        match driven {
            Some(driven) => driven.shut_down(Some(deadline)),
            None => thread.map(DeviceThreadHandle::report).unwrap_or_default(),
        }
    }
}

/// An epoch that is ready to start.
pub(crate) struct Opened {
    pub(crate) shared: Arc<DeviceShared>,
    pub(crate) running: Running,
}

/// Opens the backend; after the epoch `before`, it must be the same device.
fn open_backend<O: Open>(
    kind: O,
    context: HostContext,
    before: Option<&DeviceShared>,
) -> Result<O::Backend, OpenError> {
    let backend = kind.open(context)?;
    backend.properties().check()?;
    if let Some(lost) = before.map(DeviceShared::properties)
        && let Some((field, expected, given)) = lost.difference(backend.properties())
    {
        let (backend, lost, opened) = (lost.backend, &lost.name, &backend.properties().name);
        let why = format!(
            "the reopened device `{opened}` differs from the lost device `{lost}`: `{field}` must be {expected}, got {given}; reopen the same device"
        );
        return Err(OpenError::Unavailable { backend, why });
    }
    Ok(backend)
}

/// Returns a clock in nanoseconds that starts now; it overflows after 584 years.
fn clock_from_now() -> ReadClock {
    let began = Instant::now();
    Arc::new(move || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// A device of an epoch that no thread runs yet.
pub(crate) type Unstarted<B> = (Arc<Executor<B>>, Opened, Spawner);

/// Opens an epoch, without its device thread.
fn open_unstarted<O: Open>(
    kind: O,
    options: &DeviceOptions,
    driven: bool,
    end: EpochEnd,
    before: Option<&DeviceShared>,
) -> Result<Unstarted<O::Backend>, OpenError> {
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
        trace_capacity: settings.trace,
        spin: settings.spin,
        gone: end.gone.clone(),
        spawner: spawner.clone(),
    };
    let backend = open_backend(kind, context, before)?;
    let queues = 0..backend.properties().queues;
    let timelines: Vec<_> = queues
        .map(|queue| backend.timeline(QueueId(queue as u8)).clone())
        .collect();
    let meter = match settings.sample_latencies {
        0 => Meter::new(),
        _ => Meter::timed(clock_from_now()),
    };
    let mut server = Server::new(backend, settings.clone(), table.clone())
        .with_gone(end.gone.clone())
        .with_meter(meter.clone());
    // A run of a simulated device, or of a model, must not depend on the machine's time.
    if !O::Backend::IS_SIMULATED && !cfg!(any(loom, shuttle)) {
        server = server.with_clock(clock_from_now());
    }
    let (device, controls) = ControlSender::new(gate, edges.clone());
    let gc = GcActor::new(timelines.clone(), device.clone(), end.gone.clone(), meter);
    watch_timeline_ends(&timelines, &device);
    let actor = DeviceActor::new(
        server,
        receiver,
        controls,
        table.clone(),
        timelines,
        settings.flush_every,
    );
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
    };
    let executor = Executor::new((actor, effects), (sender, edges), end.clone());
    if !driven {
        let steps_in: Arc<dyn StepIn> = executor.clone();
        table.sink().set_station(Arc::downgrade(&steps_in));
        device.set_station(Arc::downgrade(&steps_in));
    }
    let channel = Box::new(Channel(executor.clone()));
    let gone = end.gone.clone();
    let shared = executor.with_actor(|actor| {
        let backend = &actor.server.device.backend;
        DeviceShared::new(backend, channel, table, options.clone(), gone, before)
    });
    let running = Running {
        device,
        end,
        thread: None,
        driven: None,
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
) -> Result<Unstarted<O::Backend>, OpenError> {
    open_unstarted(kind, options, driven, EpochEnd::default(), None)
}

/// Opens an epoch with a device thread, or a driven one, after the epoch `before`.
pub(crate) fn open_epoch<O: Open>(
    kind: O,
    options: &DeviceOptions,
    driven: bool,
    end: EpochEnd,
    before: Option<&DeviceShared>,
) -> Result<Opened, OpenError> {
    // On a larger stack: the parts of a device are moved by value.
    let unstarted = with_stack(|| open_unstarted(kind, options, driven, end, before));
    let (executor, mut epoch, spawner) = unstarted?;
    if driven {
        epoch.running.driven = Some(executor);
        return Ok(epoch);
    }
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
