//! Builds the models with `--cfg loom` and the walks with `--cfg shuttle`, runs each in a process of its own,
//! and requires that every planted bug makes its model fail. Ordinary tests, so that `cargo test` needs no
//! flags.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test")]

use millstream_loom::planted::{CAUGHT_BY_ACTORS, CAUGHT_BY_WALKS, caught_by};
use millstream_sync::planted::Bug;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Models that are too large for the CI set begin with this.
const DEEP: &str = "deep_";

/// A test binary and the checker it is built for.
struct Suite {
    /// The `--cfg`.
    checker: &'static str,
    /// The feature, and the folder under `target`.
    feature: &'static str,
    /// The test binary.
    name: &'static str,
    /// How many times as many schedules of whole devices are walked.
    times: u32,
    built: OnceLock<PathBuf>,
}

static MODELS: Suite = Suite {
    checker: "loom",
    feature: "loom",
    name: "models",
    times: 1,
    built: OnceLock::new(),
};
static USERS: Suite = Suite {
    checker: "loom",
    feature: "users",
    name: "users",
    times: 1,
    built: OnceLock::new(),
};
static WALKS: Suite = Suite {
    checker: "shuttle",
    feature: "shuttle",
    name: "walks",
    times: 1,
    built: OnceLock::new(),
};

static ACTORS: Suite = Suite {
    checker: "shuttle",
    feature: "actors",
    name: "actors",
    times: 1,
    built: OnceLock::new(),
};

/// How many times as many schedules of whole devices the deep run has.
const DEEP_TIMES: u32 = 40;

#[test]
fn every_model_holds() {
    assert_eq!(MODELS.failures(|model| !model.contains(DEEP)), [""; 0]);
}

#[test]
#[ignore = "takes minutes"]
fn every_deep_model_holds() {
    assert_eq!(MODELS.failures(|model| model.contains(DEEP)), [""; 0]);
}

/// Those that must find a mistake are tests that should panic.
#[test]
fn every_users_model_holds_or_finds_its_mistake() {
    assert_eq!(USERS.failures(|_| true), [""; 0]);
}

#[test]
fn every_walk_ends() {
    assert_eq!(WALKS.failures(|_| true), [""; 0]);
}

#[test]
fn every_walk_of_whole_devices_ends() {
    assert_eq!(ACTORS.failures(|_| true), [""; 0]);
}

/// Schedules are drawn anew each time.
#[test]
#[ignore = "takes minutes"]
fn every_deep_walk_of_whole_devices_ends() {
    let deep = Suite {
        times: DEEP_TIMES,
        built: OnceLock::new(),
        ..ACTORS
    };
    assert_eq!(deep.failures(|_| true), [""; 0]);
}

#[test]
fn planted_errors_of_protocol_are_caught_by_walks_of_whole_devices() {
    assert_eq!(ACTORS.missed(CAUGHT_BY_ACTORS), []);
}

#[test]
fn every_planted_bug_is_caught_by_its_model() {
    let bugs: Vec<_> = Bug::ALL.iter().map(|bug| (*bug, caught_by(*bug))).collect();
    assert_eq!(MODELS.missed(&bugs), []);
}

#[test]
fn planted_errors_of_protocol_are_caught_by_walks() {
    assert_eq!(WALKS.missed(CAUGHT_BY_WALKS), []);
}

impl Suite {
    /// Runs the chosen models and returns the names of those that fail.
    fn failures(&self, chosen: impl Fn(&str) -> bool) -> Vec<String> {
        let models: Vec<_> = self
            .list()
            .into_iter()
            .filter(|model| chosen(model))
            .collect();
        assert!(!models.is_empty(), "there are models");
        let start = Instant::now();
        let failed = in_parallel(&models, |model| {
            let output = self.run(model, None);
            let stdout = String::from_utf8_lossy(&output.stdout);
            let figures = |line: &&str| line.contains("MODEL ") || line.contains("WALK ");
            stdout
                .lines()
                .filter(figures)
                .for_each(|line| println!("{line}"));
            if output.status.success() {
                return Ok(());
            }
            println!(
                "{model} FAILED\n{stdout}\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
            Err(model.clone())
        });
        println!(
            "{} {} in {:.1} s",
            models.len(),
            self.name,
            start.elapsed().as_secs_f64()
        );
        failed
    }

    /// Runs each bug's model with the bug on and returns the bugs that go unnoticed.
    fn missed(&self, bugs: &[(Bug, &'static str)]) -> Vec<Bug> {
        let models = self.list();
        let unknown = |(_, model): &&(Bug, &str)| !models.iter().any(|known| known == model);
        assert_eq!(bugs.iter().find(unknown), None, "no such model");
        in_parallel(bugs, |&(bug, model)| {
            let output = self.run(model, Some(bug));
            println!(
                "BUG   {:<28} caught by {model:<54} {}",
                bug.name(),
                reason(&output)
            );
            if output.status.success() {
                Err(bug)
            } else {
                Ok(())
            }
        })
    }

    /// Runs one model in a process of its own, with a bug or without.
    fn run(&self, model: &str, bug: Option<Bug>) -> Output {
        let mut command = Command::new(self.binary());
        command.args(["--exact", model, "--include-ignored", "--nocapture"]);
        command
            .env_remove("MILLSTREAM_BUG")
            .env("RUST_BACKTRACE", "0");
        // Shuttle says once that it does not model orderings; we know.
        command.env("SHUTTLE_SILENCE_WARNINGS", "1");
        if self.feature == "users" {
            // As the guide tells its readers to.
            command.env("LOOM_MAX_PREEMPTIONS", "2");
        }
        command.env("MILLSTREAM_WALKS", self.times.to_string());
        if let Some(bug) = bug {
            command.env("MILLSTREAM_BUG", bug.name());
        }
        command.output().unwrap()
    }

    /// The names of all models.
    fn list(&self) -> Vec<String> {
        let output = Command::new(self.binary()).arg("--list").output().unwrap();
        let list = String::from_utf8_lossy(&output.stdout);
        list.lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect()
    }

    /// The test binary, built once.
    fn binary(&self) -> &Path {
        self.built.get_or_init(|| self.build())
    }

    fn build(&self) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(self.feature);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args([
            "test",
            "--release",
            "--package",
            "millstream-loom",
            "--no-run",
        ]);
        command.args([
            "--test",
            self.name,
            "--features",
            self.feature,
            "--target-dir",
        ]);
        command.arg(target).current_dir(root);
        // The outer build's own flags (sanitizers, coverage) are not for models.
        command.env_remove("CARGO_ENCODED_RUSTFLAGS");
        command.env("RUSTFLAGS", format!("--cfg {}", self.checker));
        // Four builds of much of the workspace: what a model gains by them is less than they take.
        command.env("CARGO_PROFILE_RELEASE_LTO", "off");
        command.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "the {} do not build:\n{said}",
            self.name
        );
        // `Executable tests/models/main.rs (/path/to/models-0123)`
        let path = said
            .rsplit_once('(')
            .and_then(|(_, rest)| rest.split_once(')'));
        let (path, _) = path.unwrap_or_else(|| panic!("cargo names no executable:\n{said}"));
        root.join("..").join(path)
    }
}

/// What a failed model said first.
fn reason(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut lines = stderr
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    let said = lines.nth(1).unwrap_or("NOTHING");
    said.split([';', '.']).next().unwrap_or_default().to_owned()
}

/// Applies `f` to every item on as many threads as there are cores; returns the errors.
fn in_parallel<T: Sync, E: Send>(items: &[T], f: impl Fn(&T) -> Result<(), E> + Sync) -> Vec<E> {
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = f(item) {
                errors.lock().unwrap().push(error);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| _ = scope.spawn(work));
    });
    errors.into_inner().unwrap()
}
