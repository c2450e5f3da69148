//! `xtask` as the program by which Cargo starts test programs: it leaves out those of some packages.
//!
//! The features of the chosen packages decide how Cargo builds what they depend on. So a suite that chooses fewer packages than
//! `cargo test` would build most of the workspace again; one that chooses all and runs some does not.

use std::process::{Command, ExitCode};

/// The first argument of `xtask` when Cargo starts it. The packages follow, separated by commas, then the program and its arguments.
pub(crate) const LEAVE_OUT: &str = "--leave-out";

/// The setting by which Cargo starts test programs by `xtask`, without those of these packages.
pub(crate) fn setting(packages: &[&str]) -> Result<String, String> {
    let xtask = std::env::current_exe().map_err(|error| error.to_string())?;
    let (xtask, packages) = (xtask.to_string_lossy(), packages.join(","));
    Ok(format!(
        "target.'cfg(all())'.runner=[{xtask:?}, {LEAVE_OUT:?}, {packages:?}]"
    ))
}

/// Runs the program that Cargo starts, unless it is of a package to leave out. Cargo says which package it is of.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let packages = arguments.next().unwrap_or_default();
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    if packages.split(',').any(|left_out| left_out == package) {
        println!("left out: `cargo test` runs it");
        return ExitCode::SUCCESS;
    }
    let Some(program) = arguments.next() else {
        eprintln!("`{LEAVE_OUT}` needs the program to run");
        return ExitCode::FAILURE;
    };
    match Command::new(&program).args(arguments).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        // Its failures are printed.
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("`{program}` does not start: {error}");
            ExitCode::FAILURE
        }
    }
}
