//! The devices of the graph's tests, as `tests/conformance/tests/devices/support` has them for other backends.

use millstream::{ComputeClient, Cpu, CpuResources, DeviceOptions, Stream};
pub(crate) use millstream_conformance::support::Rig;
use millstream_conformance::{Mode, On as SuiteOn, Opening, Setting, Subject};

use crate::subject::{OnVulkan, unavailable};

/// A device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    Vulkan,
    Cpu,
}

impl On {
    /// Opens the device, or the CPU if this machine has no Vulkan device.
    pub(crate) fn open(self) -> Rig {
        self.open_with(DeviceOptions::default())
    }

    /// Opens the device, with a client and a stream.
    pub(crate) fn start(self) -> (Rig, ComputeClient, Stream) {
        let rig = self.open();
        let client = rig.client();
        let stream = client.new_stream();
        (rig, client, stream)
    }

    /// As [`Self::open`], with options.
    pub(crate) fn open_with(self, options: DeviceOptions) -> Rig {
        let cpu = || SuiteOn::new(&OnCpu, Mode::Threads).open_with(options.clone());
        match (self, unavailable()) {
            (On::Cpu, _) => cpu(),
            (On::Vulkan, None) => SuiteOn::new(&OnVulkan, Mode::Threads).open_with(options),
            (On::Vulkan, Some(reason)) => {
                println!("skipped: {reason}; the test runs on the CPU instead");
                cpu()
            }
        }
    }
}

struct OnCpu;

impl Subject for OnCpu {
    type Kind = Cpu;

    fn open(&self, _setting: &Setting) -> Opening<Cpu> {
        Opening::of(Cpu::default().queues(2))
    }

    fn read(&self, resources: &CpuResources, index: usize) -> Vec<u32> {
        resources.read(index).to_vec()
    }

    fn change(&self, resources: &CpuResources, index: usize, change: &mut dyn FnMut(&mut [u32])) {
        change(&mut resources.write(index));
    }
}
