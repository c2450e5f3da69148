//! Compiles CUDA C to binaries with NVRTC, NVIDIA's run-time compiler, which is loaded when the first such kernel is
//! prepared. A cache on disk keeps the binaries. Needs no GPU.

mod api;
mod cache;
mod compile;
mod inspect;
mod target;

pub(crate) use cache::Cache;
pub use cache::{KernelCache, cached_kernels};
pub(crate) use compile::Failure;
pub use inspect::{Compiled, compile_for, cuda_c, ptx_for};
pub(crate) use target::{Target, choose_target};

/// Returns the compiler's version, major and minor.
///
/// # Errors
/// NVRTC is not available; the message says what to do.
pub(crate) fn version() -> Result<(u32, u32), String> {
    compile::version()
        .map(|(major, minor)| (major.max(0) as u32, minor.max(0) as u32))
        .map_err(|(Failure::NoCompiler(why) | Failure::Source(why))| why)
}
