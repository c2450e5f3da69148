//! One epoch of a device, from its opening to its close or its loss: the parts, and how they are put together
//! with threads and without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use millstream_client::DeviceShared;
use millstream_protocol::backend::{Backend, HostContext, Open};
use millstream_protocol::channel::{ComputeChannel, StepIn};
use millstream_protocol::device_status::Gone;
use millstream_protocol::error::OpenError;
use millstream_protocol::id::QueueId;
use millstream_protocol::message::Task;
use millstream_protocol::options::DeviceOptions;
use millstream_protocol::report::Report;
use millstream_protocol::table::{Outlet, Table};
use millstream_protocol::threads::{Spawner, Thread, ThreadRole};
use millstream_server::observers::meter::{Meter, ReadClock};
use millstream_server::server::Server;
use millstream_sync::facade::{Edges, SpinPolicy, lock, with_stack};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Sender, mailbox};
use millstream_sync::reply::{ReplyReceiver, reply};
use millstream_sync::slots::Slots;

use crate::actor::{Control, DeviceActor, ToDevice, watch_ends};
use crate::driven::{DirectChannel, Driven};
use crate::effects::Threads;
use crate::gc::{Gc, GcThread};
use crate::host::HostThreads;
use crate::mailbox::{DeviceThread, End, MailboxChannel};
use crate::station::Station;

/// What there is of a device in its current epoch.
pub(crate) struct Running {
    device: ToDevice,
    pub(crate) end: End,
    pub(crate) thread: Option<Closing>,
    /// It was closed: there will be no other epoch.
    pub(crate) closed: bool,
}

/// The thread of a device, and what it reports when the device is closed. The report may come before the thread ends.
pub(crate) struct Closing {
    thread: Thread<()>,
    report: ReplyReceiver<Report>,
}

impl Closing {
    /// Whether the report is there.
    pub(crate) fn is_reported(&self) -> bool {
        self.report.is_ready()
    }

    /// Runs the thread here if it has not begun.
    pub(crate) fn run_unless_begun(&self) {
        self.thread.run_unless_begun();
    }

    /// The report, and the end of the thread if it leaves nothing behind. To be called once the device was told to close. Blocks
    /// until the device has ended, or its time is up.
    pub(crate) fn report(mut self) -> Report {
        self.run_unless_begun();
        let report = self.report.wait(&SpinPolicy::never()).unwrap_or_default();
        if report.threads_left == 0 {
            // What panicked there has been told by the loss of the device.
            let _ = self.thread.join();
        }
        report
    }
}

impl Running {
    /// Tells the device to finish what there is until `deadline`.
    pub(crate) fn begin_close(&self, deadline: Instant) {
        *lock(&self.end.deadline) = Some(deadline);
        *lock(&self.end.closer) = Some(std::thread::current().id());
        self.device.tell(Control::Close);
    }
}

/// An epoch that is ready to begin.
pub(crate) struct Opened {
    pub(crate) shared: Arc<DeviceShared>,
    pub(crate) running: Running,
}

/// The parts of a device before it has a channel.
pub(crate) struct Parts<B: Backend> {
    pub(crate) actor: DeviceActor<B>,
    pub(crate) sender: Sender<Task>,
    pub(crate) device: ToDevice,
    pub(crate) gc: Gc,
    pub(crate) table: Arc<Table>,
    pub(crate) edges: Arc<Edges>,
    pub(crate) spawner: Spawner,
}

pub(crate) fn parts<O: Open>(
    kind: O,
    options: &DeviceOptions,
    driven: bool,
    gone: Arc<Gone>,
    before: Option<&DeviceShared>,
) -> Result<Parts<O::Backend>, OpenError> {
    options.check()?;
    let settings = options.settings();
    // How many threads an epoch leaves behind is its own matter.
    let spawner = settings.spawner.counting_anew();
    let gate = Arc::new(Gate::new());
    let edges = Arc::new(Edges::default());
    let (sender, receiver) = mailbox::<Task>(settings.mailbox_capacity, gate.clone());
    let sender = sender.with_spin(settings.spin);
    let table: Arc<Table> = {
        let outlet = Outlet::new(sender.probe(), edges.clone());
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
        && lost != backend.properties()
    {
        return Err(OpenError::Another {
            lost: lost.name.clone(),
            opened: backend.properties().name.clone(),
        });
    }
    let queues = 0..backend.properties().queues;
    let timelines: Vec<_> = queues
        .map(|queue| backend.timeline(QueueId(queue as u8)).clone())
        .collect();
    let meter = match settings.latencies_every {
        0 => Meter::new(),
        _ => Meter::timed(since_now()),
    };
    let server = Server::new(backend, settings.clone(), table.clone())
        .with_gone(gone.clone())
        .with_meter(meter.clone());
    let (device, controls) = ToDevice::new(gate, edges.clone());
    let gc = Gc::new(timelines.clone(), device.clone(), gone, meter);
    watch_ends(&timelines, &device);
    let actor = DeviceActor::new(
        server,
        receiver,
        controls,
        table.clone(),
        timelines,
        settings.flush_every,
    );
    Ok(Parts {
        actor,
        sender,
        device,
        gc,
        table,
        edges,
        spawner,
    })
}

/// A clock that begins now: there are five hundred years of nanoseconds.
fn since_now() -> ReadClock {
    let began = Instant::now();
    Arc::new(move || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// A device that runs by itself, before it has its thread.
struct Unattended<B: Backend> {
    station: Arc<Station<B>>,
    shared: Arc<DeviceShared>,
    device: ToDevice,
    spawner: Spawner,
}

fn unattended<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: &End,
    before: Option<&DeviceShared>,
) -> Result<Unattended<O::Backend>, OpenError> {
    let parts = parts(kind, options, false, end.gone.clone(), before)?;
    let spawner = parts.spawner;
    let host = HostThreads::start(spawner.clone())?;
    let threads = Threads {
        gc: GcThread::start(parts.gc, &spawner)?,
        host: host.clone(),
        device: parts.device.clone(),
        spawner: spawner.clone(),
    };
    let station = Station::new(parts.actor, threads, parts.sender.probe());
    let mut steps_in: Option<Arc<dyn StepIn>> = None;
    if O::Backend::CALLERS_STEP_IN {
        let station = steps_in.insert(station.clone());
        parts.table.sink().set_station(Arc::downgrade(station));
    }
    let channel = Box::new(MailboxChannel::new(parts.sender, host, steps_in));
    let (table, gone) = (parts.table, end.gone.clone());
    let shared =
        station.with_actor(|actor| share(actor, channel, table, options.clone(), gone, before));
    Ok(Unattended {
        station,
        shared,
        device: parts.device,
        spawner,
    })
}

/// Where a device is turned by hand, and the device.
#[cfg(test)]
type ByHand<B> = (Arc<Station<B>>, Opened);

/// A device without its thread, whose part the caller plays.
#[cfg(test)]
pub(crate) fn by_hand<O: Open>(
    kind: O,
    options: &DeviceOptions,
) -> Result<ByHand<O::Backend>, OpenError> {
    let end = End::default();
    let Unattended {
        station,
        shared,
        device,
        ..
    } = unattended(kind, options, &end, None)?;
    let running = Running {
        device,
        end,
        thread: None,
        closed: false,
    };
    Ok((station, Opened { shared, running }))
}

/// Opens an epoch that runs by itself, after the epoch `before`.
pub(crate) fn open_threads<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: End,
    before: Option<&DeviceShared>,
) -> Result<Opened, OpenError> {
    let Unattended {
        station,
        shared,
        device,
        spawner,
    } = unattended(kind, options, &end, before)?;
    let opened = Arc::new(AtomicBool::new(false));
    let (spin, ending) = (options.settings().spin, end.clone());
    let (told, report) = reply();
    let body = DeviceThread::new(station, spin, ending, opened.clone(), told);
    let thread = spawner.spawn(ThreadRole::Device, "millstream-device", move || body.run())?;
    // Relaxed: whoever drops the body says so under a lock first. Either we read that below, or that lock
    // comes after ours, and whoever drops it reads this.
    opened.store(true, Ordering::Relaxed);
    if thread.never_ran() {
        return Err(OpenError::Thread("the device's was dropped".to_owned()));
    }
    let running = Running {
        device,
        end,
        thread: Some(Closing { thread, report }),
        closed: false,
    };
    Ok(Opened { shared, running })
}

/// Opens an epoch without a thread, after the epoch `before`.
pub(crate) fn open_driven<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: End,
    before: Option<&DeviceShared>,
) -> Result<(Opened, Arc<dyn Driven>), OpenError> {
    // All of it: what a device is made of is moved by value.
    with_stack(|| open_driven_here(kind, options, end, before))
}

fn open_driven_here<O: Open>(
    kind: O,
    options: &DeviceOptions,
    end: End,
    before: Option<&DeviceShared>,
) -> Result<(Opened, Arc<dyn Driven>), OpenError> {
    let parts = parts(kind, options, true, end.gone.clone(), before)?;
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
    let shared =
        channel.with_actor(|actor| share(actor, face, parts.table, options.clone(), gone, before));
    let running = Running {
        device,
        end,
        thread: None,
        closed: false,
    };
    Ok((Opened { shared, running }, Arc::new(channel)))
}

/// What clients of an opened device share.
pub(crate) fn share<B: Backend>(
    actor: &DeviceActor<B>,
    channel: Box<dyn ComputeChannel>,
    table: Arc<Table>,
    options: DeviceOptions,
    gone: Arc<Gone>,
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
