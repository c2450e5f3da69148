//! Opens the simulator: one epoch, with all parts of its device.

use std::sync::Arc;

use millstream_host::{ALIGNMENT, BINDINGS_MAX, PITCH_ALIGNMENT, QUEUE_DEPTH_MAX, features};
use millstream_protocol::{DeviceProperties, HostContext, MAX_QUEUES, Open, OpenError};
use millstream_sync::facade::Mutex;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};

use crate::checker::Checker;
use crate::device::SimDevice;
use crate::faults::FaultPlan;
use crate::memory::Memory;
use crate::options::{Checks, Sim};
use crate::random::Random;
use crate::shared::Shared;
use crate::state::{Queue, State};
use crate::stepper::Stepper;
use crate::timing::Timing;

/// Multiplied with the epoch's number, so that each epoch makes other choices.
const EPOCH_SALT: u64 = 0x9e37_79b9_7f4a_7c15;

impl Open for Sim {
    type Backend = SimDevice;

    const NAME: &'static str = "sim";

    /// The same simulator continues: it keeps its findings and figures, and makes other choices from the same seed.
    /// Losses occur in the first epoch only.
    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn open(self, context: HostContext) -> Result<SimDevice, OpenError> {
        if self.queues == 0 || self.queues > MAX_QUEUES {
            return Err(OpenError::Option {
                option: "queues",
                given: self.queues.to_string(),
                must: "from 1 to 16",
            });
        }
        let properties = properties(&self);
        // Relaxed: the numbers only have to differ.
        let epoch = self.opened.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared {
            state: Mutex::new(state(&self, epoch, context.trace_capacity)),
            table: context.table.clone(),
            timelines: (0..self.queues).map(|_| Arc::default()).collect(),
            holds: self.holds,
            findings: self.findings,
            panics: self.checks == Checks::Panic,
            gone: context.gone.clone(),
            loss_reported: AtomicBool::new(false),
        });
        self.clock.attach(&shared);
        let stepper = match context.driven {
            true => None,
            false => Some(Stepper::start(shared.clone(), &context.spawner)?),
        };
        Ok(SimDevice {
            properties,
            shared,
            mark: "mark".into(),
            stepper,
        })
    }
}

const _: () = assert!(MAX_QUEUES == 16, "the text above states the limit");

/// Returns the initial state of an epoch.
fn state(sim: &Sim, epoch: u64, spans_max: usize) -> State {
    let mut random = Random::new(sim.seed ^ epoch.wrapping_mul(EPOCH_SALT));
    let faults = match epoch {
        0 => sim.faults.clone(),
        _ => sim.faults.clone().without_loss(),
    };
    let earlier = sim.findings.figures();
    State {
        queues: (0..sim.queues).map(|_| Queue::default()).collect(),
        memory: Memory::new(sim.memory_bytes, sim.moves_data),
        checker: (sim.checks != Checks::Off).then(|| Checker::new(sim.queues)),
        timing: Timing::new(sim.cost.clone(), &sim.slow[..sim.queues], spans_max),
        faults: FaultPlan::new(faults, random.next()),
        random,
        holds: sim.holds.clone(),
        punctual: sim.punctual,
        horizon_ns: u64::MAX,
        moves_data: sim.moves_data,
        lost: false,
        stopping: false,
        figures: earlier,
        earlier,
    }
}

fn properties(sim: &Sim) -> DeviceProperties {
    DeviceProperties {
        backend: "sim",
        name: format!("the simulator, seed {}", sim.seed),
        queues: sim.queues,
        queue_priorities: Vec::new(),
        compute_units: usize::try_from(sim.cost.compute_units).unwrap_or(usize::MAX),
        alignment: ALIGNMENT as u64,
        pitch_alignment: PITCH_ALIGNMENT,
        memory_bytes: Some(sim.memory_bytes),
        max_allocation_bytes: sim.memory_bytes,
        max_cube_count: [u32::MAX; 3],
        max_bindings: BINDINGS_MAX,
        max_queue_depth: QUEUE_DEPTH_MAX,
        features: features(),
    }
}
