//! The GC actor: waits for points, then drops values. It never blocks the threads that hand values over. It decides when
//! each value's points have passed; which points these are, the server decides (`server::drops`).
//!
//! # Protocol
//! ```text
//!  device thread                             GC actor
//!  hand_over ──channel (bounded)──► waiting ──every point has passed──► due ──► drop the value
//!      │ full: the server keeps it     │
//!      ▼                               └─ a timeline ended first ──► parked: never dropped, counted
//!  retried when the GC actor wakes the device
//! ```
//! 1. An entry waits at one point at a time: the first that has not passed. The entries of a queue are ordered by
//!    cursor, and the actor's waker is registered at the least one. So a wake costs the entries that are due and one
//!    step for each queue, however many entries wait.
//! 2. An entry whose point can no longer pass is parked: the lost device may still use the value. Parked values
//!    are leaked and counted.
//! 3. [`GcActor::collect`] reads the ends of the timelines before their cursors, since a cursor may be published just before
//!    the end.
//! 4. On close the actor takes the channel once more, drops what is due, parks the rest and ends. `closed` is stored
//!    with Release and loaded with Acquire before the channel is read, so everything handed over before the close is
//!    taken.
//!
//! # Example: a dropped buffer
//! ```text
//!  device thread                             queue                      GC actor
//!  hands over (value, point (0, 7)); idles
//!                                                                       takes it; cursor is 5: registers at 7; sleeps
//!                                            publishes 7, wakes it
//!                                                                       collects: 7 has passed; drops the value
//! ```
//! The models `gate`, `channel` and `timeline` of `loom-tests` and its program `actors` check the sleeps; the suite's
//! `lifetime` and `loss` check drops and parking.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use millstream_protocol::{
    Cursor, DeferredDrop, DeviceStatus, OpenError, Point, QueueId,
    marks::mark_runtime_thread,
    threads::{Spawner, Thread, ThreadRole},
};
use millstream_state::observers::meter::Meter;
use millstream_sync::channel;
use millstream_sync::facade::atomic::{AtomicBool, AtomicU64, Ordering};
use millstream_sync::facade::{SpinPolicy, Spinner};
use millstream_sync::gate::Gate;
use millstream_sync::timeline::{Timeline, WaitKey};

use crate::control::{Control, ControlSender};
use crate::host::{discard_panic, join_until};
use crate::server::Handover;

/// Hand-overs that may wait in the channel. Beyond them the server keeps its effects.
const HANDOVER_CAPACITY: usize = 1_024;

/// The entries that wait for one queue.
#[derive(Default)]
struct QueueEntries {
    /// By the cursor that they wait for, then by arrival.
    waiting: BTreeMap<(Cursor, u64), Handover>,
    /// Where the waker is registered.
    watch: Option<(Cursor, WaitKey)>,
}

/// The state of the GC actor, without its thread.
pub(crate) struct GcActor {
    timelines: Vec<Arc<Timeline>>,
    device: ControlSender,
    /// An entry that waits for no point is with the first queue, at cursor 0, which has always passed.
    queues: Vec<QueueEntries>,
    /// The number of entries so far.
    arrivals: u64,
    /// The entries that [`GcActor::collect`] and [`GcActor::watch`] have visited.
    #[cfg(test)]
    visits: u64,
    /// The number of parked values.
    parked: Arc<AtomicU64>,
    /// Counts parked values across the epochs of the device.
    gone: Arc<DeviceStatus>,
    meter: Arc<Meter>,
}

impl GcActor {
    pub(crate) fn new(
        timelines: Vec<Arc<Timeline>>,
        device: ControlSender,
        gone: Arc<DeviceStatus>,
        meter: Arc<Meter>,
    ) -> Self {
        Self {
            meter,
            queues: timelines.iter().map(|_| QueueEntries::default()).collect(),
            arrivals: 0,
            #[cfg(test)]
            visits: 0,
            timelines,
            device,
            parked: Arc::default(),
            gone,
        }
    }

    pub(crate) fn take(&mut self, handover: Handover) {
        self.arrivals += 1;
        let none = Point::new(QueueId(0), 0);
        let point = handover.after.iter().next().unwrap_or(none);
        let entries = &mut self.queues[point.queue.index()];
        entries
            .waiting
            .insert((point.cursor, self.arrivals), handover);
    }

    /// Handles every entry that is due, and returns `true` if there was any. Passes values to `drop_value`.
    pub(crate) fn collect(&mut self, mut drop_value: impl FnMut(DeferredDrop)) -> bool {
        // Ends before cursors: a cursor may be published just before the end.
        let ends = self.timelines.iter().enumerate();
        let ended = ends.fold(0_u32, |ended, (queue, timeline)| {
            ended | u32::from(timeline.has_ended()) << queue
        });
        let mut worked = false;
        for queue in 0..self.queues.len() {
            let completed = self.timelines[queue].completed();
            let has_ended = ended >> queue & 1 != 0;
            while let Some(first) = self.queues[queue].waiting.first_entry() {
                let has_passed = first.key().0 <= completed;
                if !has_passed && !has_ended {
                    break;
                }
                #[cfg(test)]
                {
                    self.visits += 1;
                }
                let mut handover = first.remove();
                if has_passed {
                    let timelines = &self.timelines;
                    let passed =
                        |point: Point| timelines[point.queue.index()].completed() >= point.cursor;
                    handover.after.retain_open(passed);
                    if !handover.after.is_empty() {
                        self.take(handover);
                        continue;
                    }
                }
                worked = true;
                // Counted before the drop, so that a thread which observes the drop finds it counted.
                self.meter.value_done(handover.since_ns);
                match has_passed {
                    true => drop_value(handover.value),
                    false => self.park(handover.value),
                }
            }
        }
        worked
    }

    fn park(&self, value: DeferredDrop) {
        // Relaxed: a statistic.
        self.parked.fetch_add(1, Ordering::Relaxed);
        self.gone.remains().values_parked.add(1);
        std::mem::forget(value);
    }

    /// Returns the number of values that are never dropped, because the work that uses them never completed.
    pub(crate) fn parked(&self) -> u64 {
        // Relaxed: a statistic.
        self.parked.load(Ordering::Relaxed)
    }

    /// Registers the waker at the least cursor of each queue that an entry waits for. Returns `true` if an entry became
    /// due meanwhile.
    fn watch(&mut self, waker: &Waker) -> bool {
        for (entries, timeline) in self.queues.iter_mut().zip(&self.timelines) {
            let Some((&(cursor, _), _)) = entries.waiting.first_key_value() else {
                continue;
            };
            #[cfg(test)]
            {
                self.visits += 1;
            }
            if entries.watch.is_some_and(|(watched, _)| watched == cursor) {
                continue;
            }
            if let Some((_, earlier)) = entries.watch.take() {
                // It was taken if its cursor has passed.
                timeline.cancel(earlier);
            }
            match timeline.register_own(cursor, waker) {
                Some(key) => entries.watch = Some((cursor, key)),
                // The cursor has passed, or the timeline has ended.
                None => return true,
            }
        }
        false
    }

    fn is_due(&self) -> bool {
        let mut queues = self.queues.iter().zip(&self.timelines);
        let is_due = |(entries, timeline): (&QueueEntries, &Arc<Timeline>)| {
            let first = entries.waiting.first_key_value();
            first.is_some_and(|((cursor, _), _)| {
                timeline.completed() >= *cursor || timeline.has_ended()
            })
        };
        queues.any(is_due)
    }

    /// Takes all entries.
    fn take_all(&mut self) -> impl Iterator<Item = Handover> + use<> {
        let queues = self.queues.iter_mut();
        let waiting = queues.map(|entries| std::mem::take(&mut entries.waiting));
        let waiting: Vec<_> = waiting.collect();
        waiting.into_iter().flat_map(BTreeMap::into_values)
    }

    /// Passes all values to `drop_value`, since the work that they wait for will never run.
    pub(crate) fn release_all(&mut self, mut drop_value: impl FnMut(DeferredDrop)) {
        for handover in self.take_all() {
            self.meter.value_done(handover.since_ns);
            drop_value(handover.value);
        }
    }

    /// Parks all values that still wait.
    pub(crate) fn park_all(&mut self) {
        for handover in self.take_all() {
            self.park(handover.value);
        }
    }
}

/// Drops a user's value. A panic of its destructor ends here.
pub(crate) fn drop_value(value: DeferredDrop) {
    discard_panic(catch_unwind(AssertUnwindSafe(|| drop(value))));
}

/// The device's handle of the GC thread.
pub(crate) struct GcThread {
    sender: channel::Sender<Handover>,
    gate: Arc<Gate>,
    /// Set once nothing more will be handed over.
    closed: Arc<AtomicBool>,
    thread: Option<Thread<()>>,
    parked: Arc<AtomicU64>,
}

impl GcThread {
    pub(crate) fn start(mut gc: GcActor, spawner: &Spawner) -> Result<Self, OpenError> {
        let (sender, receiver) = channel::bounded(HANDOVER_CAPACITY);
        let gate = Arc::new(Gate::new());
        let (own, closed) = (gate.clone(), Arc::new(AtomicBool::new(false)));
        let over = closed.clone();
        let parked = gc.parked.clone();
        let thread = spawner.spawn(ThreadRole::Collector, "millstream-gc", move || {
            run(&mut gc, &receiver, &own, &over);
        })?;
        Ok(Self {
            sender,
            gate,
            closed,
            thread: Some(thread),
            parked,
        })
    }

    /// Hands over without waiting. Returns the hand-over if the channel is full.
    pub(crate) fn hand_over(&self, handover: Handover) -> Result<(), Handover> {
        match self.sender.try_send(handover) {
            Ok(()) => {
                self.gate.wake();
                Ok(())
            }
            Err(
                channel::TrySendError::Full(handover)
                | channel::TrySendError::Disconnected(handover),
            ) => Err(handover),
        }
    }

    /// Returns the number of values that are never dropped, because the work that uses them never completed.
    pub(crate) fn parked(&self) -> u64 {
        // Relaxed: a statistic, final once the thread was joined.
        self.parked.load(Ordering::Relaxed)
    }

    /// Waits until the actor has done what it can and ended. Returns `false` if the deadline passed first.
    pub(crate) fn join(&mut self, deadline: Instant) -> bool {
        self.close();
        self.thread
            .take()
            .is_none_or(|thread| join_until(thread, deadline))
    }

    fn close(&self) {
        // Release: pairs with the Acquire in `run`; the actor then takes every earlier hand-over.
        self.closed.store(true, Ordering::Release);
        self.gate.wake();
    }
}

impl Drop for GcThread {
    /// Ends the thread of a device that could not be opened.
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take().filter(|thread| !thread.is_current()) {
            // It does not wait for a device: nothing was handed over whose points could not pass.
            drop(thread.join());
        }
    }
}

fn run(
    gc: &mut GcActor,
    receiver: &channel::Receiver<Handover>,
    gate: &Arc<Gate>,
    closed: &AtomicBool,
) {
    let _mark = mark_runtime_thread();
    let waker = Waker::from(gate.clone());
    let mut spinner = Spinner::new(SpinPolicy::never());
    loop {
        // Acquire: pairs with `close`, and comes before the channel is read.
        let open = !closed.load(Ordering::Acquire);
        let mut taken = 0;
        while let Ok(handover) = receiver.try_recv() {
            gc.take(handover);
            taken += 1;
        }
        if taken >= HANDOVER_CAPACITY {
            // The server may have kept effects for lack of room, so notify the device.
            gc.device.send(Control::Wake);
        }
        gc.collect(drop_value);
        if !open {
            gc.park_all();
            return;
        }
        if gc.watch(&waker) {
            continue;
        }
        gate.wait_until(&mut spinner, || {
            (!receiver.is_empty() || closed.load(Ordering::Acquire) || gc.is_due()).then_some(())
        });
    }
}

#[cfg(test)]
#[path = "gc_actor_tests.rs"]
mod tests;
