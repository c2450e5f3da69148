//! A device with threads: its device thread, and the mailbox as its channel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::thread::ThreadId;
use std::time::Instant;

use millstream_protocol::backend::Backend;
use millstream_protocol::channel::{ComputeChannel, Helper, Job, Refusal, StepIn};
use millstream_protocol::deferred_drop::DeferredDrop;
use millstream_protocol::device_status::DeviceStatus;
use millstream_protocol::health::Recovery;
use millstream_protocol::health_state::HealthState;
use millstream_protocol::marks::{is_runtime_thread, mark_runtime_thread, runs_user_code};
use millstream_protocol::message::Task;
use millstream_protocol::report::Report;
use millstream_server::points::Points;
use millstream_sync::facade::{Mutex, SpinPolicy, Spinner, lock, thread};
use millstream_sync::mailbox::{Refused, Reserved, RoomPlace, Sender};
use millstream_sync::reply::ReplySender;

use crate::actor::DeviceActor;
use crate::effects::Threads;
use crate::gc::{Action, Handover, drop_value};
use crate::host::{HostThreads, JOIN_NAP, PATIENCE, discard_panic};
use crate::shared_actor::{Rest, SharedActor};

/// The channel of a device with threads.
pub(crate) struct MailboxChannel {
    sender: Sender<Task>,
    host: Arc<HostThreads>,
    shared_actor: Arc<dyn StepIn>,
    /// Set before the first helper is added.
    has_helpers: AtomicBool,
    helpers: std::sync::Mutex<Vec<Weak<Helper>>>,
}

impl MailboxChannel {
    pub(crate) fn new(
        sender: Sender<Task>,
        host: Arc<HostThreads>,
        shared_actor: Arc<dyn StepIn>,
    ) -> Self {
        Self {
            sender,
            host,
            shared_actor,
            has_helpers: AtomicBool::new(false),
            helpers: std::sync::Mutex::default(),
        }
    }

    fn helpers(&self) -> MutexGuard<'_, Vec<Weak<Helper>>> {
        self.helpers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ComputeChannel for MailboxChannel {
    #[inline]
    fn reserve(&self) -> Result<Reserved<Task>, Refusal> {
        if is_runtime_thread() && !runs_user_code() {
            // The device may need this thread to make room, so it must not wait.
            return self.try_reserve().map_err(|refusal| match refusal {
                Refusal::Full => Refusal::NoWait,
                other => other,
            });
        }
        // User code may wait here: the device thread makes room and never waits for user code (decision 29).
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
        let instead = || self.shared_actor.step_in_for_a_wake();
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
        self.shared_actor.step_in_to_wait();
        None
    }

    fn waits(&self) {
        self.shared_actor.waits();
    }

    fn add_helper(&self, helper: Weak<Helper>) -> bool {
        let mut helpers = self.helpers();
        helpers.retain(|helper| helper.strong_count() > 0);
        helpers.push(helper);
        // Relaxed: a thread that misses it sleeps.
        self.has_helpers.store(true, Ordering::Relaxed);
        true
    }

    fn help(&self, done: &mut dyn FnMut() -> bool) {
        // Relaxed: see `add_helper`.
        if !self.has_helpers.load(Ordering::Relaxed) {
            return;
        }
        let mut is_done = false;
        for index in 0.. {
            // The lock is not held while a helper runs.
            let helper = self.helpers().get(index).cloned();
            let Some(helper) = helper else { return };
            if let Some(helper) = helper.upgrade() {
                helper(&mut || {
                    is_done = done();
                    is_done
                });
            }
            if is_done {
                return;
            }
        }
    }

    fn leaves_waker(&self) {
        self.shared_actor.leaves_waker();
    }

    fn sends_code(&self) {
        self.shared_actor.sends_code();
    }

    fn rest(&self, _: Option<Instant>, _: &mut dyn FnMut(&Waker) -> bool) {}

    fn execute(&self, job: Job) {
        self.host.execute(job);
    }
}

/// How an epoch ends. Shared by the closing thread and the device thread.
#[derive(Clone, Default)]
pub(crate) struct EpochEnd {
    /// When a closing device gives up.
    pub(crate) deadline: Deadline,
    /// The thread that closes the device.
    pub(crate) closer: Arc<Mutex<Option<ThreadId>>>,
    /// Ends the waits for room, and holds the error that ended the epoch.
    pub(crate) gone: Arc<DeviceStatus>,
}

impl EpochEnd {
    /// Creates the end of an epoch of the device with this health.
    pub(crate) fn of(epoch: u64, health_state: &Arc<HealthState>) -> Self {
        Self {
            deadline: Deadline::default(),
            closer: Arc::default(),
            gone: Arc::new(DeviceStatus::new(epoch, health_state.clone())),
        }
    }
}

/// The time at which a closing device gives up.
pub(crate) type Deadline = Arc<Mutex<Option<Instant>>>;

/// The body of the device thread: turns while there is work, then spins briefly, then sleeps.
pub(crate) struct DeviceThread<B: Backend> {
    shared_actor: Arc<SharedActor<B>>,
    spin: SpinPolicy,
    end: EpochEnd,
    opened: Arc<AtomicBool>,
    report: Option<ReplySender<Report>>,
}

impl<B: Backend> DeviceThread<B> {
    /// Creates the thread of a device that is being opened; `opened` is set once it is. A close sends its report to
    /// `report`.
    pub(crate) fn new(
        shared_actor: Arc<SharedActor<B>>,
        spin: SpinPolicy,
        end: EpochEnd,
        opened: Arc<AtomicBool>,
        report: ReplySender<Report>,
    ) -> Self {
        Self {
            shared_actor,
            spin,
            end,
            opened,
            report: Some(report),
        }
    }

    pub(crate) fn run(mut self) {
        let _mark = mark_runtime_thread();
        // A panic of the runtime or of a backend must not leave a caller waiting (I5).
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run_turns(&self.shared_actor, &self.spin, &self.end.deadline)
        }));
        if outcome.is_err() {
            // The panic does not mean that the device is gone, so it can be reopened.
            self.end.gone.set_lost(Recovery::SameProcess);
        }
        let Some((actor, threads)) = self.shared_actor.take() else {
            return;
        };
        let (report, remainder) = shut_down(actor, threads, matches!(outcome, Ok(true)), &self.end);
        if let Some(sender) = self.report.take() {
            sender.send(report);
        }
        if let Some(remainder) = remainder {
            remainder.end();
        }
    }
}

impl<B: Backend> Drop for DeviceThread<B> {
    /// Handles a body that never got a thread. Nothing was admitted then, unless by a caller, so everything can be
    /// freed.
    fn drop(&mut self) {
        let Some((actor, mut threads)) = self.shared_actor.take() else {
            return;
        };
        let deadline = Instant::now() + PATIENCE;
        // Relaxed: see `open_threads`.
        if self.opened.load(Ordering::Relaxed) {
            // The application dropped the body after accepting it. Answer what was submitted (I5).
            self.end.gone.set_lost(Recovery::SameProcess);
            lock(&self.end.deadline).get_or_insert(deadline);
            let (_, remainder) = shut_down(actor, threads, true, &self.end);
            if let Some(remainder) = remainder {
                remainder.leak();
            }
        } else {
            drop(actor);
            threads.gc.join(deadline);
            threads.host.join(deadline);
        }
    }
}

/// Turns the device until it is closed. Returns `true` if it drained.
fn run_turns<B: Backend>(
    shared_actor: &SharedActor<B>,
    spin: &SpinPolicy,
    deadline: &Deadline,
) -> bool {
    let mut spinner = Spinner::new(*spin);
    shared_actor.gate.attach();
    loop {
        // The deadline is stored before the close is sent, and each change of it sends the close again.
        let mut close_until = None;
        let rest = shared_actor.look_around(|| {
            close_until = *lock(deadline);
            close_until
        });
        match rest {
            Rest::Finished => return true,
            Rest::Busy => {}
            Rest::Idle(until) => shared_actor.idle(&mut spinner, until),
        }
        if close_until.is_some_and(thread::is_past) {
            return false;
        }
    }
}

/// Fails what is left, frees what can be freed, and ends the threads. Returns the report, and what is still in use.
fn shut_down<B: Backend>(
    mut actor: DeviceActor<B>,
    mut threads: Threads,
    drained: bool,
    end: &EpochEnd,
) -> (Report, Option<Remainder<B>>) {
    if actor.server.is_lost() {
        return (shut_down_lost(actor, threads, end), None);
    }
    let mut report = Report::default();
    report.drained = drained;
    report.slices_held = actor.server.live_slices();
    let (left, values) = actor.abandon();
    report.tasks_left = left;
    if !values.is_empty() {
        // One job: if a destructor blocks, other user code still has threads.
        let job = move || values.into_iter().for_each(drop_value);
        threads.host.execute(Box::new(job));
    }
    end.gone.end_credits();
    end.gone.end_callbacks();
    let bytes = actor.server.reserved_bytes();
    let remainder = if drained {
        report.bytes_freed = bytes;
        actor.server.free_pages();
        drop(actor);
        let deadline = lock(&end.deadline).unwrap_or_else(Instant::now);
        threads.gc.join(deadline);
        threads.host.join(deadline);
        // All but this thread, which ends now. Those of the backend end once they have released what its drop left.
        let others = || threads.spawner.alive().saturating_sub(1);
        while others() > 0 && !thread::is_past(deadline) {
            thread::sleep(JOIN_NAP);
        }
        report.threads_left = others();
        report.values_parked = threads.gc.parked();
        None
    } else {
        report.bytes_left = bytes;
        report.threads_left = threads.spawner.alive();
        report.values_parked = threads.gc.parked();
        let is_closer = *lock(&end.closer) == Some(std::thread::current().id());
        let remainder = Remainder { actor, threads };
        match is_closer {
            // No other thread runs the device, so a close that waited here would never end.
            true => {
                remainder.leak();
                None
            }
            false => Some(remainder),
        }
    };
    end.gone.set_closed();
    (report, remainder)
}

/// A closed device of which something still runs: user code, a guard, or tasks that cannot be interrupted.
struct Remainder<B: Backend> {
    actor: DeviceActor<B>,
    threads: Threads,
}

impl<B: Backend> Remainder<B> {
    /// Waits until it has ended, then frees the memory and ends the threads. Blocks for as long as that takes.
    fn end(self) {
        let Self { mut actor, threads } = self;
        actor.wait_for_user_code(&threads.device.gate);
        if actor.server.busy_queues() == 0 {
            actor.server.free_pages();
        }
        // The drop waits for tasks in flight. A panic of a user's destructor ends here.
        discard_panic(catch_unwind(AssertUnwindSafe(|| drop(actor))));
        // Callers that still have the channel keep these threads alive: they end once they are idle.
        threads.host.join(Instant::now());
        drop(threads);
    }

    /// Leaks it to work that cannot be interrupted.
    fn leak(self) {
        self.actor.leak();
        std::mem::forget(self.threads);
    }
}

/// Ends the threads of a lost device, whose pages are not freed.
fn shut_down_lost<B: Backend>(
    actor: DeviceActor<B>,
    mut threads: Threads,
    end: &EpochEnd,
) -> Report {
    let (mut report, server) = actor.end_lost();
    if let Some(server) = server {
        // Its drop may wait for running tasks: not on this thread, and not beyond the deadline.
        let handover = Handover {
            after: Points::new(),
            action: Action::Drop(DeferredDrop::unawaited(Box::new(server))),
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
    // All but this thread, which ends now.
    report.threads_left = threads.spawner.alive().saturating_sub(1);
    report.values_parked = threads.gc.parked();
    report
}
