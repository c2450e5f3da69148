//! Times that several threads of a device measure: when sampled tasks complete, and what the GC actor does.
//!
//! A sampled task takes one of a fixed number of *probes*, which is registered as a waker at the task's cursor. The
//! thread that publishes the cursor wakes the probe, and the probe reads the clock. So no thread waits for a sample,
//! and the device thread need not be awake. A lock is held only for one record, for a probe, or to add up the counts.

use std::sync::Arc;
use std::task::{Wake, Waker};

use millstream_protocol::Op;
use millstream_protocol::metrics::{Histogram, Latencies};
use millstream_sync::facade::{Mutex, Statistic, lock};
use millstream_sync::timeline::Timeline;

use super::{Observers, does_work};

/// The most sampled tasks that are in flight at once (I12).
const PROBES: usize = u64::BITS as usize;

/// A function that returns the time, in nanoseconds since a fixed moment. The runtime itself reads no clock.
pub type ReadClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The measurements that the threads of a device share. One for each epoch.
#[derive(Default)]
pub struct Meter {
    /// The number of values that the GC actor has dropped or keeps for ever.
    values_done: Statistic,
    timed: Option<Timed>,
}

/// The measurements that exist only if latencies are sampled.
struct Timed {
    shared: Arc<Shared>,
    /// Created once, so that registering one at a timeline allocates nothing (I9).
    probes: Box<[(Arc<Probe>, Waker)]>,
    value_waits_ns: Mutex<Histogram>,
}

/// The parts that probes share.
struct Shared {
    clock: ReadClock,
    runs: Mutex<Runs>,
}

/// The times of sampled tasks, and the probes that are free.
struct Runs {
    times_ns: Histogram,
    /// A bit for each. A probe that is not free belongs to the device thread until that has registered it at the
    /// timeline, and then to the thread that wakes it.
    free: u64,
}

/// A sampled task in flight.
struct Probe {
    index: usize,
    /// Written before the waker is registered, under the timeline's lock, and read when it is woken.
    issued_ns: Statistic,
    shared: Arc<Shared>,
}

impl Probe {
    /// Ends the sample: the task has completed, or its device is lost and no caller reads its figures any more.
    fn end(&self) {
        let now_ns = (self.shared.clock)();
        let took_ns = now_ns.saturating_sub(self.issued_ns.get());
        let mut runs = lock(&self.shared.runs);
        runs.times_ns.record(took_ns);
        runs.free |= 1 << self.index;
    }
}

impl Wake for Probe {
    fn wake(self: Arc<Self>) {
        self.end();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.end();
    }
}

impl Meter {
    /// Creates a meter that measures no times.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Creates a meter that measures latencies by this clock.
    pub fn timed(clock: ReadClock) -> Arc<Self> {
        let shared = Arc::new(Shared {
            clock,
            runs: Mutex::new(Runs {
                times_ns: Histogram::new(),
                free: u64::MAX,
            }),
        });
        let probe = |index| {
            let probe = Arc::new(Probe {
                index,
                issued_ns: Statistic::default(),
                shared: shared.clone(),
            });
            (probe.clone(), Waker::from(probe))
        };
        let probes = (0..PROBES).map(probe).collect();
        Arc::new(Self {
            values_done: Statistic::default(),
            timed: Some(Timed {
                shared,
                probes,
                value_waits_ns: Mutex::default(),
            }),
        })
    }

    /// Returns the time, which is never 0; or 0 if no times are measured.
    pub fn now_ns(&self) -> u64 {
        let timed = self.timed.as_ref();
        timed.map_or(0, |timed| (timed.shared.clock)().max(1))
    }

    /// Records that the GC actor drops a value that the server gave up at `since_ns`, or keeps it for ever. The time is 0 if
    /// it is not known.
    pub fn value_done(&self, since_ns: u64) {
        if let Some(timed) = self.timed.as_ref().filter(|_| since_ns > 0) {
            let waited_ns = self.now_ns().saturating_sub(since_ns);
            lock(&timed.value_waits_ns).record(waited_ns);
        }
        self.values_done.add(1);
    }

    /// Returns the number of values that the GC actor has dropped or keeps for ever.
    pub fn values_done(&self) -> u64 {
        self.values_done.get()
    }

    /// Measures until `timeline` publishes `cursor`, which is being issued now. Returns `false` if all probes are in
    /// flight. Only the device thread calls this.
    pub(super) fn follow(&self, timeline: &Timeline, cursor: u64, issued_ns: u64) -> bool {
        let Some(timed) = &self.timed else {
            return true;
        };
        let mut runs = lock(&timed.shared.runs);
        let index = runs.free.trailing_zeros() as usize;
        let Some((probe, waker)) = timed.probes.get(index) else {
            return false;
        };
        runs.free &= !(1 << index);
        drop(runs);
        probe.issued_ns.set(issued_ns);
        // The registration is never cancelled: the cursor or the end of the timeline wakes it.
        if timeline.register_own(cursor, waker).is_none() {
            probe.end();
        }
        true
    }

    /// Returns the histogram of the times from issue to completion of sampled tasks.
    pub(super) fn runs_ns(&self) -> Histogram {
        self.merged(|timed, all| all.merge(&lock(&timed.shared.runs).times_ns))
    }

    /// Returns the histogram of the times that values waited to be dropped.
    pub(super) fn value_waits_ns(&self) -> Histogram {
        self.merged(|timed, all| all.merge(&lock(&timed.value_waits_ns)))
    }

    /// Returns the histogram to which `add` adds. It is allocated before a lock is taken, for which a thread that
    /// publishes a timeline may wait.
    fn merged(&self, add: impl FnOnce(&Timed, &mut Histogram)) -> Histogram {
        let mut all = Histogram::new();
        if let Some(timed) = &self.timed {
            add(timed, &mut all);
        }
        all
    }
}

// Sampling: which tasks are followed for latencies, and the waiting times that the device thread measures itself.

/// The admission time of a task that is not followed.
pub const NOT_FOLLOWED: u64 = 0;

/// The admission time of a task that passes through: it is issued when it is admitted.
pub const PASSING: u64 = u64::MAX;

/// A sample of one task in `every`.
pub(super) struct Sampling {
    until_next: u64,
    /// What the device thread measures: all but `runs_ns` and `value_waits_ns`, which the meter has.
    latencies: Latencies,
}

impl Sampling {
    /// Creates a sampling of one task in `every`, or none if `every` is 0.
    pub(super) fn new(every: u64) -> Option<Box<Self>> {
        let mut latencies = Latencies::default();
        latencies.every = every;
        let sampling = Self {
            until_next: 1,
            latencies,
        };
        (every > 0).then(|| Box::new(sampling))
    }

    /// Returns `true` if the next task is part of the sample.
    fn is_next(&mut self) -> bool {
        self.until_next -= 1;
        let is_next = self.until_next == 0;
        if is_next {
            self.until_next = self.latencies.every;
        }
        is_next
    }
}

impl Observers {
    /// Returns the time if the next task, which will be held, is sampled; else [`NOT_FOLLOWED`].
    #[inline]
    pub fn admitted_ns(&mut self, op: &Op) -> u64 {
        let sampling = self.sampling.as_mut().filter(|_| does_work(op));
        match sampling.is_some_and(|sampling| sampling.is_next()) {
            true => self.meter.now_ns(),
            false => NOT_FOLLOWED,
        }
    }

    /// Returns `true` if a task that was admitted at `admitted_ns` and is about to be issued is followed. A task that
    /// passes through is counted here; a held one was counted at its admission.
    #[inline]
    pub fn is_followed(&mut self, op: &Op, admitted_ns: u64) -> bool {
        let sampling = self.sampling.as_mut();
        sampling.is_some_and(|sampling| match admitted_ns {
            NOT_FOLLOWED => false,
            PASSING => does_work(op) && sampling.is_next(),
            _ => true,
        })
    }

    /// Follows a task that was admitted at `admitted_ns` until `timeline` publishes its last cursor.
    pub fn follow(&mut self, timeline: &Arc<Timeline>, last: u64, admitted_ns: u64) {
        let Some(sampling) = &mut self.sampling else {
            return;
        };
        let now_ns = self.meter.now_ns();
        let queued_ns = match admitted_ns {
            PASSING => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        sampling.latencies.queued_ns.record(queued_ns);
        if !self.meter.follow(timeline, last, now_ns) {
            sampling.latencies.missed += 1;
        }
    }

    /// Records that a slice is free whose last handle was dropped at `since_ns`, if it was timed.
    pub fn slice_waited(&mut self, since_ns: u64) {
        if let Some(sampling) = &mut self.sampling
            && since_ns != NOT_FOLLOWED
        {
            let waited_ns = self.meter.now_ns().saturating_sub(since_ns);
            sampling.latencies.slice_waits_ns.record(waited_ns);
        }
    }

    /// Returns the sampled latencies, if any are sampled.
    pub fn latencies(&self) -> Option<Latencies> {
        let mut latencies = self.sampling.as_ref()?.latencies.clone();
        latencies.runs_ns = self.meter.runs_ns();
        latencies.value_waits_ns = self.meter.value_waits_ns();
        Some(latencies)
    }
}

#[cfg(test)]
mod sampling_tests {
    use millstream_protocol::Settings;

    use super::*;

    #[test]
    fn one_task_in_n_is_followed_beginning_with_the_first() {
        assert!(Sampling::new(0).is_none());
        let settings = Settings {
            sample_latencies: 3,
            ..Settings::default()
        };
        let mut observers = Observers::new(&settings, 1);
        let followed: Vec<_> = (0..7)
            .map(|_| observers.is_followed(&Op::Copy, PASSING))
            .collect();
        assert_eq!(followed, [true, false, false, true, false, false, true]);
        assert!(!observers.is_followed(&Op::Copy, NOT_FOLLOWED));
        assert!(observers.is_followed(&Op::Copy, 5));
        assert!(
            !observers.is_followed(&Op::Mark, PASSING),
            "a point is no work"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn clock() -> (Arc<AtomicU64>, ReadClock) {
        let time = Arc::new(AtomicU64::new(0));
        let read = time.clone();
        (time, Arc::new(move || read.load(Ordering::Relaxed)))
    }

    #[test]
    fn probe_measures_until_its_cursor_is_published() {
        let (time, clock) = clock();
        let (meter, timeline) = (Meter::timed(clock), Timeline::new());
        time.store(100, Ordering::Relaxed);
        assert!(meter.follow(&timeline, 2, 100));
        timeline.publish(1);
        assert_eq!(meter.runs_ns().count(), 0, "it has not completed");
        time.store(105, Ordering::Relaxed);
        timeline.publish(2);
        assert_eq!(
            (meter.runs_ns().count(), meter.runs_ns().greatest()),
            (1, 5)
        );
    }

    #[test]
    fn probes_are_bounded_and_reused_i12() {
        let (_, clock) = clock();
        let (meter, timeline) = (Meter::timed(clock), Timeline::new());
        let follow = |cursor| meter.follow(&timeline, cursor, 0);
        assert!((1..=PROBES as u64).all(follow));
        assert!(!follow(100), "all probes are in flight");
        timeline.publish(3);
        assert_eq!(meter.runs_ns().count(), 3);
        assert!(follow(100) && follow(101) && follow(102) && !follow(103));
        // A cursor that has passed already takes a probe only for a moment.
        timeline.publish(64);
        assert!((0..200).all(|_| follow(64)));
    }
}
