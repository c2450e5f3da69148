//! The body of a kernel on a CPU: a Rust closure, or a program run by one of the executors.
//!
//! `millstream_tile` executes nests and products, with the feature `tile`; [`millstream_lockstep`] functions of threads.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_ir::{Blocking, Program};
use millstream_lockstep::Columns;
use millstream_protocol::{
    Cube, DeviceProperties, Failure, FailureRef, Kernel, KernelError, Lines, NativeArgs,
    NativeKernel, NativeView, Reason, Signature, Source,
};
use millstream_sync::payload::panic_message;
#[cfg(feature = "tile")]
use millstream_tile::{Code, Options, RunError};

#[cfg(not(feature = "tile"))]
use crate::no_tile::{Code, Options, RunError};

/// The source of a kernel, ready to run.
pub enum Body {
    /// A closure, which runs cube by cube.
    Native(Arc<NativeKernel>),
    /// A function of the IR, which runs some cubes at a time.
    Function(Columns),
    /// A nest or a product of the IR, which runs piece by piece.
    Program(Code),
}

impl Body {
    /// Returns `true` if the body is a program of the IR, which has no effects other than its stores.
    pub fn is_program(&self) -> bool {
        !matches!(self, Self::Native(_))
    }

    /// Compiles the first source of `kernel` that a CPU can run, for a device with these properties. `machine_code`
    /// allows machine code for programs.
    ///
    /// # Errors
    /// The device lacks a feature, there are too many bindings, there is no such source, or the program does not
    /// compile.
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
            Program::Ssa(_) if options.blocking != Blocking::DEFAULT => {
                Err(format!("a function has no blocking ({})", options.blocking))
            }
            Program::Ssa(function) => {
                let columns = Columns::new(function);
                columns
                    .map(Self::Function)
                    .map_err(|error| error.to_string())
            }
            program => Code::compile(program, options).map(Self::Program),
        }
    }
}

/// The arguments of a launch.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    /// The memory of its bindings.
    pub views: &'a [NativeView],
    /// Its scalar words.
    pub scalars: &'a [u64],
    /// Its metadata.
    pub metadata: &'a [u32],
    /// The number of cubes along each axis.
    pub counts: [u32; 3],
    /// Where its threads print, if its kernel does.
    pub lines: Option<&'a Lines>,
}

// SAFETY: the pointers of the views are used as `NativeArgs` allows, which cubes may do concurrently.
unsafe impl Sync for Arguments<'_> {}

impl Arguments<'_> {
    /// Runs some cubes of a function of the IR.
    ///
    /// # Safety
    /// As for [`Arguments::run_cube`].
    #[inline]
    pub unsafe fn run_cubes(&self, function: &Columns, signature: &Signature, cubes: Range<u64>) {
        let cube = Cube::new(cubes.start, self.counts);
        // SAFETY: the caller's promises.
        let arguments =
            unsafe { NativeArgs::new(signature, self.views, self.scalars, self.metadata, cube) };
        function.run(cubes, self.counts, &arguments.with_lines(self.lines));
    }

    /// Runs one cube of a closure.
    ///
    /// # Safety
    /// As for [`NativeArgs::new`] about views and scalars. No cube runs twice.
    #[inline]
    pub unsafe fn run_cube(&self, native: &NativeKernel, signature: &Signature, index: u64) {
        let cube = Cube::new(index, self.counts);
        // SAFETY: the caller's promises.
        let arguments =
            unsafe { NativeArgs::new(signature, self.views, self.scalars, self.metadata, cube) };
        native(&cube, &arguments.with_lines(self.lines));
    }
}

/// Returns the failure of a task whose launch did not run, or not to its end.
pub fn launch_failure(task: &Arc<str>, error: RunError) -> FailureRef {
    match error {
        RunError::Panic(message) => Failure::panicked(task, message),
        refused => Failure::not_run(task, Reason::Refused(refused.to_string())),
    }
}

/// Runs a launch and catches a panic.
///
/// # Errors
/// The reason the program refused it, or the message of the first panic.
pub fn catch_panic(launch: impl FnOnce() -> Result<(), RunError>) -> Result<(), RunError> {
    let ran = catch_unwind(AssertUnwindSafe(launch));
    ran.unwrap_or_else(|payload| Err(RunError::Panic(panic_message(payload))))
}
