//! The suite `python`: lints the crate of the Python package, and runs `.ci/python`, which tests the wheel.

use std::process::Command;

use crate::cargo::{Cargo, Outcome, root, run};

/// The manifest and the target folder of the package, which is outside the workspace.
const PACKAGE: &str = "--manifest-path python/Cargo.toml";

pub(crate) fn run_suite(cargo: &Cargo) -> Outcome {
    cargo.run(&format!("fmt {PACKAGE} --check"))?;
    let mut lints = cargo.command(&format!("clippy --quiet {PACKAGE} --target-dir target"));
    run(lints.args(["--", "-D", "warnings"]))?;
    let mut tests = Command::new(".ci/python");
    if let Some(only) = &cargo.only {
        tests.args(["-k", only]);
    }
    run(tests.current_dir(root()))
}
