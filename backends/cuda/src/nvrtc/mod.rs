//! CUDA C to binaries: NVIDIA's run-time compiler, loaded when the first such kernel is prepared, and a cache on disk
//! of what it made. Needs no GPU.

mod api;
mod cache;
mod compile;
mod inspect;
mod kept;

pub(crate) use cache::Cache;
pub use cache::KernelCache;
pub(crate) use compile::Failure;
use compile::Form;
pub use inspect::{Compiled, compile_for, cuda_c, ptx_for};
pub use kept::{KeptKernels, kept_kernels};

/// The compiler's version, major and minor, or what is missing and what to do.
pub(crate) fn version() -> Result<(u32, u32), String> {
    compile::version()
        .map(|(major, minor)| (major.max(0) as u32, minor.max(0) as u32))
        .map_err(|(Failure::NoCompiler(why) | Failure::Source(why))| why)
}

/// What a compilation is for: a GPU's compute capability, such as `sm_90a`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Target(pub(crate) String);

impl Target {
    /// The GPUs of this compute capability.
    pub(crate) fn of(major: i32, minor: i32) -> Self {
        // From 9.0 on the instructions that belong to one capability alone are called by an `a`: a binary that is
        // made here runs here alone anyway.
        let alone = if major >= 9 { "a" } else { "" };
        Self(format!("sm_{major}{minor}{alone}"))
    }

    /// These GPUs and all later ones: PTX, of which the driver makes the rest.
    pub(crate) fn from(major: i32, minor: i32) -> Self {
        Self(format!("compute_{major}{minor}"))
    }

    /// What a compilation for it makes.
    fn form(&self) -> Form {
        match self.0.starts_with("compute_") {
            true => Form::Ptx,
            false => Form::Binary,
        }
    }
}
