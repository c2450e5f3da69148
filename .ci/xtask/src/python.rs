//! The suite `python`: runs `.ci/python`, which tests the wheel.

use std::process::Command;

use crate::cargo::{Cargo, Outcome, root, run};

pub(crate) fn run_suite(cargo: &Cargo) -> Outcome {
    let mut tests = Command::new(".ci/python");
    if let Some(only) = &cargo.only {
        tests.args(["-k", only]);
    }
    run(tests.current_dir(root()))
}
