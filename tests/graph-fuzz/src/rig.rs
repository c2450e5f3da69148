//! The devices that cases are run on, and data on them.

use fake_cuda::Session;
use millstream::cuda::Cuda;
use millstream::sim::{Findings, Sim};
use millstream::{
    CancelToken, Cpu, Device, DeviceOptions, Error, Handle, Kernel, KernelHandle, MemoryOptions,
    OpenError, Stream, write,
};

use crate::case::{Case, CaseError, bytes};

/// An open device.
pub(crate) struct Rig {
    pub(crate) device: Device,
    checker: Checker,
    is_gpu: bool,
}

/// What looks for broken rules while a device runs.
enum Checker {
    None,
    Sim(Findings),
    /// The fake driver. It is dropped after the device.
    Fake(Session),
}

/// The choices of the simulator and of the fake driver.
const SEED: u64 = 7;

impl Rig {
    fn new(device: Device, checker: Checker, is_gpu: bool) -> Self {
        Self {
            device,
            checker,
            is_gpu,
        }
    }

    pub(crate) fn cpu() -> Result<Self, OpenError> {
        let cpu = Cpu::default().queues(2).threads(2);
        let device = Device::open_with(cpu, options())?;
        let checker = Checker::None;
        Ok(Self::new(device, checker, false))
    }

    pub(crate) fn sim() -> Result<Self, OpenError> {
        let sim = Sim::seed(SEED);
        let checker = Checker::Sim(sim.findings());
        let device = Device::open_with(sim, options())?;
        Ok(Self::new(device, checker, false))
    }

    /// A GPU: the fake driver where it is the one that is loaded, else the first of this machine.
    pub(crate) fn gpu() -> Result<Self, OpenError> {
        let session = Session::begin(SEED).ok();
        // The fake takes PTX alone.
        let cuda = Cuda::ordinal(0).queues(2).compile_to_ptx(session.is_some());
        let device = Device::open_with(cuda, options())?;
        let checker = session.map_or(Checker::None, Checker::Fake);
        Ok(Self::new(device, checker, true))
    }

    /// The first rule that was broken on the simulator or the fake driver, if one was.
    pub(crate) fn violation(&self) -> Option<String> {
        let found: Vec<String> = match &self.checker {
            Checker::None => return None,
            Checker::Sim(findings) => findings
                .violations()
                .iter()
                .map(ToString::to_string)
                .collect(),
            Checker::Fake(session) => session.reports(),
        };
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

/// What makes data fail.
pub(crate) enum Boom {
    /// A kernel that panics, where kernels are Rust.
    Kernel(KernelHandle),
    /// A GPU's kernel has no way to fail: a fill that is cancelled before it runs.
    Cancelled(CancelToken),
}

impl Boom {
    pub(crate) fn on(rig: &Rig) -> Result<Self, Error> {
        if rig.is_gpu {
            let token = CancelToken::new();
            token.cancel();
            return Ok(Self::Cancelled(token));
        }
        // No hook hears of it: it is not a fault of anybody.
        let boom = Kernel::new("boom").writes::<u8>("values");
        let boom = boom.native(|_, _| std::panic::resume_unwind(Box::new("boom")));
        Ok(Self::Kernel(rig.device.new_client().kernel(boom)?))
    }

    /// What was in these bytes is failed from now on, and something else lies there.
    pub(crate) fn fail(
        &self,
        stream: &Stream,
        handle: &Handle<u8>,
        garbage: &[u8],
    ) -> Result<(), Error> {
        stream.write(handle, garbage)?;
        match self {
            Self::Kernel(boom) => {
                stream.launch(boom, millstream::CubeCount::single(), (write(handle),))
            }
            Self::Cancelled(token) => stream.with_cancel(token).fill(handle, 0x41),
        }
    }
}
