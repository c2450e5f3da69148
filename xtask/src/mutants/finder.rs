//! What finds a mutant: a model, a walk, the swarm, or tests.

use std::fmt;
use std::process::{Command, ExitStatus};
use std::str::FromStr;
use std::time::Instant;

use super::tree::Tree;
use crate::cargo::{Cargo, root};
use crate::models::{PROGRAMS, Program};

/// Programs within which the swarm must find a mutant.
const SWARM_PROGRAMS: &str = "2000";

/// What takes longer hangs, which is to be found.
const PATIENCE_SECONDS: &str = "120";

/// Characters of what a check said that are kept.
const WORDS_MAX: usize = 120;

/// A check that must fail.
#[derive(Debug)]
pub(super) enum Finder {
    /// `models NAME`, `users NAME`, `walks NAME` or `actors NAME`: one of that program of `loom-tests`.
    Model(Program, String),
    /// `swarm`: its first programs.
    Swarm,
    /// `test ARGUMENTS`: Cargo's tests with these.
    Tests(String),
}

/// A check that failed, as it must.
pub(super) struct Found {
    /// How soon: `program 12`, or `in 3.1 s`.
    pub(super) after: String,
    /// What it said first.
    pub(super) said: String,
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
                "`{text}` finds nothing: `swarm`, `test ARGUMENTS`, or one of `models`, `users`, `walks` and `actors` with a name"
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
    /// Builds it in a tree and runs it.
    ///
    /// # Errors
    /// It does not build, or does not fail.
    pub(super) fn run(&self, cargo: &Cargo, tree: &Tree) -> Result<Found, String> {
        let folder = tree.folder();
        let in_tree = |arguments: &str| {
            let mut command = cargo.command(arguments);
            // What is built of the registry is the same as for us.
            command.env("CARGO_TARGET_DIR", root().join("target"));
            command.current_dir(folder);
            command
        };
        match self {
            Self::Model(program, name) => {
                let built = program.build(cargo, folder)?;
                if !built.models.iter().any(|known| known == name) {
                    return Err(format!("there is no {self}"));
                }
                ended(&built.command(name))?.judged()
            }
            Self::Swarm => {
                build(&mut in_tree("build --quiet -p millstream-swarm"))?;
                let run = format!(
                    "run --quiet -p millstream-swarm -- --programs {SWARM_PROGRAMS} --minutes 10 --whole"
                );
                let mut ended = ended(&in_tree(&run))?;
                // `program 12 (seed 12) is wrong: ..`
                let told = ended.told.split_once("program ");
                if let Some((programs, rest)) = told.and_then(|(_, rest)| rest.split_once(" (")) {
                    ended.after = format!("program {programs}");
                    let said = rest.split_once("wrong: ").map_or(rest, |(_, said)| said);
                    ended.told = said.to_owned();
                }
                ended.judged()
            }
            Self::Tests(arguments) => {
                let (of_cargo, of_tests) = arguments.split_once(" -- ").unwrap_or((arguments, ""));
                build(&mut in_tree(&format!("test --quiet {of_cargo} --no-run")))?;
                let ended = ended(&in_tree(&format!("test --quiet {of_cargo} -- {of_tests}")))?;
                match ended.ran_no_test() {
                    true => Err(format!("there is no {self}")),
                    false => ended.judged(),
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
            Err(format!("it does not build:\n{printed}"))
        }
    }
}

/// How a check ended.
struct Ended {
    status: ExitStatus,
    after: String,
    told: String,
}

/// Runs a check to its end, or until it has had time enough.
fn ended(check: &Command) -> Result<Ended, String> {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=5").arg(PATIENCE_SECONDS);
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
        .map_err(|error| format!("`timeout` does not start: {error}"))?;
    let streams = [&output.stderr[..], &output.stdout[..]];
    Ok(Ended {
        status: output.status,
        after: format!("in {:.1} s", begun.elapsed().as_secs_f64()),
        told: streams.map(String::from_utf8_lossy).join("\n"),
    })
}

impl Ended {
    /// Whether Cargo's tests ended well because there were none.
    fn ran_no_test(&self) -> bool {
        let mut results = self
            .told
            .lines()
            .filter(|line| line.starts_with("test result: "));
        self.status.success() && results.all(|line| line.contains(" 0 passed;"))
    }

    /// A check that failed has found the mutant.
    fn judged(self) -> Result<Found, String> {
        // What `timeout` says of what it has ended.
        const HANGS: i32 = 124;
        let said = match self.status.code() {
            Some(0) => return Err("it passes".to_owned()),
            Some(HANGS) => format!("it hangs: {PATIENCE_SECONDS} s were not enough"),
            _ => first_words(&self.told),
        };
        let after = self.after;
        Ok(Found { after, said })
    }
}

/// What a failed check said first: the line behind the first panic, or the first line.
fn first_words(told: &str) -> String {
    let mut lines = told
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    let first = lines
        .nth(1)
        .or_else(|| told.lines().find(|line| !line.trim().is_empty()));
    let first = first.unwrap_or("it died without a word").trim();
    first.chars().take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finder_is_read_as_it_is_shown() {
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
    fn the_first_words_are_those_of_the_panic() {
        let told =
            "running 1 test\nthread 'a' panicked at src/x.rs:1:2:\nraced with `b`\nnote: more";
        assert_eq!(first_words(told), "raced with `b`");
        assert_eq!(first_words("\nit is wrong\n"), "it is wrong");
        assert_eq!(first_words(""), "it died without a word");
    }

    #[test]
    fn what_passes_has_found_nothing_and_what_fails_or_hangs_has() {
        let run = |script: &str| {
            ended(Command::new("sh").args(["-c", script]))
                .unwrap()
                .judged()
        };
        assert!(run("true").is_err());
        assert_eq!(run("echo wrong >&2; exit 1").unwrap().said, "wrong");
        assert!(run("exit 124").unwrap().said.starts_with("it hangs"));
    }
}
