//! Compiles kernels. Like any other call, this can fail or find the device lost.

use std::sync::Arc;

use millstream_host::{Body, Code};
use millstream_ir::{Blocking, Program};
use millstream_protocol::{BackendKernel, Compiler, DeviceProperties, Kernel, KernelError, Source};

use crate::faults::{Call, Verdict};
use crate::kernel::{SimBody, SimKernel};
use crate::shared::Shared;
use crate::threads::Code as Threads;

/// The compiler of this device.
pub(crate) struct SimCompiler {
    pub(crate) properties: DeviceProperties,
    pub(crate) shared: Arc<Shared>,
}

impl Compiler for SimCompiler {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        let name = || kernel.name().clone();
        match self.shared.judge(Call::Compile) {
            Verdict::Proceeds => {}
            Verdict::Fails(number) => {
                let log = format!("injected fault: compile {number}");
                return Err(KernelError::Compile {
                    kernel: name(),
                    log,
                });
            }
            Verdict::LosesDevice => return Err(KernelError::Lost { kernel: name() }),
        }
        kernel.check_needs(&self.properties)?;
        let body = match program_of(kernel) {
            Some(program)
                if is_unblocked(kernel)
                    && let Program::Ssa(function) = &**program =>
            {
                let code = Threads::new(function).map_err(|log| KernelError::Compile {
                    kernel: name(),
                    log,
                });
                SimBody::Threads(Box::new(code?))
            }
            Some(program) => {
                let kernel = Kernel::clone(kernel).prefer(Source::Ir(program.clone()));
                SimBody::Host(Body::compile(&kernel, &self.properties, true)?)
            }
            None => SimBody::Host(Body::compile(kernel, &self.properties, true)?),
        };
        let kernel = kernel.clone();
        Ok(Arc::new(SimKernel { kernel, body }))
    }

    fn blockings(&self, program: &Program) -> Vec<Blocking> {
        Code::blockings(program)
    }
}

/// Returns the program of a kernel, which is preferred to its other sources: its mistakes are found.
fn program_of(kernel: &Kernel) -> Option<&Arc<Program>> {
    kernel.sources().iter().find_map(|source| match source {
        Source::Ir(program) => Some(program),
        _ => None,
    })
}

/// Returns `true` if the kernel has the default blocking. Functions have no other.
fn is_unblocked(kernel: &Kernel) -> bool {
    let blocking = kernel.extension::<Blocking>();
    blocking.is_none_or(|blocking| *blocking == Blocking::DEFAULT)
}
