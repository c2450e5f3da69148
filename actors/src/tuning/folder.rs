//! What lies in the folder of tuned choices: for who wants to know, not for who uses it.

use std::fs;
use std::path::{Path, PathBuf};

use millstream_tune::inspect;

use super::file::{ENDING, user_folder};

/// Choices that are kept on disk, for any device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeptChoices {
    /// Where.
    pub folder: PathBuf,
    /// How many files: one for each device and version.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Choices in them.
    pub choices: usize,
    /// Lines of them, or whole files, that are damaged. They are not used, and tuned anew when they are asked for.
    pub damaged: usize,
}

/// What is kept in the folder that [`FileStore::of_user`](super::FileStore::of_user) takes; nothing, where the system names no such folder.
/// Reads each file: some milliseconds.
pub fn kept_choices() -> Option<KeptChoices> {
    user_folder().map(|folder| survey(&folder))
}

fn survey(folder: &Path) -> KeptChoices {
    let mut kept = KeptChoices {
        folder: folder.to_owned(),
        files: 0,
        bytes: 0,
        choices: 0,
        damaged: 0,
    };
    // A folder that is not there keeps nothing.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != ENDING) {
            continue;
        }
        kept.files += 1;
        let bytes = fs::read(&path).unwrap_or_default();
        kept.bytes += bytes.len() as u64;
        match inspect(&bytes) {
            Ok(found) => {
                kept.choices += found.choices;
                kept.damaged += found.damaged;
            }
            Err(_) => kept.damaged += 1,
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use millstream_tune::{Effort, Identity, Policy, Tunable, TunableSet, Tuner};

    use super::super::{FileStore, HostClock};
    use super::*;

    #[test]
    fn choices_are_counted_and_damage_is_told_apart() {
        let folder =
            std::env::temp_dir().join(format!("millstream-choices-{}", std::process::id()));
        assert_eq!(survey(&folder).files, 0, "there is no folder");
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
        fs::write(folder.join("other.tune"), "no cache").unwrap();
        let damaged = survey(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((damaged.files, damaged.choices, damaged.damaged), (3, 5, 2));
    }
}
