//! The devices that need nothing but the library, as subjects of the suite. `tests/behaviour.rs` of the library has them as well.

use millstream::sim::{Findings, Sim, SimResources};
use millstream::{Cpu, CpuResources};
use millstream_conformance::{Abilities, Checks, Clock, Opening, Setting, Subject, Mode};

pub(crate) struct OnCpu;

impl Subject for OnCpu {
    type Kind = Cpu;

    fn open(&self, setting: &Setting) -> Opening<Cpu> {
        let queues = match setting.mode {
            Mode::OneQueue => 1,
            Mode::Threads | Mode::Driven => 2,
        };
        let cpu = Cpu::default().queues(queues).threads(2);
        Opening::of(match setting.memory_bytes {
            Some(bytes) => cpu.memory_limit(bytes),
            None => cpu,
        })
    }

    fn abilities(&self, mode: Mode) -> Abilities {
        Abilities::default().with(|has| {
            has.queues_overlap = mode == Mode::Threads;
            has.one_queue = mode == Mode::OneQueue;
            has.leaves_tasks_behind = true;
            has.memory_is_lazy = true;
        })
    }

    fn read(&self, resources: &CpuResources, index: usize) -> Vec<u32> {
        resources.read(index).to_vec()
    }

    fn change(
        &self,
        resources: &mut CpuResources,
        index: usize,
        change: &mut dyn FnMut(&mut [u32]),
    ) {
        change(resources.write(index));
    }
}

pub(crate) struct OnSim;

/// What the simulator found: nothing, or the test fails.
struct Found(Findings);

impl Checks for Found {}

impl Drop for Found {
    fn drop(&mut self) {
        let Self(findings) = self;
        if std::thread::panicking() {
            // What was found may explain the failure.
            for found in findings.violations() {
                eprintln!("{found}");
            }
            return;
        }
        findings.assert_clean();
        // I3: what the clocks imply is not waited for.
        assert_eq!(findings.figures().waits.implied, 0, "needless waits");
    }
}

impl Subject for OnSim {
    type Kind = Sim;

    fn open(&self, setting: &Setting) -> Opening<Sim> {
        let sim = Sim::seed(setting.seed);
        let sim = match setting.memory_bytes {
            Some(bytes) => sim.memory_bytes(bytes),
            None => sim,
        };
        let found = Found(sim.findings());
        Opening::checked(sim, found)
    }

    /// It runs one task at a time, whatever its queue.
    fn abilities(&self, _mode: Mode) -> Abilities {
        Abilities::default().with(|has| {
            has.one_queue = false;
            has.clock = Clock::Virtual;
        })
    }

    fn read(&self, resources: &SimResources, index: usize) -> Vec<u32> {
        resources.read(index).to_vec()
    }

    fn change(
        &self,
        resources: &mut SimResources,
        index: usize,
        change: &mut dyn FnMut(&mut [u32]),
    ) {
        change(resources.write(index));
    }
}
