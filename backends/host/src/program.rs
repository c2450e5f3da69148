//! What of a kernel a CPU runs: a Rust closure, or a program by one of the executors.
//!
//! Nests and products go by [tiles](millstream_tile), functions of threads [in lockstep](millstream_lockstep), which makes
//! native kernels of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_ir::{Blocking, Program};
use millstream_protocol::error::KernelError;
use millstream_protocol::kernel::{
    Cube, ExecutionMode, Kernel, NativeArgs, NativeKernel, NativeView, Signature, Source,
};
use millstream_protocol::properties::DeviceProperties;
use millstream_sync::payload::panic_message;
use millstream_tile::{Code, CompileError, Options, RunError};

/// A kernel's source, ready to run.
pub enum Body {
    /// A closure, which runs cube by cube.
    Native(Arc<NativeKernel>),
    /// A function of the IR, which runs cube by cube.
    Function(Arc<NativeKernel>),
    /// A nest or a product of the IR, which runs piece by piece.
    Program(Code),
}

impl Body {
    /// Is it of the IR, and has no effects but its stores?
    pub fn is_program(&self) -> bool {
        !matches!(self, Self::Native(_))
    }

    /// The first source of `kernel` that a CPU runs, if a device with these properties can run it. Programs may become machine code
    /// where that is allowed.
    ///
    /// # Errors
    /// A feature that the device lacks, too many bindings, no such source, or a program that does not compile.
    pub fn compile(
        kernel: &Kernel,
        properties: &DeviceProperties,
        machine_code: bool,
    ) -> Result<Self, KernelError> {
        kernel.check_needs(properties)?;
        let found = kernel.sources().iter().find_map(|source| match source {
            Source::Native(native) => Some(Ok(Self::Native(native.clone()))),
            Source::Ir(program) => {
                let blocking = kernel.extension().copied().unwrap_or_default();
                let options = Options {
                    blocking,
                    machine_code,
                };
                Some(Self::of_program(program, options))
            }
            _ => None,
        });
        let found = found.ok_or_else(|| kernel.no_source(properties.backend, &["native", "IR"]))?;
        found.map_err(|log| KernelError::Compile {
            kernel: kernel.name().clone(),
            log,
        })
    }

    fn of_program(program: &Program, options: Options) -> Result<Self, String> {
        match program {
            Program::Ssa(_) if options.blocking != Blocking::USUAL => {
                Err(CompileError::Blocking(options.blocking).to_string())
            }
            Program::Ssa(function) => {
                let native = millstream_lockstep::native(function);
                native
                    .map(Self::Function)
                    .map_err(|error| error.to_string())
            }
            program => {
                let code = Code::compile(program, options);
                code.map(Self::Program)
                    .map_err(|compile_error| compile_error.to_string())
            }
        }
    }
}

/// What a launch brings to a kernel.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    /// The memory of its bindings.
    pub views: &'a [NativeView],
    /// Its words of scalars.
    pub scalars: &'a [u64],
    /// Its metadata.
    pub metadata: &'a [u32],
    /// How many cubes there are, by axis.
    pub counts: [u32; 3],
    /// Are accesses of a closure checked?
    pub mode: ExecutionMode,
}

// SAFETY: the pointers of the views are used as `NativeArgs` allows, which cubes may do at once.
unsafe impl Sync for Arguments<'_> {}

impl Arguments<'_> {
    /// Runs one cube of a closure.
    ///
    /// # Safety
    /// As [`NativeArgs::new`] says of views and scalars; for an unchecked launch also as [`NativeArgs::unguarded`] says of the
    /// kernel. No cube is run twice.
    #[inline]
    pub unsafe fn run_cube(&self, native: &NativeKernel, signature: &Signature, index: u64) {
        let cube = Cube::new(index, self.counts);
        // SAFETY: the caller's promises.
        let arguments =
            unsafe { NativeArgs::new(signature, self.views, self.scalars, self.metadata, cube) };
        let arguments = match self.mode {
            ExecutionMode::Checked => arguments,
            // SAFETY: the caller's promise of the kernel.
            ExecutionMode::Unchecked => unsafe { arguments.unguarded() },
        };
        native(&cube, &arguments);
    }
}

/// Why a launch has not run to its end.
pub enum LaunchFailure {
    /// Nothing ran, because of this.
    Refused(String),
    /// It panicked with this message.
    Panicked(String),
}

/// Runs a launch to its end, or until it panics.
///
/// # Errors
/// Why the program refused it, or the message of the first panic.
pub fn catch_panic(launch: impl FnOnce() -> Result<(), RunError>) -> Result<(), LaunchFailure> {
    match catch_unwind(AssertUnwindSafe(launch)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(RunError::Panic(message))) => Err(LaunchFailure::Panicked(message)),
        Ok(Err(launch_error)) => Err(LaunchFailure::Refused(launch_error.to_string())),
        Err(payload) => Err(LaunchFailure::Panicked(panic_message(payload))),
    }
}
