//! The project's own devices as subjects of the suite.

use std::ops::Deref;

use millstream::{CpuResources, Kernel, Source};
use millstream_conformance::{Abilities, Clock, Mode, On as SuiteOn, Opening, Setting, Subject};
use millstream_cuda::{Cuda, CudaLaunch, CudaResources};

use super::MetadataWords;
use super::embedded::{OnCpu, OnSim};
use super::gpu::{Gpu, GpuChecks, Words};
use super::tiny::Tiny;

/// A device of the project and its mode. It dereferences to the suite's [`millstream_conformance::On`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    /// The CPU with queues that overlap.
    Cpu,
    /// The CPU with one queue, which orders all tasks.
    CpuOneQueue,
    /// The CPU without threads, driven.
    CpuDriven,
    /// The simulator with a thread. Every test on it ends with its checks.
    Sim,
    /// The simulator, driven: a test has the same run each time.
    SimDriven,
    /// The GPU of the loaded driver, real or fake (`gpu`). A test on the fake driver ends with its checks.
    Cuda,
    /// A GPU with one queue.
    CudaOneQueue,
    /// A GPU, driven: on the fake driver a test has the same run each time.
    CudaDriven,
    /// The backend of the example, with threads. The example runs the suite on it.
    Tiny,
    /// The backend of the example, driven.
    TinyDriven,
}

impl Deref for On {
    type Target = SuiteOn;

    fn deref(&self) -> &SuiteOn {
        match self {
            On::Cpu => &const { SuiteOn::new(&OnCpu, Mode::Threads) },
            On::CpuOneQueue => &const { SuiteOn::new(&OnCpu, Mode::OneQueue) },
            On::CpuDriven => &const { SuiteOn::new(&OnCpu, Mode::Driven) },
            On::Sim => &const { SuiteOn::new(&OnSim, Mode::Threads) },
            On::SimDriven => &const { SuiteOn::new(&OnSim, Mode::Driven) },
            On::Cuda => &const { SuiteOn::new(&OnCuda, Mode::Threads) },
            On::CudaOneQueue => &const { SuiteOn::new(&OnCuda, Mode::OneQueue) },
            On::CudaDriven => &const { SuiteOn::new(&OnCuda, Mode::Driven) },
            On::Tiny => &const { SuiteOn::new(&OnTiny, Mode::Threads) },
            On::TinyDriven => &const { SuiteOn::new(&OnTiny, Mode::Driven) },
        }
    }
}

impl From<On> for SuiteOn {
    fn from(on: On) -> Self {
        *on
    }
}

pub(crate) struct OnCuda;

impl Subject for OnCuda {
    type Kind = Cuda;

    fn open(&self, setting: &Setting) -> Opening<Cuda> {
        let gpu = Gpu::of_this_test(setting.seed, setting.mode == Mode::Driven);
        let queues = match setting.mode {
            Mode::OneQueue => 1,
            Mode::Threads | Mode::Driven => 2,
        };
        // The fake driver takes only PTX.
        let to_ptx = gpu.session().is_some();
        let cuda = Cuda::ordinal(0).queues(queues).compile_to_ptx(to_ptx);
        let cuda = match setting.memory_bytes {
            Some(bytes) => cuda.memory_limit(bytes),
            None => cuda,
        };
        Opening::checked(cuda, GpuChecks(gpu))
    }

    /// The backend does not support dynamic cube counts yet.
    fn abilities(&self, mode: Mode) -> Abilities {
        Abilities::default().with(|has| {
            has.rust_kernels = false;
            has.dynamic_counts = false;
            has.queues_overlap = mode == Mode::Threads;
            has.one_queue = mode == Mode::OneQueue;
            has.leaves_tasks_behind = true;
            has.clock = Clock::Device;
        })
    }

    fn twin(&self, kernel: Kernel) -> Kernel {
        twin(kernel)
    }

    fn read(&self, resources: &CudaResources, index: usize) -> Vec<u32> {
        Words::fetch(resources).binding(index).to_vec()
    }

    fn change(&self, resources: &CudaResources, index: usize, change: &mut dyn FnMut(&mut [u32])) {
        let mut all = Words::fetch(resources);
        change(all.binding(index));
        all.store(resources);
    }
}

/// Adds the twin in PTX, the output of NVRTC for the CUDA C in `kernels` (`twins`).
fn twin(kernel: Kernel) -> Kernel {
    let text = match &**kernel.name() {
        "places" | "count_cubes" | "atomics" => include_str!("../kernels/cubes.ptx"),
        "held" | "held_reader" => include_str!("../kernels/held.ptx"),
        "large" | "wide" => include_str!("../kernels/large.ptx"),
        _ => include_str!("../kernels/elements.ptx"),
    };
    let words = kernel.extension::<MetadataWords>().copied();
    let kernel = kernel.source(Source::Ptx(text.into()));
    match words {
        Some(MetadataWords(words)) => kernel.with(CudaLaunch::default().metadata_words(words)),
        None => kernel,
    }
}

pub(crate) struct OnTiny;

impl Subject for OnTiny {
    type Kind = Tiny;

    fn open(&self, setting: &Setting) -> Opening<Tiny> {
        Opening::of(match setting.memory_bytes {
            Some(bytes) => Tiny::default().memory_limit(bytes),
            None => Tiny::default(),
        })
    }

    fn read(&self, resources: &CpuResources, index: usize) -> Vec<u32> {
        resources.read(index).to_vec()
    }

    fn change(&self, resources: &CpuResources, index: usize, change: &mut dyn FnMut(&mut [u32])) {
        change(&mut resources.write(index));
    }
}
