//! Summarizes the folder of stored choices, for reports; tuning itself does not use this.

use std::fs;
use std::path::{Path, PathBuf};

use millstream_tune::inspect;

use super::file::{ENDING, user_folder};

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
