//! Exit codes, and the errors that end a command early.
//!
//! Every error names a next step. The help text (`args.rs`) documents the codes.

use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::Path;

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

/// The cause of an error.
type Cause = Box<dyn Error + Send + Sync>;

/// An error that ends a command before it has anything to report.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    message: String,
    /// What the user can do about it, as one sentence.
    pub(crate) next: &'static str,
    source: Option<Cause>,
}

impl CommandError {
    /// An option or file is invalid.
    pub(crate) fn usage(message: String, next: &'static str, source: Option<Cause>) -> Self {
        Self {
            exit: Exit::Usage,
            message,
            next,
            source,
        }
    }

    /// The device or the system failed.
    pub(crate) fn failure(message: &str, next: &'static str, source: impl Into<Cause>) -> Self {
        Self {
            exit: Exit::Failure,
            message: message.to_owned(),
            next,
            source: Some(source.into()),
        }
    }

    /// The work on the device failed.
    pub(crate) fn device(source: millstream::Error) -> Self {
        let next = "try again with fewer --threads or smaller photographs; if it persists, report it with the message above";
        Self::failure("the work on the device failed", next, source)
    }
}

/// What a file is for, its path, and what the user can do if it cannot be used.
#[derive(Clone, Copy)]
pub(crate) struct FileRole<'a> {
    what: &'static str,
    path: &'a Path,
    next: &'static str,
}

impl<'a> FileRole<'a> {
    pub(crate) fn new(what: &'static str, path: &'a Path, next: &'static str) -> Self {
        Self { what, path, next }
    }

    /// Creates the file now, so that a wrong path fails before the work.
    pub(crate) fn create(self) -> Result<(), CommandError> {
        let created = File::create(self.path).map(drop);
        created.map_err(|source| self.cannot_be("written", source))
    }

    /// Writes the file.
    pub(crate) fn write(self, content: impl AsRef<[u8]>) -> Result<(), CommandError> {
        let written = fs::write(self.path, content);
        written.map_err(|source| self.cannot_be("written", source))
    }

    /// Returns the error of a file that cannot be "read" or "written".
    pub(crate) fn cannot_be(self, used: &str, source: io::Error) -> CommandError {
        let message = format!("{} `{}` cannot be {used}", self.what, self.path.display());
        self.error(message, Some(source.into()))
    }

    /// Returns the error of a file with the wrong content.
    pub(crate) fn wrong(self, source: impl Into<Cause>) -> CommandError {
        let message = format!("`{}` is not a {}", self.path.display(), self.what);
        self.error(message, Some(source.into()))
    }

    /// Returns an error with this message.
    pub(crate) fn error(self, message: String, source: Option<Cause>) -> CommandError {
        CommandError::usage(message, self.next, source)
    }
}

/// A picture that a command writes.
pub(crate) fn picture(path: &Path) -> FileRole<'_> {
    let next = "name a file in an existing, writable folder with --picture";
    FileRole::new("picture", path, next)
}
