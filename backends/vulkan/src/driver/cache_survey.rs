//! Reports on the pipeline cache. Devices do not use this.

use std::fs;
use std::path::{Path, PathBuf};

use millstream_gpu::cache_folder;

use super::cache::{EXTENSION, FILE};

/// The contents of the pipeline cache.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CachedPipelines {
    /// The folder of the cache.
    pub folder: PathBuf,
    /// Number of files: one for each device and driver version.
    pub files: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of damaged files. They are not used, and replaced by the next device that is closed.
    pub damaged: usize,
}

/// Reports on this user's pipeline cache, for all devices and drivers. Returns `None` if the system has no cache folder
/// for the user. Reads each file, which takes some milliseconds.
pub fn cached_pipelines() -> Option<CachedPipelines> {
    cache_folder("vulkan").map(|folder| survey(&folder))
}

fn survey(folder: &Path) -> CachedPipelines {
    let mut kept = CachedPipelines {
        folder: folder.to_owned(),
        files: 0,
        bytes: 0,
        damaged: 0,
    };
    // A missing folder is an empty cache.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != EXTENSION) {
            continue;
        }
        kept.files += 1;
        kept.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        kept.damaged += usize::from(FILE.read(&path).is_none());
    }
    kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn survey_counts_files_and_damaged_files() {
        let name = format!("millstream-pipelines-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        assert_eq!(survey(&folder).files, 0, "the folder does not exist");
        FILE.write(&folder.join("a.pipelines"), &[7; 100]).unwrap();
        fs::write(folder.join("b.pipelines"), [8; 50]).unwrap();
        fs::write(folder.join("a.tmp"), [1; 10]).unwrap();
        let found = survey(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((found.files, found.damaged), (2, 1));
        assert_eq!(found.bytes, 100 + 40 + 50);
    }
}
