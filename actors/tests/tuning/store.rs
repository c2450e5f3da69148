//! Choices in a file store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millstream_actors::tuning::FileStore;
use millstream_tune::{
    Chosen, Effort, Fastest, Identity, Loaded, Policy, Store, StoreError, Tunable, TunableSet,
    Tuner,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::support::{Costs, Virtual, timed};

/// A folder of one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("millstream-tune-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn store(&self) -> FileStore {
        FileStore::new(&self.0, "a processor", "1.0")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn here() -> Identity {
    Identity {
        device: "a processor".into(),
        version: "1.0".into(),
    }
}

fn open(store: &FileStore) -> (Tuner<u32>, Loaded) {
    Tuner::with_store(store.clone(), here(), Effort::default()).unwrap()
}

fn tune(tuner: &Tuner<u32>, times: &[u64], key: u32) -> Chosen {
    let costs = Arc::new(Costs::default());
    let set = timed(&costs, times);
    let choice = tuner.choose(&set, &key, &0, &mut Virtual::exact(&costs), Policy::Wait);
    choice.unwrap().by
}

#[test]
fn stored_choices_are_used_by_the_next_tuner_after_a_checksum() {
    let folder = Folder::new();
    let (first, loaded) = open(&folder.store());
    assert_eq!(loaded, Loaded::default());
    assert_eq!(tune(&first, &[300, 100], 7), Chosen::Tuned);
    let (second, loaded) = open(&folder.store());
    assert_eq!((loaded.choices, loaded.damaged), (1, 0));
    assert_eq!(second.fastest(&7), Fastest::Unchecked);
    let costs = Arc::new(Costs::default());
    let set = timed(&costs, &[300, 100]);
    assert_eq!(second.validate_checksum(&7, &set), Fastest::Hit(1));
    assert_eq!(
        second.outcome(&7),
        first.outcome(&7),
        "the whole outcome is stored"
    );
    assert_eq!(tune(&second, &[300, 100], 7), Chosen::Known);
}

/// A forgotten choice disappears from the file with the next write; choices of other tuners stay.
#[test]
fn forgotten_choices_are_removed_from_the_file() {
    let folder = Folder::new();
    let (first, _) = open(&folder.store());
    tune(&first, &[300, 100], 7);
    let (second, _) = open(&folder.store());
    tune(&second, &[300, 100], 8);
    first.forget(&7);
    tune(&first, &[300, 100], 9);
    let (third, loaded) = open(&folder.store());
    assert_eq!((loaded.choices, loaded.damaged), (2, 0));
    assert_eq!(third.fastest(&7), Fastest::Miss);
    assert_eq!(third.fastest(&8), Fastest::Unchecked);
}

#[test]
fn choices_of_other_candidates_are_tuned_again() {
    let folder = Folder::new();
    tune(&open(&folder.store()).0, &[300, 100], 7);
    let (tuner, _) = open(&folder.store());
    let costs = Arc::new(Costs::default());
    let other = timed(&costs, &[300, 100, 50]);
    assert_eq!(tuner.validate_checksum(&7, &other), Fastest::Miss);
    assert_eq!(tune(&tuner, &[300, 100, 50], 7), Chosen::Tuned);
    let versioned = timed(&costs, &[300, 100, 50]).version(2);
    let (tuner, _) = open(&folder.store());
    assert_eq!(tuner.validate_checksum(&7, &versioned), Fastest::Miss);
}

/// Keys of another type belong to another tuner: they are not damaged, and stay in the file.
#[test]
fn tuners_with_other_keys_may_share_a_file() {
    let folder = Folder::new();
    let words = || {
        let opened = Tuner::<String>::with_store(folder.store(), here(), Effort::default());
        let (tuner, loaded) = opened.unwrap();
        assert_eq!(loaded.damaged, 0);
        tuner
    };
    let tune_word = |tuner: &Tuner<String>, key: &str| {
        let one = |name| Tunable::new(name, |x: u32| Ok::<_, String>(x));
        let set = TunableSet::new("words", |_: &String, x: &u32| *x);
        let set = set.with(one("this")).with(one("that"));
        let costs = Arc::new(Costs::default());
        let mut clock = Virtual::exact(&costs);
        let choice = tuner.choose(&set, &key.to_owned(), &0, &mut clock, Policy::Wait);
        choice.unwrap().by
    };
    tune(&open(&folder.store()).0, &[300, 100], 7);
    assert_eq!(tune_word(&words(), "seven"), Chosen::Tuned);
    let (numbers, loaded) = open(&folder.store());
    assert_eq!((loaded.choices, loaded.damaged), (1, 0));
    assert_eq!(tune(&numbers, &[300, 100], 7), Chosen::Known);
    tune(&numbers, &[300, 100], 8);
    assert_eq!(tune_word(&words(), "seven"), Chosen::Known);
}

/// Each tuner adds its choices to those that other tuners have written meanwhile.
#[test]
fn tuners_that_share_a_file_lose_nothing_i6() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = folder.store();
            scope.spawn(move || {
                let (tuner, _) = open(&store);
                for key in 0..10 {
                    tune(&tuner, &[300, 100], thread * 10 + key);
                }
            });
        }
    });
    let (tuner, loaded) = open(&folder.store());
    assert_eq!((loaded.choices, loaded.damaged), (80, 0));
    for key in 0..80 {
        assert_eq!(tune(&tuner, &[300, 100], key), Chosen::Known);
    }
    let files: Vec<_> = std::fs::read_dir(&folder.0).unwrap().flatten().collect();
    assert_eq!(
        files.len(),
        2,
        "the store and its lock, and no temporary file: {files:?}"
    );
}

/// The same with processes: this test runs itself several times concurrently.
#[test]
fn processes_that_share_a_file_lose_nothing_i6() {
    const FOLDER: &str = "MILLSTREAM_TUNE_TEST";
    if let Some(shared) = std::env::var_os(FOLDER) {
        let shared = shared.into_string().unwrap();
        let (folder, first) = shared.rsplit_once(':').unwrap();
        let store = FileStore::new(folder, "a processor", "1.0");
        let (tuner, _) = open(&store);
        let first: u32 = first.parse().unwrap();
        for key in first..first + 10 {
            tune(&tuner, &[300, 100], key);
        }
        return;
    }
    let folder = Folder::new();
    let children: Vec<_> = (0..4)
        .map(|child| {
            let name = "store::processes_that_share_a_file_lose_nothing_i6";
            let shared = format!("{}:{}", folder.0.display(), child * 10);
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", name]).env(FOLDER, shared);
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let (_, loaded) = open(&folder.store());
    assert_eq!((loaded.choices, loaded.damaged), (40, 0));
}

/// 10,000 random damages of the file never cause a panic or a choice that was not made.
#[test]
fn a_damaged_file_never_gives_a_wrong_winner() {
    let folder = Folder::new();
    let (tuner, _) = open(&folder.store());
    let times = |key: u32| match key % 3 {
        0 => [100, 200, 300],
        1 => [300, 100, 200],
        _ => [300, 200, 100],
    };
    for key in 0..6 {
        // One set, whose candidates are as fast as the key says.
        let costs = Arc::new(Costs::default());
        let set = timed(&costs, &times(key));
        let renamed = set.version(0);
        tuner
            .choose(
                &renamed,
                &key,
                &0,
                &mut Virtual::exact(&costs),
                Policy::Wait,
            )
            .unwrap();
    }
    let bundle = tuner.export(&here());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut below = move |end: usize| (random.next_u64() % end as u64) as usize;
    let (mut refused, mut damaged, mut survived) = (0, 0, 0);
    for round in 0..10_000 {
        let mut bytes = bundle.clone();
        for _ in 0..1 + below(4) {
            let at = below(bytes.len());
            match round % 5 {
                0 => bytes[at] = below(256) as u8,
                1 => bytes[at] ^= 1 << below(8),
                2 => bytes.truncate(at.max(1)),
                3 => drop(bytes.drain(at..(at + 1 + below(40)).min(bytes.len()))),
                _ => {
                    let copied = bytes[at..(at + 60).min(bytes.len())].to_vec();
                    let to = below(bytes.len());
                    bytes.splice(to..to, copied);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        let read = Tuner::<u32>::new();
        match read.import(&bytes, &here()) {
            Err(_) => refused += 1,
            Ok(loaded) => damaged += loaded.damaged,
        }
        for key in 0..6 {
            let Some(outcome) = read.outcome(&key) else {
                continue;
            };
            survived += 1;
            assert_eq!(
                outcome.winner,
                key as usize % 3,
                "key {key} of round {round}"
            );
            assert_eq!(Some(outcome), tuner.outcome(&key));
        }
    }
    assert!(
        refused > 100 && damaged > 1000 && survived > 10_000,
        "{refused} {damaged} {survived}"
    );
}

#[test]
fn a_damaged_file_is_reported_and_its_keys_are_tuned_again() {
    let folder = Folder::new();
    let store = folder.store();
    let (tuner, _) = open(&store);
    tune(&tuner, &[300, 100], 1);
    tune(&tuner, &[300, 100], 2);
    let text = std::fs::read_to_string(store.path()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // Change the winner of one choice.
    let forged = lines[1].replace("\"winner\":1", "\"winner\":0");
    std::fs::write(
        store.path(),
        format!("{}\n{forged}\n{}\n", lines[0], lines[2]),
    )
    .unwrap();
    let (tuner, loaded) = open(&store);
    assert_eq!((loaded.choices, loaded.damaged), (1, 1));
    let by = [1, 2].map(|key| tune(&tuner, &[300, 100], key));
    assert!(
        by.contains(&Chosen::Tuned) && by.contains(&Chosen::Known),
        "{by:?}"
    );
    // A file in another format is replaced.
    std::fs::write(store.path(), "nothing of ours").unwrap();
    let (tuner, loaded) = open(&store);
    assert_eq!(loaded, Loaded::default());
    tune(&tuner, &[300, 100], 1);
    assert_eq!(open(&store).1.choices, 1);
}

#[test]
fn a_bundle_is_accepted_only_for_its_device_and_version() {
    let tuner = Tuner::new();
    tune(&tuner, &[300, 100], 7);
    let bundle = tuner.export(&here());
    let other = Tuner::<u32>::new();
    let newer = Identity {
        version: "2.0".into(),
        ..here()
    };
    let refused = other.import(&bundle, &newer).unwrap_err();
    assert!(matches!(refused, StoreError::OtherDevice { .. }));
    assert_eq!(
        refused.to_string(),
        "the choices were tuned on a processor 1.0, but this is a processor 2.0: tune here, or load them on such a device"
    );
    assert!(matches!(
        other.import(b"", &here()),
        Err(StoreError::NotACache { .. })
    ));
    // Choices that were tuned here take precedence over imported ones.
    tune(&other, &[100, 300], 7);
    assert_eq!(other.import(&bundle, &here()).unwrap().choices, 0);
    assert_eq!(other.fastest(&7), Fastest::Hit(0));
}

#[test]
fn devices_with_similar_names_have_separate_files() {
    let path = |device, version| FileStore::new("/tmp", device, version).path().to_owned();
    let all = [
        path("GPU 1", "2"),
        path("GPU-1", "2"),
        path("gpu 1", "2"),
        path("GPU 1", "3"),
        path("GPU", "12"),
        path("../../etc", "\u{e9}"),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(
            all[..at].iter().all(|other| other != one),
            "{}",
            one.display()
        );
        assert_eq!(one.parent().unwrap(), std::path::Path::new("/tmp"));
    }
}

/// I8: a lock that is never released blocks a tuner no longer than its patience, and the choices are written later.
#[test]
fn a_lock_that_is_never_released_delays_storing_only_i8() {
    let folder = Folder::new();
    let store = folder.store().patience(Duration::ZERO);
    let (tuner, _) = open(&store);
    tune(&tuner, &[300, 100], 1);
    let locked = std::fs::File::open(store.path().with_extension("lock")).unwrap();
    locked.lock().unwrap();
    let refused = store.update(&mut |_| Vec::new()).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("another writer has held its lock"),
        "{refused}"
    );
    assert_eq!(tune(&tuner, &[300, 100], 2), Chosen::Tuned);
    assert_eq!(open(&store).1.choices, 1);
    drop(locked);
    tune(&tuner, &[300, 100], 3);
    assert_eq!(open(&store).1.choices, 3);
}

/// I7: a store that cannot be written does not fail tuning.
#[test]
fn a_store_that_refuses_writes_does_not_fail_tuning_i7() {
    let store = FileStore::new("/dev/null/nowhere", "a processor", "1.0");
    assert!(store.update(&mut |_| Vec::new()).is_err());
    match Tuner::<u32>::with_store(store, here(), Effort::default()) {
        Ok((tuner, _)) => assert_eq!(tune(&tuner, &[300, 100], 1), Chosen::Tuned),
        Err(error) => assert!(error.to_string().contains("cannot be read"), "{error}"),
    }
}
