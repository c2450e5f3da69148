//! Each planted bug is found, within the programs that CI runs. A process each: a bug is on for all of it,
//! and some end it by an assertion where nothing may unwind.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

use std::process::{Command, Output};

use millstream_swarm::Bug;

/// Programs within which each must be found.
const PROGRAMS: &str = "2000";

fn swarm(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swarm"));
    command.args(["--programs", PROGRAMS, "--minutes", "10", "--whole"]);
    command.args(arguments).output().unwrap()
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let output = swarm(&["--bug", bug.name()]);
        let told = String::from_utf8_lossy(&output.stderr);
        let first = told.lines().next().unwrap_or_default();
        println!("{}: {first}", bug.name());
        if output.status.success() {
            missed.push(bug.name());
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn a_bug_that_is_not_known_is_said() {
    let output = swarm(&["--bug", "none"]);
    assert_eq!(output.status.code(), Some(2));
}
