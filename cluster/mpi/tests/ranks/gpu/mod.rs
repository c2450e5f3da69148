//! Ranks with CUDA devices, on the fake driver: `tests/cuda/fake`. Its checker reports every access without order, every
//! wrong call, and every leak.

mod double;
mod driver;
mod failures;
mod values;

use std::sync::atomic::{AtomicBool, Ordering};

use fake_cuda::Session;
use millstream::cuda::Cuda;
use millstream::{Cpu, Device, DeviceOptions, MemoryOptions};
use millstream_mpi::World;

use crate::{Rank, Scenario};
use double::Accepts;

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("gpu_pieces", 2, values::pieces),
    ("gpu_mixed", 3, values::mixed),
    ("gpu_among_17", 17, values::one_among_many),
    ("gpu_transfers", 2, values::transfers_by_address),
    ("gpu_all", 3, values::all_by_address),
    ("gpu_poison", 3, failures::poison),
    ("gpu_poison_all", 3, failures::poison),
    ("gpu_lost", 2, failures::lost),
    ("gpu_error", 2, failures::an_error_of_mpi),
    ("gpu_lost_all", 2, failures::lost_under_a_request),
    ("ended_gpu_pieces", 4, failures::ended),
    ("ended_gpu_all", 4, failures::ended),
];

/// The bytes of a piece.
pub(crate) const PIECE: usize = 1 << 20;

/// Whether this process has a fake driver.
static IS_USED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_used() -> bool {
    IS_USED.load(Ordering::SeqCst)
}

/// Chooses what MPI is, before it is initialized.
pub(crate) fn prepare(scenario: &str) {
    let is_used = SCENARIOS.iter().any(|known| known.0 == scenario);
    IS_USED.store(is_used, Ordering::SeqCst);
    double::accept(match scenario {
        "gpu_transfers" => Accepts::Transfers,
        "gpu_all" | "gpu_poison_all" | "gpu_lost_all" | "ended_gpu_all" => Accepts::All,
        _ => Accepts::Nothing,
    });
}

/// A rank with a CUDA device, or one with a CPU.
struct Rig {
    rank: Rank,
    gpu: Session,
}

impl Rig {
    /// The ranks `cpus` have a CPU.
    fn new(world: World, cpus: &[usize]) -> Self {
        let gpu = Session::begin(7 + world.rank() as u64).unwrap_or_else(|error| panic!("{error}"));
        // The fake fills new memory with a pattern.
        let memory = MemoryOptions::default().page_bytes(256 << 10);
        let options = DeviceOptions::default().memory(memory);
        let device = match cpus.contains(&world.rank()) {
            true => Device::open(Cpu::default()),
            false => Device::open_with(Cuda::ordinal(0).queues(2), options),
        };
        Self {
            rank: Rank::of(world, device.unwrap()),
            gpu,
        }
    }

    /// Closes everything, and asserts that the fake has nothing to report. The caller has dropped its handles.
    fn close(self) {
        self.close_device().assert_clean();
    }

    /// Closes everything but the fake.
    fn close_device(self) -> Session {
        let Self { rank, gpu } = self;
        let Rank {
            fleet,
            group,
            world,
            ..
        } = rank;
        drop(group);
        drop(fleet);
        drop(world);
        gpu
    }
}
