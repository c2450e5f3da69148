//! What the integration tests share: the devices that every fact is checked on, a few kernels (`kernels`), and a
//! valve that holds a kernel until the test lets it go (`valve`).

mod gpu;
mod kernels;
/// A backend as a third party writes one: all that holds on the others holds on it as well.
#[path = "../../../examples/backend/tiny/mod.rs"]
mod tiny;
mod valve;

use std::sync::Arc;

use fake_cuda::Session;
use millstream::backend::Open;
use millstream::sim::{Findings, Sim};
use millstream::{
    ComputeClient, Cpu, CpuResources, Device, DeviceOptions, Driver, Error, IntoBindings,
    ResourceGuard, Stream,
};
use millstream_cuda::Cuda;
use rstest_reuse::template;

use gpu::{Gpu, Words};
use tiny::Tiny;

pub(crate) use kernels::*;
pub(crate) use valve::Valve;

/// A kind of device that the facts hold on. Backends that come later join here, and in
/// [`every_device`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    /// The CPU with queues that overlap.
    Cpu,
    /// The CPU with one queue: all order is the queue's own.
    CpuOneQueue,
    /// The CPU without any thread, through the direct channel.
    CpuDriven,
    /// The simulator, which steps by itself. Every test on it ends with its checks.
    Sim,
    /// The simulator, driven: the same test, the same run.
    SimDriven,
    /// A GPU, or what the driver's library is in its place (`gpu`). A test on the fake ends with its checks.
    Cuda,
    /// A GPU with one queue.
    CudaOneQueue,
    /// A GPU without any thread of ours. One test, one run, as far as the fake goes.
    CudaDriven,
    /// The backend of the example: what the suite takes of a device that it does not know.
    Tiny,
    /// The same, driven.
    TinyDriven,
}

/// An opened device; a driven one keeps its driver.
pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) driver: Option<Driver>,
    /// Dropped last, when the device is closed.
    pub(crate) checked: Checked,
}

/// Who looks for what is wrong, if anybody does: then it is nothing, or the test fails.
pub(crate) enum Checked {
    Nobody,
    Sim(Findings),
    /// By its own end.
    Gpu(Arc<Gpu>),
}

impl Checked {
    /// The fake driver, if it is what is the GPU.
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            Checked::Gpu(gpu) => gpu.session(),
            _ => None,
        }
    }

    /// The test leaves something behind on the device, and means to.
    pub(crate) fn expects_leaks(&self) {
        if let Checked::Gpu(gpu) = self {
            gpu.expect_leaks();
        }
    }

    /// How often kernels of this name were run on a GPU, where it tells that: hardware does not.
    pub(crate) fn kernels_run(&self, name: &str) -> Option<u64> {
        self.session().map(|session| session.kernels_run(name))
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        let Checked::Sim(findings) = self else {
            return;
        };
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

/// The choices of the simulator and of the fake driver, another run with `MILLSTREAM_SIM_SEED`.
fn seed() -> u64 {
    let given = std::env::var("MILLSTREAM_SIM_SEED").ok();
    given.and_then(|seed| seed.parse().ok()).unwrap_or(7)
}

impl On {
    pub(crate) fn open(self) -> Rig {
        self.open_with(DeviceOptions::default())
    }

    pub(crate) fn open_with(self, options: DeviceOptions) -> Rig {
        self.open_limited(None, options, seed())
    }

    /// Opens with other choices of the simulator or the fake driver, in small pages, of which filling takes no time.
    pub(crate) fn open_seeded(self, seed: u64) -> Rig {
        let memory = millstream::MemoryOptions::default().page_bytes(256 << 10);
        let options = DeviceOptions::default().max_tasks(8).memory(memory);
        self.open_limited(None, options, seed)
    }

    /// Opens with at most `bytes` of device memory, in pages of 64 KiB.
    pub(crate) fn open_small(self, bytes: u64) -> Rig {
        let memory = millstream::MemoryOptions::default()
            .page_bytes(64 << 10)
            .small_max(4 << 10);
        let options = DeviceOptions::default().memory(memory);
        self.open_limited(Some(bytes), options, seed())
    }

    fn open_limited(self, bytes: Option<u64>, options: DeviceOptions, seed: u64) -> Rig {
        let cpu = Cpu::default().queues(2).threads(2);
        let cpu = match bytes {
            Some(bytes) => cpu.memory_limit(bytes),
            None => cpu,
        };
        let sim = Sim::seed(seed);
        let sim = match bytes {
            Some(bytes) => sim.memory_bytes(bytes),
            None => sim,
        };
        let found = Checked::Sim(sim.findings());
        match self {
            On::Cpu => Rig::new(cpu, options, Checked::Nobody),
            On::CpuOneQueue => Rig::new(cpu.queues(1), options, Checked::Nobody),
            On::CpuDriven => Rig::driven(cpu, options, Checked::Nobody),
            On::Sim => Rig::new(sim, options, found),
            On::SimDriven => Rig::driven(sim, options, found),
            On::Tiny | On::TinyDriven => {
                let tiny = match bytes {
                    Some(bytes) => Tiny::default().memory_limit(bytes),
                    None => Tiny::default(),
                };
                match self {
                    On::Tiny => Rig::new(tiny, options, Checked::Nobody),
                    _ => Rig::driven(tiny, options, Checked::Nobody),
                }
            }
            On::Cuda | On::CudaOneQueue | On::CudaDriven => {
                let gpu = Gpu::of_this_test(seed, self == On::CudaDriven);
                if let (Some(bytes), Some(session)) = (bytes, gpu.session()) {
                    session.memory_bytes(bytes);
                }
                // The fake takes PTX alone.
                let to_ptx = gpu.session().is_some();
                let cuda = Cuda::ordinal(0).queues(2).compile_to_ptx(to_ptx);
                match self {
                    On::CudaDriven => Rig::driven(cuda, options, Checked::Gpu(gpu)),
                    On::CudaOneQueue => Rig::new(cuda.queues(1), options, Checked::Gpu(gpu)),
                    _ => Rig::new(cuda, options, Checked::Gpu(gpu)),
                }
            }
        }
    }
}

/// Memory that a guard has, on whatever device.
pub(crate) enum Guard {
    Cpu(ResourceGuard<Cpu>),
    Sim(ResourceGuard<Sim>),
    Cuda(ResourceGuard<Cuda>),
    Tiny(ResourceGuard<Tiny>),
}

impl Guard {
    /// The words of its only binding.
    pub(crate) fn words(&self) -> Vec<u32> {
        match self {
            Guard::Cpu(guard) => guard.read(0).to_vec(),
            Guard::Sim(guard) => guard.read(0).to_vec(),
            Guard::Tiny(guard) => guard.read(0).to_vec(),
            Guard::Cuda(guard) => Words::fetch(guard).binding(0).to_vec(),
        }
    }
}

/// Memory that a custom task has, on whatever device.
pub(crate) enum Resources<'a> {
    Host(&'a mut CpuResources),
    /// Of a GPU: copies, which are put back.
    Gpu(&'a mut Words),
}

impl Resources<'_> {
    pub(crate) fn words(&mut self, index: usize) -> &mut [u32] {
        match self {
            Resources::Host(resources) => resources.write(index),
            Resources::Gpu(words) => words.binding(index),
        }
    }
}

impl On {
    fn is_sim(self) -> bool {
        matches!(self, On::Sim | On::SimDriven)
    }

    fn is_tiny(self) -> bool {
        matches!(self, On::Tiny | On::TinyDriven)
    }

    pub(crate) fn is_cuda(self) -> bool {
        matches!(self, On::Cuda | On::CudaOneQueue | On::CudaDriven)
    }

    /// Waits for the resources of some bindings.
    pub(crate) fn guard(
        self,
        stream: &Stream,
        bindings: impl IntoBindings,
    ) -> Result<Guard, Error> {
        match self {
            _ if self.is_sim() => stream.get_resource(bindings).wait().map(Guard::Sim),
            _ if self.is_cuda() => stream.get_resource(bindings).wait().map(Guard::Cuda),
            _ if self.is_tiny() => stream.get_resource(bindings).wait().map(Guard::Tiny),
            _ => stream.get_resource(bindings).wait().map(Guard::Cpu),
        }
    }

    /// Runs `work` on the stream's queue, with the resources of some bindings.
    pub(crate) fn with_resource(
        self,
        stream: &Stream,
        name: &str,
        bindings: impl IntoBindings,
        work: impl FnOnce(Resources<'_>) + Send + 'static,
    ) -> Result<(), Error> {
        if !self.is_cuda() {
            let work = |resources: &mut CpuResources| work(Resources::Host(resources));
            return match self {
                _ if self.is_sim() => {
                    Ok(stream.with_resource::<Sim>(name, bindings, |resources| work(resources))?)
                }
                _ if self.is_tiny() => Ok(stream.with_resource::<Tiny>(name, bindings, work)?),
                _ => Ok(stream.with_resource::<Cpu>(name, bindings, work)?),
            };
        }
        stream.with_resource::<Cuda>(name, bindings, |resources| {
            let mut words = Words::fetch(resources);
            work(Resources::Gpu(&mut words));
            words.store(resources);
        })?;
        Ok(())
    }
}

impl Rig {
    fn new(kind: impl Open, options: DeviceOptions, checked: Checked) -> Self {
        Rig {
            device: Device::open_with(kind, options).unwrap(),
            driver: None,
            checked,
        }
    }

    fn driven(kind: impl Open, options: DeviceOptions, checked: Checked) -> Self {
        let (device, driver) = Device::open_driven(kind, options).unwrap();
        Rig {
            device,
            driver: Some(driver),
            checked,
        }
    }
}

impl Rig {
    /// A valve for kernels of this device.
    pub(crate) fn valve(&self) -> Valve {
        match &self.checked {
            Checked::Gpu(gpu) => Valve::of(gpu),
            _ => Valve::new(),
        }
    }

    pub(crate) fn client(&self) -> ComputeClient {
        self.device.client()
    }

    pub(crate) fn stats(&self) -> millstream::Stats {
        self.device.stats().unwrap()
    }
}

/// Every kind of device.
#[template]
#[rstest]
#[case::cpu(On::Cpu)]
#[case::cpu_one_queue(On::CpuOneQueue)]
#[case::cpu_driven(On::CpuDriven)]
#[case::sim(On::Sim)]
#[case::sim_driven(On::SimDriven)]
#[case::cuda(On::Cuda)]
#[case::cuda_one_queue(On::CudaOneQueue)]
#[case::cuda_driven(On::CudaDriven)]
#[case::tiny(On::Tiny)]
#[case::tiny_driven(On::TinyDriven)]
pub(crate) fn every_device(#[case] on: On) {}

/// The kinds that run by themselves: a kernel may block there without blocking the test.
#[template]
#[rstest]
#[case::cpu(On::Cpu)]
#[case::cpu_one_queue(On::CpuOneQueue)]
#[case::sim(On::Sim)]
#[case::cuda(On::Cuda)]
#[case::cuda_one_queue(On::CudaOneQueue)]
#[case::tiny(On::Tiny)]
pub(crate) fn every_threaded_device(#[case] on: On) {}

/// The kinds whose kernels are Rust, for facts about that: the arguments of a closure are checked while it runs, and
/// what it panics with is told. On a GPU kernels know no bounds and do not panic.
#[template]
#[rstest]
#[case::cpu(On::Cpu)]
#[case::cpu_one_queue(On::CpuOneQueue)]
#[case::cpu_driven(On::CpuDriven)]
#[case::sim(On::Sim)]
#[case::sim_driven(On::SimDriven)]
#[case::tiny(On::Tiny)]
#[case::tiny_driven(On::TinyDriven)]
pub(crate) fn every_device_that_runs_rust(#[case] on: On) {}

/// For what the CUDA backend does not do yet: copies of pitched tensors, metadata, cube counts of the device.
// Goes once it does.
#[template]
#[rstest]
#[case::cpu(On::Cpu)]
#[case::cpu_one_queue(On::CpuOneQueue)]
#[case::cpu_driven(On::CpuDriven)]
#[case::sim(On::Sim)]
#[case::sim_driven(On::SimDriven)]
#[case::tiny(On::Tiny)]
#[case::tiny_driven(On::TinyDriven)]
pub(crate) fn every_device_but_gpus_yet(#[case] on: On) {}

/// The failure's sentence.
pub(crate) fn sentence<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    answer.unwrap_err().to_string()
}
