//! How a command ends: its exit code, and the errors that end it early.
//!
//! Every error says what to do next. The codes are documented in the help text (`help.rs`).

use std::io;
use std::path::PathBuf;

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All right.
    Success = 0,
    /// A result differed from the reference, a check of a soak failed, or the device failed.
    Wrong = 1,
    /// Bad usage: an option, a folder.
    Usage = 2,
    /// All right, but some files were skipped.
    Skipped = 3,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

/// What ends a command before it has anything to report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("the folder `{}` does not exist", path.display())]
    InputMissing { path: PathBuf },
    #[error("`{}` is not a folder", path.display())]
    InputNotAFolder { path: PathBuf },
    #[error("the folder `{}` cannot be read", path.display())]
    InputUnreadable { path: PathBuf, source: io::Error },
    #[error("no photographs found: neither `assets/photos` here nor `{}` exists", path.display())]
    NoDefaultInput { path: PathBuf },
    #[error("no photograph in `{}`{}", path.display(), skipped_clause(*skipped))]
    NoPhotographs { path: PathBuf, skipped: usize },
    #[error("input and output are the same folder, `{}`", path.display())]
    OutputIsInput { path: PathBuf },
    #[error("`{}` cannot be written", path.display())]
    OutputUnwritable { path: PathBuf, source: io::Error },
    #[error("--faults is of the simulator, and the soak is of the processor")]
    FaultsWithoutSimulator,
    #[error("the report could not be printed")]
    Stdout { source: io::Error },
    #[error("a picture could not be encoded")]
    Encoding { source: image::ImageError },
    #[error("the device could not be opened")]
    Open { source: millstream::OpenError },
    #[error("the device failed")]
    Device { source: millstream::Error },
    #[error("`{}` cannot be read", path.display())]
    DrawingUnreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is no schedule", path.display())]
    NoDrawing {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("`{}` goes in circles: what `{node}` is made of is made of it", path.display())]
    DrawingInCircles { path: PathBuf, node: String },
    #[error("`{}` has more than {most} {what}", path.display())]
    DrawingTooLarge {
        path: PathBuf,
        what: &'static str,
        most: u64,
    },
    #[error("`{}` cannot be written", path.display())]
    DrawingUnwritable { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be read", path.display())]
    TimelineUnreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is no timeline", path.display())]
    NoTimeline {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("no task of a queue is in `{}`", path.display())]
    EmptyTimeline { path: PathBuf },
    #[error("`{}` cannot be written", path.display())]
    TimelineUnwritable { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be written", path.display())]
    PictureUnwritable { path: PathBuf, source: io::Error },
    #[error("`{row}` could not be measured")]
    Bench {
        row: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("`{}` cannot be read", path.display())]
    BenchUnreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is no report of a bench", path.display())]
    NoBench {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("`{}` is no report of a bench: `{row}` has figures that no samples come to", path.display())]
    BenchUnsound { path: PathBuf, row: String },
    #[error("`{}` cannot be written", path.display())]
    PublicationUnwritable { path: PathBuf, source: io::Error },
    #[error("nothing is published at `{}`", path.display())]
    NoPublication { path: PathBuf },
    #[error("`{}` cannot be read", path.display())]
    PublicationUnreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is no frame", path.display())]
    NoFrame {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("the terminal cannot be used")]
    Terminal { source: io::Error },
    #[error("the system refused a worker thread")]
    Thread { source: io::Error },
}

impl CommandError {
    /// The code that the process ends with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Encoding { .. }
            | Self::Open { .. }
            | Self::Device { .. }
            | Self::Bench { .. }
            | Self::Terminal { .. }
            | Self::Thread { .. } => Exit::Wrong,
            _ => Exit::Usage,
        }
    }

    /// What the user can do about it, as one sentence.
    pub(crate) fn next_step(&self) -> &'static str {
        match self {
            Self::InputMissing { .. } | Self::InputNotAFolder { .. } => {
                "name a folder of JPEG or PNG files with --input, or leave --input out to use the photographs of the repository"
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
                "name another folder with --output, so that results are not taken for photographs"
            }
            Self::OutputUnwritable { .. } => {
                "name a folder that you can write to, with room on its disk, with --output"
            }
            Self::FaultsWithoutSimulator => "add `--backend sim`, or leave --faults out",
            Self::Stdout { .. } => "check where standard output goes; the rest is done",
            Self::Encoding { .. } => {
                "try again with another folder of photographs; if it stays, report it with the message above"
            }
            Self::Open { .. } => {
                "run `millstream doctor` to see what can be opened here, or try fewer --queues"
            }
            Self::Device { .. } => {
                "try again with fewer --threads or smaller photographs; if it stays, report it with the message above"
            }
            Self::Bench { .. } => {
                "run `millstream doctor` to see whether the device does what it is told; if it does, report this with the message above"
            }
            Self::BenchUnreadable { .. } | Self::NoBench { .. } | Self::BenchUnsound { .. } => {
                "name a file that `millstream bench --json > FILE.json` wrote, with --compare"
            }
            Self::Thread { .. } => "try fewer --threads or --queues",
            Self::DrawingUnreadable { .. } => {
                "name a file that you can read: write one with `std::fs::write(path, schedule.dot())`"
            }
            Self::NoDrawing { .. } | Self::DrawingInCircles { .. } => {
                "name a file that `Schedule::dot` wrote; Graphviz's own `dot -Tsvg` draws other graphs"
            }
            Self::DrawingTooLarge { .. } => {
                "draw the schedule of a part: of fewer roots, or of a root further up"
            }
            Self::TimelineUnreadable { .. } => {
                "name a file that you can read: `millstream demo --timeline FILE` writes one"
            }
            Self::NoTimeline { .. } | Self::EmptyTimeline { .. } => {
                "name a file that `millstream demo --timeline FILE` or `millstream::timeline::write` wrote to its end, of a device with `DeviceOptions::trace`"
            }
            Self::TimelineUnwritable { .. } => {
                "name a file in a folder that is there and that you can write to, with --timeline"
            }
            Self::PublicationUnwritable { .. } => {
                "name a file in a folder that you can write to, with --publish"
            }
            Self::NoPublication { .. }
            | Self::PublicationUnreadable { .. }
            | Self::NoFrame { .. } => {
                "run `millstream soak --publish FILE` in another terminal, and name the same file here"
            }
            Self::Terminal { .. } => "print one frame with --once, which needs no terminal",
            Self::PictureUnwritable { .. } => {
                "name a file in a folder that is there and that you can write to, with --picture"
            }
            Self::DrawingUnwritable { .. } => {
                "name a file in a folder that is there and that you can write to, with --output"
            }
        }
    }
}

fn skipped_clause(skipped: usize) -> String {
    match skipped {
        0 => String::new(),
        1 => "; its one file was skipped".to_owned(),
        n => format!("; all {n} files were skipped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_bad_usage_and_devices_are_not() {
        let missing = CommandError::InputMissing {
            path: "nowhere".into(),
        };
        assert_eq!(missing.exit(), Exit::Usage);
        assert_eq!(missing.to_string(), "the folder `nowhere` does not exist");
        let thread = CommandError::Thread {
            source: io::Error::other("no"),
        };
        assert_eq!(thread.exit(), Exit::Wrong);
    }

    #[test]
    fn an_album_without_photographs_says_how_many_files_were_skipped() {
        let say = |skipped| {
            CommandError::NoPhotographs {
                path: "x".into(),
                skipped,
            }
            .to_string()
        };
        assert_eq!(say(0), "no photograph in `x`");
        assert_eq!(say(1), "no photograph in `x`; its one file was skipped");
        assert_eq!(say(3), "no photograph in `x`; all 3 files were skipped");
    }
}
