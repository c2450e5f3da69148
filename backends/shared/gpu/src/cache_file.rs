//! Files of caches on disk: checked when they are read, and written as a whole.
//!
//! # Who may write them
//!
//! A file is code: a driver runs it, or reads it without checks of its own. Its digest finds damage, but anyone can compute
//! a digest, so it does not show who has written the file. The file system does: on Unix, a file is used only if it and
//! its folder belong to this user or to root, and no other user may write to them. New folders and files are made so. On
//! other systems the folder's access rights are the user's, and are not checked.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// A kind of cache file, by the magic number that its files begin with. The digest of the content and the content
/// follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheFile(pub &'static [u8; 8]);

/// The contents of a backend's cache folder.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CacheContents {
    /// The folder.
    pub folder: PathBuf,
    /// Number of files.
    pub files: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files that are damaged, or that other users can write. They are not used, and are replaced once their
    /// content is needed again.
    pub damaged: usize,
}

impl CacheFile {
    /// Reads a file. Returns `None` if there is none, if it is damaged or of another kind, or if other users can write it.
    pub fn read(self, path: &Path) -> Option<Vec<u8>> {
        let mut open = File::open(path).ok()?;
        // Of the open file, which no other process can exchange any more.
        let file = open.metadata().ok().filter(Metadata::is_file)?;
        let folder = fs::metadata(folder_of(path)).ok()?;
        if !is_private(&file) || !is_private(&folder) {
            tracing::warn!(target: "millstream::gpu", path = %path.display(), "a file of the kernel cache is not used, because other users can write it or its folder; remove it, or change its owner and access rights");
            return None;
        }
        let mut file = Vec::new();
        open.read_to_end(&mut file).ok()?;
        let (digest, content) = file.strip_prefix(self.0)?.split_at_checked(32)?;
        let intact = Sha256::digest(content).as_slice() == digest;
        if !intact {
            tracing::warn!(target: "millstream::gpu", path = %path.display(), "a file of the kernel cache is damaged; compiling again");
        }
        intact.then(|| content.to_vec())
    }

    /// Writes a temporary file in the same folder and renames it, so that other processes never read a partial file.
    ///
    /// # Errors
    /// The folder cannot be created, or the file cannot be written.
    pub fn write(self, path: &Path, content: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let folder = folder_of(path);
        create_folder(folder)?;
        // Relaxed: the numbers only need to differ.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!("{}-{number}.tmp", std::process::id()));
        let digest = Sha256::digest(content);
        // A file of a process that was ended while it wrote.
        let _ = fs::remove_file(&temporary);
        let written = create_file(&temporary)
            .and_then(|mut file| file.write_all(&[self.0, digest.as_slice(), content].concat()))
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // Best effort: this returns the error of the write, not of the removal.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Reads all files of a folder whose names end with `.` and `extension`, and returns how many there are. A missing
    /// folder is an empty one.
    pub fn survey(self, folder: PathBuf, extension: &str) -> CacheContents {
        let (mut files, mut bytes, mut damaged) = (0, 0, 0);
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|ending| ending != extension) {
                continue;
            }
            files += 1;
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            damaged += usize::from(self.read(&path).is_none());
        }
        CacheContents {
            folder,
            files,
            bytes,
            damaged,
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Whether only this user and root can write.
#[cfg(unix)]
fn is_private(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    unsafe extern "C" {
        safe fn geteuid() -> u32;
    }
    [geteuid(), 0].contains(&metadata.uid()) && metadata.mode() & 0o022 == 0
}

#[cfg(not(unix))]
fn is_private(_metadata: &Metadata) -> bool {
    true
}

/// Creates a folder, with those above it, that only this user can access.
fn create_folder(folder: &Path) -> io::Result<()> {
    let mut options = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut options, 0o700);
    options.recursive(true).create(folder)
}

/// Creates a file that only this user can access. There must be none.
fn create_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}

/// Where a backend keeps the files of its cache.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum CacheFolder {
    /// This user's cache folder.
    #[default]
    Default,
    /// A folder of the application.
    Given(PathBuf),
    /// Nowhere.
    None,
}

impl CacheFolder {
    /// Returns the folder for a backend; `None` for none.
    pub fn of(self, backend: &str) -> Option<PathBuf> {
        match self {
            Self::Default => cache_folder(backend),
            Self::Given(folder) => Some(folder),
            Self::None => None,
        }
    }
}

/// Returns this user's cache folder of a backend, if the system has one: `millstream/BACKEND` in `XDG_CACHE_HOME`, or
/// in `~/.cache`.
pub fn cache_folder(backend: &str) -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Some(base?.join("millstream").join(backend))
}

/// Returns bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
        text
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const FILE: CacheFile = CacheFile(b"MSTESTS1");

    #[test]
    fn written_files_are_read_and_damaged_files_are_not() {
        let folder =
            std::env::temp_dir().join(format!("millstream-cache-file-{}", std::process::id()));
        let path = folder.join("some").join("file");
        FILE.write(&path, b"binary").unwrap();
        assert_eq!(FILE.read(&path).unwrap(), b"binary");
        let intact = fs::read(&path).unwrap();
        for cut in 0..intact.len() {
            fs::write(&path, &intact[..cut]).unwrap();
            assert_eq!(FILE.read(&path), None, "cut at {cut}");
        }
        let mut damaged = intact.clone();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(FILE.read(&path), None);
        fs::remove_dir_all(folder).unwrap();
    }

    /// The digest does not show who has written a file.
    #[cfg(unix)]
    #[test]
    fn file_that_other_users_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;

        let name = format!("millstream-private-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let path = folder.join("file");
        FILE.write(&path, b"binary").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        for (changed, bits) in [
            (&folder, 0o722),
            (&folder, 0o770),
            (&path, 0o602),
            (&path, 0o620),
        ] {
            let before = fs::metadata(changed).unwrap().permissions();
            fs::set_permissions(changed, fs::Permissions::from_mode(bits)).unwrap();
            assert_eq!(FILE.read(&path), None, "{} {bits:o}", changed.display());
            fs::set_permissions(changed, before).unwrap();
            assert_eq!(FILE.read(&path).unwrap(), b"binary");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn survey_counts_files_and_damaged_files() {
        let name = format!("millstream-survey-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let survey = || FILE.survey(folder.clone(), "kept");
        assert_eq!(survey().files, 0, "the folder does not exist");
        FILE.write(&folder.join("a.kept"), &[7; 100]).unwrap();
        FILE.write(&folder.join("b.kept"), &[8; 50]).unwrap();
        fs::write(folder.join("a.tmp"), [1; 10]).unwrap();
        let whole = survey();
        assert_eq!(
            (whole.files, whole.bytes, whole.damaged),
            (2, 150 + 2 * 40, 0)
        );
        fs::write(folder.join("b.kept"), [8; 50]).unwrap();
        let damaged = survey();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((damaged.files, damaged.damaged), (2, 1));
    }
}
