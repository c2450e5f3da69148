//! Kernels: choosing a source, and running the cubes of a launch.

use std::sync::Arc;

use millstream::backend::host_memory::count_cubes;
use millstream::backend::{BackendKernel, Compiler, NativeView};
use millstream::{Cube, DeviceProperties, ExecutionMode, Kernel, KernelError, NativeArgs, Source};

use super::queue::Done;

/// Finds the closure of a kernel. A compiler is called on the threads of those who prepare kernels.
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
            // What is made of a kernel is the backend's own affair; here it is the kernel itself.
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
    mode: ExecutionMode,
) -> Result<Done, String> {
    let native = kernel.sources().iter().find_map(|source| match source {
        Source::Native(native) => Some(native),
        _ => None,
    });
    let native = native.ok_or("it has no source in Rust")?;
    let cubes = count_cubes(counts).ok_or("it has more cubes than can be counted")?;
    if cubes == 0 {
        return Ok(Done::NoCube);
    }
    for index in 0..cubes {
        let cube = Cube::new(index, counts);
        // SAFETY: the launch was checked; its pages are initialized and held by the task; the runtime keeps other tasks away
        // from what it touches; each index comes once.
        let arguments =
            unsafe { NativeArgs::new(kernel.signature(), views, scalars, metadata, cube) };
        match mode {
            ExecutionMode::Checked => native(&cube, &arguments),
            // SAFETY: whoever launched it so has promised that the kernel uses them as they are declared.
            ExecutionMode::Unchecked => native(&cube, &unsafe { arguments.unguarded() }),
        }
    }
    Ok(Done::Written)
}
