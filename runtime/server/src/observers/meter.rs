//! What is measured by several threads of a device: when sampled tasks complete, and what the GC actor does.
//!
//! A sampled task takes one of a fixed number of *probes*, which is left as a waker at its cursor. Whoever publishes the cursor
//! wakes it, and that reads the clock: nobody waits for a sample, and the device's thread need not be awake for it.

use std::sync::Arc;
use std::task::{Wake, Waker};

use millstream_protocol::metrics::{Histogram, SharedHistogram};
use millstream_sync::facade::Figure;
use millstream_sync::timeline::Timeline;
use millstream_sync::tokens::Tokens;

/// Sampled tasks that are in flight at once (I12).
const PROBES: usize = Tokens::MAX;

/// Tells the time, in nanoseconds since some moment. The runtime reads no clock of its own.
pub type ReadClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What the threads of a device measure together. One of each epoch.
#[derive(Default)]
pub struct Meter {
    /// Values that the GC actor has dropped, or keeps for ever.
    values_done: Figure,
    timed: Option<Timed>,
}

/// What is measured only where latencies are asked for.
struct Timed {
    shared: Arc<Shared>,
    /// Made once: leaving one at a timeline allocates nothing (I9).
    probes: Box<[(Arc<Probe>, Waker)]>,
    value_waits_ns: SharedHistogram,
}

/// What probes need when they are woken.
struct Shared {
    clock: ReadClock,
    /// Who has the token of a probe uses it: the device's thread until it leaves it at the timeline, then who wakes it.
    tokens: Tokens,
    runs_ns: SharedHistogram,
}

/// One sampled task in flight.
struct Probe {
    token: usize,
    /// Written before the waker is left, under the timeline's lock, and read when it is woken.
    issued_ns: Figure,
    shared: Arc<Shared>,
}

impl Probe {
    /// The task has completed, or its device is lost, which nobody asks for figures any more.
    fn end(&self) {
        let now_ns = (self.shared.clock)();
        let took_ns = now_ns.saturating_sub(self.issued_ns.get());
        self.shared.runs_ns.record(took_ns);
        self.shared.tokens.give_back(self.token);
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
    /// One that measures no time.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// One that measures latencies by this clock.
    pub fn timed(clock: ReadClock) -> Arc<Self> {
        let shared = Arc::new(Shared {
            clock,
            tokens: Tokens::new(PROBES),
            runs_ns: SharedHistogram::default(),
        });
        let probe = |token| {
            let probe = Arc::new(Probe {
                token,
                issued_ns: Figure::default(),
                shared: shared.clone(),
            });
            (probe.clone(), Waker::from(probe))
        };
        let probes = (0..PROBES).map(probe).collect();
        Arc::new(Self {
            values_done: Figure::default(),
            timed: Some(Timed {
                shared,
                probes,
                value_waits_ns: SharedHistogram::default(),
            }),
        })
    }

    /// The time, never 0; 0 where none is measured.
    pub fn now_ns(&self) -> u64 {
        let timed = self.timed.as_ref();
        timed.map_or(0, |timed| (timed.shared.clock)().max(1))
    }

    /// The GC actor is about to drop a value that was handed over at `since_ns`, or keeps it for ever.
    pub fn value_done(&self, since_ns: u64) {
        if let Some(timed) = &self.timed {
            let waited_ns = self.now_ns().saturating_sub(since_ns);
            timed.value_waits_ns.record(waited_ns);
        }
        self.values_done.add(1);
    }

    /// Values that the GC actor is done with.
    pub(crate) fn values_done(&self) -> u64 {
        self.values_done.get()
    }

    /// Measures until `timeline` has come to `cursor`, which is being issued now. Says no where all probes are under way. For
    /// the device's thread alone.
    pub(crate) fn follow(&self, timeline: &Timeline, cursor: u64, issued_ns: u64) -> bool {
        let Some(timed) = &self.timed else {
            return true;
        };
        let Some(token) = timed.shared.tokens.take() else {
            return false;
        };
        let (probe, waker) = &timed.probes[token];
        probe.issued_ns.set(issued_ns);
        // Nobody cancels it: it is woken by the cursor, or by the end of the timeline.
        if timeline.register(cursor, waker).is_none() {
            probe.end();
        }
        true
    }

    /// How long sampled tasks took from their issue to their completion.
    pub(crate) fn runs_ns(&self) -> Histogram {
        let timed = self.timed.as_ref();
        timed.map_or_else(Histogram::new, |timed| timed.shared.runs_ns.look())
    }

    /// How long values waited to be dropped.
    pub(crate) fn value_waits_ns(&self) -> Histogram {
        let timed = self.timed.as_ref();
        timed.map_or_else(Histogram::new, |timed| timed.value_waits_ns.look())
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
    fn a_probe_tells_what_passed_until_its_cursor_was_published() {
        let (time, clock) = clock();
        let (meter, timeline) = (Meter::timed(clock), Timeline::new());
        time.store(100, Ordering::Relaxed);
        assert!(meter.follow(&timeline, 2, 100));
        timeline.publish(1);
        assert_eq!(meter.runs_ns().count(), 0, "it is not over");
        time.store(105, Ordering::Relaxed);
        timeline.publish(2);
        assert_eq!(
            (meter.runs_ns().count(), meter.runs_ns().greatest()),
            (1, 5)
        );
    }

    #[test]
    fn probes_are_bounded_and_come_back_i12() {
        let (_, clock) = clock();
        let (meter, timeline) = (Meter::timed(clock), Timeline::new());
        let follow = |cursor| meter.follow(&timeline, cursor, 0);
        assert!((1..=PROBES as u64).all(follow));
        assert!(!follow(100), "one more than there are");
        timeline.publish(3);
        assert_eq!(meter.runs_ns().count(), 3);
        assert!(follow(100) && follow(101) && follow(102) && !follow(103));
        // What has passed already takes none for longer than a moment.
        timeline.publish(64);
        assert!((0..200).all(|_| follow(64)));
    }
}
