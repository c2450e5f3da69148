//! What the integration tests share: the devices that every fact is checked on, a few kernels, and a
//! valve that holds a kernel until the test lets it go.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex};

use millstream::backend::Open;
use millstream::sim::{Findings, Sim};
use millstream::{
    ComputeClient, Cpu, CpuResources, CubeCount, Device, DeviceOptions, Driver, Error, Handle,
    IntoBindings, Kernel, KernelHandle, ResourceGuard, Stream, read, update, write,
};
use rstest_reuse::template;

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
}

/// An opened device; a driven one keeps its driver.
pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) driver: Option<Driver>,
    /// Dropped last, when the device is closed.
    _checked: Checked,
}

/// What a simulator found, if it was one: nothing, or the test fails.
struct Checked(Option<Findings>);

impl Drop for Checked {
    fn drop(&mut self) {
        let Some(findings) = self.0.take() else {
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

/// The simulator's choices, another run with `MILLSTREAM_SIM_SEED`.
fn seed() -> u64 {
    let given = std::env::var("MILLSTREAM_SIM_SEED").ok();
    given.and_then(|seed| seed.parse().ok()).unwrap_or(7)
}

impl On {
    pub(crate) fn open(self) -> Rig {
        self.open_with(DeviceOptions::default())
    }

    pub(crate) fn open_with(self, options: DeviceOptions) -> Rig {
        self.open_limited(None, options)
    }

    /// Opens with at most `bytes` of device memory, in pages of 64 KiB.
    pub(crate) fn open_small(self, bytes: u64) -> Rig {
        let memory = millstream::MemoryOptions::default()
            .page_bytes(64 << 10)
            .small_max(4 << 10);
        let options = DeviceOptions::default().memory(memory);
        self.open_limited(Some(bytes), options)
    }

    fn open_limited(self, bytes: Option<u64>, options: DeviceOptions) -> Rig {
        let cpu = Cpu::default().queues(2).threads(2);
        let cpu = match bytes {
            Some(bytes) => cpu.memory_limit(bytes),
            None => cpu,
        };
        let sim = Sim::seed(seed());
        let sim = match bytes {
            Some(bytes) => sim.memory_bytes(bytes),
            None => sim,
        };
        match self {
            On::Cpu => Rig::new(cpu, options, None),
            On::CpuOneQueue => Rig::new(cpu.queues(1), options, None),
            On::CpuDriven => Rig::driven(cpu, options, None),
            On::Sim => {
                let findings = sim.findings();
                Rig::new(sim, options, Some(findings))
            }
            On::SimDriven => {
                let findings = sim.findings();
                Rig::driven(sim, options, Some(findings))
            }
        }
    }
}

/// Memory that a guard has, on whatever device.
pub(crate) enum Guard {
    Cpu(ResourceGuard<Cpu>),
    Sim(ResourceGuard<Sim>),
}

impl Deref for Guard {
    type Target = CpuResources;

    fn deref(&self) -> &CpuResources {
        match self {
            Guard::Cpu(guard) => guard,
            Guard::Sim(guard) => guard,
        }
    }
}

impl On {
    fn is_sim(self) -> bool {
        matches!(self, On::Sim | On::SimDriven)
    }

    /// Waits for the resources of some bindings.
    pub(crate) fn guard(
        self,
        stream: &Stream,
        bindings: impl IntoBindings,
    ) -> Result<Guard, Error> {
        match self.is_sim() {
            true => stream.get_resource(bindings).wait().map(Guard::Sim),
            false => stream.get_resource(bindings).wait().map(Guard::Cpu),
        }
    }

    /// Runs `work` on the stream's queue, with the resources of some bindings.
    pub(crate) fn with_resource(
        self,
        stream: &Stream,
        name: &str,
        bindings: impl IntoBindings,
        work: impl FnOnce(&mut CpuResources) + Send + 'static,
    ) -> Result<(), Error> {
        match self.is_sim() {
            true => stream.with_resource::<Sim>(name, bindings, |resources| work(resources)),
            false => stream.with_resource::<Cpu>(name, bindings, work),
        }
    }
}

impl Rig {
    fn new(kind: impl Open, options: DeviceOptions, findings: Option<Findings>) -> Self {
        Rig {
            device: Device::open_with(kind, options).unwrap(),
            driver: None,
            _checked: Checked(findings),
        }
    }

    fn driven(kind: impl Open, options: DeviceOptions, findings: Option<Findings>) -> Self {
        let (device, driver) = Device::open_driven(kind, options).unwrap();
        Rig {
            device,
            driver: Some(driver),
            _checked: Checked(findings),
        }
    }
}

impl Rig {
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
pub(crate) fn every_device(#[case] on: On) {}

/// The kinds that run by themselves: a kernel may block there without blocking the test.
#[template]
#[rstest]
#[case::cpu(On::Cpu)]
#[case::cpu_one_queue(On::CpuOneQueue)]
#[case::sim(On::Sim)]
pub(crate) fn every_threaded_device(#[case] on: On) {}

/// Adds one to every element.
pub(crate) fn add_one(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("add_one")
        .updates::<u32>("values")
        .native(|_cube, args| {
            args.chunk::<u32>(0)
                .iter_mut()
                .for_each(|value| *value = value.wrapping_add(1));
        });
    client.kernel(kernel).unwrap()
}

/// Copies `src` to `dst`, element by element.
pub(crate) fn transfer(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("transfer")
        .reads::<u32>("src")
        .writes::<u32>("dst")
        .native(|_cube, args| {
            let (src, start) = (args.read::<u32>(0), args.chunk_start(1));
            let dst = args.chunk::<u32>(1);
            dst.copy_from_slice(&src[start..start + dst.len()]);
        });
    client.kernel(kernel).unwrap()
}

/// Writes `value` everywhere.
pub(crate) fn set(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("set")
        .writes::<u32>("dst")
        .scalar::<u32>("value")
        .native(|_cube, args| {
            args.chunk::<u32>(0).fill(args.scalar(0));
        });
    client.kernel(kernel).unwrap()
}

/// Panics with "boom".
pub(crate) fn boom(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("boom")
        .updates::<u32>("values")
        .native(|_cube, _args| panic!("boom"));
    client.kernel(kernel).unwrap()
}

/// Holds kernels until it is opened, and tells how many have come to it.
#[derive(Clone, Default)]
pub(crate) struct Valve(Arc<(Mutex<(bool, u32)>, Condvar)>);

impl Valve {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Comes to the valve and waits until it is open.
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.1 += 1;
        changed.notify_all();
        drop(changed.wait_while(state, |(open, _)| !*open).unwrap());
    }

    /// Opens it for good.
    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().0 = true;
        self.0.1.notify_all();
    }

    /// Waits until `count` have come.
    pub(crate) fn wait_for_arrivals(&self, count: u32) {
        let (state, changed) = &*self.0;
        drop(
            changed
                .wait_while(state.lock().unwrap(), |(_, arrived)| *arrived < count)
                .unwrap(),
        );
    }

    pub(crate) fn arrivals(&self) -> u32 {
        self.0.0.lock().unwrap().1
    }
}

/// A kernel that waits at `valve`, then adds one to its first element.
pub(crate) fn held(client: &ComputeClient, valve: &Valve) -> KernelHandle {
    let valve = valve.clone();
    let kernel = Kernel::new("held")
        .updates::<u32>("values")
        .native(move |_cube, args| {
            valve.pass();
            args.chunk::<u32>(0)[0] += 1;
        });
    client.kernel(kernel).unwrap()
}

/// As [`held`], but it only reads.
pub(crate) fn held_reader(client: &ComputeClient, valve: &Valve) -> KernelHandle {
    let valve = valve.clone();
    let kernel = Kernel::new("held_reader")
        .reads::<u32>("values")
        .updates::<u32>("out")
        .native(move |_cube, args| {
            valve.pass();
            args.chunk::<u32>(1)[0] = args.read::<u32>(0)[0];
        });
    client.kernel(kernel).unwrap()
}

pub(crate) fn one() -> CubeCount {
    CubeCount::single()
}

pub(crate) fn launch_update(
    stream: &Stream,
    kernel: &KernelHandle,
    values: &Handle<u32>,
) -> Result<(), Error> {
    stream.launch(kernel, one(), (update(values),))
}

pub(crate) fn launch_transfer(
    stream: &Stream,
    kernel: &KernelHandle,
    from: &Handle<u32>,
    to: &Handle<u32>,
) -> Result<(), Error> {
    stream.launch(kernel, one(), (read(from), write(to)))
}

/// The failure's sentence.
pub(crate) fn sentence<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    answer.unwrap_err().to_string()
}
