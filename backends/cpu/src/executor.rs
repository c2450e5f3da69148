//! The place of a queue's worker: the thread inside runs the queue's tasks, in their order.
//!
//! That thread is the worker, as long as there are tasks; it leaves before it sleeps. While it sleeps, a thread that has
//! just issued tasks may run them itself ([`Post::settle`]), as long as they are small and not users' code: to wake the
//! worker costs that thread more than such a task. For the remaining tasks it wakes the worker. Or, if it is about to wait
//! for them, it leaves the device first, and then runs larger ones as well ([`Post::run_held`]).

use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::backend::Large;
use millstream_protocol::marks::mark_runtime_thread;
use millstream_sync::door::Door;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::gate::Gate;

use crate::entry::{Entry, Op, Source};
use crate::kernel::bytes_of;
use crate::queue::Inbox;
use crate::runner::Runner;
use crate::shared::Shared;

/// What a thread that is not a worker may take upon itself at once: about what it takes longer to be answered if it
/// wakes the worker, which costs itself a quarter of this.
const SMALL_NS: u64 = 20_000;

/// A task takes at least so long: bounds how many are run at once.
const TASK_NS: u64 = 200;

/// What it takes to run a queue.
pub(crate) struct Lane {
    pub(crate) inbox: Inbox,
    pub(crate) runner: Runner,
}

/// The place of a queue's worker.
pub(crate) struct Executor {
    pub(crate) door: Door<Lane>,
    /// Where the worker sleeps.
    pub(crate) gate: Arc<Gate>,
    /// Tasks are left for which the worker has not been woken: whoever takes this mark runs them, or wakes it.
    has_held_tasks: AtomicBool,
}

impl Executor {
    pub(crate) fn new(inbox: Inbox, runner: Runner) -> Arc<Self> {
        Arc::new(Self {
            gate: inbox.gate().clone(),
            door: Door::new(Lane { inbox, runner }),
            has_held_tasks: AtomicBool::new(false),
        })
    }

    /// Runs what is small of what lies in the queue, if its worker sleeps. Wakes the worker for the rest, or leaves that to
    /// [`Post::run_held`]. Says whether anything ran.
    pub(crate) fn run_small(&self, shared: &Shared, large: Large) -> bool {
        let ran = self.run_within(shared, SMALL_NS);
        match large {
            // Release: who takes the mark finds the tasks.
            Large::Hold if ran.has_more => self.has_held_tasks.store(true, Ordering::Release),
            _ if ran.has_more => self.gate.wake(),
            _ => {}
        }
        ran.ran_any
    }

    /// Runs what [`Post::settle`] has left, as long as it takes no longer than `budget`, and wakes the worker for the rest.
    pub(crate) fn run_held(&self, shared: &Shared, budget: Duration) {
        // A look first: the mark is seldom set. Acquire: pairs with the store.
        if !self.has_held_tasks.load(Ordering::Relaxed)
            || !self.has_held_tasks.swap(false, Ordering::Acquire)
        {
            return;
        }
        let budget = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
        if self.run_within(shared, budget).has_more {
            self.gate.wake();
        }
    }

    /// Runs what lies in the queue, if its worker sleeps, as long as it takes no longer than this.
    fn run_within(&self, shared: &Shared, ns: u64) -> Ran {
        // A thread that is inside looks around once more.
        let Some(mut lane) = self.door.try_enter() else {
            return Ran::default();
        };
        let wake = WakeOnUnwind(self);
        let ran_any = lane.run_within(shared, ns);
        let has_more = lane.inbox.has_next();
        let has_more = self.door.leave(lane) || has_more;
        std::mem::forget(wake);
        Ran { ran_any, has_more }
    }
}

/// What a thread that was inside did.
#[derive(Default)]
struct Ran {
    /// Did it run anything?
    ran_any: bool,
    /// Tasks are left, or were added meanwhile.
    has_more: bool,
}

/// A panic of ours leaves the queue to its worker.
struct WakeOnUnwind<'a>(&'a Executor);

impl Drop for WakeOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.gate.wake();
    }
}

impl Lane {
    /// Runs the next task, waiting for what comes before it, and says whether there was one.
    pub(crate) fn run_next(&mut self, shared: &Shared) -> bool {
        let Self { inbox, runner } = self;
        inbox
            .next_with(|entry| step(shared, runner, entry))
            .is_some()
    }

    /// Runs tasks as long as they are expected to take no longer than this all together, and wait for nothing.
    fn run_within(&mut self, shared: &Shared, ns: u64) -> bool {
        let _mark = mark_runtime_thread();
        let _assignment = self.runner.assign_thread_scoped();
        let (mut left_ns, mut ran) = (ns, false);
        while !shared.is_stopping()
            && let Some(Some(rest)) = self
                .inbox
                .peek_with(|entry| left_ns.checked_sub(expected_ns(shared, entry)?))
        {
            left_ns = rest;
            ran |= self.run_next(shared);
        }
        self.runner.pause();
        ran
    }
}

/// One entry. A wait that ends without its point means that the device goes away, and so this queue.
fn step(shared: &Shared, runner: &mut Runner, entry: &mut Entry) {
    let Op::Wait(point) = entry.op else {
        return runner.run(entry);
    };
    if shared.has_passed(point) {
        return;
    }
    runner.pause();
    let timeline = &shared.timelines[point.queue.index()];
    if timeline.wait(point.cursor, &shared.spin).is_err() {
        shared.stop();
    }
}

/// What the task is expected to take; none, if that is not known, if it has to wait, and of users' code.
fn expected_ns(shared: &Shared, entry: &Entry) -> Option<u64> {
    // A byte takes less than a nanosecond, even one by one.
    let ns = match &entry.op {
        Op::Mark | Op::Forget => 0,
        Op::Wait(point) => return shared.has_passed(*point).then_some(0),
        Op::Launch { kernel, .. } => kernel.expected_ns(entry.views())?,
        // Owned bytes may be a type of the user's.
        Op::CopyIn {
            source: Source::Owned(_),
            ..
        }
        | Op::Custom { .. } => return None,
        Op::CopyIn { .. } | Op::CopyOut { .. } | Op::Copy { .. } | Op::Fill { .. } => {
            bytes_of(entry.views())
        }
    };
    Some(ns + TASK_NS)
}
