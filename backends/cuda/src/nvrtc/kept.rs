//! What lies in the folder of compiled kernels: for who wants to know, not for who uses it.

use std::fs;
use std::path::{Path, PathBuf};

use super::cache::{Cache, read};

/// Compiled CUDA C that is kept on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeptKernels {
    /// Where.
    pub folder: PathBuf,
    /// How many files.
    pub kernels: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that are not whole. They are not used, and made anew when they are asked for.
    pub damaged: usize,
}

/// What is kept in the folder of this user, by any version of the compiler; nothing, where the system names no such folder. Reads each file: some milliseconds.
pub fn kept_kernels() -> Option<KeptKernels> {
    Cache::default_folder().map(|folder| survey(&folder))
}

fn survey(folder: &Path) -> KeptKernels {
    let mut kept = KeptKernels {
        folder: folder.to_owned(),
        kernels: 0,
        bytes: 0,
        damaged: 0,
    };
    // A folder that is not there keeps nothing.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "cubin") {
            continue;
        }
        kept.kernels += 1;
        kept.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        kept.damaged += usize::from(read(&path).is_none());
    }
    kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::cache::write;
    use super::*;

    #[test]
    fn files_are_counted_and_damaged_ones_told_apart() {
        let folder = std::env::temp_dir().join(format!("millstream-kept-{}", std::process::id()));
        assert_eq!(survey(&folder).kernels, 0, "there is no folder");
        write(&folder.join("a.cubin"), &[7; 100]).unwrap();
        write(&folder.join("b.cubin"), &[8; 50]).unwrap();
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
