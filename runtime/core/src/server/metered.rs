//! What is counted and measured for [`Metrics`]: which tasks are followed, and what is told of them.

use std::sync::Arc;

use crate::backend::Backend;
use crate::failure::Reason;
use crate::id::{ClientId, Point};
use crate::memory::Account;
use crate::message::{Op, Task};
use crate::metrics::{ClientMetrics, Collection, Histogram, Latencies, Meter, Metrics};
use crate::report::ClientMemory;
use crate::slice::{Memory, Slice};

use super::{Effect, Server};

/// When a task was admitted: this one is not followed.
pub(super) const NOT_FOLLOWED: u64 = 0;

/// When a task was admitted: just now, for it goes straight through.
pub(super) const PASSING: u64 = u64::MAX;

/// Which tasks are followed, and how long those waited that the device's thread knows by itself.
pub(super) struct Sampling {
    every: u64,
    until_next: u64,
    missed: u64,
    queued_ns: Histogram,
    pub(super) slice_waits_ns: Histogram,
}

impl Sampling {
    /// Follows one task of `every`; none, if that is 0.
    pub(super) fn new(every: u64) -> Option<Box<Self>> {
        let sampling = || Self {
            every,
            until_next: 1,
            missed: 0,
            queued_ns: Histogram::new(),
            slice_waits_ns: Histogram::new(),
        };
        (every > 0).then(|| Box::new(sampling()))
    }

    /// Is it the turn of the next task?
    fn is_next(&mut self) -> bool {
        self.until_next -= 1;
        let is_next = self.until_next == 0;
        if is_next {
            self.until_next = self.every;
        }
        is_next
    }
}

impl<B: Backend> Server<B> {
    /// The same server, which measures with the other threads of its device.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.meter = meter;
        self
    }

    /// A task is about to be held: when, if it is to be followed.
    #[inline]
    pub(super) fn admitted_ns(&mut self, op: &Op) -> u64 {
        let Some(sampling) = &mut self.sampling else {
            return NOT_FOLLOWED;
        };
        match does_work(op) && sampling.is_next() {
            true => self.meter.now_ns(),
            false => NOT_FOLLOWED,
        }
    }

    /// Is a task followed, which was admitted then and is about to be issued?
    #[inline]
    pub(super) fn is_followed(&mut self, task: &Task, admitted_ns: u64) -> bool {
        match (&mut self.sampling, admitted_ns) {
            (None, _) | (_, NOT_FOLLOWED) => false,
            (Some(sampling), PASSING) => does_work(&task.op) && sampling.is_next(),
            _ => true,
        }
    }

    /// Follows a task that was admitted then and is to be at `point`, to the end of its last cursor.
    #[inline(never)]
    pub(super) fn follow(&mut self, task: &Task, point: Point, admitted_ns: u64) {
        let (_, tasks) = self.tasks_of(task);
        let last = point.cursor + (tasks as u64).max(1) - 1;
        let Some(sampling) = &mut self.sampling else {
            return;
        };
        let now_ns = self.meter.now_ns();
        let queued_ns = match admitted_ns {
            PASSING => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        sampling.queued_ns.record(queued_ns);
        let timeline = &self.queues[point.queue.index()].timeline;
        if !self.meter.follow(timeline, last, now_ns) {
            sampling.missed += 1;
        }
    }

    /// A task failed.
    #[cold]
    pub(super) fn count_failure(&mut self, reason: &Reason) {
        self.counters.failures += 1;
        self.table.sink().faults.count(reason);
    }

    /// A slice that waited since then, if it did, is free.
    pub(super) fn slice_waited(&mut self, since_ns: u64) {
        if let Some(sampling) = &mut self.sampling
            && since_ns != NOT_FOLLOWED
        {
            let waited_ns = self.meter.now_ns().saturating_sub(since_ns);
            sampling.slice_waits_ns.record(waited_ns);
        }
    }

    /// Everything, when there were so many messages in the mailbox. Looks at each stream and client, at what waits to be free, and
    /// at each slice where any task has ever failed.
    pub(super) fn metrics(&self, mailbox_depth: u64) -> Metrics {
        let faults = self.table.sink().faults.look();
        Metrics {
            epoch: self.loss.gone.epoch(),
            stats: self.stats(),
            mailbox_depth,
            mailbox_capacity: self.options.mailbox_capacity.next_power_of_two() as u64,
            batch_sizes: self.batch_sizes.clone(),
            clients: self.client_metrics(),
            faults,
            slices_poisoned: match faults.total() {
                0 => 0,
                _ => self.slices_poisoned(),
            },
            collection: self.collection(),
            latencies: self.latencies(),
        }
    }

    fn client_metrics(&self) -> Vec<ClientMetrics> {
        let of = |(client, name, account, tasks): (ClientId, &Arc<str>, Account, u64)| {
            let memory = ClientMemory {
                client,
                in_use: account.in_use,
                high_water: account.high_water,
                soft_limit: account.soft_limit,
            };
            ClientMetrics {
                name: name.clone(),
                streams: 0,
                tasks,
                tasks_held: 0,
                memory,
            }
        };
        let mut clients: Vec<_> = self.accounts.all().map(of).collect();
        clients.sort_unstable_by_key(ClientMetrics::client);
        for (_, stream) in &self.streams {
            // Streams of a client that is gone are its own no more.
            let place = clients.binary_search_by_key(&stream.client, ClientMetrics::client);
            if let Some(client) = place.ok().map(|place| &mut clients[place]) {
                client.streams += 1;
                client.tasks += stream.issued;
                client.tasks_held += stream.held.len() as u64;
            }
        }
        clients
    }

    fn slices_poisoned(&self) -> u64 {
        let live = self.slices.iter().filter(|(_, slice)| !slice.dropped);
        live.filter(|(_, slice)| self.is_poisoned(slice)).count() as u64
    }

    fn is_poisoned(&self, slice: &Slice) -> bool {
        if let Memory::Failed(_, failure) = &slice.memory {
            // What stands for something in a recording has not failed.
            return failure.reason != Reason::Parameter;
        }
        let settled = self.table.slot(slice.id.index());
        !slice.faults.is_clean() || settled.is_some_and(|slot| !slot.payload().poison.is_clean())
    }

    fn collection(&self) -> Collection {
        let retiring = || self.queues.iter().flat_map(|queue| &queue.retiring);
        let since = retiring().map(|retiring| retiring.since_ns);
        let oldest = since.filter(|since_ns| *since_ns != NOT_FOLLOWED).min();
        let collects = |effect: &&Effect| matches!(effect, Effect::Collect { .. });
        let not_handed_over = self.effects.iter().filter(collects).count() as u64;
        let done = self.meter.values_done();
        let handed_over = self.values_handed_over.saturating_sub(done);
        Collection {
            drops_ahead: self.early_drops.len() as u64,
            slices_waiting: (retiring().count() + self.dropped_in_use) as u64,
            values_waiting: handed_over + not_handed_over,
            slice_waits_ns_max: oldest.map(|since| self.meter.now_ns().saturating_sub(since)),
        }
    }

    fn latencies(&self) -> Option<Latencies> {
        let sampling = self.sampling.as_ref()?;
        Some(Latencies {
            every: sampling.every,
            missed: sampling.missed,
            queued_ns: sampling.queued_ns.clone(),
            runs_ns: self.meter.runs_ns(),
            slice_waits_ns: sampling.slice_waits_ns.clone(),
            value_waits_ns: self.meter.value_waits_ns(),
        })
    }
}

/// Is it a task that a queue runs, and not only a place in the order?
pub(super) fn does_work(op: &Op) -> bool {
    matches!(
        op,
        Op::Launch { .. }
            | Op::CopyIn(_)
            | Op::CopyOut(_)
            | Op::Copy
            | Op::Fill(_)
            | Op::Custom(_)
            | Op::Replay(_)
    )
}
