//! Compiled kernels, and one launch of one: cube after cube, in an order that the seed chooses.

use std::ops::Range;
use std::sync::Arc;

use millstream_host::{Arguments, Body, Code, Stopped, Team, catch};
use millstream_ir::{Blocking, Program};
use millstream_protocol::backend::Compiler;
use millstream_protocol::error::KernelError;
use millstream_protocol::kernel::{BackendKernel, Kernel, NativeView};
use millstream_protocol::properties::DeviceProperties;

use crate::entry::LaunchOp;
use crate::faults::{Call, Verdict};
use crate::random::shuffled;
use crate::shared::Shared;

/// A kernel that this device runs.
pub(crate) struct SimKernel {
    pub(crate) kernel: Arc<Kernel>,
    body: Body,
}

impl SimKernel {
    /// Whether the kernel is a program of the IR, which has no effects but its stores.
    pub(crate) fn is_program(&self) -> bool {
        self.body.is_program()
    }
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
        let body = Body::compile(kernel, &self.properties, true)?;
        let kernel = kernel.clone();
        Ok(Arc::new(SimKernel { kernel, body }))
    }

    fn blockings(&self, program: &Program) -> Vec<Blocking> {
        Code::blockings(program)
    }
}

/// Runs all cubes of a launch, or all pieces of a program.
///
/// # Errors
/// Why a program refuses it, or the message of the first panic; then the remaining cubes are skipped.
///
/// # Safety
/// As [`Arguments::run_cube`] says.
pub(crate) unsafe fn run_cubes(
    launch: &LaunchOp,
    views: &[NativeView],
    counts: [u32; 3],
    cubes: u64,
    seed: u64,
) -> Result<(), Stopped> {
    let signature = launch.kernel.kernel.signature();
    let arguments = Arguments {
        views,
        scalars: &launch.scalars,
        metadata: &launch.metadata,
        counts,
        mode: launch.mode,
    };
    catch(|| match &launch.kernel.body {
        Body::Native(native) | Body::Function(native) => {
            for cube in shuffled(cubes, seed) {
                // SAFETY: the caller's promise; each index comes once.
                unsafe { arguments.run_cube(&**native, signature, cube) };
            }
            Ok(())
        }
        // SAFETY: the caller's promise; the code itself checks that it stays in its bindings.
        Body::Program(code) => unsafe { code.run(views, arguments.scalars, &mut Shuffled(seed)) },
    })
}

/// Runs the pieces of a program in an order that the seed chooses.
struct Shuffled(u64);

impl Team for Shuffled {
    fn share(
        &mut self,
        pieces: u64,
        _ns: u64,
        work: &(dyn Fn(Range<u64>) + Sync),
    ) -> Result<(), String> {
        shuffled(pieces, self.0).for_each(|piece| work(piece..piece + 1));
        Ok(())
    }

    fn threads(&self) -> usize {
        1 + (self.0 % 4) as usize
    }
}
