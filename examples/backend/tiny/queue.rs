//! The queue: runs tasks one after the other, and publishes its progress.
//!
//! The queue's thread runs the tasks, or on a driven device the thread that pumps. [`Queue::run`] has the duties of a
//! task, in order: it checks whether the data that the task reads has failed, runs the task, settles its outputs, and
//! only then publishes its cursor.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use millstream::backend::panic_message;
use millstream::backend::{
    BoundSlice, Cursor, Landing, Point, Span, Table, Timeline, mark_runtime_thread, settle,
};
use millstream::{Failure, FailureRef, Reason, device::QueueId};

/// How a task that succeeded treated its outputs.
pub enum Done {
    /// It wrote its outputs.
    Written,
    /// It was a launch without cubes, and wrote nothing.
    NoCube,
}

/// The work of a task. The error is the reason of a refusal.
pub type Work = Box<dyn FnOnce() -> Result<Done, String> + Send>;

/// A task in the queue.
pub struct Job {
    /// The position in the queue, or 0 for `forget`, which has none.
    pub cursor: Cursor,
    /// The name, for failures.
    pub name: Arc<str>,
    /// The bytes that the task accesses.
    pub bindings: Vec<BoundSlice>,
    /// The work. `mark` and `forget` have none.
    pub work: Option<Work>,
    /// The target of a copy to the host.
    pub landing: Option<Arc<dyn Landing>>,
}

/// The state that the device thread and the queue's thread share.
pub struct Queue {
    /// The published progress. Clients and the runtime wait only on this.
    pub timeline: Arc<Timeline>,
    table: Arc<Table>,
    opened: Instant,
    /// The most spans that are always kept, for timelines.
    trace_capacity: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    stopping: bool,
    /// The spans that were not taken yet.
    spans: Vec<Span>,
    /// The most spans to keep.
    spans_max: usize,
}

impl Queue {
    pub fn new(table: Arc<Table>, trace_capacity: usize) -> Self {
        Self {
            timeline: Arc::default(),
            table,
            opened: Instant::now(),
            trace_capacity,
            state: Mutex::new(State {
                spans_max: trace_capacity,
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a task without waiting: the runtime keeps the queue below `max_queue_depth`.
    pub fn push(&self, job: Job) {
        self.state().jobs.push_back(job);
        self.changed.notify_one();
    }

    /// Runs the next task. Returns `false` if there is none.
    pub fn step(&self) -> bool {
        let job = self.state().jobs.pop_front();
        job.map(|job| self.run(job)).is_some()
    }

    /// Runs tasks on the queue's thread until `stop` is called.
    pub fn serve(&self) {
        // Kernels run on this thread. A call in a kernel that would wait returns `WouldDeadlock`.
        let _mark = mark_runtime_thread();
        loop {
            let mut state = self.state();
            while state.jobs.is_empty() && !state.stopping {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if state.stopping {
                return;
            }
            drop(state);
            self.step();
        }
    }

    fn run(&self, job: Job) {
        let Some(work) = job.work else {
            if job.cursor == 0 {
                // `forget` has no position. It heals these bytes.
                return settle::outputs(&self.table, &job.bindings, &Ok(()));
            }
            return self.timeline.publish(job.cursor);
        };
        let start = self.opened.elapsed();
        // A backend with a driver submits the task's command to the driver here, and not in the call of the trait: a
        // closure before it may have failed meanwhile, and a command that reads the outputs of that closure must not
        // run. It waits for the end of the command before it settles the outputs. Here all work is a closure.
        let outcome = match settle::inputs(&self.table, &job.bindings) {
            // An input has failed. The landing receives that failure itself.
            Err(cause) => {
                if let Some(landing) = &job.landing {
                    landing.fail(cause.clone());
                }
                drop_quietly(work);
                Err(settle::inherited(&job.name, cause))
            }
            // Kernels are user code: a panic must end the task and not the thread.
            Ok(()) => match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(done)) => Ok(done),
                Ok(Err(reason)) => Err(Failure::not_run(&job.name, Reason::Refused(reason))),
                Err(panic) => Err(Failure::panicked(&job.name, panic_message(panic))),
            },
        };
        if let (Some(landing), Err(failure)) = (&job.landing, &outcome) {
            landing.fail(failure.clone()); // the landing keeps its first failure
        }
        let outcome = match outcome {
            // Nothing was written, so the outputs stay poisoned or clean.
            Ok(Done::NoCube) => Ok(()),
            // This heals the bytes that the task has overwritten. It applies to commands as well, which cannot fail.
            Ok(Done::Written) => {
                settle::outputs(&self.table, &job.bindings, &Ok(()));
                Ok(())
            }
            Err(failure) => {
                let failed = Err(failure);
                settle::outputs(&self.table, &job.bindings, &failed);
                failed
            }
        };
        let start_ns = start.as_nanos() as u64;
        self.record_span(job.cursor, start_ns, outcome.err());
        // Everything that the task owned is dropped before its cursor is published.
        drop(job.landing);
        self.timeline.publish(job.cursor);
    }

    fn record_span(&self, cursor: Cursor, start_ns: u64, failure: Option<FailureRef>) {
        let mut state = self.state();
        if state.spans.len() < state.spans_max {
            state.spans.push(Span {
                point: Point::new(QueueId(0), cursor),
                start_ns,
                end_ns: self.opened.elapsed().as_nanos() as u64,
                failure,
            });
        }
    }

    /// Takes the spans so far. Each is returned once.
    pub fn take_spans(&self) -> Vec<Span> {
        std::mem::take(&mut self.state().spans)
    }

    /// Sets the most spans to keep, which is at least the capacity for timelines.
    pub fn keep_spans(&self, count: usize) {
        self.state().spans_max = count.max(self.trace_capacity);
    }

    /// Stops the queue's thread.
    pub fn stop(&self) {
        self.state().stopping = true;
        self.changed.notify_all();
    }

    /// Fails the remaining tasks and ends the timeline, which wakes all waiters. No task may run any more.
    pub fn end(&self) {
        let left = std::mem::take(&mut self.state().jobs);
        for job in left {
            let failure = Failure::not_run(&job.name, Reason::Lost);
            if let Some(landing) = &job.landing {
                landing.fail(failure.clone());
            }
            settle::outputs(&self.table, &job.bindings, &Err(failure));
            job.work.into_iter().for_each(drop_quietly);
        }
        self.timeline.end();
    }
}

/// Drops the work of a task. It may own user values, whose destructors may panic.
fn drop_quietly(work: Work) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(work))) {
        panic_message(panic);
    }
}
