//! The errors of a run.

use std::io;
use std::path::PathBuf;

use ash::vk;

/// An error that ends a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("no group's name contains `{0}`; the groups are {1}")]
    NoGroup(String, String),
    #[error("the Vulkan loader cannot be opened: {0}")]
    Loader(#[from] ash::LoadingError),
    #[error("the raw side failed: {0}")]
    Raw(#[from] vk::Result),
    #[error("the raw side needs {0}")]
    Missing(&'static str),
    #[error("millstream failed: {0}")]
    Ours(#[from] millstream::Error),
    #[error("millstream cannot open the device: {0}")]
    Open(#[from] millstream::OpenError),
    #[error("wgpu failed: {0}")]
    Peer(String),
    #[error("{side} computed {got}, expected {expected}")]
    Wrong {
        side: &'static str,
        got: u32,
        expected: u32,
    },
    #[error("a thread panicked")]
    Panicked,
    #[error("`{}` cannot be written: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}
