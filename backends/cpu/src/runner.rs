//! Runs one task, from its inputs' poison to its published cursor.
//!
//! A runner belongs to one queue and runs on one thread at a time: the queue's worker, a thread that steps in, or the
//! thread that pumps a driven device. User code (kernels, custom work, destructors of what a task owns) may panic
//! here; the runner catches that and makes it the failure of the task.
//!
//! # Timelines
//! Each queue has one timeline, and this runner is its only publisher. For every task it does, in this order:
//!
//! 1. looks up whether the task was withdrawn, and the poison of the inputs; a withdrawn task does not run, and with a
//!    poisoned input a task does not run and inherits the failure (I7);
//! 2. runs the task;
//! 3. settles the outputs: poisons or heals their ranges in the table;
//! 4. drops everything the task owns;
//! 5. publishes the cursor.
//!
//! So a thread that observes the cursor (the publication is a Release store, which the waiter's Acquire load pairs
//! with) also observes the data, the poison and the drops. A wait between queues is the same observation, made by the
//! other queue's worker:
//!
//! ```text
//!  worker of queue 0                        worker of queue 1
//!  a: inputs, run, settle, drop             b waits for 0@1: timeline 0 < 1: pause, park at timeline 0
//!  timeline 0: publish(1) -> wakes waiters  wakes; 1 >= 1
//!                                           b: inputs (sees the poison of a), run, ...
//! ```
//! Tasks that never run do not publish: `abandon` fails them as not run, and ending the timeline wakes every waiter
//! (I5, I6). `tests/backend/order.rs` checks waits and teardown, `tests/backend/failures.rs` checks that failures are
//! settled before the cursor passes, and the loom models `timeline` check the wake-ups.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_host::{
    Arguments, HostResources, Transfer, check_counts, counts_of, discard_panic, launch_failure,
    run_custom,
};
use millstream_protocol::{
    Failure, FailureRef, Lines, Misfit, Point, QueueId, Reason, Table, Withdrawals, settle,
};
use millstream_sync::payload::panic_message;
use millstream_sync::timeline::Timeline;

use crate::entry::{Entry, Op, Source};
use crate::kernel::WakingTeam;
use crate::team::TeamHandle;
use crate::trace::SpanLog;

/// Runs the tasks of one queue.
pub(crate) struct Runner {
    pub(crate) queue: QueueId,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) table: Arc<Table>,
    pub(crate) team: TeamHandle,
    pub(crate) spans: Arc<SpanLog>,
    pub(crate) withdrawals: Withdrawals,
}

/// How much of a task ran that did not fail.
enum Ran {
    /// All of it.
    Whole,
    /// Nothing, because the launch had no cubes.
    NoCube,
}

/// The result of a task.
type Outcome = Result<Ran, FailureRef>;

impl Runner {
    /// Runs a task and publishes its cursor.
    #[inline]
    pub(crate) fn run(&mut self, entry: &mut Entry) {
        if let Some(task) = entry.before.withdrawal.take() {
            self.withdrawals.set(task);
        }
        if let Some(stale) = entry.before.stale.take() {
            settle::outputs(&self.table, &stale, &Ok(()));
        }
        if !matches!(entry.op, Op::Mark) {
            let start = self.spans.start();
            let outcome = match self.withdrawn(entry) {
                Some(failure) => Err(refuse(entry, failure)),
                None => match settle::inputs(&self.table, entry.bindings()) {
                    Ok(()) => self.perform(entry),
                    Err(cause) => inherit(entry, cause),
                },
            };
            let point = Point::new(self.queue, entry.cursor);
            let failure = match outcome {
                // Nothing was written, so nothing heals.
                Ok(Ran::NoCube) => {
                    discard_panic(|| entry.release());
                    None
                }
                Ok(Ran::Whole) => {
                    self.settle(entry, &Ok(()));
                    None
                }
                Err(failure) => {
                    self.settle(entry, &Err(failure.clone()));
                    Some(failure)
                }
            };
            self.spans.end(point, start, failure.as_ref());
        }
        self.timeline.publish(entry.cursor);
    }

    /// Returns the failure of a task that was withdrawn before it began.
    #[inline]
    fn withdrawn(&mut self, entry: &Entry) -> Option<FailureRef> {
        let reason = self.withdrawals.reason(entry.cursor, &self.timeline)?;
        Some(Failure::not_run(entry.op.name()?, reason))
    }

    /// Fails a task that has not run because the device is closing. Its cursor is not published (I6).
    pub(crate) fn abandon(&mut self, entry: &mut Entry) {
        if let Some(name) = entry.op.name() {
            let failure = Failure::not_run(name, Reason::Lost);
            if let Op::CopyOut { landing, .. } = &entry.op {
                discard_panic(|| landing.fail(failure.clone()));
            }
            self.settle(entry, &Err(failure));
        }
    }

    /// Settles the outputs and drops what the task owns, so that both happen before the cursor passes.
    fn settle(&mut self, entry: &mut Entry, outcome: &Result<(), FailureRef>) {
        settle::outputs(&self.table, entry.bindings(), outcome);
        discard_panic(|| entry.release());
    }

    /// Runs a task whose inputs are clean.
    fn perform(&mut self, entry: &mut Entry) -> Outcome {
        if let Op::Launch { .. } = entry.op {
            return self.launch(entry);
        }
        if let Op::Custom { .. } = entry.op {
            return self.custom(entry);
        }
        let Some(name) = entry.op.name().cloned() else {
            return Ok(Ran::Whole);
        };
        let outcome = match catch_unwind(AssertUnwindSafe(|| copy(&mut self.team, entry))) {
            Ok(Ok(())) => Ok(Ran::Whole),
            Ok(Err(why)) => Err(Failure::not_run(&name, Reason::Refused(why))),
            Err(payload) => Err(Failure::panicked(&name, panic_message(payload))),
        };
        if let (Op::CopyOut { landing, .. }, Err(failure)) = (&entry.op, &outcome) {
            discard_panic(|| landing.fail(failure.clone()));
        }
        outcome
    }

    fn launch(&mut self, entry: &Entry) -> Outcome {
        let Op::Launch { kernel, count } = &entry.op else {
            return Ok(Ran::Whole);
        };
        let name = kernel.kernel.name();
        // SAFETY: pages are initialized, and hazards keep other tasks away until the cursor has passed (I2).
        let (counts, views) = unsafe { counts_of(*count, entry.views()) };
        match check_counts(counts) {
            Ok(0) => return Ok(Ran::NoCube),
            Ok(_) => {}
            Err(why) => return Err(Failure::not_run(name, Reason::Refused(why))),
        }
        let lines = kernel.prints.then(Lines::default);
        let arguments = Arguments {
            views,
            scalars: entry.words(),
            metadata: entry.metadata(),
            counts,
            lines: lines.as_ref(),
        };
        // SAFETY: the launch was checked against the kernel's signature; pages are initialized and live until the cursor
        // has passed; hazards keep other tasks away (I2).
        let ran = unsafe { kernel.run(&mut self.team, arguments) };
        if let Some(lines) = lines {
            let point = Point::new(self.queue, entry.cursor);
            let prints = &self.table.sink().prints;
            prints.add(point, &kernel.kernel, lines);
        }
        ran.map(|()| Ran::Whole)
            .map_err(|stopped| launch_failure(name, stopped))
    }

    fn custom(&mut self, entry: &mut Entry) -> Outcome {
        let bindings = entry.bindings().iter().zip(entry.views());
        let bindings = bindings.map(|(binding, view)| (*view, binding.access));
        // SAFETY: pages are initialized and live until the cursor has passed; hazards keep other tasks away until
        // then (I2), and the resources are dropped before.
        let resources = unsafe { HostResources::new(bindings, Some(self.queue)) };
        let Op::Custom { name, work } = std::mem::replace(&mut entry.op, Op::Mark) else {
            return Ok(Ran::Whole);
        };
        run_custom(&name, move || work(&resources)).map(|()| Ran::Whole)
    }
}

/// The task does not run because an input is poisoned.
#[cold]
fn inherit(entry: &mut Entry, cause: FailureRef) -> Outcome {
    let Some(name) = entry.op.name().cloned() else {
        return Err(cause);
    };
    // The caller of a copy to the host requested the data, so the data's failure is the answer.
    let cause = refuse(entry, cause);
    Err(settle::inherited(&name, cause))
}

/// The task does not run because of `cause`, which custom work and copies to the host receive.
#[cold]
fn refuse(entry: &mut Entry, cause: FailureRef) -> FailureRef {
    let received = cause.clone();
    match std::mem::replace(&mut entry.op, Op::Mark) {
        // Custom work receives the failure; its result changes nothing.
        Op::Custom { work, .. } => discard_panic(move || drop(work(&received))),
        Op::CopyOut { landing, .. } => discard_panic(move || landing.fail(received)),
        op => entry.op = op,
    }
    cause
}

/// Runs a copy or fill, or returns why it is refused.
fn copy(team: &mut TeamHandle, entry: &Entry) -> Result<(), Misfit> {
    let transfer = match &entry.op {
        Op::CopyIn { source, layout, .. } => Transfer::In {
            source: match source {
                Source::Words(len) => &bytes_of(entry.words())[..*len],
                Source::Owned(owned) => owned.bytes(),
            },
            layout: layout.as_deref(),
        },
        Op::CopyOut {
            landing, layout, ..
        } => Transfer::Out {
            landing: &**landing,
            layout: layout.as_deref(),
        },
        Op::Copy { .. } => Transfer::Copy,
        Op::Fill { pattern, .. } => Transfer::Fill(*pattern),
        _ => return Ok(()),
    };
    // SAFETY: hazards keep other tasks away (I2); host bytes are not device memory; the landing belongs to this queue
    // until the cursor passes.
    unsafe { transfer.run(&mut WakingTeam(team), entry.views()) }
}

fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: the bytes of plain words.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}
