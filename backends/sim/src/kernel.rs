//! Compiled kernels, and one launch of one: cube after cube, in an order that the seed chooses.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_core::backend::{BackendKernel, Compiler};
use millstream_core::error::KernelError;
use millstream_core::host_memory::{native_source, panic_message};
use millstream_core::kernel::{Cube, ExecutionMode, Kernel, NativeArgs, NativeKernel, NativeView};
use millstream_core::properties::DeviceProperties;

use crate::entry::LaunchOp;
use crate::faults::{Call, Verdict};
use crate::random::shuffled;
use crate::shared::Shared;

/// A kernel that this device runs.
pub(crate) struct SimKernel {
    pub(crate) kernel: Arc<Kernel>,
    native: Arc<NativeKernel>,
}

/// Makes kernels runnable here.
pub(crate) struct SimCompiler {
    pub(crate) properties: DeviceProperties,
    pub(crate) shared: Arc<Shared>,
}

impl Compiler for SimCompiler {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        let name = || kernel.name().clone();
        match self.shared.judge(Call::Compile) {
            Verdict::Goes => {}
            Verdict::Fails(number) => {
                let log = format!("injected fault: compile {number}");
                return Err(KernelError::Compile {
                    kernel: name(),
                    log,
                });
            }
            Verdict::Loses => return Err(KernelError::Lost { kernel: name() }),
        }
        let native = native_source(kernel, &self.properties)?;
        let kernel = kernel.clone();
        Ok(Arc::new(SimKernel { kernel, native }))
    }
}

/// Runs all cubes of a launch.
///
/// # Errors
/// The message of the first panic; then the remaining cubes are skipped.
///
/// # Safety
/// As [`NativeArgs::new`] says of views and scalars; for an unchecked launch also as
/// [`NativeArgs::unguarded`] says of the kernel.
pub(crate) unsafe fn run_cubes(
    launch: &LaunchOp,
    views: &[NativeView],
    counts: [u32; 3],
    cubes: u64,
    seed: u64,
) -> Result<(), String> {
    let signature = launch.kernel.kernel.signature();
    let (scalars, metadata) = (&launch.scalars, &launch.metadata);
    let all = || {
        for index in shuffled(cubes, seed) {
            let cube = Cube::new(index, counts);
            // SAFETY: the caller's promise; each index comes once.
            let arguments = unsafe { NativeArgs::new(signature, views, scalars, metadata, cube) };
            let arguments = match launch.mode {
                ExecutionMode::Checked => arguments,
                // SAFETY: the caller's promise of the kernel.
                ExecutionMode::Unchecked => unsafe { arguments.unguarded() },
            };
            (launch.kernel.native)(&cube, &arguments);
        }
    };
    catch_unwind(AssertUnwindSafe(all)).map_err(panic_message)
}
