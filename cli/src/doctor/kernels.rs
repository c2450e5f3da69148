//! The state of the folder that stores compiled CUDA C.

use std::fmt;
use std::path::PathBuf;

use millstream::cuda::CacheContents;
use serde::Serialize;

use crate::units::{bytes, counted};

/// The contents of the folder.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Kernels {
    folder: Option<PathBuf>,
    kept: usize,
    bytes: u64,
    damaged: usize,
}

impl From<CacheContents> for Kernels {
    fn from(kept: CacheContents) -> Self {
        Self {
            folder: Some(kept.folder),
            kept: kept.files,
            bytes: kept.bytes,
            damaged: kept.damaged,
        }
    }
}

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(folder) = &self.folder else {
            return f.write_str(
                "- compiled kernels are not stored: neither XDG_CACHE_HOME nor HOME names a folder; set one of them, or use `Cuda::kernel_cache`.",
            );
        };
        let kept = counted(self.kept, "compiled kernel");
        write!(
            f,
            "- {kept} ({}) in `{}`",
            bytes(self.bytes),
            folder.display()
        )?;
        match self.damaged {
            0 => f.write_str("."),
            damaged => write!(
                f,
                "; {damaged} of them damaged, compiled again when next used."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_kernels_are_reported_with_the_consequence() {
        let mut kernels = Kernels {
            folder: Some("/cache".into()),
            kept: 3,
            bytes: 2048,
            damaged: 0,
        };
        assert_eq!(
            kernels.to_string(),
            "- 3 compiled kernels (2.0 KiB) in `/cache`."
        );
        kernels.damaged = 1;
        assert!(
            kernels
                .to_string()
                .ends_with("; 1 of them damaged, compiled again when next used.")
        );
    }
}
