//! Runs Cargo and scripts as the steps of a suite.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The result of a step. The error is a sentence.
pub(crate) type Outcome = Result<(), String>;

/// The options that all calls of Cargo share.
#[derive(Default)]
pub(crate) struct Cargo {
    /// Whether to pass `--locked`.
    pub(crate) locked: bool,
    /// Runs only the tests whose names contain this.
    pub(crate) only: Option<String>,
    /// Runs all mutants instead of a few.
    pub(crate) all: bool,
}

/// Returns the folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

impl Cargo {
    /// Returns a call of the current Cargo with a subcommand and its arguments, separated by blanks.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut words = arguments.split_whitespace();
        let mut command = Command::new(cargo);
        command.current_dir(root()).args(words.next());
        // Directly after the subcommand, since after `--` it would go to the program. `cargo fmt` does not support it.
        if self.locked && !arguments.starts_with("fmt") {
            command.arg("--locked");
        }
        command.args(words);
        command
    }

    /// As [`Cargo::command`], in the workspace or in a copy of it below the target folder, which share that folder and so
    /// the builds of dependencies. There Cargo records sources by their paths below the target folder: it can tell
    /// those of a copy, and `mutants` can forget them. Elsewhere it would record them below their package, and take what
    /// a patched copy built for a build of the workspace.
    pub(crate) fn command_in(&self, tree: &Path, arguments: &str) -> Command {
        let mut command = self.command(arguments);
        command.env("CARGO_TARGET_DIR", root().join("target"));
        command.current_dir(tree);
        command
    }

    /// Runs Cargo with arguments that are separated by blanks.
    pub(crate) fn run(&self, arguments: &str) -> Outcome {
        run(&mut self.command(arguments))
    }

    /// Builds something, and returns the file that `find` finds in a message of Cargo.
    pub(crate) fn built(
        &self,
        arguments: &str,
        find: impl Fn(&Value) -> Option<PathBuf>,
    ) -> Result<PathBuf, String> {
        let json = "--message-format json-render-diagnostics";
        let built = output(&mut self.command(&format!("{arguments} {json}")))?;
        let mut messages = built.lines().map(serde_json::from_str);
        let found = messages.find_map(|message| find(&message.ok()?));
        found.ok_or_else(|| format!("`cargo {arguments}` did not build what is needed"))
    }

    /// Returns a call of `cargo test` with arguments for Cargo and for the test programs.
    pub(crate) fn tests(&self, arguments: &str, test_arguments: &[&str]) -> Command {
        let mut command = self.command(&format!("test --no-fail-fast {arguments}"));
        command.arg("--").args(test_arguments).args(&self.only);
        command
    }
}

/// Runs a program and shows its output.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = command_line(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` failed with {status}")),
        Err(error) => Err(format!("`{line}` could not be started: {error}")),
    }
}

/// Runs a program of tests and shows its output. The error ends with what the failed tests printed, so that the end of
/// a long log says which tests failed, and why.
pub(crate) fn run_tests(command: &mut Command) -> Outcome {
    let line = command_line(command);
    println!("$ {line}");
    let not_started = |error| format!("`{line}` could not be started: {error}");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(not_started)?;
    let mut failures = Failures::default();
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).split(b'\n'))
    {
        let line = line.map_err(|error| format!("the output could not be read: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        failures.read(&line);
    }
    match child.wait().map_err(not_started)? {
        status if status.success() => Ok(()),
        status => Err(format!("`{line}` failed with {status}{}", failures.text)),
    }
}

/// The parts of libtest's output that describe failed tests.
#[derive(Default)]
struct Failures {
    text: String,
    lines: usize,
    is_inside: bool,
}

impl Failures {
    /// The most lines to keep: one test that prints without end must not hide the others' names in a table of times.
    const MOST: usize = 200;

    /// Reads the next line of output. libtest writes `failures:`, what each test printed, and `failures:` again with the
    /// names, directly before its result.
    fn read(&mut self, line: &str) {
        self.is_inside = match self.is_inside {
            true => !line.starts_with("test result: "),
            false => line == "failures:",
        };
        if self.is_inside && self.lines < Self::MOST {
            self.lines += 1;
            self.text += "\n";
            self.text += line;
        }
    }
}

/// Runs a program and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let line = command_line(command);
    let ended = command.stderr(Stdio::inherit()).output();
    let ended = ended.map_err(|error| format!("`{line}` could not be started: {error}"))?;
    if !ended.status.success() {
        return Err(format!("`{line}` failed with {}", ended.status));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned())
}

/// Returns the command as a user would type it.
fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments_of(line: &str, locked: bool) -> String {
        let cargo = Cargo {
            locked,
            ..Cargo::default()
        };
        let command = cargo.command(line);
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        words.join(" ")
    }

    #[test]
    fn locked_is_passed_to_cargo_and_not_to_the_program() {
        let run = "run -p swarm -- --minutes 10";
        assert_eq!(arguments_of(run, false), run);
        assert_eq!(
            arguments_of(run, true),
            "run --locked -p swarm -- --minutes 10"
        );
        assert_eq!(arguments_of("fmt --all --check", true), "fmt --all --check");
    }

    #[test]
    fn copy_of_the_workspace_is_built_below_the_target_folder_of_the_workspace() {
        let target = root().join("target");
        let command = Cargo::default().command_in(&target.join("copy"), "build");
        let mut variables = command.get_envs();
        let is_it = |(name, value)| name == "CARGO_TARGET_DIR" && value == Some(target.as_os_str());
        assert!(variables.any(is_it));
    }

    #[test]
    fn error_of_failed_tests_ends_with_what_they_printed() {
        let script = "printf '%s\\n' 'test a ... ok' 'test b ... FAILED' '' 'failures:' '---- b' 'cause' \
                      'failures:' '    b' '' 'test result: FAILED' 'test c ... ok'; exit 1";
        let error = run_tests(Command::new("sh").args(["-c", script])).unwrap_err();
        assert!(
            error.ends_with("\nfailures:\n---- b\ncause\nfailures:\n    b\n"),
            "{error}"
        );
    }
}
