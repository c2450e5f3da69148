//! A cache of binaries on disk, keyed by all inputs of the compilation: name, source, options, compiler version.
//! Damaged files are ignored, and failed writes are logged.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_gpu::{CacheContents, CacheFile, cache_folder, hex};
use sha2::{Digest, Sha256};

use super::Target;
use super::compile::{Failure, Output, compile, options, version};

/// The files of this cache.
const FILE: CacheFile = CacheFile(b"MSCUBIN1");
/// The extension of their names.
const EXTENSION: &str = "cubin";

/// Reports on this user's cache of compiled kernels, for all versions of the compiler. Returns `None` if the system has
/// no cache folder for the user. Reads each file, which takes some milliseconds.
pub fn cached_kernels() -> Option<CacheContents> {
    cache_folder("cuda").map(|folder| FILE.survey(folder, EXTENSION))
}

/// A report on the cache of compiled CUDA C kernels: its folder, and its use since the device was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KernelCache {
    /// The folder of the cache, if there is one.
    pub folder: Option<PathBuf>,
    /// Kernels found in the cache.
    pub found: u64,
    /// Kernels compiled.
    pub compiled: u64,
}

/// A folder of binaries, with counters of hits and misses.
pub(crate) struct Cache {
    /// `None` if the cache is disabled.
    folder: Option<PathBuf>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Cache {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Returns the folder and the counters.
    pub(crate) fn report(&self) -> KernelCache {
        // Relaxed: statistics.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        KernelCache {
            folder: self.folder.clone(),
            found: count(&self.hits),
            compiled: count(&self.misses),
        }
    }

    /// Returns the binary of a source, from the folder or from the compiler.
    ///
    /// # Errors
    /// The same as [`compile`].
    pub(crate) fn get(
        &self,
        name: &str,
        source: &str,
        target: &Target,
    ) -> Result<Vec<u8>, Failure> {
        let path = match &self.folder {
            Some(folder) => Some(folder.join(file_name(name, source, target, version()?))),
            None => None,
        };
        if let Some(binary) = path.as_deref().and_then(|path| FILE.read(path)) {
            // Relaxed: a statistic.
            self.hits.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(target: "millstream::cuda", kernel = name, "found the compiled kernel in the cache");
            return Ok(binary);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let Output { binary, log } = compile(target.format(), name, source, &options(target))?;
        if !log.is_empty() {
            tracing::warn!(target: "millstream::cuda", kernel = name, log, "the compiler reports warnings");
        }
        if let Some(path) = path
            && let Err(error) = FILE.write(&path, &binary)
        {
            tracing::warn!(target: "millstream::cuda", path = %path.display(), %error, "cannot write a compiled kernel to the cache");
        }
        Ok(binary)
    }
}

/// Returns the file name for these inputs.
fn file_name(name: &str, source: &str, target: &Target, (major, minor): (i32, i32)) -> String {
    let mut hash = Sha256::new();
    // Each part is hashed with its length, so that different lists of parts never hash the same bytes.
    let parts = [
        name.to_owned(),
        source.to_owned(),
        format!("{major}.{minor}"),
    ];
    for part in parts.iter().chain(&options(target)) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    format!("{}.{EXTENSION}", hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("millstream-cache-{name}-{}", std::process::id()))
    }

    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn a_source_is_compiled_once_and_its_errors_show_source_lines() {
        let folder = folder("compiled");
        let (cache, again) = (
            Cache::new(Some(folder.clone())),
            Cache::new(Some(folder.clone())),
        );
        let source =
            "extern \"C\" __global__ void fill(float* out) {\n    out[threadIdx.x] = 1.0f;\n}\n";
        for target in [80, 90, 100] {
            let target = Target::exact(target);
            let binary = cache.get("fill", source, &target).unwrap();
            assert_eq!(&binary[..4], b"\x7fELF", "{target:?}");
            assert_eq!(again.get("fill", source, &target).unwrap(), binary);
        }
        let counts = |cache: &Cache| {
            let KernelCache {
                found, compiled, ..
            } = cache.report();
            (found, compiled)
        };
        assert_eq!((counts(&cache), counts(&again)), ((0, 3), (3, 0)));
        let wrong = source.replace("1.0f", "one");
        let Err(Failure::Source(log)) = cache.get("fill", &wrong, &Target::exact(90)) else {
            panic!("the wrong source compiles");
        };
        assert!(
            log.contains("fill.cu(2): error") && log.contains("2 |     out[threadIdx.x] = one;"),
            "{log}"
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn file_name_depends_on_every_input() {
        let name = |name: &str, source: &str, major, compiler| {
            file_name(name, source, &Target::exact(major * 10), compiler)
        };
        let names = [
            name("a", "b", 8, (13, 0)),
            name("ab", "", 8, (13, 0)),
            name("a", "c", 8, (13, 0)),
            name("a", "b", 9, (13, 0)),
            name("a", "b", 8, (13, 1)),
        ];
        for (place, one) in names.iter().enumerate() {
            assert!(!names[..place].contains(one));
        }
        assert_eq!(names[0], name("a", "b", 8, (13, 0)));
    }
}
