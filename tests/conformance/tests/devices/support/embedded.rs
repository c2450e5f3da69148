//! The devices that need only the library, as subjects of the suite. `tests/behaviour.rs` of the library includes this
//! file, too.

use millstream::sim::{Findings, Sim, SimResources};
use millstream::{Cpu, CpuResources};
use millstream_conformance::{Abilities, Checks, Clock, Mode, Opening, Setting, Subject};

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

    fn change(&self, resources: &CpuResources, index: usize, change: &mut dyn FnMut(&mut [u32])) {
        change(&mut resources.write(index));
    }
}

pub(crate) struct OnSim;

/// The findings of the simulator. If there are any, the test fails.
struct AssertClean(Findings);

impl Checks for AssertClean {}

impl Drop for AssertClean {
    fn drop(&mut self) {
        let Self(findings) = self;
        if std::thread::panicking() {
            // The findings may explain the failure.
            for violation in findings.violations() {
                eprintln!("{violation}");
            }
            return;
        }
        findings.assert_clean();
        // I3: no wait is issued that a clock implies.
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
        let checks = AssertClean(sim.findings());
        Opening::checked(sim, checks)
    }

    /// The simulator runs one task at a time, whatever its queue.
    fn abilities(&self, _mode: Mode) -> Abilities {
        Abilities::default().with(|has| {
            has.one_queue = false;
            has.clock = Clock::Virtual;
        })
    }

    fn read(&self, resources: &SimResources, index: usize) -> Vec<u32> {
        resources.read(index).to_vec()
    }

    fn change(&self, resources: &SimResources, index: usize, change: &mut dyn FnMut(&mut [u32])) {
        change(&mut resources.write(index));
    }
}
