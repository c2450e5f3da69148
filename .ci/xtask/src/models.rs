//! Builds the models of `loom-tests` with `--cfg loom` and its walks with `--cfg shuttle`, and runs each in its own
//! process, because a failing model often aborts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::cargo::{Cargo, Outcome, root};

/// The prefix of models that are too slow to run for every change.
const DEEP: &str = "deep_";

/// The factor of schedules of whole devices in the deep run.
const DEEP_FACTOR: u32 = 40;

/// A test program of `loom-tests`, with the feature that enables it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    feature: &'static str,
    pub(crate) name: &'static str,
}

const MODELS: Program = Program::new("loom", "models");
/// Models of user code.
const USERS: Program = Program::new("users", "users");
/// Walks of whole devices.
const ACTORS: Program = Program::new("actors", "actors");

/// All programs.
pub(crate) const PROGRAMS: [Program; 3] = [MODELS, USERS, ACTORS];

/// A built program and its models.
pub(crate) struct Built {
    name: &'static str,
    path: PathBuf,
    pub(crate) models: Vec<String>,
    environment: Vec<(&'static str, String)>,
    only: Option<String>,
}

/// Runs all models except the deep ones, and all walks.
pub(crate) fn run_bounded(cargo: &Cargo) -> Outcome {
    let (mut outcome, mut chosen) = (Ok(()), 0);
    for program in PROGRAMS {
        let built = program.build(cargo, root())?;
        let models = built.models.iter();
        chosen += models.filter(|model| built.is_chosen(model)).count();
        outcome = outcome.and(built.check(|model| !model.contains(DEEP)));
    }
    match &cargo.only {
        Some(only) if chosen == 0 => Err(format!("no model's name contains `{only}`")),
        _ => outcome,
    }
}

/// Runs the deep models, and the walks of whole devices with more schedules.
pub(crate) fn run_deep(cargo: &Cargo) -> Outcome {
    let models = MODELS
        .build(cargo, root())?
        .check(|model| model.contains(DEEP));
    let mut walks = ACTORS.build(cargo, root())?;
    let factor = DEEP_FACTOR.to_string();
    walks.environment.push(("MILLSTREAM_WALKS", factor));
    models.and(walks.check(|_| true))
}

impl Program {
    const fn new(feature: &'static str, name: &'static str) -> Self {
        Self { feature, name }
    }

    /// Builds the program in `tree`, the workspace or a copy, into the workspace's `target/models`, the folder of the profile.
    pub(crate) fn build(self, cargo: &Cargo, tree: &Path) -> Result<Built, String> {
        let Self { feature, name } = self;
        let arguments = format!(
            "test --profile models --package millstream-loom --no-run --test {name} --features {feature}"
        );
        let mut command = cargo.command_in(tree, &arguments);
        // Flags of the current build, such as a sanitizer's, must not affect models. All programs get the flags of both
        // checkers, so that dependencies are built once; the features choose the checker.
        command.env_remove("CARGO_ENCODED_RUSTFLAGS");
        command.env("RUSTFLAGS", "--cfg loom --cfg shuttle");
        println!("$ RUSTFLAGS=\"--cfg loom --cfg shuttle\" cargo {arguments}");
        let output = command.output().map_err(|error| error.to_string())?;
        let printed = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("the {name} could not be built:\n{printed}"));
        }
        // `Executable tests/models/main.rs (/path/to/models-0123)`
        let path = printed
            .rsplit_once('(')
            .and_then(|(_, rest)| rest.split_once(')'));
        let (path, _) = path.ok_or_else(|| format!("Cargo printed no executable:\n{printed}"))?;
        let mut built = Built {
            name,
            path: tree.join(path),
            models: Vec::new(),
            environment: vec![("RUST_BACKTRACE", "0".to_owned())],
            only: cargo.only.clone(),
        };
        // Suppresses shuttle's warning that it does not model atomic orderings.
        let quiet = ("SHUTTLE_SILENCE_WARNINGS", "1".to_owned());
        built.environment.push(quiet);
        if feature == USERS.feature {
            // The bound that the guide recommends to users.
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
            true => Err(format!("the program has no {name}")),
            false => Ok(built),
        }
    }
}

impl Built {
    fn is_chosen(&self, model: &str) -> bool {
        self.only.as_deref().is_none_or(|only| model.contains(only))
    }

    /// Runs the chosen models, and returns an error that names those that failed.
    fn check(&self, chosen: impl Fn(&str) -> bool) -> Outcome {
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
        match failed.is_empty() {
            true => Ok(()),
            false => Err(format!("failed: {}", failed.join(", "))),
        }
    }

    /// Runs one model in its own process.
    fn run(&self, model: &str) -> Result<Output, String> {
        let ended = self.command(model).output();
        ended.map_err(|error| format!("{model} (could not be started: {error})"))
    }

    /// Returns the command that runs one model.
    pub(crate) fn command(&self, model: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.args(["--exact", model, "--include-ignored", "--nocapture"]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Applies `f` to every item, on one thread per core, and returns the errors.
fn in_parallel<T: Sync>(items: &[T], f: impl Fn(&T) -> Result<(), String> + Sync) -> Vec<String> {
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        // Relaxed: the counter only hands out indices.
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
