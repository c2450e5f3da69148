//! Reports on the cache of compiled kernels. Compilation does not use this.

use std::fs;
use std::path::{Path, PathBuf};

use millstream_gpu::cache_folder;

use super::cache::FILE;

/// The contents of the cache of compiled kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CachedKernels {
    /// The folder of the cache.
    pub folder: PathBuf,
    /// Number of files.
    pub kernels: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of damaged files. They are not used, and compiled again when they are needed.
    pub damaged: usize,
}

/// Reports on this user's cache of compiled kernels, for all versions of the compiler. Returns `None` if the system has
/// no cache folder for the user. Reads each file, which takes some milliseconds.
pub fn cached_kernels() -> Option<CachedKernels> {
    cache_folder("cuda").map(|folder| survey(&folder))
}

fn survey(folder: &Path) -> CachedKernels {
    let mut kept = CachedKernels {
        folder: folder.to_owned(),
        kernels: 0,
        bytes: 0,
        damaged: 0,
    };
    // A missing folder is an empty cache.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "cubin") {
            continue;
        }
        kept.kernels += 1;
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
        let folder = std::env::temp_dir().join(format!("millstream-kept-{}", std::process::id()));
        assert_eq!(survey(&folder).kernels, 0, "the folder does not exist");
        FILE.write(&folder.join("a.cubin"), &[7; 100]).unwrap();
        FILE.write(&folder.join("b.cubin"), &[8; 50]).unwrap();
        fs::write(folder.join("a.tmp"), [1; 10]).unwrap();
        let whole = survey(&folder);
        assert_eq!(
            (whole.kernels, whole.bytes, whole.damaged),
            (2, 150 + 2 * 40, 0)
        );
        fs::write(folder.join("b.cubin"), [8; 50]).unwrap();
        let damaged = survey(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((damaged.kernels, damaged.damaged), (2, 1));
    }
}
