//! One file of an album: found, or left out.

use std::path::PathBuf;

use serde::Serialize;

/// A file that looks like a photograph: its header has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// The file's name, for people.
    pub(crate) file: String,
    /// The name of its result, unique in the album.
    pub(crate) output: String,
    pub(crate) pixels: u64,
}

/// A file that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Skipped {
    pub(crate) file: String,
    pub(crate) reason: String,
}
