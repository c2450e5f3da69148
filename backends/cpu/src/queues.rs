//! The device's side of all queues: appends entries, and knows which workers still have to be woken.
//!
//! While wakes are deferred, until [`Queues::start_deferred`], a pushed entry wakes no worker; its queue notes that
//! a wake is pending. `start_deferred` then runs the small entries on the calling thread. It wakes the workers for the
//! others, or leaves these to [`Queues::held`], which the caller runs after it has left the device. The module
//! `executor` has the protocol.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{Cursor, Held, Large, QueueId, Refused, StartOutcome};

use millstream_sync::overflow::Feed;

use crate::entry::Entry;
use crate::executor::Executor;
use crate::shared::Shared;
use crate::trace::SpanLog;

/// The device's side of one queue.
pub(crate) struct Queue {
    pub(crate) feed: Feed<Entry>,
    pub(crate) spans: Arc<SpanLog>,
    /// The queue's executor; `None` if the device is driven.
    pub(crate) executor: Option<Arc<Executor>>,
    /// An entry was pushed for which the worker has not been woken.
    pub(crate) wake_pending: bool,
}

/// The executors of all queues, for held tasks.
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
    pub(crate) shared: Arc<Shared>,
    pub(crate) all: Vec<Queue>,
    /// Pushed entries wake no worker now.
    pub(crate) defers_wakes: bool,
}

impl Queues {
    /// Appends an entry to a queue: `build` fills an empty entry in place. If `build` refuses, the entry stays in the
    /// queue and does nothing.
    #[inline]
    pub(crate) fn push(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        mut build: impl FnMut(&mut Entry) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        match self.all.get_mut(queue.index()) {
            Some(state) if !self.shared.timelines[queue.index()].has_ended() => {
                let mut outcome = Ok(());
                state.wake_pending |= self.defers_wakes;
                let write = |slot: &mut MaybeUninit<Entry>| {
                    let entry = Entry::init(slot, cursor);
                    if let Err(refused) = build(entry) {
                        entry.cancel();
                        outcome = Err(refused);
                    }
                };
                // SAFETY: `Entry::init` initializes the slot.
                unsafe { state.feed.push_unless(write, || self.defers_wakes) };
                outcome
            }
            _ => Err(Refused::Lost(format!(
                "the worker thread of {queue} has ended"
            ))),
        }
    }

    /// Runs the small entries that were pushed since wakes are deferred. `large` decides about the others: wakes
    /// the workers for them, or leaves them to [`Queues::held`].
    pub(crate) fn start_deferred(&mut self, large: Large) -> StartOutcome {
        self.defers_wakes = false;
        let mut outcome = StartOutcome::default();
        for (index, queue) in self.all.iter_mut().enumerate() {
            if std::mem::take(&mut queue.wake_pending)
                && let Some(executor) = &queue.executor
            {
                outcome.queues |= 1 << index;
                outcome.ran |= executor.run_small(&self.shared, large);
            }
        }
        outcome
    }

    /// Returns a handle that runs the held tasks of the queues that exist now.
    pub(crate) fn held(&self) -> Arc<dyn Held> {
        let executors = self.all.iter().filter_map(|queue| queue.executor.clone());
        Arc::new(Executors {
            shared: self.shared.clone(),
            all: executors.collect(),
        })
    }
}
