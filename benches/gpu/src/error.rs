//! The errors of a run, and their exit codes.

use std::process::ExitCode;

use cudarc::driver::sys::CUresult;

/// An error that ends a run, or that a row of the table shows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Open(#[from] millstream::OpenError),
    #[error("the driver call `{call}` failed: {code:?}")]
    Call { call: &'static str, code: CUresult },
    #[error(transparent)]
    NoDevice(#[from] millstream_vulkan_conformance::NoDevice),
    #[error("a call of the Vulkan driver failed: {0}")]
    Vulkan(#[from] ash::vk::Result),
    #[error("the Vulkan driver does not offer {0}")]
    Missing(&'static str),
    #[error("millstream and the direct calls computed different words")]
    Wrong,
    #[error(transparent)]
    Ours(#[from] millstream::Error),
    #[error("a measuring thread panicked; its message is above")]
    Panicked,
    #[error("no group's name contains `{0}`; omit --only to measure all groups")]
    NoGroup(String),
    #[error("cannot write the record")]
    Unwritable(#[source] std::io::Error),
}

impl BenchError {
    /// Returns the exit code of the process.
    pub(crate) fn exit(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::NoGroup(_) => 2,
            Self::Open(_) => 3,
            _ => 1,
        })
    }
}
