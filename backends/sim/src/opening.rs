//! Opens the simulator: one epoch, with all parts of its device.

use std::sync::{Arc, Weak};

use millstream_host::{ALIGNMENT, BINDINGS_MAX, PITCH_ALIGNMENT, QUEUE_DEPTH_MAX, features};
use millstream_protocol::{DeviceProperties, HostContext, MAX_QUEUES, Open, OpenError};
use millstream_sync::facade::Mutex;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};

use crate::clock::Timed;
use crate::device::SimDevice;
use crate::options::Sim;
use crate::shared::Shared;
use crate::state::State;
use crate::stepper::Stepper;

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
        device(self, &context)
    }
}

const _: () = assert!(MAX_QUEUES == 16, "the text above states the limit");

/// Opens the device; the options have been checked.
fn device(sim: Sim, context: &HostContext) -> Result<SimDevice, OpenError> {
    let properties = properties(&sim);
    // Relaxed: the numbers only have to differ.
    let epoch = sim.opened.fetch_add(1, Ordering::Relaxed);
    let shared = Arc::new(Shared {
        state: Mutex::new(State::new(&sim, epoch, context.trace_capacity)),
        table: context.table.clone(),
        timelines: (0..sim.queues).map(|_| Arc::default()).collect(),
        holds: sim.holds,
        findings: sim.findings,
        checks: sim.checks,
        gone: context.gone.clone(),
        loss_reported: AtomicBool::new(false),
    });
    let timed: Weak<dyn Timed> = Arc::downgrade(&(shared.clone() as Arc<dyn Timed>));
    sim.clock.attach(timed);
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
