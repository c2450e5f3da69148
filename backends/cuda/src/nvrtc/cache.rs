//! Binaries on disk, by what they were made of: source, options, compiler. A file that is not whole is not used, and
//! one that cannot be written is not missed.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::Target;
use super::compile::{Failure, Made, compile, options, version};

/// What a file begins with; the digest of the binary and the binary follow.
const MAGIC: &[u8; 8] = b"MSCUBIN1";

/// What became of kernels in CUDA C, since a device was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KernelCache {
    /// Where compiled ones are kept, if anywhere.
    pub folder: Option<PathBuf>,
    /// Kernels that were found there.
    pub found: u64,
    /// Kernels that were compiled.
    pub compiled: u64,
}

/// A folder of binaries, and how often it had what was asked for.
pub(crate) struct Cache {
    /// None: nothing is kept.
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

    /// The folder of this user, where the system has one.
    pub(crate) fn default_folder() -> Option<PathBuf> {
        let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        Some(base?.join("millstream").join("cuda"))
    }

    /// What became of what it was asked for.
    pub(crate) fn report(&self) -> KernelCache {
        // Relaxed: figures.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        KernelCache {
            folder: self.folder.clone(),
            found: count(&self.hits),
            compiled: count(&self.misses),
        }
    }

    /// The binary of a source, from the folder or from the compiler.
    ///
    /// # Errors
    /// As [`compile`].
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
        if let Some(binary) = path.as_deref().and_then(read) {
            // Relaxed: a figure.
            self.hits.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(target: "millstream::cuda", kernel = name, "compiled before");
            return Ok(binary);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let Made { binary, log } = compile(target.form(), name, source, &options(target))?;
        if !log.is_empty() {
            tracing::warn!(target: "millstream::cuda", kernel = name, log, "the compiler warns");
        }
        if let Some(path) = path
            && let Err(error) = write(&path, &binary)
        {
            tracing::warn!(target: "millstream::cuda", path = %path.display(), %error, "a compiled kernel is not kept");
        }
        Ok(binary)
    }
}

/// The name of the file of what is made of this.
fn file_name(name: &str, source: &str, target: &Target, (major, minor): (i32, i32)) -> String {
    let mut hash = Sha256::new();
    // Each part with its length, so that no two lists of parts are one text.
    let parts = [
        name.to_owned(),
        source.to_owned(),
        format!("{major}.{minor}"),
    ];
    for part in parts.iter().chain(&options(target)) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()) + ".cubin"
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    let file = fs::read(path).ok()?;
    let (digest, binary) = file.strip_prefix(MAGIC)?.split_at_checked(32)?;
    let whole = Sha256::digest(binary).as_slice() == digest;
    if !whole {
        tracing::warn!(target: "millstream::cuda", path = %path.display(), "a compiled kernel is damaged, and made anew");
    }
    whole.then(|| binary.to_vec())
}

/// Writes beside the file and puts it in its place whole, so that others see all of it or nothing.
pub(super) fn write(path: &Path, binary: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Relaxed: the numbers are to differ, no more.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let beside = folder.join(format!("{}-{number}.tmp", std::process::id()));
    let digest = Sha256::digest(binary);
    let written = fs::write(&beside, [MAGIC, digest.as_slice(), binary].concat())
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // Nothing of it is to stay, where it can be helped.
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("millstream-cache-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_not() {
        let folder = folder("damaged");
        let path = folder.join("some").join("file.cubin");
        write(&path, b"binary").unwrap();
        assert_eq!(read(&path).unwrap(), b"binary");
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(read(&path), None, "cut at {cut}");
        }
        let mut other = whole.clone();
        *other.last_mut().unwrap() ^= 1;
        fs::write(&path, &other).unwrap();
        assert_eq!(read(&path), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn a_source_is_compiled_once_and_its_mistakes_are_shown_by_line() {
        let folder = folder("compiled");
        let (cache, again) = (
            Cache::new(Some(folder.clone())),
            Cache::new(Some(folder.clone())),
        );
        let source =
            "extern \"C\" __global__ void fill(float* out) {\n    out[threadIdx.x] = 1.0f;\n}\n";
        for target in [(8, 0), (9, 0), (10, 0)] {
            let target = Target::of(target.0, target.1);
            let made = cache.get("fill", source, &target).unwrap();
            assert_eq!(&made[..4], b"\x7fELF", "{target:?}");
            assert_eq!(again.get("fill", source, &target).unwrap(), made);
        }
        let counts = |cache: &Cache| {
            let KernelCache {
                found, compiled, ..
            } = cache.report();
            (found, compiled)
        };
        assert_eq!((counts(&cache), counts(&again)), ((0, 3), (3, 0)));
        let wrong = source.replace("1.0f", "one");
        let Err(Failure::Source(log)) = cache.get("fill", &wrong, &Target::of(9, 0)) else {
            panic!("it compiles");
        };
        assert!(
            log.contains("fill.cu(2): error") && log.contains("2 |     out[threadIdx.x] = one;"),
            "{log}"
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn everything_that_a_binary_is_made_of_is_in_its_name() {
        let name = |name: &str, source: &str, major, compiler| {
            file_name(name, source, &Target::of(major, 0), compiler)
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
