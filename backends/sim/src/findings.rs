//! The results of a run, through handles that the user keeps beside the device.

use std::fmt;

use millstream_protocol::QueueId;
use millstream_sync::facade::atomic::{AtomicU64, Ordering};
use millstream_sync::facade::{Arc, Mutex, lock};
use millstream_sync::gate::Gate;

use crate::checker::{Violation, Waits};

/// The number of violations that are stored; further ones are only counted (I12). The first ones explain the others.
const VIOLATIONS_MAX: usize = 256;

/// Everything that was found and counted: a handle that outlives the device.
#[derive(Clone, Default, Debug)]
pub struct Findings(Arc<Mutex<Found>>);

/// Figures of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Figures {
    /// Counts of waits, and of needless ones.
    pub waits: Waits,
    /// The number of tasks that ran, or failed when they should have run.
    pub tasks: u64,
    /// The number of faults that were injected.
    pub faults: u64,
    /// The end of the last task in virtual time, which is the length of the schedule.
    pub virtual_ns: u64,
    /// A digest of every call and every step, in order. Two runs with the same fingerprint were the same run.
    pub fingerprint: u64,
}

#[derive(Default, Debug)]
struct Found {
    violations: Vec<Violation>,
    violations_seen: u64,
    figures: Figures,
}

impl Findings {
    /// Returns the violations so far, at most the first 256.
    pub fn violations(&self) -> Vec<Violation> {
        lock(&self.0).violations.clone()
    }

    /// Returns the number of violations so far, including those that are not stored.
    pub fn violations_seen(&self) -> u64 {
        lock(&self.0).violations_seen
    }

    /// Returns the figures so far.
    pub fn figures(&self) -> Figures {
        lock(&self.0).figures
    }

    /// Returns the end of the last task in virtual nanoseconds.
    pub fn virtual_ns(&self) -> u64 {
        self.figures().virtual_ns
    }

    /// Asserts that there are no violations. For tests.
    ///
    /// # Panics
    /// If there are violations; the message lists them.
    #[track_caller]
    pub fn assert_clean(&self) {
        let (seen, violations) = (self.violations_seen(), self.violations());
        if seen > 0 {
            let list: Vec<String> = violations
                .iter()
                .map(|found| format!("\n  {found}"))
                .collect();
            panic!("{seen} violations:{}", list.concat());
        }
    }

    pub(crate) fn report(&self, violations: &[Violation], figures: Figures) {
        let mut found = lock(&self.0);
        found.figures = figures;
        found.violations_seen += violations.len() as u64;
        let vacant = VIOLATIONS_MAX - found.violations.len();
        found
            .violations
            .extend(violations.iter().take(vacant).cloned());
    }
}

/// Stops queues: a held queue runs and publishes nothing until it is released.
#[derive(Clone)]
pub struct Holds {
    /// A bit for each held queue.
    held: Arc<AtomicU64>,
    gate: Arc<Gate>,
}

impl Holds {
    pub(crate) fn new() -> Self {
        Self {
            held: Arc::new(AtomicU64::new(0)),
            gate: Arc::new(Gate::new()),
        }
    }

    /// Holds a queue. A task that has started still ends.
    pub fn hold(&self, queue: QueueId) {
        // Relaxed: the hold takes effect at a later step; it orders nothing before it.
        self.held.fetch_or(bit(queue), Ordering::Relaxed);
    }

    /// Releases a queue. A driven device continues at the next pump.
    pub fn release(&self, queue: QueueId) {
        // Release: pairs with the load in `is_held`; the tasks that run then see everything before the release.
        self.held.fetch_and(!bit(queue), Ordering::Release);
        self.gate.wake();
    }

    pub(crate) fn is_held(&self, queue: usize) -> bool {
        // Acquire: pairs with `release`.
        self.held.load(Ordering::Acquire) & (1 << queue) != 0
    }

    /// The gate at which the stepping thread sleeps.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }
}

impl fmt::Debug for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Acquire: as in `is_held`.
        write!(f, "Holds({:b})", self.held.load(Ordering::Acquire))
    }
}

fn bit(queue: QueueId) -> u64 {
    1_u64.checked_shl(u32::from(queue.0)).unwrap_or(0)
}
