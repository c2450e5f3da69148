//! The devices that run cases, and data on them.

use std::sync::{Arc, Mutex, PoisonError};

use fake_cuda::Session;
use millstream::cuda::Cuda;
use millstream::sim::{Findings, Sim};
use millstream::vulkan::{Message, Validation, Vulkan};
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

/// The checker of a device.
enum Checker {
    None,
    Sim(Findings),
    /// The fake driver. It is dropped after the device.
    Fake(Session),
    /// The messages of the validation layer of Vulkan, if it is installed.
    Layer(Arc<Mutex<Vec<Message>>>),
}

/// The seed of the simulator and of the fake driver.
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

    /// Opens a GPU: the fake driver if it is loaded, else the first GPU of this machine.
    pub(crate) fn gpu() -> Result<Self, OpenError> {
        let session = Session::begin(SEED).ok();
        // The fake driver supports PTX only.
        let cuda = Cuda::ordinal(0).queues(2).compile_to_ptx(session.is_some());
        let device = Device::open_with(cuda, options())?;
        let checker = session.map_or(Checker::None, Checker::Fake);
        Ok(Self::new(device, checker, true))
    }

    /// Opens the first GPU of Vulkan, whose kernels receive descriptors or addresses.
    pub(crate) fn vulkan(descriptors: bool) -> Result<Self, OpenError> {
        let messages = Arc::<Mutex<Vec<Message>>>::default();
        let heard = messages.clone();
        let mut vulkan = Vulkan::ordinal(0).queues(2).descriptors(descriptors);
        if Vulkan::is_validation_installed() {
            vulkan = vulkan.validation(Validation::Synchronization);
            vulkan = vulkan.on_message(move |message| {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.push(message.clone());
            });
        }
        let device = Device::open_with(vulkan, options())?;
        Ok(Self::new(device, Checker::Layer(messages), true))
    }

    /// Returns the first violation that the checker of the device found.
    pub(crate) fn violation(&self) -> Option<String> {
        let found: Vec<String> = match &self.checker {
            Checker::None => return None,
            Checker::Sim(findings) => findings
                .violations()
                .iter()
                .map(ToString::to_string)
                .collect(),
            Checker::Fake(session) => session.reports(),
            Checker::Layer(messages) => {
                let messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
                messages.iter().map(ToString::to_string).collect()
            }
        };
        let first = found.first()?;
        Some(format!("{first} (of {})", found.len()))
    }
}

/// Returns options with small pages, which are fast to fill.
fn options() -> DeviceOptions {
    let memory = MemoryOptions::default().page_bytes(256 << 10);
    DeviceOptions::default().memory(memory)
}

/// Returns the memory of a case as bytes.
pub(crate) fn memory(case: &Case) -> Result<Vec<Vec<u8>>, CaseError> {
    case.handles.iter().map(|digits| bytes(digits)).collect()
}

/// Creates each handle on the device, with these bytes.
pub(crate) fn upload(stream: &Stream, memory: &[Vec<u8>]) -> Result<Vec<Handle<u8>>, Error> {
    memory.iter().map(|bytes| stream.create(bytes)).collect()
}

/// A way to poison data.
pub(crate) enum FailureSource {
    /// A kernel that panics, on devices that run Rust kernels.
    Kernel(KernelHandle),
    /// A fill that is cancelled before it runs: kernels on a GPU cannot fail.
    Cancelled(CancelToken),
}

impl FailureSource {
    pub(crate) fn on(rig: &Rig) -> Result<Self, Error> {
        if rig.is_gpu {
            let token = CancelToken::new();
            token.cancel();
            return Ok(Self::Cancelled(token));
        }
        // Bypasses the panic hook: this panic is intended.
        let source = Kernel::new("fail").writes::<u8>("values");
        let source = source.native(|_, _| std::panic::resume_unwind(Box::new("intended failure")));
        Ok(Self::Kernel(rig.device.new_client().kernel(source)?))
    }

    /// Writes garbage to these bytes, and poisons them.
    pub(crate) fn fail(
        &self,
        stream: &Stream,
        handle: &Handle<u8>,
        garbage: &[u8],
    ) -> Result<(), Error> {
        stream.write(handle, garbage)?;
        match self {
            Self::Kernel(source) => {
                stream.launch(source, millstream::CubeCount::single(), (write(handle),))
            }
            Self::Cancelled(token) => stream.with_cancel(token).fill(handle, 0x41),
        }
    }
}
