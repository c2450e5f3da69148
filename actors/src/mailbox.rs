//! A device that runs by itself: its thread, and the mailbox as a channel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::thread::ThreadId;
use std::time::Instant;

use millstream_protocol::backend::Backend;
use millstream_protocol::channel::{ComputeChannel, Job, Refusal, StepIn};
use millstream_protocol::deferred_drop::Leaving;
use millstream_protocol::device_status::Gone;
use millstream_protocol::health::Recovery;
use millstream_protocol::marks::{is_runtime_thread, mark_runtime_thread, runs_user_code};
use millstream_protocol::message::Task;
use millstream_protocol::report::Report;
use millstream_protocol::vitals::Vitals;
use millstream_server::points::Points;
use millstream_sync::facade::{Mutex, SpinPolicy, Spinner, lock, thread};
use millstream_sync::mailbox::{Refused, Reserved, RoomPlace, Sender};
use millstream_sync::reply::ReplySender;

use crate::actor::DeviceActor;
use crate::effects::Threads;
use crate::gc::{Handover, Then};
use crate::host::{HostThreads, PATIENCE, end_panic};
use crate::station::{Rest, Station};

/// The mailbox as a channel.
pub(crate) struct MailboxChannel {
    sender: Sender<Task>,
    host: Arc<HostThreads>,
    /// The device, if callers may turn it.
    station: Option<Arc<dyn StepIn>>,
}

impl MailboxChannel {
    pub(crate) fn new(
        sender: Sender<Task>,
        host: Arc<HostThreads>,
        station: Option<Arc<dyn StepIn>>,
    ) -> Self {
        Self {
            sender,
            host,
            station,
        }
    }
}

impl ComputeChannel for MailboxChannel {
    #[inline]
    fn reserve(&self) -> Result<Reserved<Task>, Refusal> {
        if is_runtime_thread() && !runs_user_code() {
            // The device may need this thread to make the room.
            return self.try_reserve().map_err(|refusal| match refusal {
                Refusal::Full => Refusal::NoWait,
                other => other,
            });
        }
        // User code may wait here: the device thread makes the room, and never waits for user code (decision 32).
        self.sender.reserve().map_err(|_closed| Refusal::Closed)
    }

    #[inline]
    fn try_reserve(&self) -> Result<Reserved<Task>, Refusal> {
        self.sender.try_reserve().map_err(|refused| match refused {
            Refused::Full => Refusal::Full,
            Refused::Closed => Refusal::Closed,
        })
    }

    #[inline]
    unsafe fn commit(&self, slot: Reserved<Task>) {
        let station = self.station.as_deref();
        let instead = || station.is_some_and(StepIn::step_in_for_a_wake);
        // SAFETY: the caller's promise.
        unsafe { self.sender.commit(slot, instead) };
    }

    fn poll_room(&self, place: &mut RoomPlace, waker: &Waker) -> Poll<Result<(), Refusal>> {
        let polled = self.sender.poll_room(place, waker);
        polled.map_err(|_closed| Refusal::Closed)
    }

    fn leave_room(&self, place: RoomPlace) {
        self.sender.leave_room(place);
    }

    fn depth(&self) -> usize {
        self.sender.depth()
    }

    fn drive(&self) -> Option<bool> {
        if let Some(station) = &self.station {
            station.step_in_to_wait();
        }
        None
    }

    fn waits(&self) {
        if let Some(station) = &self.station {
            station.waits();
        }
    }

    fn leaves_waker(&self) {
        if let Some(station) = &self.station {
            station.leaves_waker();
        }
    }

    fn rest(&self, _: Option<Instant>, _: &mut dyn FnMut(&Waker) -> bool) {}

    fn execute(&self, job: Job) {
        self.host.execute(job);
    }
}

/// How a device ends, shared between who closes it and its thread.
#[derive(Clone, Default)]
pub(crate) struct End {
    /// When a closing device gives up.
    pub(crate) deadline: Deadline,
    /// The thread that closes the device.
    pub(crate) closer: Arc<Mutex<Option<ThreadId>>>,
    /// How those who wait for room are told.
    pub(crate) gone: Arc<Gone>,
}

impl End {
    /// The end of an epoch of the device with these vitals.
    pub(crate) fn of(epoch: u64, vitals: &Arc<Vitals>) -> Self {
        Self {
            deadline: Deadline::default(),
            closer: Arc::default(),
            gone: Arc::new(Gone::new(epoch, vitals.clone())),
        }
    }
}

/// When a closing device gives up.
pub(crate) type Deadline = Arc<Mutex<Option<Instant>>>;

/// The device thread: turns while there is something to do, else spins briefly, then sleeps.
pub(crate) struct DeviceThread<B: Backend> {
    station: Arc<Station<B>>,
    spin: SpinPolicy,
    end: End,
    opened: Arc<AtomicBool>,
    report: Option<ReplySender<Report>>,
}

impl<B: Backend> DeviceThread<B> {
    /// The thread of a device that is being opened; `opened` is set once it is. It tells `report` what a close has left.
    pub(crate) fn new(
        station: Arc<Station<B>>,
        spin: SpinPolicy,
        end: End,
        opened: Arc<AtomicBool>,
        report: ReplySender<Report>,
    ) -> Self {
        Self {
            station,
            spin,
            end,
            opened,
            report: Some(report),
        }
    }

    pub(crate) fn run(mut self) {
        let _mark = mark_runtime_thread();
        // A panic of ours or of a backend must not leave anybody waiting (I5).
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            turns(&self.station, &self.spin, &self.end.deadline)
        }));
        if outcome.is_err() {
            // Nothing says that the device itself is gone: it can be opened again.
            self.end.gone.set_lost(Recovery::SameProcess);
        }
        let Some((actor, threads)) = self.station.take() else {
            return;
        };
        let (report, left) = shut_down(actor, threads, matches!(outcome, Ok(true)), &self.end);
        if let Some(told) = self.report.take() {
            told.send(report);
        }
        if let Some(left) = left {
            left.end();
        }
    }
}

impl<B: Backend> Drop for DeviceThread<B> {
    /// If it never got a thread. Nothing was admitted then, unless a caller did it, so everything can be freed.
    fn drop(&mut self) {
        let Some((actor, mut threads)) = self.station.take() else {
            return;
        };
        let deadline = Instant::now() + PATIENCE;
        // Relaxed: see `open_threads`.
        if self.opened.load(Ordering::Relaxed) {
            // Whoever had taken it let it fall. Who has sent something is answered (I5).
            self.end.gone.set_lost(Recovery::SameProcess);
            lock(&self.end.deadline).get_or_insert(deadline);
            let (_, left) = shut_down(actor, threads, true, &self.end);
            if let Some(left) = left {
                left.leak();
            }
        } else {
            drop(actor);
            threads.gc.join(deadline);
            threads.host.join(deadline);
        }
    }
}

/// Turns until the device is closed; says whether it drained.
fn turns<B: Backend>(station: &Station<B>, spin: &SpinPolicy, deadline: &Deadline) -> bool {
    let mut spinner = Spinner::new(*spin);
    station.gate.attach();
    loop {
        // Set before we are told to close, and told anew whenever it changes.
        let mut close_until = None;
        let rest = station.look_around(|| {
            close_until = *lock(deadline);
            close_until
        });
        match rest {
            Rest::Finished => return true,
            Rest::Busy => {}
            Rest::Idle(until) => station.idle(&mut spinner, until),
        }
        if close_until.is_some_and(thread::is_past) {
            return false;
        }
    }
}

/// Fails what is left, frees what can be freed, ends the threads. What has not ended by then is handed back beside the report.
fn shut_down<B: Backend>(
    mut actor: DeviceActor<B>,
    mut threads: Threads,
    drained: bool,
    end: &End,
) -> (Report, Option<Left<B>>) {
    if actor.server.is_lost() {
        return (shut_down_lost(actor, threads, end), None);
    }
    let mut report = Report::default();
    report.drained = drained;
    report.slices_held = actor.server.live_slices();
    report.tasks_left = actor.abandon();
    end.gone.end_credits();
    end.gone.end_callbacks();
    let bytes = actor.server.reserved_bytes();
    let left = if drained {
        report.bytes_freed = bytes;
        actor.server.free_pages();
        drop(actor);
        let deadline = lock(&end.deadline).unwrap_or_else(Instant::now);
        threads.gc.join(deadline);
        threads.host.join(deadline);
        // All but this one, which ends now.
        report.threads_left = threads.spawner.alive().saturating_sub(1);
        report.values_parked = threads.gc.parked();
        None
    } else {
        report.bytes_left = bytes;
        report.threads_left = threads.spawner.alive();
        report.values_parked = threads.gc.parked();
        let is_closer = *lock(&end.closer) == Some(std::thread::current().id());
        let left = Left { actor, threads };
        match is_closer {
            // No other thread runs the device: the close would wait for what does not end.
            true => {
                left.leak();
                None
            }
            false => Some(left),
        }
    };
    end.gone.set_closed();
    (report, left)
}

/// A closed device of which something still runs: user code, a guard, or tasks that cannot be interrupted.
struct Left<B: Backend> {
    actor: DeviceActor<B>,
    threads: Threads,
}

impl<B: Backend> Left<B> {
    /// Waits until it has ended, and then frees the memory and ends the threads. Blocks for as long as that takes.
    fn end(self) {
        let Self { mut actor, threads } = self;
        actor.wait_for_user_code(&threads.device.gate);
        if actor.server.busy_queues() == 0 {
            actor.server.free_pages();
        }
        // It waits for tasks in flight. What a user's value panics with ends here.
        end_panic(catch_unwind(AssertUnwindSafe(|| drop(actor))));
        // Callers that still have the channel keep these threads: they are told to end, and do once they are idle.
        threads.host.join(Instant::now());
        drop(threads);
    }

    /// Leaves it to work that cannot be interrupted.
    fn leak(self) {
        self.actor.leak();
        std::mem::forget(self.threads);
    }
}

/// Ends the threads of a lost device, whose pages nobody frees.
fn shut_down_lost<B: Backend>(actor: DeviceActor<B>, mut threads: Threads, end: &End) -> Report {
    let (mut report, server) = actor.end_lost();
    if let Some(server) = server {
        // It may have to wait for what it runs: not here, and not longer than there is time.
        let handover = Handover {
            after: Points::new(),
            then: Then::Drop(Leaving::unawaited(Box::new(server))),
            since_ns: 0,
        };
        if let Err(full) = threads.gc.hand_over(handover) {
            std::mem::forget(full);
        }
    }
    let deadline = lock(&end.deadline).unwrap_or_else(Instant::now);
    end.gone.end_callbacks();
    threads.gc.join(deadline);
    threads.host.join(deadline);
    // All but this one, which ends now.
    report.threads_left = threads.spawner.alive().saturating_sub(1);
    report.values_parked = threads.gc.parked();
    report
}
