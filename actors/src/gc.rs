//! The GC actor: waits for points, then drops values, wakes the device thread for memory that has
//! become free, and never blocks anybody.
//!
//! A value whose point can no longer pass (the device is gone) is parked rather than dropped: the
//! device may still be using it. What is parked is kept for ever, and counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use millstream_protocol::deferred_drop::Leaving;
use millstream_protocol::device_status::Gone;
use millstream_protocol::error::OpenError;
use millstream_protocol::id::Point;
use millstream_protocol::marks::mark_runtime_thread;
use millstream_protocol::threads::{Spawner, Thread, ThreadRole};
use millstream_server::observers::meter::Meter;
use millstream_server::points::Points;
use millstream_sync::channel;
use millstream_sync::facade::atomic::{AtomicBool, AtomicU64, Ordering};
use millstream_sync::facade::{SpinPolicy, Spinner};
use millstream_sync::gate::Gate;
use millstream_sync::timeline::{Timeline, WaitKey};

use crate::actor::{Control, ToDevice};
use crate::host::{end_panic, join_until};

/// Hand-overs that may wait for the GC actor. Beyond them the device keeps its list.
const HANDOVER_CAPACITY: usize = 1_024;

/// A hand-over: points to wait for, then something to do.
pub(crate) struct Handover {
    pub(crate) after: Points,
    pub(crate) then: Then,
    /// When it was handed over, if that is measured.
    pub(crate) since_ns: u64,
}

/// What follows once the points have passed.
pub(crate) enum Then {
    /// Drop this.
    Drop(Leaving),
    /// Wake the device thread: memory that waited for this point has become free.
    WakeDevice(Point),
}

/// An entry that waits.
struct Waiting {
    handover: Handover,
    /// Where our waker is.
    watch: Option<(Point, WaitKey)>,
}

/// What the GC actor has, without its thread.
pub(crate) struct Gc {
    timelines: Vec<Arc<Timeline>>,
    device: ToDevice,
    waiting: Vec<Waiting>,
    /// Values that are kept for ever.
    parked: Arc<AtomicU64>,
    /// Who tells of them while others go on.
    gone: Arc<Gone>,
    pub(crate) meter: Arc<Meter>,
}

impl Gc {
    pub(crate) fn new(
        timelines: Vec<Arc<Timeline>>,
        device: ToDevice,
        gone: Arc<Gone>,
        meter: Arc<Meter>,
    ) -> Self {
        Self {
            meter,
            timelines,
            device,
            waiting: Vec::new(),
            parked: Arc::default(),
            gone,
        }
    }

    pub(crate) fn take(&mut self, handover: Handover) {
        self.waiting.push(Waiting {
            handover,
            watch: None,
        });
    }

    /// Does what has become due and says whether anything had. Values go to `drop_value`.
    pub(crate) fn collect(&mut self, mut drop_value: impl FnMut(Leaving)) -> bool {
        let mut worked = false;
        let mut index = 0;
        while index < self.waiting.len() {
            let timelines = &self.timelines;
            let waiting = &mut self.waiting[index];
            // The ends first, then the cursors: one may have been published just before the end.
            let ended = waiting.handover.after.iter().fold(0_u32, |ended, point| {
                let queue = point.queue.index();
                ended | u32::from(timelines[queue].has_ended()) << queue
            });
            waiting
                .handover
                .after
                .retain_open(|point| timelines[point.queue.index()].completed() >= point.cursor);
            let passes = |point: Point| ended >> point.queue.index() & 1 == 0;
            let stuck = !waiting.handover.after.all(passes);
            if !stuck && !waiting.handover.after.is_empty() {
                index += 1;
                continue;
            }
            worked = true;
            let Handover { then, since_ns, .. } = self.waiting.swap_remove(index).handover;
            if matches!(then, Then::Drop(_)) {
                // Before the drop: who sees the end of the value sees it counted.
                self.meter.value_done(since_ns);
            }
            if stuck {
                self.park(then);
                continue;
            }
            match then {
                Then::Drop(value) => drop_value(value),
                Then::WakeDevice(_) => self.device.tell(Control::LookAround),
            }
        }
        worked
    }

    fn park(&self, then: Then) {
        if let Then::Drop(value) = then {
            // Relaxed: a figure.
            self.parked.fetch_add(1, Ordering::Relaxed);
            self.gone.park_value();
            std::mem::forget(value);
        }
    }

    /// Values that are kept for ever because the work that uses them never ended.
    pub(crate) fn parked(&self) -> u64 {
        // Relaxed: a figure.
        self.parked.load(Ordering::Relaxed)
    }

    /// Leaves our waker at the first open point of every entry that has none. Says whether some entry
    /// became due meanwhile.
    fn watch(&mut self, waker: &Waker) -> bool {
        for waiting in &mut self.waiting {
            let Some(point) = waiting.handover.after.iter().next() else {
                return true;
            };
            if waiting.watch.is_some_and(|(watched, _)| watched == point) {
                continue;
            }
            match self.timelines[point.queue.index()].register(point.cursor, waker) {
                Some(key) => waiting.watch = Some((point, key)),
                // Passed, or never to pass.
                None => return true,
            }
        }
        false
    }

    fn is_due(&self) -> bool {
        let passed = |point: Point| {
            let timeline = &self.timelines[point.queue.index()];
            timeline.completed() >= point.cursor || timeline.has_ended()
        };
        self.waiting
            .iter()
            .any(|waiting| waiting.handover.after.iter().next().is_none_or(passed))
    }

    /// What is still waited for will never run: the values go to `drop_value`.
    pub(crate) fn release_all(&mut self, mut drop_value: impl FnMut(Leaving)) {
        for waiting in std::mem::take(&mut self.waiting) {
            if let Then::Drop(value) = waiting.handover.then {
                self.meter.value_done(waiting.handover.since_ns);
                drop_value(value);
            }
        }
    }

    /// Parks what is still waited for.
    pub(crate) fn park_all(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.park(waiting.handover.then);
        }
    }
}

/// Drops what a user gave; a panic of its destructor ends here.
pub(crate) fn drop_value(value: Leaving) {
    end_panic(catch_unwind(AssertUnwindSafe(|| drop(value))));
}

/// The device's end of a GC actor with a thread.
pub(crate) struct GcThread {
    sender: channel::Sender<Handover>,
    gate: Arc<Gate>,
    /// Nothing more will be handed over.
    closed: Arc<AtomicBool>,
    thread: Option<Thread<()>>,
    parked: Arc<AtomicU64>,
    pub(crate) meter: Arc<Meter>,
}

impl GcThread {
    pub(crate) fn start(mut gc: Gc, spawner: &Spawner) -> Result<Self, OpenError> {
        let (sender, receiver) = channel::bounded(HANDOVER_CAPACITY);
        let gate = Arc::new(Gate::new());
        let (own, closed) = (gate.clone(), Arc::new(AtomicBool::new(false)));
        let over = closed.clone();
        let (parked, meter) = (gc.parked.clone(), gc.meter.clone());
        let thread = spawner.spawn(ThreadRole::Collector, "millstream-gc", move || {
            run(&mut gc, &receiver, &own, &over);
        })?;
        Ok(Self {
            sender,
            gate,
            closed,
            thread: Some(thread),
            parked,
            meter,
        })
    }

    /// Hands over without waiting; hands it back when the channel is full.
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

    /// Values that are kept for ever because the work that uses them never ended.
    pub(crate) fn parked(&self) -> u64 {
        // Relaxed: a figure, final once the thread was joined.
        self.parked.load(Ordering::Relaxed)
    }

    /// Waits until the actor has done what it can and ended, and says whether it did in time.
    pub(crate) fn join(&mut self, deadline: Instant) -> bool {
        self.close();
        self.thread
            .take()
            .is_none_or(|thread| join_until(thread, deadline))
    }

    fn close(&self) {
        // Release: the actor that sees it also sees every hand-over before it.
        self.closed.store(true, Ordering::Release);
        self.gate.wake();
    }
}

impl Drop for GcThread {
    /// Nothing more comes: a device that could not be opened ends it so.
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take().filter(|thread| !thread.is_current()) {
            // It waits for no device: nothing was ever handed over that could not pass.
            drop(thread.join());
        }
    }
}

fn run(gc: &mut Gc, receiver: &channel::Receiver<Handover>, gate: &Arc<Gate>, closed: &AtomicBool) {
    let _mark = mark_runtime_thread();
    let waker = Waker::from(gate.clone());
    let mut spinner = Spinner::new(SpinPolicy::never());
    loop {
        // Acquire, before the look into the channel: what was handed over before the close is there.
        let open = !closed.load(Ordering::Acquire);
        let mut taken = 0;
        while let Ok(handover) = receiver.try_recv() {
            gc.take(handover);
            taken += 1;
        }
        if taken >= HANDOVER_CAPACITY {
            // The device may have kept some: there is room again.
            gc.device.tell(Control::LookAround);
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
