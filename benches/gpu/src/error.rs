//! The errors of a run or an import, and their exit codes.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// An error that ends a run or an import, or that a row of the table shows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Open(#[from] millstream::OpenError),
    #[error("the CUDA driver has no function `{0}`; update NVIDIA's driver")]
    Function(&'static str),
    #[error("cannot load the CUDA driver: {0}")]
    Library(String),
    #[error("the driver call `{call}` failed with error {code}; look the number up in `cuda.h`")]
    Call { call: &'static str, code: u32 },
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
    #[error("cannot read `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("`{}` is not a file of results, as `--json` writes it", path.display())]
    NotResults {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "`{}` has format {found}, expected {known}; import it with the version that measured it",
        path.display()
    )]
    Format {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error("`{}` was measured on the fake driver, whose figures are meaningless; run the bundle on a machine with a GPU", path.display())]
    FakeDriver { path: PathBuf },
    #[error("`{}` must contain the line `{begin}` and, after it, the line `{end}`, once each", path.display())]
    NoMarkers {
        path: PathBuf,
        begin: &'static str,
        end: &'static str,
    },
}

impl BenchError {
    /// Returns the exit code of the process.
    pub(crate) fn exit(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::NoGroup(_) => 2,
            Self::Open(_) | Self::Library(_) | Self::Function(_) => 3,
            _ => 1,
        })
    }
}
