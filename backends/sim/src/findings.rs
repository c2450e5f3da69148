//! What the simulator tells its user, through handles that are kept beside the device.

use std::fmt;

use millstream_protocol::id::QueueId;
use millstream_sync::facade::atomic::{AtomicU64, Ordering};
use millstream_sync::facade::{Arc, Mutex, lock};
use millstream_sync::gate::Gate;

use crate::checker::{Violation, Waits};

/// Violations that are kept; the rest is counted (I12). The first ones explain the others.
const VIOLATIONS_MAX: usize = 256;

/// What was found and counted: a handle that outlives the device.
#[derive(Clone, Default)]
pub struct Findings(Arc<Mutex<Found>>);

/// Figures of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Figures {
    /// Waits, and how many were of no use.
    pub waits: Waits,
    /// Tasks that ran, or failed when they were to run.
    pub tasks: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// When the last task ended, in virtual time: how long the schedule takes.
    pub virtual_ns: u64,
    /// A digest of every call and every step, in order: two runs with the same one were the same run.
    pub fingerprint: u64,
}

#[derive(Default)]
struct Found {
    violations: Vec<Violation>,
    violations_seen: u64,
    figures: Figures,
}

impl Findings {
    /// The rules that were broken so far, at most the first 256.
    pub fn violations(&self) -> Vec<Violation> {
        lock(&self.0).violations.clone()
    }

    /// How many rules were broken so far, beyond those that are kept too.
    pub fn violations_seen(&self) -> u64 {
        lock(&self.0).violations_seen
    }

    /// The figures so far.
    pub fn figures(&self) -> Figures {
        lock(&self.0).figures
    }

    /// When the last task ended, in virtual nanoseconds.
    pub fn virtual_ns(&self) -> u64 {
        self.figures().virtual_ns
    }

    /// For tests.
    ///
    /// # Panics
    /// When a rule was broken; the message lists what was found.
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

impl fmt::Debug for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = lock(&self.0);
        let mut out = f.debug_struct("Findings");
        out.field("violations_seen", &found.violations_seen)
            .field("figures", &found.figures);
        out.finish_non_exhaustive()
    }
}

/// Holds queues: a held queue runs nothing, and publishes nothing, until it is let go.
#[derive(Clone)]
pub struct Holds {
    /// A bit for each queue that is held.
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

    /// Holds a queue. A task that has started ends.
    pub fn hold(&self, queue: QueueId) {
        // Relaxed: a hold takes effect at some later step; what was held before it orders nothing.
        self.held.fetch_or(bit(queue), Ordering::Relaxed);
    }

    /// Lets a queue go. A driven device goes on when it is pumped next.
    pub fn release(&self, queue: QueueId) {
        // Release: pairs with `is_held`; what was done before the release is seen by what runs then.
        self.held.fetch_and(!bit(queue), Ordering::Release);
        self.gate.wake();
    }

    pub(crate) fn is_held(&self, queue: usize) -> bool {
        // Acquire: pairs with `release`.
        self.held.load(Ordering::Acquire) & (1 << queue) != 0
    }

    /// Where the stepping thread sleeps.
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
