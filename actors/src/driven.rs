//! A device that its owner runs: no thread is started.
//!
//! Messages go through the same mailbox, so both channels keep one total order; they are taken when
//! the owner pumps, when the mailbox is full, or when somebody waits. Whoever waits and finds nothing to
//! do sleeps at a bell (I11): it rings when a step did something, and when the device's gate is woken. User code (host functions,
//! callbacks, destructors) runs on the pumping thread, outside the device's lock, so that it may submit. Where the mailbox is full then,
//! that thread takes what is in it, and runs neither kernels nor other user code meanwhile: user code nests nowhere.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use millstream_protocol::backend::Backend;
use millstream_protocol::channel::{ComputeChannel, Job, Refusal};
use millstream_protocol::device_status::Gone;
use millstream_protocol::marks::{
    is_runtime_thread, mark_runtime_thread, mark_user_code, runs_user_code,
};
use millstream_protocol::message::Task;
use millstream_protocol::report::Report;
use millstream_sync::door::Door;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Edges, Mutex, lock, thread, with_stack};
use millstream_sync::mailbox::{Refused, Reserved, RoomPlace, Sender};
use millstream_sync::thread_flag;

use crate::actor::{DeviceActor, ToDevice};
use crate::gc::Gc;
use crate::host::run_job;

mod attended;
mod closing;
mod inline;
#[cfg(test)]
mod tests;
mod wheel;

use closing::{Attempt, Left};
use inline::{Due, Idle, Inline};
pub use wheel::Driver;
pub(crate) use wheel::Wheel;

/// How long one drive of a waiting thread lets the backend run before it looks for its answer.
const DRIVE_BUDGET: Duration = Duration::from_micros(200);

/// How long whoever waits for a device that works by itself sleeps before looking again.
const NAP: Duration = Duration::from_micros(50);

/// What pumping runs.
struct Core<B: Backend> {
    /// None once the device is closed.
    actor: Option<DeviceActor<B>>,
    /// What the close has left, until it is freed.
    left: Option<Arc<Left<B>>>,
    inline: Inline,
}

impl<B: Backend> Core<B> {
    /// One turn of everything. Says whether anything was done.
    fn turn(&mut self, budget: Duration) -> bool {
        with_stack(|| self.turn_here(budget))
    }

    fn turn_here(&mut self, budget: Duration) -> bool {
        let mut worked = self.take_messages();
        let _mark = mark_runtime_thread();
        let _stepping = Stepping::enter();
        let Self {
            actor,
            left,
            inline,
        } = self;
        let Some(actor) = actor else {
            return left
                .take_if(|left| left.free(false) != Attempt::TooEarly)
                .is_some();
        };
        if !actor.server.is_lost() {
            worked |= actor.server.backend_mut().pump(budget);
        }
        worked |= actor.turn(inline);
        worked | inline.collect()
    }

    /// The device's own turn: it decides, and runs nothing that users gave.
    fn take_messages(&mut self) -> bool {
        let _mark = mark_runtime_thread();
        let _stepping = Stepping::enter();
        let Self { actor, inline, .. } = self;
        actor.as_mut().is_some_and(|actor| actor.turn(inline))
    }
}

/// The direct channel of a driven device.
pub(crate) struct DirectChannel<B: Backend>(Arc<Direct<B>>);

/// What the channel's clones share.
pub(crate) struct Direct<B: Backend> {
    core: Door<Core<B>>,
    idle: Idle,
    sender: Sender<Task>,
    due: Arc<Mutex<VecDeque<Due>>>,
    gone: Arc<Gone>,
    edges: Arc<Edges>,
    /// It was closed while a thread was inside: who leaves finishes that.
    close_pending: AtomicBool,
    /// A thread found no way to learn when the next task is to be given up: who leaves rings.
    deadline_wanted: AtomicBool,
}

impl<B: Backend> Clone for DirectChannel<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> Deref for DirectChannel<B> {
    type Target = Direct<B>;

    fn deref(&self) -> &Direct<B> {
        &self.0
    }
}

impl<B: Backend> DirectChannel<B> {
    pub(crate) fn new(
        actor: DeviceActor<B>,
        sender: Sender<Task>,
        device: ToDevice,
        gc: Gc,
        gone: Arc<Gone>,
        edges: Arc<Edges>,
    ) -> Self {
        let due = Arc::new(Mutex::new(VecDeque::new()));
        let idle = Idle::new(device.gate.clone());
        let inline = Inline {
            gc,
            due: due.clone(),
            device,
        };
        let core = Door::new(Core {
            actor: Some(actor),
            left: None,
            inline,
        });
        Self(Arc::new(Direct {
            core,
            idle,
            sender,
            due,
            gone,
            edges,
            close_pending: AtomicBool::new(false),
            deadline_wanted: AtomicBool::new(false),
        }))
    }
}

impl<B: Backend> Direct<B> {
    /// Calls `f` with the actor of a device that was just opened.
    pub(crate) fn with_actor<R>(&self, f: impl FnOnce(&DeviceActor<B>) -> R) -> R {
        let core = self.core.enter();
        match &core.actor {
            Some(actor) => f(actor),
            None => unreachable!("a device is closed only after it was opened"),
        }
    }

    /// When a task that waits is to be given up. A thread that is inside rings when it leaves.
    fn next_deadline(&self) -> Option<Instant> {
        let core = self.core.look().or_else(|| {
            // Relaxed: the door orders it. Either who is inside finds the door tried, and then this, or we find that it has left.
            self.deadline_wanted.store(true, Ordering::Relaxed);
            self.core.try_enter()
        })?;
        let next = core
            .actor
            .as_ref()
            .and_then(|actor| actor.server.next_deadline());
        if self.core.leave(core) {
            self.idle.bell.ring();
        }
        next
    }

    /// Does the device work by itself, so that nothing rings when it has done what is waited for? Where somebody is
    /// inside and cannot be asked, it may.
    fn is_under_way(&self) -> bool {
        if !B::WORKS_BY_ITSELF {
            return false;
        }
        let Some(mut core) = self.core.look() else {
            return true;
        };
        let under_way = match &mut core.actor {
            Some(actor) => !actor.server.is_lost() && actor.server.backend_mut().is_under_way(),
            None => core.left.as_ref().is_some_and(|left| left.is_under_way()),
        };
        // Who found the device busy meanwhile is owed a look.
        if self.core.leave(core) {
            self.idle.bell.ring();
            return true;
        }
        under_way
    }

    fn reserve_now(&self) -> Result<Reserved<Task>, Refusal> {
        // Before the slot is taken, which is what puts messages of threads in order: a model must see both orders.
        self.edges.release();
        self.sender.try_reserve().map_err(|refused| match refused {
            Refused::Full => Refusal::Full,
            Refused::Closed => Refusal::Closed,
        })
    }

    /// One turn of everything, and one more for each who found the device busy. Says whether anything was
    /// done. Where somebody else is inside, it is left to them, unless `patient`.
    fn step_as(&self, mut budget: Duration, patient: bool) -> bool {
        let for_user_code = budget.max(DRIVE_BUDGET);
        let (worked, _) = self.turn_as(patient, |core| {
            core.turn(std::mem::replace(&mut budget, Duration::ZERO))
        });
        worked | self.run_user_code(Some(for_user_code))
    }

    /// Turns by `turn`, and once more for each who found the device busy. Says whether anything was done, and whether
    /// anybody found it busy.
    fn turn_as(&self, patient: bool, mut turn: impl FnMut(&mut Core<B>) -> bool) -> (bool, bool) {
        let (mut worked, mut again) = (false, false);
        self.edges.acquire();
        loop {
            let core = match patient {
                true => Some(self.core.enter()),
                false => self.core.try_enter(),
            };
            let Some(mut core) = core else { break };
            worked |= turn(&mut core);
            if !self.core.leave(core) {
                break;
            }
            again = true;
        }
        if worked {
            self.edges.pass_on();
        }
        // Relaxed: who set these has tried the door afterwards.
        let is_wanted = again && self.deadline_wanted.swap(false, Ordering::Relaxed);
        if worked || is_wanted {
            self.idle.bell.ring();
        }
        if again && self.close_pending.swap(false, Ordering::Relaxed) {
            self.shut_down(None);
        }
        (worked, again)
    }

    /// Makes room in the mailbox by a step, on behalf of a caller that has found it full and is not inside the device. Says
    /// whether anything was done. User code runs no other user code meanwhile, which would fill the mailbox and come back here.
    fn make_room(&self) -> bool {
        if !runs_user_code() {
            return self.step(DRIVE_BUDGET);
        }
        let (worked, again) = self.turn_as(false, |core| with_stack(|| core.take_messages()));
        if again && !worked {
            // They are owed a whole step.
            self.idle.bell.ring();
        }
        worked
    }

    /// Sleeps, after a `step` that did nothing, until there may be something to do: see [`ComputeChannel::rest`].
    fn rest_after(
        &self,
        step: impl Fn() -> bool,
        deadline: Option<Instant>,
        ready: &mut dyn FnMut(&Waker) -> bool,
    ) {
        let Idle {
            bell, waker, gate, ..
        } = &self.idle;
        // What happens from here on rings.
        let heard = bell.heard();
        gate.arm(waker);
        if !step() && !ready(waker) {
            // A task's own deadline is something to do as well.
            let until = deadline.into_iter().chain(self.next_deadline());
            let soon = self.is_under_way().then(|| Instant::now() + NAP);
            let until = until.chain(soon).min();
            bell.sleep(heard, until);
        }
    }

    /// Runs the user code that has become due, outside the device: one piece, and more within the budget.
    fn run_user_code(&self, budget: Option<Duration>) -> bool {
        let _mark = mark_user_code();
        let (mut worked, mut until) = (false, None);
        while let Some(due) = { lock(&self.due).pop_front() } {
            if !worked {
                // Only where there is something to run: a step of a device without user code looks at no clock.
                until = budget.and_then(|budget| Instant::now().checked_add(budget));
            }
            due.run();
            worked = true;
            if until.is_some_and(thread::is_past) {
                break;
            }
        }
        if worked {
            self.edges.pass_on();
            self.idle.bell.ring();
        }
        worked
    }

    fn step(&self, budget: Duration) -> bool {
        self.step_as(budget, false)
    }
}

impl<B: Backend> ComputeChannel for DirectChannel<B> {
    fn reserve(&self) -> Result<Reserved<Task>, Refusal> {
        let reserved = loop {
            match self.reserve_now() {
                // Room is made by driving.
                Err(Refusal::Full) if Inside::get() => break Err(Refusal::NoWait),
                Err(Refusal::Full) if self.make_room() => {}
                // Another thread is inside, and will take what is there. User code may wait for that: who is inside never
                // waits, neither for room nor for user code (decision 32).
                Err(Refusal::Full) if is_runtime_thread() && !runs_user_code() => {
                    break Err(Refusal::NoWait);
                }
                Err(Refusal::Full) => {
                    let mut outcome = Err(Refusal::Full);
                    self.rest_after(|| self.make_room(), None, &mut |_| {
                        outcome = self.reserve_now();
                        !matches!(outcome, Err(Refusal::Full))
                    });
                    if !matches!(outcome, Err(Refusal::Full)) {
                        break outcome;
                    }
                }
                outcome => break outcome,
            }
        };
        if reserved.is_err() {
            self.settle();
        }
        reserved
    }

    fn try_reserve(&self) -> Result<Reserved<Task>, Refusal> {
        let mut reserved = self.reserve_now();
        // To come again later helps user code only where another thread pumps.
        let is_alone = runs_user_code() && !Inside::get();
        if matches!(reserved, Err(Refusal::Full)) && is_alone && self.make_room() {
            reserved = self.reserve_now();
        }
        if reserved.is_err() {
            self.settle();
        }
        reserved
    }

    unsafe fn commit(&self, slot: Reserved<Task>) {
        // SAFETY: the caller's promise.
        unsafe { self.sender.commit(slot, || false) };
        self.settle();
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

    fn is_driven(&self) -> bool {
        true
    }

    fn drive(&self) -> Option<bool> {
        let worked = self.step(DRIVE_BUDGET);
        self.settle();
        Some(worked)
    }

    fn rest(&self, deadline: Option<Instant>, ready: &mut dyn FnMut(&Waker) -> bool) {
        self.rest_after(|| self.step(DRIVE_BUDGET), deadline, ready);
    }

    fn execute(&self, job: Job) {
        if self.gone.has_no_callbacks() {
            // Nobody pumps any more: the caller is as good a thread as any.
            return run_job(job);
        }
        lock(&self.due).push_back(Due::Run(job));
        // The caller need not drive the device: it wakes the threads that do.
        self.idle.bell.ring();
        // A close may have run the last jobs already. Either it found this one, or, after it had the list, we find its word.
        if self.gone.has_no_callbacks() {
            self.run_user_code(None);
        }
    }

    fn awaited(&self) {
        self.idle.attend();
        self.settle();
    }

    fn looked(&self) {
        self.edges.acquire();
    }
}

thread_flag! {
    /// Is the thread inside the device, under its lock?
    Inside
}

/// Marks the thread as inside the device.
struct Stepping;

impl Stepping {
    fn enter() -> Self {
        Inside::set(true);
        Self
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        Inside::set(false);
    }
}

/// What a driver needs of its device, whatever the backend.
pub(crate) trait Driven: Send + Sync {
    fn step(&self, budget: Duration) -> bool;

    /// Does the device work by itself at what it has been given?
    fn is_under_way(&self) -> bool;

    /// Closes the device: finishes what can be finished until the deadline, answers everything, and says
    /// what was left. To be called outside the device. Says nothing where it has been closed already.
    fn shut_down(&self, deadline: Option<Instant>) -> Report;

    #[cfg(test)]
    fn idle(&self) -> &Idle;
}

impl<B: Backend> Driven for DirectChannel<B> {
    fn step(&self, budget: Duration) -> bool {
        Direct::step(self, budget)
    }

    fn is_under_way(&self) -> bool {
        Direct::is_under_way(self)
    }

    fn shut_down(&self, deadline: Option<Instant>) -> Report {
        Direct::shut_down(self, deadline)
    }

    #[cfg(test)]
    fn idle(&self) -> &Idle {
        &self.idle
    }
}
