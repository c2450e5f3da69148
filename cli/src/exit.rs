//! Exit codes, and the errors that end a command early.
//!
//! Every error names a next step. The help text (`help.rs`) documents the codes.

use std::io;
use std::path::PathBuf;

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Success = 0,
    /// A result differed from the reference, a check failed, or the device failed.
    Failure = 1,
    /// An option, file or folder is invalid.
    Usage = 2,
    /// The command succeeded, but skipped some files.
    Skipped = 3,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

/// An error that ends a command before it has anything to report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("input folder `{}` does not exist", path.display())]
    InputMissing { path: PathBuf },
    #[error("input `{}` is not a folder", path.display())]
    InputNotAFolder { path: PathBuf },
    #[error("input folder `{}` cannot be read", path.display())]
    InputUnreadable { path: PathBuf, source: io::Error },
    #[error("no photographs found: neither `assets/photos` here nor `{}` exists", path.display())]
    NoDefaultInput { path: PathBuf },
    #[error("no photographs in `{}`{}", path.display(), skipped_clause(*skipped))]
    NoPhotographs { path: PathBuf, skipped: usize },
    #[error("input and output are the same folder, `{}`", path.display())]
    OutputIsInput { path: PathBuf },
    #[error("output `{}` cannot be written", path.display())]
    OutputUnwritable { path: PathBuf, source: io::Error },
    #[error("the report cannot be printed")]
    Stdout { source: io::Error },
    #[error("a picture cannot be encoded")]
    Encoding { source: image::ImageError },
    #[error("the device cannot be opened")]
    Open { source: millstream::OpenError },
    #[error("the work on the device failed")]
    Device { source: millstream::Error },
    #[error("timeline `{}` cannot be read", path.display())]
    TimelineUnreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is not a timeline", path.display())]
    NotATimeline {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("timeline `{}` has no tasks", path.display())]
    EmptyTimeline { path: PathBuf },
    #[error("timeline `{}` cannot be written", path.display())]
    TimelineUnwritable { path: PathBuf, source: io::Error },
    #[error("picture `{}` cannot be written", path.display())]
    PictureUnwritable { path: PathBuf, source: io::Error },
    #[error("`{row}` cannot be measured")]
    Bench {
        row: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("bench report `{}` cannot be read", path.display())]
    BenchUnreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is not a bench report", path.display())]
    NotABenchReport {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("`{}` is not a bench report: the figures of `{row}` are inconsistent", path.display())]
    InvalidBenchReport { path: PathBuf, row: String },
    #[error("a thread cannot be started")]
    Thread { source: io::Error },
}

impl CommandError {
    /// Returns the exit code for this error.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Encoding { .. }
            | Self::Open { .. }
            | Self::Device { .. }
            | Self::Bench { .. }
            | Self::Thread { .. } => Exit::Failure,
            _ => Exit::Usage,
        }
    }

    /// Returns what the user can do about the error, as one sentence.
    pub(crate) fn next_step(&self) -> &'static str {
        match self {
            Self::InputMissing { .. } | Self::InputNotAFolder { .. } => {
                "name a folder of JPEG or PNG files with --input, or omit --input to use the photographs of the repository"
            }
            Self::InputUnreadable { .. } => {
                "check the permissions of the folder, or name another one with --input"
            }
            Self::NoDefaultInput { .. } => {
                "run the command in a clone of the repository, or name a folder of photographs with --input"
            }
            Self::NoPhotographs { .. } => {
                "put JPEG or PNG files directly into that folder, or name another one with --input"
            }
            Self::OutputIsInput { .. } => {
                "name another folder with --output, so that a later run does not read results as photographs"
            }
            Self::OutputUnwritable { .. } => {
                "name a writable folder on a disk with free space with --output"
            }
            Self::Stdout { .. } => "check where standard output goes; everything else is done",
            Self::Encoding { .. } => {
                "try again with another folder of photographs; if it persists, report it with the message above"
            }
            Self::Open { .. } => {
                "run `millstream doctor` to see what can be opened here, or try fewer --queues"
            }
            Self::Device { .. } => {
                "try again with fewer --threads or smaller photographs; if it persists, report it with the message above"
            }
            Self::Bench { .. } => {
                "run `millstream doctor` to test the device; if it passes, report this with the message above"
            }
            Self::BenchUnreadable { .. }
            | Self::NotABenchReport { .. }
            | Self::InvalidBenchReport { .. } => {
                "name a file that `millstream bench --json > FILE.json` wrote with --compare"
            }
            Self::Thread { .. } => "try fewer --threads or --queues",
            Self::TimelineUnreadable { .. } => {
                "name a readable file; `millstream demo --timeline FILE` writes one"
            }
            Self::NotATimeline { .. } | Self::EmptyTimeline { .. } => {
                "name a file that `millstream demo --timeline FILE` or `millstream::timeline::write` wrote completely, for a device with `DeviceOptions::trace`"
            }
            Self::TimelineUnwritable { .. } => {
                "name a file in an existing, writable folder with --timeline"
            }
            Self::PictureUnwritable { .. } => {
                "name a file in an existing, writable folder with --picture"
            }
        }
    }
}

fn skipped_clause(skipped: usize) -> String {
    match skipped {
        0 => String::new(),
        1 => "; 1 file was skipped".to_owned(),
        n => format!("; {n} files were skipped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_folder_is_a_usage_error_and_refused_thread_is_a_failure() {
        let missing = CommandError::InputMissing {
            path: "nowhere".into(),
        };
        assert_eq!(missing.exit(), Exit::Usage);
        assert_eq!(missing.to_string(), "input folder `nowhere` does not exist");
        let thread = CommandError::Thread {
            source: io::Error::other("no"),
        };
        assert_eq!(thread.exit(), Exit::Failure);
    }

    #[test]
    fn folder_without_photographs_reports_the_number_of_skipped_files() {
        let message = |skipped| {
            CommandError::NoPhotographs {
                path: "x".into(),
                skipped,
            }
            .to_string()
        };
        assert_eq!(message(0), "no photographs in `x`");
        assert_eq!(message(1), "no photographs in `x`; 1 file was skipped");
        assert_eq!(message(3), "no photographs in `x`; 3 files were skipped");
    }
}
