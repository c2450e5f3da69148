//! A queue: tasks that run one after the other, and tell how far they are.
//!
//! The thread of the queue runs them, or whoever pumps a driven device. What a task owes is in [`Queue::run`]: it asks
//! whether what it reads has failed, runs, says what became of what it writes, and only then publishes its cursor.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use millstream::backend::panic_message;
use millstream::backend::{
    BoundSlice, Cursor, Landing, Point, Span, Table, Timeline, mark_runtime_thread, settle,
};
use millstream::{Failure, FailureRef, QueueId, Reason};

/// What a task did to what it was to write.
pub enum Done {
    /// It wrote all of it.
    Written,
    /// It was a launch of no cube, and wrote nothing.
    NoCube,
}

/// What a task does, or why it is refused.
pub type Work = Box<dyn FnOnce() -> Result<Done, String> + Send>;

/// A task in the queue.
pub struct Job {
    /// Its position.
    pub cursor: Cursor,
    /// Its name, for failures.
    pub name: Arc<str>,
    /// What it touches.
    pub bindings: Vec<BoundSlice>,
    /// What it does; nothing for a mark.
    pub work: Option<Work>,
    /// Who waits for what it copies to the host.
    pub landing: Option<Arc<dyn Landing>>,
}

/// What both ends of a queue see.
pub struct Queue {
    /// How far it is. Clients and the runtime wait on this, and on nothing else.
    pub timeline: Arc<Timeline>,
    table: Arc<Table>,
    opened: Instant,
    /// Times of tasks that are kept anyway, for timelines.
    traced: usize,
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    stopping: bool,
    /// Times of tasks that nobody has taken, and how many may be.
    spans: Vec<Span>,
    spans_max: usize,
}

impl Queue {
    pub fn new(table: Arc<Table>, traced: usize) -> Self {
        Self {
            timeline: Arc::default(),
            table,
            opened: Instant::now(),
            traced,
            state: Mutex::new(State {
                spans_max: traced,
                ..State::default()
            }),
            news: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a task. Never waits: the runtime keeps the queue below `max_queue_depth`.
    pub fn push(&self, job: Job) {
        self.state().jobs.push_back(job);
        self.news.notify_one();
    }

    /// Runs the next task, if there is one.
    pub fn step(&self) -> bool {
        let job = self.state().jobs.pop_front();
        job.map(|job| self.run(job)).is_some()
    }

    /// What the queue's thread does, until it is told to stop.
    pub fn serve(&self) {
        // Kernels run here: a call in them that would wait answers `WouldDeadlock`.
        let _mark = mark_runtime_thread();
        loop {
            let mut state = self.state();
            while state.jobs.is_empty() && !state.stopping {
                state = self
                    .news
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
                // It has no place: failures of these bytes are forgotten from here on.
                return settle::outputs(&self.table, &job.bindings, &Ok(()));
            }
            return self.timeline.publish(job.cursor);
        };
        let start = self.opened.elapsed();
        // This is also where a device with a driver gives the task's command to it, and not in the call of the trait: a
        // closure before it may have failed meanwhile, and a command that reads what that closure was to write must not run.
        // The command's end is awaited before its outputs are settled. Here all work is closures, so it is one call.
        let outcome = match settle::inputs(&self.table, &job.bindings) {
            // What it reads has failed. Who asked for the data is told of that failure itself.
            Err(cause) => {
                if let Some(landing) = &job.landing {
                    landing.fail(cause.clone());
                }
                drop_quietly(work);
                Err(settle::inherited(&job.name, cause))
            }
            // Kernels are users' code: a panic ends the task, not the thread.
            Ok(()) => match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(done)) => Ok(done),
                Ok(Err(why)) => Err(Failure::not_run(&job.name, Reason::Refused(why))),
                Err(panic) => Err(Failure::panicked(&job.name, panic_message(panic))),
            },
        };
        if let (Some(landing), Err(failure)) = (&job.landing, &outcome) {
            landing.fail(failure.clone()); // the first failure stands
        }
        let outcome = match outcome {
            // Nothing was written: what had failed before has failed still.
            Ok(Done::NoCube) => Ok(()),
            // Of a command as well, which cannot fail: this heals what it has overwritten.
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
        self.note(job.cursor, start_ns, outcome.err());
        // Everything that the task owned goes before its cursor passes.
        drop(job.landing);
        self.timeline.publish(job.cursor);
    }

    fn note(&self, cursor: Cursor, start_ns: u64, failure: Option<FailureRef>) {
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

    /// The times of tasks so far, each once.
    pub fn take_spans(&self) -> Vec<Span> {
        std::mem::take(&mut self.state().spans)
    }

    /// From here on the times of so many tasks are kept, or of those that are kept anyway.
    pub fn keep_spans(&self, room: usize) {
        self.state().spans_max = room.max(self.traced);
    }

    /// Tells the thread to end.
    pub fn stop(&self) {
        self.state().stopping = true;
        self.news.notify_all();
    }

    /// Nothing runs any more: what is left says so, and nobody waits for it.
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

/// What a task owns may be users' code, whose destructors may panic.
fn drop_quietly(work: Work) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(work))) {
        panic_message(panic);
    }
}
