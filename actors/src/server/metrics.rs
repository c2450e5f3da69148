//! The metrics of a device: [`Metrics`].

use std::sync::Arc;

use millstream_protocol::{
    Backend, ClientMemory, Reason, SliceId,
    metrics::{ClientMetrics, Collection, Metrics},
};

use super::Server;
use millstream_state::observers::meter::{Meter, ReadClock};
use millstream_state::observers::sampling::NOT_FOLLOWED;

impl<B: Backend> Server<B> {
    /// Sets the meter that the server shares with the other threads of its device.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.observers.meter = meter;
        self
    }

    /// Sets the clock that measures how long tasks take. Without one every queue may have `max_in_flight` tasks in flight,
    /// however long they take.
    pub fn with_clock(mut self, clock: ReadClock) -> Self {
        self.scheduler.set_clock(clock);
        self
    }

    /// Counts a failed task.
    #[cold]
    pub(super) fn count_failure(&mut self, reason: &Reason) {
        self.observers.counters.failures += 1;
        self.table.sink().faults.count(reason);
    }

    /// Returns all metrics; `mailbox_depth` is the number of messages in the mailbox. Visits each stream and client,
    /// each slot that waits to be recycled, and, once any task has failed, each slice.
    pub(super) fn metrics(&self, mailbox_depth: u64) -> Metrics {
        let faults = self.table.sink().faults.snapshot();
        let mut metrics = Metrics::default();
        metrics.epoch = self.device.gone.epoch();
        metrics.stats = self.stats();
        metrics.mailbox_depth = mailbox_depth;
        metrics.mailbox_capacity = self.observers.mailbox_capacity;
        metrics.batch_sizes = self.observers.batch_sizes.clone();
        metrics.clients = self.client_metrics();
        metrics.faults = faults;
        if faults.total() > 0 {
            metrics.slices_poisoned = self.slices_poisoned();
        }
        metrics.collection = self.collection();
        metrics.latencies = self.observers.latencies();
        metrics
    }

    fn client_metrics(&self) -> Vec<ClientMetrics> {
        let of = |(name, memory, tasks): (&Arc<str>, ClientMemory, u64)| {
            let mut metrics = ClientMetrics::new(name.clone(), memory);
            metrics.tasks = tasks;
            metrics
        };
        let mut clients: Vec<_> = self.memory.accounts.all().map(of).collect();
        clients.sort_unstable_by_key(ClientMetrics::client);
        for (_, stream) in self.scheduler.streams() {
            // Streams of a removed client are not counted for any client.
            let place = clients.binary_search_by_key(&stream.client, ClientMetrics::client);
            if let Some(client) = place.ok().map(|place| &mut clients[place]) {
                client.streams += 1;
                client.tasks += stream.issued();
                client.tasks_held += stream.holds() as u64;
            }
        }
        clients
    }

    fn slices_poisoned(&self) -> u64 {
        let settled = |id: SliceId| {
            let slot = self.table.slot(id.index());
            slot.is_some_and(|slot| !slot.payload().poison.is_clean())
        };
        self.hazards.poisoned(settled) as u64
    }

    fn collection(&self) -> Collection {
        let retiring = || self.drops.retiring.iter();
        let since = retiring().map(|retiring| retiring.since_ns);
        let oldest = since.filter(|since_ns| *since_ns != NOT_FOLLOWED).min();
        let mut collection = Collection::default();
        collection.drops_ahead = self.drops.pending() as u64;
        collection.slices_waiting = (retiring().count() + self.drops.held_slices) as u64;
        let values_done = self.observers.meter.values_done();
        collection.values_waiting = self.drops.values.saturating_sub(values_done);
        collection.slice_waits_ns_max =
            oldest.map(|since| self.observers.meter.now_ns().saturating_sub(since));
        collection
    }
}
