//! Compiled kernels, and one launch of one: cube after cube, in an order that the seed chooses.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_host::{HostSource, host_source};
use millstream_ir::{Blocking, Program};
use millstream_protocol::backend::Compiler;
use millstream_protocol::error::KernelError;
use millstream_protocol::kernel::BackendKernel;
use millstream_protocol::kernel::{
    Cube, ExecutionMode, Kernel, NativeArgs, NativeKernel, NativeView,
};
use millstream_protocol::properties::DeviceProperties;
use millstream_sync::payload::panic_message;
use millstream_tile::{Code, RunError, Team, Unfit};

use crate::entry::LaunchOp;
use crate::faults::{Call, Verdict};
use crate::random::shuffled;
use crate::shared::Shared;

/// A kernel that this device runs.
pub(crate) struct SimKernel {
    pub(crate) kernel: Arc<Kernel>,
    body: Body,
    is_program: bool,
}

impl SimKernel {
    /// Whether the kernel is a program of the IR, which has no effects but its stores.
    pub(crate) fn is_program(&self) -> bool {
        self.is_program
    }
}

enum Body {
    Native(Arc<NativeKernel>),
    Program(Code),
}

impl Body {
    /// Nests and products go by tiles, functions cube by cube.
    fn of_program(program: &Program, blocking: Blocking) -> Result<Self, String> {
        match program {
            Program::Ssa(_) if blocking != Blocking::USUAL => {
                Err(Unfit::Blocking(blocking).to_string())
            }
            Program::Ssa(function) => {
                let native = millstream_lockstep::native(function);
                native.map(Body::Native).map_err(|error| error.to_string())
            }
            program => {
                let code = Code::compile_blocked(program, blocking);
                code.map(Body::Program).map_err(|unfit| unfit.to_string())
            }
        }
    }
}

/// Why a launch has not run to its end.
pub(crate) enum Stopped {
    /// Nothing ran, because of this.
    Refused(String),
    /// It panicked with this message.
    Panicked(String),
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
        let source = host_source(kernel, &self.properties)?;
        let is_program = matches!(source, HostSource::Program(_));
        let body = match source {
            HostSource::Native(native) => Body::Native(native),
            HostSource::Program(program) => {
                let blocking = kernel.extension().copied().unwrap_or_default();
                Body::of_program(&program, blocking).map_err(|log| KernelError::Compile {
                    kernel: name(),
                    log,
                })?
            }
        };
        let kernel = kernel.clone();
        Ok(Arc::new(SimKernel {
            kernel,
            body,
            is_program,
        }))
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
/// As [`NativeArgs::new`] says of views and scalars; for an unchecked launch also as
/// [`NativeArgs::unguarded`] says of the kernel.
pub(crate) unsafe fn run_cubes(
    launch: &LaunchOp,
    views: &[NativeView],
    counts: [u32; 3],
    cubes: u64,
    seed: u64,
) -> Result<(), Stopped> {
    let signature = launch.kernel.kernel.signature();
    let (scalars, metadata) = (&launch.scalars, &launch.metadata);
    let all = || match &launch.kernel.body {
        Body::Native(native) => {
            for index in shuffled(cubes, seed) {
                let cube = Cube::new(index, counts);
                // SAFETY: the caller's promise; each index comes once.
                let arguments =
                    unsafe { NativeArgs::new(signature, views, scalars, metadata, cube) };
                let arguments = match launch.mode {
                    ExecutionMode::Checked => arguments,
                    // SAFETY: the caller's promise of the kernel.
                    ExecutionMode::Unchecked => unsafe { arguments.unguarded() },
                };
                native(&cube, &arguments);
            }
            Ok(())
        }
        // SAFETY: the caller's promise; the code itself checks that it stays in its bindings.
        Body::Program(code) => unsafe { code.run(views, scalars, &mut Shuffled(seed)) },
    };
    match catch_unwind(AssertUnwindSafe(all)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(RunError::Panic(message))) => Err(Stopped::Panicked(message)),
        Ok(Err(misfit)) => Err(Stopped::Refused(misfit.to_string())),
        Err(payload) => Err(Stopped::Panicked(panic_message(payload))),
    }
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
