//! A file as the place where choices are kept.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millstream_tune::{Store, StoreError};
use sha2::{Digest, Sha256};

/// What the names of such files end with.
pub(super) const ENDING: &str = "tune";

/// How long whoever else has the lock is waited for, unless a program says otherwise: they need milliseconds, but one may be stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A file, which processes may share.
///
/// It is never written, but replaced by another: written beside it, flushed to the disk, renamed. Whoever does that holds a lock on a third file (`.lock`),
/// which the system takes back from a process that dies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileStore {
    path: PathBuf,
    patience: Duration,
}

impl FileStore {
    /// The file of a device in a folder, which is made when something is kept: one for each name and version of a device.
    pub fn new(folder: impl Into<PathBuf>, device: &str, version: &str) -> Self {
        let plain = |text: &str| -> String {
            let letter = |letter: char| match letter.is_ascii_alphanumeric() || letter == '.' {
                true => letter.to_ascii_lowercase(),
                false => '-',
            };
            text.chars().take(80).map(letter).collect()
        };
        // Names that are alike but for other letters are told apart by what they were.
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

    /// How long to wait for others who change the file, instead of ten seconds: what is not written then is written with the next choice.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same in the folder of this user, `millstream/tune` in that of caches; nothing, where neither `XDG_CACHE_HOME` nor `HOME`
    /// names one.
    pub fn of_user(device: &str, version: &str) -> Option<Self> {
        user_folder().map(|folder| Self::new(folder, device, version))
    }

    /// The file.
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

    /// The lock, until it is dropped.
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
                    let why = format!("somebody else has had its lock for {:?}", self.patience);
                    return Err(std::io::Error::new(ErrorKind::TimedOut, why));
                }
                Err(TryLockError::WouldBlock) => thread::sleep(LOOK_EVERY),
            }
        }
    }

    fn replace(&self, bytes: &[u8]) -> std::io::Result<()> {
        // Other threads of this process have other names.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Only that numbers differ matters.
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

/// Where choices of this user are kept, unless a program says otherwise.
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
