//! What ends a run or an import, and with which exit code.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Open(#[from] millstream::OpenError),
    #[error("the driver's library lacks `{0}`; update NVIDIA's driver")]
    Function(&'static str),
    #[error("the driver's library cannot be loaded: {0}")]
    Library(String),
    #[error("{call} answered {code}")]
    Call { call: &'static str, code: u32 },
    #[error(transparent)]
    Ours(#[from] millstream::Error),
    #[error("a measuring thread panicked")]
    Panicked,
    #[error("no group's name contains `{0}`; leave --only out to see them all")]
    NoGroup(String),
    #[error("`{}` cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be written", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("`{}` is not what `--json` writes", path.display())]
    NotResults {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "`{}` is of format {found}, and this reads {known}: import it with the program that measured",
        path.display()
    )]
    Format {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error("`{}` was measured on the fake driver, whose figures mean nothing; run the bundle on a machine with a GPU", path.display())]
    OfTheFake { path: PathBuf },
    #[error("`{}` has not the lines `{begin}` and, after it, `{end}`, once each", path.display())]
    NoMarkers {
        path: PathBuf,
        begin: &'static str,
        end: &'static str,
    },
}

impl BenchError {
    /// The code that the process ends with.
    pub(crate) fn exit(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::NoGroup(_) => 2,
            Self::Open(_) | Self::Library(_) | Self::Function(_) => 3,
            _ => 1,
        })
    }
}
