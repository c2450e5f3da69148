//! What the integration tests share: the devices that every fact is checked on, a few kernels, and a
//! valve that holds a kernel until the test lets it go.

use std::sync::{Arc, Condvar, Mutex};

use millstream::{
    ComputeClient, Cpu, CubeCount, Device, DeviceOptions, Driver, Error, Handle, Kernel,
    KernelHandle, Stream, read, update, write,
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
}

/// An opened device; a driven one keeps its driver.
pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) driver: Option<Driver>,
}

impl On {
    pub(crate) fn open(self) -> Rig {
        self.open_with(DeviceOptions::default())
    }

    pub(crate) fn open_with(self, options: DeviceOptions) -> Rig {
        self.open_cpu(Cpu::default().queues(2).threads(2), options)
    }

    /// Opens with at most `bytes` of device memory, in pages of 64 KiB.
    pub(crate) fn open_small(self, bytes: u64) -> Rig {
        let memory = millstream::MemoryOptions::default()
            .page_bytes(64 << 10)
            .small_max(4 << 10);
        let options = DeviceOptions::default().memory(memory);
        self.open_cpu(
            Cpu::default().queues(2).threads(2).memory_limit(bytes),
            options,
        )
    }

    fn open_cpu(self, cpu: Cpu, options: DeviceOptions) -> Rig {
        match self {
            On::Cpu => Rig {
                device: Device::open_with(cpu, options).unwrap(),
                driver: None,
            },
            On::CpuOneQueue => Rig {
                device: Device::open_with(cpu.queues(1), options).unwrap(),
                driver: None,
            },
            On::CpuDriven => {
                let (device, driver) = Device::open_driven(cpu, options).unwrap();
                Rig {
                    device,
                    driver: Some(driver),
                }
            }
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
pub(crate) fn every_device(#[case] on: On) {}

/// The kinds that run by themselves: a kernel may block there without blocking the test.
#[template]
#[rstest]
#[case::cpu(On::Cpu)]
#[case::cpu_one_queue(On::CpuOneQueue)]
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
