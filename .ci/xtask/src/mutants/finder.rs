//! The checks that find mutants: models, walks, the swarm and tests.

use std::fmt;
use std::process::{Command, ExitStatus};
use std::str::FromStr;
use std::time::Instant;

use super::tree::Tree;
use crate::cargo::Cargo;
use crate::models::{PROGRAMS, Program};
use crate::{mpi, vulkan};

/// The number of programs within which the swarm must find a mutant.
const SWARM_PROGRAMS: &str = "2000";

/// A check that takes longer counts as a hang, which finds the mutant.
const TIMEOUT_SECONDS: &str = "120";

/// The most characters of a check's message that are kept.
const MESSAGE_CHARS_MAX: usize = 120;

/// A check that must fail on the mutant.
#[derive(Debug)]
pub(super) enum Finder {
    /// `models NAME`, `users NAME` or `actors NAME`: a model of that program of `loom-tests`.
    Model(Program, String),
    /// `swarm`: the first [`SWARM_PROGRAMS`] programs of the swarm.
    Swarm,
    /// `test ARGUMENTS`: `cargo test` with these arguments.
    Tests(String),
}

/// The failure of a check, which found the mutant.
pub(super) struct Found {
    /// When it failed: `in 3.1 s`.
    pub(super) after: String,
    /// The first line of its message.
    pub(super) message: String,
}

impl FromStr for Finder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let program = PROGRAMS.iter().find(|program| program.name == kind);
        match (kind, program, rest.is_empty()) {
            ("swarm", _, true) => Ok(Self::Swarm),
            ("test", _, false) => Ok(Self::Tests(rest.to_owned())),
            (_, Some(program), false) => Ok(Self::Model(*program, rest.to_owned())),
            _ => Err(format!(
                "expected `swarm`, `test ARGUMENTS`, or `models`, `users` or `actors` with a name, got `{text}`"
            )),
        }
    }
}

impl fmt::Display for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(program, name) => write!(f, "{} {name}", program.name),
            Self::Swarm => write!(f, "swarm"),
            Self::Tests(arguments) => write!(f, "test {arguments}"),
        }
    }
}

impl Finder {
    /// Whether the check needs a Vulkan driver.
    pub(super) fn needs_vulkan(&self) -> bool {
        let packages = ["-p millstream-vulkan-", "-p millstream-wgpu"];
        matches!(self, Self::Tests(arguments) if packages.iter().any(|one| arguments.contains(one)))
    }

    /// Whether the check needs MPI.
    pub(super) fn needs_mpi(&self) -> bool {
        matches!(self, Self::Tests(arguments) if arguments.contains(mpi::MANIFEST))
    }

    /// Builds the check in a tree and runs it.
    ///
    /// # Errors
    /// The check could not be built, or passed.
    pub(super) fn run(&self, cargo: &Cargo, tree: &Tree) -> Result<Found, String> {
        let folder = tree.folder();
        let in_tree = |arguments: &str| cargo.command_in(folder, arguments);
        match self {
            Self::Model(program, name) => {
                let built = program.build(cargo, folder)?;
                if !built.models.iter().any(|known| known == name) {
                    return Err(format!("`{self}` does not exist"));
                }
                run_check(&built.command(name))?.judge()
            }
            Self::Swarm => {
                build(&mut in_tree("build --quiet -p millstream-swarm"))?;
                let run = format!(
                    "run --quiet -p millstream-swarm -- --programs {SWARM_PROGRAMS} --minutes 10 --whole"
                );
                run_check(&in_tree(&run))?.judge()
            }
            Self::Tests(arguments) => {
                let (for_cargo, for_tests) =
                    arguments.split_once(" -- ").unwrap_or((arguments, ""));
                let mut built = in_tree(&format!("test --quiet {for_cargo} --no-run"));
                let mut check = in_tree(&format!("test --quiet {for_cargo} -- {for_tests}"));
                if self.needs_vulkan() {
                    check.envs(vulkan::variables()?);
                }
                if self.needs_mpi() {
                    let variables = mpi::variables()?;
                    built.envs(variables.iter().cloned());
                    check.envs(variables);
                }
                build(&mut built)?;
                let ended = run_check(&check)?;
                match ended.ran_no_test() {
                    true => Err(format!("`{self}` ran no test")),
                    false => ended.judge(),
                }
            }
        }
    }
}

fn build(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let printed = String::from_utf8_lossy(&output.stderr);
            Err(format!("the check could not be built:\n{printed}"))
        }
    }
}

/// A check that has ended.
struct Ended {
    status: ExitStatus,
    after: String,
    output: String,
}

/// Runs a check until it ends or [`TIMEOUT_SECONDS`] have passed.
fn run_check(check: &Command) -> Result<Ended, String> {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=5").arg(TIMEOUT_SECONDS);
    command.arg(check.get_program()).args(check.get_args());
    command.envs(
        check
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command.env("RUST_BACKTRACE", "0");
    if let Some(folder) = check.get_current_dir() {
        command.current_dir(folder);
    }
    let begun = Instant::now();
    let output = command
        .output()
        .map_err(|error| format!("`timeout` could not be started: {error}"))?;
    let streams = [&output.stderr[..], &output.stdout[..]];
    Ok(Ended {
        status: output.status,
        after: format!("in {:.1} s", begun.elapsed().as_secs_f64()),
        output: streams.map(String::from_utf8_lossy).join("\n"),
    })
}

impl Ended {
    /// Whether `cargo test` succeeded because it ran no test.
    fn ran_no_test(&self) -> bool {
        let mut results = self
            .output
            .lines()
            .filter(|line| line.starts_with("test result: "));
        self.status.success() && results.all(|line| line.contains(" 0 passed;"))
    }

    /// Returns the failure of the check, or an error if it passed.
    fn judge(self) -> Result<Found, String> {
        // The exit code of `timeout` for a command that it has killed.
        const HANGS: i32 = 124;
        let message = match self.status.code() {
            Some(0) => return Err("the check passed".to_owned()),
            Some(HANGS) => format!("hangs: no result after {TIMEOUT_SECONDS} s"),
            _ => first_message(&self.output),
        };
        let after = self.after;
        Ok(Found { after, message })
    }
}

/// Returns the message of the first panic, or else the first line of the output.
fn first_message(output: &str) -> String {
    let mut lines = output
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    let first = lines
        .nth(1)
        .or_else(|| output.lines().find(|line| !line.trim().is_empty()));
    let first = first.unwrap_or("failed without output").trim();
    first.chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_finder_prints_the_same_text() {
        for text in [
            "swarm",
            "models gate::x",
            "actors closing::y",
            "test -p xtask --lib -- z",
        ] {
            let finder: Finder = text.parse().unwrap();
            assert_eq!(finder.to_string(), text);
        }
    }

    #[test]
    fn first_message_is_that_of_the_panic() {
        let output =
            "running 1 test\nthread 'a' panicked at src/x.rs:1:2:\nraced with `b`\nnote: more";
        assert_eq!(first_message(output), "raced with `b`");
        assert_eq!(first_message("\nan error\n"), "an error");
        assert_eq!(first_message(""), "failed without output");
    }

    #[test]
    fn only_a_failure_or_a_hang_finds_the_mutant() {
        let run = |script: &str| {
            run_check(Command::new("sh").args(["-c", script]))
                .unwrap()
                .judge()
        };
        assert!(run("true").is_err());
        assert_eq!(run("echo wrong >&2; exit 1").unwrap().message, "wrong");
        assert!(run("exit 124").unwrap().message.starts_with("hangs"));
    }
}
