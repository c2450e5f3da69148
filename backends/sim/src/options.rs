//! The options of the simulator. The module `opening` opens it.

use millstream_protocol::{MAX_QUEUES, QueueId};
use millstream_sync::facade::Arc;
use millstream_sync::facade::atomic::AtomicU64;

use crate::clock::Clock;
use crate::cost::CostModel;
use crate::faults::Faults;
use crate::findings::{Findings, Holds};

/// Queues by default: the fewest with which one wait can imply another.
const DEFAULT_QUEUES: usize = 3;
/// Bytes of memory by default.
const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;

/// The reaction to a violation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checks {
    /// Nothing is checked, except that kernels access only elements that exist.
    Off,
    /// The violation is added to the [`Findings`].
    #[default]
    Collect,
    /// As `Collect`, and the call that broke the rule panics on the device's thread, which loses the device.
    Panic,
}

/// The simulated device: its options, and [`Open`](millstream_protocol::Open).
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
/// A clone is the same simulator: opening it again starts the next epoch, which makes other choices, has no losses,
/// and reports to the same [`Findings`]. To repeat a run, create another simulator from the same seed.
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
    pub(crate) moves_data: bool,
    /// The number of times it was opened.
    pub(crate) opened: Arc<AtomicU64>,
    pub(crate) findings: Findings,
    pub(crate) holds: Holds,
    pub(crate) clock: Clock,
}

impl Sim {
    /// Creates a simulator whose choices follow from this seed.
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
            moves_data: true,
            opened: Arc::default(),
            findings: Findings::default(),
            holds: Holds::new(),
            clock: Clock::default(),
        }
    }

    /// Sets the number of queues. The default is 3.
    #[must_use]
    pub fn queues(mut self, queues: usize) -> Self {
        self.queues = queues;
        self
    }

    /// Sets the bytes of device memory. The default is 1 GiB.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Sets the costs of work in virtual time.
    #[must_use]
    pub fn cost(mut self, cost: CostModel) -> Self {
        self.cost = cost;
        self
    }

    /// Sets the plan of faults.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Sets the reaction to violations. By default they are collected.
    #[must_use]
    pub fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Slows a queue down by a factor: it is chosen that much more rarely, and its tasks take that much longer.
    #[must_use]
    pub fn slow(mut self, queue: QueueId, factor: u32) -> Self {
        if let Some(slow) = self.slow.get_mut(queue.index()) {
            *slow = factor.max(1);
        }
        self
    }

    /// Runs everything in the order of virtual time instead of an adversarial order: the host sees each task as soon
    /// as it ends. For measuring schedules of a driven device whose host takes no time; a pump is one step.
    #[must_use]
    pub fn punctual(mut self) -> Self {
        self.punctual = true;
        self
    }

    /// Lets tasks take their time in virtual time and do nothing else: kernels do not run, copies move no bytes, and
    /// memory that no custom task or host function touches costs nothing. For estimates of programs that are larger
    /// than this machine. A download returns zeros, and a launch whose count lies on the device has no cubes.
    #[must_use]
    pub fn without_data(mut self) -> Self {
        self.moves_data = false;
        self
    }

    /// Returns the handle through which the device reports violations and figures. Keep it beside the device.
    pub fn findings(&self) -> Findings {
        self.findings.clone()
    }

    /// Sets the clock. Otherwise clones of a simulator share one, which is that of the device that was opened last.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns `false` if tasks take their time only: [`Sim::without_data`].
    pub fn moves_data(&self) -> bool {
        self.moves_data
    }

    /// Returns the clock of a punctual device, by which its owner runs it beside others in one virtual time.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Returns the handle that holds and releases the device's queues.
    pub fn holds(&self) -> Holds {
        self.holds.clone()
    }
}
