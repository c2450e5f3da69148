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
use compile::OutputFormat;
pub use inspect::{Compiled, compile_for, cuda_c, ptx_for};
pub(crate) use target::choose_target;

/// Returns the compiler's version, major and minor.
///
/// # Errors
/// NVRTC is not available; the message says what to do.
pub(crate) fn version() -> Result<(u32, u32), String> {
    compile::version()
        .map(|(major, minor)| (major.max(0) as u32, minor.max(0) as u32))
        .map_err(|(Failure::NoCompiler(why) | Failure::Source(why))| why)
}

/// The target of a compilation: a GPU's compute capability, such as `sm_90a`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Target(pub(crate) String);

impl Target {
    /// Binaries for the GPUs of exactly this compute capability, such as 90.
    pub(crate) fn exact(capability: i32) -> Self {
        // From 9.0 on, the suffix `a` enables the instructions of this one capability. The binary runs on no other GPU
        // anyway.
        let suffix = if capability >= 90 { "a" } else { "" };
        Self(format!("sm_{capability}{suffix}"))
    }

    /// Returns the format that a compilation for this target produces.
    fn format(&self) -> OutputFormat {
        match self.0.starts_with("compute_") {
            true => OutputFormat::Ptx,
            false => OutputFormat::Binary,
        }
    }
}
