//! What can be chosen of the simulator. Opening it stands in `opening`.

use millstream_protocol::id::{MAX_QUEUES, QueueId};
use millstream_sync::facade::Arc;
use millstream_sync::facade::atomic::AtomicU64;

use crate::cost::CostModel;
use crate::faults::Faults;
use crate::findings::{Findings, Holds};

/// Queues where nothing is said: the least with which a wait can imply another.
const DEFAULT_QUEUES: usize = 3;
/// Memory where nothing is said.
const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;

/// What becomes of a broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checks {
    /// Nothing is checked.
    Off,
    /// It is kept in the [`Findings`].
    #[default]
    Collect,
    /// The call that broke it panics as well, on the device's thread, which loses the device.
    Panic,
}

/// The simulator as a device: options, and how it is opened.
///
/// ```
/// use millstream_sim::{Faults, Sim};
///
/// let sim = Sim::seed(7).queues(2).faults(Faults::none());
/// let findings = sim.findings();
/// // let device = Device::open(sim)?; ..; drop(device);
/// findings.assert_clean();
/// ```
///
/// A clone is the same simulator: what is opened second is its next epoch, with other choices and without losses, and
/// tells the same [`Findings`]. For the same run again make another one of the same seed.
#[derive(Clone, Debug)]
pub struct Sim {
    pub(crate) seed: u64,
    pub(crate) queues: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) cost: CostModel,
    pub(crate) faults: Faults,
    pub(crate) checks: Checks,
    pub(crate) slow: [u32; MAX_QUEUES],
    pub(crate) punctual: bool,
    /// How often it was opened.
    pub(crate) opened: Arc<AtomicU64>,
    pub(crate) findings: Findings,
    pub(crate) holds: Holds,
}

impl Sim {
    /// A simulator whose choices are those of this seed.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Self {
            seed,
            queues: DEFAULT_QUEUES,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            cost: CostModel::default(),
            faults: Faults::none(),
            checks: Checks::default(),
            slow: [1; MAX_QUEUES],
            punctual: false,
            opened: Arc::default(),
            findings: Findings::default(),
            holds: Holds::new(),
        }
    }

    /// How many queues there are; 3 where nothing is said.
    #[must_use]
    pub fn queues(mut self, queues: usize) -> Self {
        self.queues = queues;
        self
    }

    /// How many bytes of memory the device has; 1 GiB where nothing is said.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// What work costs in virtual time.
    #[must_use]
    pub fn cost(mut self, cost: CostModel) -> Self {
        self.cost = cost;
        self
    }

    /// What goes wrong.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// What becomes of broken rules. By default they are collected.
    #[must_use]
    pub fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Makes a queue slow: it is chosen so many times more rarely, and takes so many times longer.
    #[must_use]
    pub fn slow(mut self, queue: QueueId, factor: u32) -> Self {
        if let Some(slow) = self.slow.get_mut(queue.index()) {
            *slow = factor.max(1);
        }
        self
    }

    /// No adversary but a clock: everything happens in the order of virtual time, and is seen when it ends. For
    /// measuring schedules, of a driven device whose host takes no time: a pump is one step.
    #[must_use]
    pub fn punctual(mut self) -> Self {
        self.punctual = true;
        self
    }

    /// Where the device will tell what it found. To be kept beside it.
    pub fn findings(&self) -> Findings {
        self.findings.clone()
    }

    /// With which the device's queues can be held and let go.
    pub fn holds(&self) -> Holds {
        self.holds.clone()
    }
}
