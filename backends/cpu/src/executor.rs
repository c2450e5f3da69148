//! Runs a queue on one thread at a time: the queue's worker, or a caller that steps in while the worker sleeps.
//!
//! # Protocol
//! The ring, the runner and the queue's state lie behind a [`HandoffLock`]. The thread inside runs tasks in order. The
//! worker stays inside as long as there are tasks, leaves, and sleeps at the gate. Waking it costs the caller a
//! quarter of [`SMALL_NS`], and the answer arrives about [`SMALL_NS`] later. So a caller that has just issued tasks
//! may run them itself:
//!
//! ```text
//!  push      appends the entry. Usually this wakes the worker; between `defer_start` and `start_deferred` it does not.
//!  start_deferred    `run_small`: enters the door if it is open, runs tasks that are small and not user code,
//!            leaves, and wakes the worker if tasks are left.
//!            With `Large::Hold` it sets `has_held_tasks` instead of waking the worker.
//!  run       (`Held`) the caller has left the device: `run_held` takes the mark, runs larger tasks within its
//!            budget, and wakes the worker if tasks are left.
//!  sleep     the worker sleeps in `HandoffLock::idle`, which looks at the queue once more before it parks.
//! ```
//! # No task is left behind
//! A task is pushed before the door is tried. If the door is shut, `try_enter` sets the door's `again` flag: the
//! thread inside then looks at the queue once more after leaving, or wakes the worker. If the caller was inside, it
//! knows whether tasks are left: then it wakes the worker, or sets the mark (Release). The thread that clears the
//! mark (Acquire) runs the tasks or wakes the worker.
//!
//! ```text
//!  caller                                   worker
//!  push(a); push(b)     (no wake)           parked at the gate
//!  try_enter: open
//!  run a (small)
//!  b is large; leave -> tasks are left
//!  gate.wake()                              wakes, enters, runs b, leaves, parks
//! ```
//! If the worker is inside while the caller tries:
//!
//! ```text
//!  caller                                   worker (inside, finds no more tasks)
//!  push(a)
//!  try_enter: shut; again = true            leave() returns true: enters once more, runs a
//! ```
//! The loom models `door` check the handshake, and `tests/backend/held.rs` checks held tasks. Decision 25
//! (`docs/decisions`) has the reasons and the measurements.

use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{Large, marks::mark_runtime_thread};
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::gate::Gate;
use millstream_sync::handoff_lock::HandoffLock;
use millstream_sync::mailbox::Receiver;

use crate::entry::{Entry, Op, Source};
use crate::kernel::bytes_of;
use crate::runner::Runner;
use crate::shared::Shared;

/// The work that a thread that steps in may run at once. Waking the worker delays the answer by about as much, and
/// costs the waking thread a quarter of it.
const SMALL_NS: u64 = 20_000;

/// The least time assumed for any task, which bounds how many tasks run at once.
const TASK_NS: u64 = 200;

/// The ends of a queue that the thread which runs it needs.
pub(crate) struct Lane {
    pub(crate) inbox: Receiver<Entry>,
    pub(crate) runner: Runner,
}

/// Runs a queue on one thread at a time.
pub(crate) struct Executor {
    pub(crate) door: HandoffLock<Lane>,
    /// The gate at which the worker sleeps.
    pub(crate) gate: Arc<Gate>,
    /// Tasks are left for which the worker was not woken. The thread that clears the mark runs them, or wakes the
    /// worker.
    has_held_tasks: AtomicBool,
}

impl Executor {
    pub(crate) fn new(lane: Lane) -> Arc<Self> {
        Arc::new(Self {
            gate: lane.inbox.gate().clone(),
            door: HandoffLock::new(lane),
            has_held_tasks: AtomicBool::new(false),
        })
    }

    /// Runs the small tasks of the queue if its worker sleeps. Wakes the worker for the rest, or leaves it to
    /// [`Executor::run_held`]. Returns whether any task ran.
    pub(crate) fn run_small(&self, shared: &Shared, large: Large) -> bool {
        let ran = self.run_within(shared, SMALL_NS);
        match large {
            // Release: pairs with the swap in `run_held`, whose thread then sees the tasks.
            Large::Hold if ran.has_more => self.has_held_tasks.store(true, Ordering::Release),
            _ if ran.has_more => self.gate.wake(),
            _ => {}
        }
        ran.ran_any
    }

    /// Runs the tasks that [`Executor::run_small`] left, as long as they are expected to take at most `budget`, and
    /// wakes the worker for the rest.
    pub(crate) fn run_held(&self, shared: &Shared, budget: Duration) {
        // Relaxed: a look first, the mark is seldom set. Acquire: pairs with the store in `run_small`.
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

    /// Runs tasks of the queue if its worker sleeps, as long as they are expected to take at most `ns`.
    fn run_within(&self, shared: &Shared, ns: u64) -> Ran {
        // If another thread is inside, it looks at the queue once more.
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

/// The result of a thread's stay inside.
#[derive(Default)]
struct Ran {
    /// At least one task ran.
    ran_any: bool,
    /// Tasks are left, or were added meanwhile.
    has_more: bool,
}

/// Wakes the worker if the thread inside panics, so that the queue continues.
struct WakeOnUnwind<'a>(&'a Executor);

impl Drop for WakeOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.gate.wake();
    }
}

impl Lane {
    /// Runs the next task, waiting for what it must come after. Returns `false` if there is none.
    pub(crate) fn run_next(&mut self, shared: &Shared) -> bool {
        let Self { inbox, runner } = self;
        inbox
            .try_recv_with(|entry| step(shared, runner, entry))
            .is_some()
    }

    /// Runs the next task unless it must wait. Returns whether it ran.
    pub(crate) fn run_ready(&mut self, shared: &Shared) -> bool {
        let is_ready = |entry: &mut Entry| shared.have_passed(&entry.before.waits);
        let runs = self.inbox.peek_with(is_ready) == Some(true);
        if runs {
            self.run_next(shared);
            self.runner.spans.pause();
        }
        runs
    }

    /// Fails the remaining tasks as not run, and ends the timeline, so that no thread waits for them.
    pub(crate) fn abandon(&mut self) {
        let Self { inbox, runner } = self;
        while inbox.try_recv_with(|entry| runner.abandon(entry)).is_some() {}
        // No task of this queue will run any more.
        runner.timeline.end();
    }

    /// Runs tasks as long as they are expected to take at most `ns` in total and need not wait.
    fn run_within(&mut self, shared: &Shared, ns: u64) -> bool {
        let _mark = mark_runtime_thread();
        let _assignment = self.runner.team.assign_thread_scoped();
        let (mut left_ns, mut ran) = (ns, false);
        while !shared.is_stopping()
            && let Some(Some(rest)) = self
                .inbox
                .peek_with(|entry| left_ns.checked_sub(expected_ns(shared, entry)?))
        {
            left_ns = rest;
            ran |= self.run_next(shared);
        }
        self.runner.spans.pause();
        ran
    }
}

/// Runs one entry after what it waits for. A wait that ends before its point passed means that the device, and so this
/// queue, is closing.
fn step(shared: &Shared, runner: &mut Runner, entry: &mut Entry) {
    for point in entry.before.waits.iter() {
        if shared.has_passed(*point) {
            continue;
        }
        runner.spans.pause();
        let timeline = &shared.timelines[point.queue.index()];
        if timeline.wait(point.cursor, &shared.spin).is_err() {
            shared.stop();
            return runner.abandon(entry);
        }
    }
    runner.run(entry);
}

/// Returns the expected time of a task. `None` if it is unknown, if the task must wait, or if it is user code.
fn expected_ns(shared: &Shared, entry: &Entry) -> Option<u64> {
    if !shared.have_passed(&entry.before.waits) {
        return None;
    }
    // A byte takes less than a nanosecond, even copied one by one.
    let ns = match &entry.op {
        Op::Mark => 0,
        Op::Launch { kernel, .. } => kernel.expected_ns(entry.views())?,
        // Owned bytes may have a user's type.
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
