//! The files of the input folder.

use std::path::PathBuf;

use serde::Serialize;

/// A file whose header says that it is a photograph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PhotoFile {
    pub(crate) path: PathBuf,
    /// The file's name, for messages.
    pub(crate) file: String,
    /// The name of its result, unique in the folder.
    pub(crate) output: String,
    pub(crate) pixels: u64,
}

/// A skipped file, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Skipped {
    pub(crate) file: String,
    pub(crate) reason: String,
}
