//! The device's side of all queues: what goes into which, and which workers have still to be woken for it.
//!
//! Between [`Queues::hold_back`] and [`Queues::let_go`] an entry wakes no worker, and its queue owes that wake: the
//! calling thread runs the small entries itself, and wakes the worker for the others; or it leaves the device first and
//! then runs those, too ([`Queues::held`]).

use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::backend::{Held, Large, LetGo};
use millstream_protocol::error::Refused;
use millstream_protocol::id::{Cursor, QueueId};

use crate::entry::Entry;
use crate::executor::Executor;
use crate::queue::Feed;
use crate::shared::Shared;
use crate::trace::SpanLog;

/// The device's side of one queue.
pub(crate) struct Queue {
    pub(crate) feed: Feed,
    pub(crate) spans: Arc<SpanLog>,
    /// Its worker's place, if it has one.
    executor: Option<Arc<Executor>>,
    /// An entry was pushed for which the worker has not been woken.
    wake_pending: bool,
}

/// The places of all workers, for tasks that are held.
struct Executors {
    shared: Arc<Shared>,
    all: Vec<Arc<Executor>>,
}

impl Held for Executors {
    fn run(&self, budget: Duration) {
        self.all
            .iter()
            .for_each(|executor| executor.run_held(&self.shared, budget));
    }
}

/// The device's side of all queues.
pub(crate) struct Queues {
    shared: Arc<Shared>,
    all: Vec<Queue>,
    defers_wakes: bool,
}

impl Queue {
    pub(crate) fn new(feed: Feed, spans: Arc<SpanLog>, executor: Option<Arc<Executor>>) -> Self {
        Self {
            feed,
            spans,
            executor,
            wake_pending: false,
        }
    }
}

impl Queues {
    /// None yet.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            all: Vec::new(),
            defers_wakes: false,
        }
    }

    pub(crate) fn add(&mut self, queue: Queue) {
        self.all.push(queue);
    }

    pub(crate) fn all(&self) -> &[Queue] {
        &self.all
    }

    /// Appends what `build` makes of an empty entry to a queue, in place. If it refuses, what is left in the
    /// queue does nothing.
    #[inline]
    pub(crate) fn push(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        mut build: impl FnMut(&mut Entry) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        match self.all.get_mut(queue.index()) {
            Some(place) if !self.shared.timelines[queue.index()].has_ended() => {
                let mut outcome = Ok(());
                place.wake_pending |= self.defers_wakes;
                place.feed.push(cursor, self.defers_wakes, |entry| {
                    if let Err(refused) = build(entry) {
                        entry.cancel();
                        outcome = Err(refused);
                    }
                });
                outcome
            }
            _ => Err(Refused::Lost(format!("the worker of {queue} is gone"))),
        }
    }

    /// From here on entries wake no worker: [`Queues::let_go`] does.
    pub(crate) fn hold_back(&mut self) {
        self.defers_wakes = true;
    }

    /// Runs the small entries of what was held back. Wakes the workers for the others, or leaves them to [`Queues::held`].
    pub(crate) fn let_go(&mut self, large: Large) -> LetGo {
        self.defers_wakes = false;
        let mut done = LetGo::default();
        for (index, queue) in self.all.iter_mut().enumerate() {
            if std::mem::take(&mut queue.wake_pending)
                && let Some(executor) = &queue.executor
            {
                done.queues |= 1 << index;
                done.ran |= executor.run_small(&self.shared, large);
            }
        }
        done
    }

    /// What runs the tasks that are left to it: of the queues that there are now.
    pub(crate) fn held(&self) -> Arc<dyn Held> {
        let executors = self.all.iter().filter_map(|queue| queue.executor.clone());
        Arc::new(Executors {
            shared: self.shared.clone(),
            all: executors.collect(),
        })
    }
}
