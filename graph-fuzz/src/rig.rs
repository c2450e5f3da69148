//! The devices that cases are run on, and data on them.

use millstream::sim::{Findings, Sim};
use millstream::{
    Cpu, Device, DeviceOptions, Error, Handle, Kernel, KernelHandle, MemoryOptions, OpenError,
    Stream, write,
};

use crate::case::{Case, CaseError, bytes};

/// An open device.
pub(crate) struct Rig {
    pub(crate) device: Device,
    /// What the simulator finds wrong.
    findings: Option<Findings>,
}

/// The choices of the simulator.
const SEED: u64 = 7;

impl Rig {
    pub(crate) fn cpu() -> Result<Self, OpenError> {
        let cpu = Cpu::default().queues(2).threads(2);
        let device = Device::open_with(cpu, options())?;
        let findings = None;
        Ok(Self { device, findings })
    }

    pub(crate) fn sim() -> Result<Self, OpenError> {
        let sim = Sim::seed(SEED);
        let findings = Some(sim.findings());
        let device = Device::open_with(sim, options())?;
        Ok(Self { device, findings })
    }

    /// The first rule that was broken on the simulator, if one was.
    pub(crate) fn violation(&self) -> Option<String> {
        let found = self.findings.as_ref()?.violations();
        let first = found.first()?;
        Some(format!("{first} (of {})", found.len()))
    }
}

/// Small pages: filling them takes no time.
fn options() -> DeviceOptions {
    let memory = MemoryOptions::default().page_bytes(256 << 10);
    DeviceOptions::default().memory(memory)
}

/// The memory of a case, as bytes.
pub(crate) fn memory(case: &Case) -> Result<Vec<Vec<u8>>, CaseError> {
    case.handles.iter().map(|digits| bytes(digits)).collect()
}

/// Each handle anew on the device, with these bytes.
pub(crate) fn upload(stream: &Stream, memory: &[Vec<u8>]) -> Result<Vec<Handle<u8>>, Error> {
    memory.iter().map(|bytes| stream.create(bytes)).collect()
}

/// A kernel that fails, and what it would have written with it.
pub(crate) struct Boom(KernelHandle);

impl Boom {
    pub(crate) fn on(rig: &Rig) -> Result<Self, Error> {
        // No hook hears of it: it is not a fault of anybody.
        let boom = Kernel::new("boom").writes::<u8>("values");
        let boom = boom.native(|_, _| std::panic::resume_unwind(Box::new("boom")));
        Ok(Self(rig.device.client().kernel(boom)?))
    }

    /// What was in these bytes is failed from now on, and something else lies there.
    pub(crate) fn fail(
        &self,
        stream: &Stream,
        handle: &Handle<u8>,
        garbage: &[u8],
    ) -> Result<(), Error> {
        stream.write(handle, garbage)?;
        stream.launch(&self.0, millstream::CubeCount::single(), (write(handle),))
    }
}
