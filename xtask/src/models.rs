//! Builds the models of `loom-tests` with `--cfg loom` and its walks with `--cfg shuttle`, and runs each in a process of its own, as a
//! failing model often aborts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::cargo::{Cargo, Outcome, root};

/// Models that are too large for every change have this in their names.
const DEEP: &str = "deep_";

/// How many times as many schedules of whole devices the deep run has.
const DEEP_TIMES: u32 = 40;

/// A test program of `loom-tests`, by the feature that it is built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    feature: &'static str,
    pub(crate) name: &'static str,
}

const MODELS: Program = Program::new("loom", "models");
/// Models as users write them.
const USERS: Program = Program::new("users", "users");
const WALKS: Program = Program::new("shuttle", "walks");
/// Walks of whole devices.
const ACTORS: Program = Program::new("actors", "actors");

/// All of them.
pub(crate) const PROGRAMS: [Program; 4] = [MODELS, USERS, WALKS, ACTORS];

/// A program that was built, and its models.
pub(crate) struct Built {
    name: &'static str,
    path: PathBuf,
    pub(crate) models: Vec<String>,
    environment: Vec<(&'static str, String)>,
    only: Option<String>,
}

/// Every model that is small enough, and every walk.
pub(crate) fn run_bounded(cargo: &Cargo) -> Outcome {
    let (mut outcome, mut chosen) = (Ok(()), 0);
    for program in PROGRAMS {
        let built = program.build(cargo, root())?;
        let models = built.models.iter();
        chosen += models.filter(|model| built.is_chosen(model)).count();
        outcome = outcome.and(built.hold(|model| !model.contains(DEEP)));
    }
    match &cargo.only {
        Some(only) if chosen == 0 => Err(format!("no model's name contains `{only}`")),
        _ => outcome,
    }
}

/// The models that are too large for every change, and the walks of whole devices with many more schedules.
pub(crate) fn run_deep(cargo: &Cargo) -> Outcome {
    let models = MODELS
        .build(cargo, root())?
        .hold(|model| model.contains(DEEP));
    let mut walks = ACTORS.build(cargo, root())?;
    let times = DEEP_TIMES.to_string();
    walks.environment.push(("MILLSTREAM_WALKS", times));
    models.and(walks.hold(|_| true))
}

impl Program {
    const fn new(feature: &'static str, name: &'static str) -> Self {
        Self { feature, name }
    }

    /// Builds it in a tree, ours or a copy, into our `target/models`.
    pub(crate) fn build(self, cargo: &Cargo, tree: &Path) -> Result<Built, String> {
        let Self { feature, name } = self;
        let arguments = format!(
            "test --profile models --package millstream-loom --no-run --test {name} --features {feature}"
        );
        let mut command = cargo.command(&arguments);
        command.env("CARGO_TARGET_DIR", root().join("target/models"));
        command.current_dir(tree);
        // Flags of the build that runs us, such as a sanitizer's, are not for models. Both checkers' for each program, so that what
        // they depend on is built once: the features choose.
        command.env_remove("CARGO_ENCODED_RUSTFLAGS");
        command.env("RUSTFLAGS", "--cfg loom --cfg shuttle");
        println!("$ RUSTFLAGS=\"--cfg loom --cfg shuttle\" cargo {arguments}");
        let output = command.output().map_err(|error| error.to_string())?;
        let printed = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("the {name} do not build:\n{printed}"));
        }
        // `Executable tests/models/main.rs (/path/to/models-0123)`
        let path = printed
            .rsplit_once('(')
            .and_then(|(_, rest)| rest.split_once(')'));
        let (path, _) = path.ok_or_else(|| format!("cargo names no program:\n{printed}"))?;
        let mut built = Built {
            name,
            path: tree.join(path),
            models: Vec::new(),
            environment: vec![("RUST_BACKTRACE", "0".to_owned())],
            only: cargo.only.clone(),
        };
        // Shuttle says once that it does not model orderings; we know.
        let quiet = ("SHUTTLE_SILENCE_WARNINGS", "1".to_owned());
        built.environment.push(quiet);
        if feature == USERS.feature {
            // As the guide tells its readers to.
            let bound = ("LOOM_MAX_PREEMPTIONS", "2".to_owned());
            built.environment.push(bound);
        }
        let listed = Command::new(&built.path).arg("--list").output();
        let listed = listed.map_err(|error| error.to_string())?;
        built.models = String::from_utf8_lossy(&listed.stdout)
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect();
        match built.models.is_empty() {
            true => Err(format!("there are no {name}")),
            false => Ok(built),
        }
    }
}

impl Built {
    fn is_chosen(&self, model: &str) -> bool {
        self.only.as_deref().is_none_or(|only| model.contains(only))
    }

    /// Runs the chosen models; each must hold.
    fn hold(&self, chosen: impl Fn(&str) -> bool) -> Outcome {
        let is_chosen = |model: &&String| chosen(model) && self.is_chosen(model);
        let models: Vec<_> = self.models.iter().filter(is_chosen).collect();
        let start = Instant::now();
        let failed = in_parallel(&models, |model| {
            let output = self.run(model)?;
            let printed = String::from_utf8_lossy(&output.stdout);
            let figures = |line: &&str| line.contains("MODEL ") || line.contains("WALK ");
            for line in printed.lines().filter(figures) {
                println!("{line}");
            }
            if output.status.success() {
                return Ok(());
            }
            let errors = String::from_utf8_lossy(&output.stderr);
            println!("{model} FAILED\n{printed}\n{errors}");
            Err((*model).clone())
        });
        let seconds = start.elapsed().as_secs_f64();
        println!("{} {} in {seconds:.1} s", models.len(), self.name);
        none(failed, "do not hold")
    }

    /// Runs one model in a process of its own.
    fn run(&self, model: &str) -> Result<Output, String> {
        let ended = self.command(model).output();
        ended.map_err(|error| format!("{model}, which does not start: {error},"))
    }

    /// What runs one model.
    pub(crate) fn command(&self, model: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.args(["--exact", model, "--include-ignored", "--nocapture"]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// An error that names these, unless there are none.
fn none(these: Vec<String>, verb: &str) -> Outcome {
    match these.is_empty() {
        true => Ok(()),
        false => Err(format!("{} {verb}", these.join(", "))),
    }
}

/// Applies `f` to every item on as many threads as there are cores; returns the errors.
fn in_parallel<T: Sync>(items: &[T], f: impl Fn(&T) -> Result<(), String> + Sync) -> Vec<String> {
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        // Relaxed: a counter.
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = f(item) {
                let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
                errors.push(error);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| _ = scope.spawn(work));
    });
    errors.into_inner().unwrap_or_else(PoisonError::into_inner)
}
