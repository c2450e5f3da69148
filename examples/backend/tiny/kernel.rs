//! Kernels: chooses a source, and runs the cubes of a launch.

use std::sync::Arc;

use millstream::backend::host_memory::count_cubes;
use millstream::backend::{BackendKernel, Compiler, NativeView};
use millstream::{Cube, DeviceProperties, Kernel, NativeArgs, Source, error::KernelError};

use super::queue::Done;

/// Finds the closure of a kernel. The runtime calls a compiler on the thread that prepares the kernel.
pub struct TinyCompiler(DeviceProperties);

impl TinyCompiler {
    pub fn new(properties: DeviceProperties) -> Self {
        Self(properties)
    }
}

impl Compiler for TinyCompiler {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        kernel.check_needs(&self.0)?;
        if kernel
            .sources()
            .iter()
            .any(|source| matches!(source, Source::Native(_)))
        {
            // A backend chooses the type of its compiled kernels. Here it is the kernel itself.
            return Ok(kernel.clone());
        }
        Err(kernel.no_source(self.0.backend, &["native"]))
    }
}

/// Runs all cubes of a launch, one after the other.
pub fn run_cubes(
    kernel: &Kernel,
    (views, scalars, metadata): (&[NativeView], &[u64], &[u32]),
    counts: [u32; 3],
) -> Result<Done, String> {
    let native = kernel.sources().iter().find_map(|source| match source {
        Source::Native(native) => Some(native),
        _ => None,
    });
    let native = native.ok_or("the kernel has no source in Rust")?;
    let cubes = count_cubes(counts).ok_or("the number of cubes overflows")?;
    if cubes == 0 {
        return Ok(Done::NoCube);
    }
    for index in 0..cubes {
        let cube = Cube::new(index, counts);
        // SAFETY: the launch was checked. The task holds its pages, which are initialized. The runtime orders
        // conflicting tasks, so none runs now. Each index is used once.
        let arguments =
            unsafe { NativeArgs::new(kernel.signature(), views, scalars, metadata, cube) };
        native(&cube, &arguments);
    }
    Ok(Done::Written)
}
