//! Builds the models with `--cfg loom`, runs each in a process of its own, and requires that every planted
//! bug makes its model fail. An ordinary test, so that `cargo test` needs no flags.
#![cfg(not(all(loom, feature = "loom")))]
#![allow(clippy::unwrap_used, reason = "a test")]

use millstream_loom::planted::caught_by;
use millstream_sync::planted::Bug;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Models that are too large for the CI set begin with this.
const DEEP: &str = "deep_";

#[test]
fn every_model_holds() {
    let failed = run_models(|model| !model.contains(DEEP));
    assert!(failed.is_empty(), "models that do not hold: {failed:?}");
}

#[test]
#[ignore = "takes minutes"]
fn every_deep_model_holds() {
    let failed = run_models(|model| model.contains(DEEP));
    assert!(failed.is_empty(), "models that do not hold: {failed:?}");
}

#[test]
fn every_planted_bug_is_caught() {
    let models = models();
    for bug in Bug::ALL {
        assert!(
            models.iter().any(|m| m == caught_by(*bug)),
            "no model catches {bug:?}"
        );
    }
    let missed = in_parallel(Bug::ALL, |bug| {
        let output = run(caught_by(*bug), Some(*bug));
        let reason = reason(&output);
        println!(
            "BUG   {:<28} caught by {:<54} {reason}",
            bug.name(),
            caught_by(*bug)
        );
        (!output.status.success()).then_some(()).ok_or(bug.name())
    });
    assert!(
        missed.is_empty(),
        "planted bugs that no model catches: {missed:?}"
    );
}

/// Runs the chosen models and returns the names of those that fail.
fn run_models(chosen: impl Fn(&str) -> bool) -> Vec<String> {
    let start = Instant::now();
    let models: Vec<_> = models().into_iter().filter(|model| chosen(model)).collect();
    assert!(!models.is_empty(), "there are models");
    let failed = in_parallel(&models, |model| {
        let output = run(model, None);
        let stdout = String::from_utf8_lossy(&output.stdout);
        if let Some((_, line)) = stdout.lines().find_map(|line| line.split_once("MODEL ")) {
            println!("MODEL {line}");
        }
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
        "{} models in {:.1} s",
        models.len(),
        start.elapsed().as_secs_f64()
    );
    failed
}

/// Runs one model in a process of its own, with a bug or without.
fn run(model: &str, bug: Option<Bug>) -> Output {
    let mut command = Command::new(binary());
    command.args(["--exact", model, "--include-ignored", "--nocapture"]);
    command
        .env_remove("MILLSTREAM_BUG")
        .env("RUST_BACKTRACE", "0");
    if let Some(bug) = bug {
        command.env("MILLSTREAM_BUG", bug.name());
    }
    command.output().unwrap()
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

/// The names of all models.
fn models() -> Vec<String> {
    let output = Command::new(binary()).arg("--list").output().unwrap();
    let list = String::from_utf8_lossy(&output.stdout);
    list.lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect()
}

/// The models, built once.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(build)
}

fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("loom");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "test",
        "--release",
        "--package",
        "millstream-loom",
        "--features",
        "loom",
    ]);
    command
        .args(["--test", "models", "--no-run", "--target-dir"])
        .arg(target);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    // The outer build's own flags (sanitizers, coverage) are not for models.
    command
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "--cfg loom");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the models do not build:\n{said}");
    // `Executable tests/models/main.rs (/path/to/models-0123)`
    let path = said
        .rsplit_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    let (path, _) = path.unwrap_or_else(|| panic!("cargo names no executable:\n{said}"));
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
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
