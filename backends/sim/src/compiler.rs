//! Compiles kernels. Like any other call, this can fail or find the device lost.

use std::sync::Arc;

use millstream_host::{Body, Code};
use millstream_ir::{Blocking, Program};
use millstream_protocol::{BackendKernel, Compiler, DeviceProperties, Kernel, KernelError};

use crate::faults::{Call, Verdict};
use crate::kernel::SimKernel;
use crate::shared::Shared;

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
        let body = Body::compile(kernel, &self.properties, true)?;
        let kernel = kernel.clone();
        Ok(Arc::new(SimKernel { kernel, body }))
    }

    fn blockings(&self, program: &Program) -> Vec<Blocking> {
        Code::blockings(program)
    }
}
