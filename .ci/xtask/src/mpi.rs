//! The suite `mpi`: builds the ranks of MPI, and runs their scenarios under `mpirun`.
//!
//! `.ci/mpi` installs Open MPI. With `MILLSTREAM_MPI_HERE=1` the compiler wrapper and `mpirun` are those of this machine.

use std::process::Command;

use crate::cargo::{Cargo, Outcome, output, root, run, run_tests};

/// The manifest of the package, which is outside the workspace.
pub(crate) const MANIFEST: &str = "cluster/mpi/Cargo.toml";

pub(crate) fn run_suite(cargo: &Cargo) -> Outcome {
    let variables = variables()?;
    let package = format!("--manifest-path {MANIFEST} --target-dir target");
    let mut lints = cargo.command(&format!("clippy --quiet --all-targets {package}"));
    lints.args(["--", "-D", "warnings"]);
    run(lints.envs(variables.iter().cloned()))?;
    let mut tests = cargo.command(&format!("test --quiet {package}"));
    run_tests(tests.envs(variables))
}

/// Returns the variables with which Cargo builds the bindings, and with which ranks start.
pub(crate) fn variables() -> Result<Vec<(String, String)>, String> {
    let printed = output(Command::new(".ci/mpi").current_dir(root()))?;
    let lines = printed.lines().filter_map(|line| line.split_once('='));
    Ok(lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}
