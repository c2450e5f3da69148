//! Stores choices in a file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millstream_tune::{Store, StoreError, inspect};
use sha2::{Digest, Sha256};

/// The extension of store files.
pub(super) const ENDING: &str = "tune";

/// How long to wait for the lock by default. Its holders need milliseconds, but a process may be stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often to try the lock.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A store in a file that several processes may share.
///
/// The file is never written in place: a new file is written beside it, flushed to disk and renamed. The writer holds a
/// lock on a third file (`.lock`), which the system releases if the process dies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileStore {
    path: PathBuf,
    patience: Duration,
}

impl FileStore {
    /// Creates the store of a device in a folder. Each name and version of a device has its own file. The folder is
    /// created on the first write.
    pub fn new(folder: impl Into<PathBuf>, device: &str, version: &str) -> Self {
        let plain = |text: &str| -> String {
            let letter = |letter: char| match letter.is_ascii_alphanumeric() || letter == '.' {
                true => letter.to_ascii_lowercase(),
                false => '-',
            };
            text.chars().take(80).map(letter).collect()
        };
        // Names that differ only in replaced characters get different hashes.
        let mut hasher = Sha256::new();
        hasher.update((device.len() as u64).to_le_bytes());
        hasher.update(device);
        hasher.update(version);
        let sum = hasher
            .finalize()
            .iter()
            .take(8)
            .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let name = format!("{}-{}-{sum:016x}.{ENDING}", plain(device), plain(version));
        Self {
            path: folder.into().join(name),
            patience: PATIENCE,
        }
    }

    /// Sets how long to wait for other writers of the file. Default: 10 s. Choices that could not be written
    /// are written with the next one.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Creates the store of a device in the current user's cache folder, in `millstream/tune`. Returns `None` if
    /// neither `XDG_CACHE_HOME` nor `HOME` is set.
    pub fn of_user(device: &str, version: &str) -> Option<Self> {
        user_folder().map(|folder| Self::new(folder, device, version))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, verb: &'static str, why: &std::io::Error) -> StoreError {
        StoreError::Io {
            place: self.place(),
            verb,
            why: why.to_string(),
        }
    }

    /// Acquires the lock, which the returned file holds until it is dropped.
    fn lock(&self) -> std::io::Result<File> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.path.with_extension("lock"))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if begun.elapsed() >= self.patience => {
                    let why = format!("another writer has held its lock for {:?}", self.patience);
                    return Err(std::io::Error::new(ErrorKind::TimedOut, why));
                }
                Err(TryLockError::WouldBlock) => thread::sleep(LOOK_EVERY),
            }
        }
    }

    fn replace(&self, bytes: &[u8]) -> std::io::Result<()> {
        // Each thread of this process uses another name.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the numbers must only be distinct.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let beside = self
            .path
            .with_extension(format!("{}-{number}.new", std::process::id()));
        let written = File::create(&beside).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let replaced = written.and_then(|()| std::fs::rename(&beside, &self.path));
        if replaced.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        replaced
    }
}

/// Returns the default folder of the current user's stores.
pub(super) fn user_folder() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Some(base?.join("millstream").join("tune"))
}

impl Store for FileStore {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn load(&self) -> Result<Option<Vec<u8>>, StoreError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    fn update(&self, change: &mut dyn FnMut(Option<Vec<u8>>) -> Vec<u8>) -> Result<(), StoreError> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| self.failed("made", &error))?;
        }
        let lock = self.lock().map_err(|error| self.failed("locked", &error))?;
        let bytes = change(self.load()?);
        let replaced = self.replace(&bytes);
        drop(lock);
        replaced.map_err(|error| self.failed("written", &error))
    }
}

// Summarizes the folder of stored choices, for reports; tuning itself does not use this.

/// A summary of the choices stored on disk, for all devices.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoredChoices {
    /// The folder.
    pub folder: PathBuf,
    /// The number of files: one for each device and version.
    pub files: usize,
    /// The size of the files, in bytes.
    pub bytes: u64,
    /// The number of choices in them.
    pub choices: usize,
    /// The number of damaged lines and files. They are ignored, and their keys are tuned again when they are used.
    pub damaged: usize,
}

/// Summarizes the folder that [`FileStore::of_user`](super::FileStore::of_user) uses. Returns `None` if the system
/// names no such folder. Blocks to read each file, which takes some milliseconds.
pub fn stored_choices() -> Option<StoredChoices> {
    user_folder().map(|folder| survey(&folder))
}

fn survey(folder: &Path) -> StoredChoices {
    let mut summary = StoredChoices {
        folder: folder.to_owned(),
        files: 0,
        bytes: 0,
        choices: 0,
        damaged: 0,
    };
    // A missing folder has no files.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != ENDING) {
            continue;
        }
        summary.files += 1;
        let bytes = fs::read(&path).unwrap_or_default();
        summary.bytes += bytes.len() as u64;
        match inspect(&bytes) {
            Ok(found) => {
                summary.choices += found.choices;
                summary.damaged += found.damaged;
            }
            Err(_) => summary.damaged += 1,
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use millstream_tune::{Effort, Identity, Policy, Tunable, TunableSet, Tuner};

    use super::super::{FileStore, HostClock};
    use super::*;

    #[test]
    fn choices_and_damaged_entries_are_counted_separately() {
        let folder =
            std::env::temp_dir().join(format!("millstream-choices-{}", std::process::id()));
        assert_eq!(survey(&folder).files, 0, "the folder does not exist");
        let set = TunableSet::new("either", |_: &u32, x: &u32| *x)
            .with(Tunable::new("one", |x: u32| Ok::<_, String>(x)))
            .with(Tunable::new("other", |x: u32| Ok::<_, String>(x)));
        for device in ["a processor", "a GPU"] {
            let here = Identity {
                device: device.into(),
                version: "1".into(),
            };
            let store = FileStore::new(&folder, device, "1");
            let effort = Effort::default().samples(3);
            let (tuner, _) = Tuner::with_store(store, here, effort).unwrap();
            for key in 0..3 {
                tuner
                    .choose(&set, &key, &0, &mut HostClock::new(), Policy::Wait)
                    .unwrap();
            }
        }
        let whole = survey(&folder);
        assert_eq!((whole.files, whole.choices, whole.damaged), (2, 6, 0));
        assert!(whole.bytes > 100);
        let first = FileStore::new(&folder, "a GPU", "1");
        let text = fs::read_to_string(first.path()).unwrap();
        fs::write(first.path(), text.replacen("\"key\":1", "\"key\":7", 1)).unwrap();
        fs::write(folder.join("other.tune"), "not a store").unwrap();
        let damaged = survey(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((damaged.files, damaged.choices, damaged.damaged), (3, 5, 2));
    }
}
