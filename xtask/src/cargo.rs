//! Runs Cargo and the scripts, as a suite's steps.

use std::path::Path;
use std::process::{Command, Stdio};

/// Why a step failed, as a sentence.
pub(crate) type Outcome = Result<(), String>;

/// How Cargo is called.
pub(crate) struct Cargo {
    /// With `--locked`.
    pub(crate) locked: bool,
    /// Of tests, those whose names contain this.
    pub(crate) only: Option<String>,
    /// Every one of what is run in turns.
    pub(crate) all: bool,
}

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

impl Cargo {
    /// The Cargo that runs us, with a subcommand and arguments for it, parted by blanks.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut words = arguments.split_whitespace();
        let mut command = Command::new(cargo);
        command.current_dir(root()).args(words.next());
        // Right behind the subcommand: behind a `--` it would be the program's. Formatting resolves nothing, and does not know it.
        if self.locked && !arguments.starts_with("fmt") {
            command.arg("--locked");
        }
        command.args(words);
        command
    }

    /// Runs Cargo with arguments that are parted by blanks.
    pub(crate) fn run(&self, arguments: &str) -> Outcome {
        run(&mut self.command(arguments))
    }

    /// Cargo's tests of crates that compute much, with arguments for Cargo, and some for the test programs.
    pub(crate) fn tests(&self, arguments: &str, of_tests: &[&str]) -> Command {
        let mut command = self.command(&format!("test --no-fail-fast {arguments}"));
        // `cargo test` itself does without: there it would take longer to build than it saves.
        for (package, level) in [("millstream-tile", 1), ("millstream-ptx", 2)] {
            let setting = format!("profile.dev.package.{package}.opt-level={level}");
            command.args(["--config", &setting]);
        }
        command.arg("--").args(of_tests).args(&self.only);
        command
    }
}

/// Runs a program with what it prints shown.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = shown(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` ended with {status}")),
        Err(error) => Err(format!("`{line}` does not start: {error}")),
    }
}

/// Runs a program and gives what it prints.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let line = shown(command);
    let ended = command.stderr(Stdio::inherit()).output();
    let ended = ended.map_err(|error| format!("`{line}` does not start: {error}"))?;
    if !ended.status.success() {
        return Err(format!("`{line}` ended with {}", ended.status));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned())
}

/// The command as it would be typed.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(of: &str, locked: bool) -> String {
        let cargo = Cargo {
            locked,
            only: None,
            all: false,
        };
        let command = cargo.command(of);
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        words.join(" ")
    }

    #[test]
    fn locked_is_for_cargo_and_not_for_the_program() {
        let run = "run -p swarm -- --minutes 10";
        assert_eq!(words(run, false), run);
        assert_eq!(words(run, true), "run --locked -p swarm -- --minutes 10");
        assert_eq!(words("fmt --all --check", true), "fmt --all --check");
    }
}
