//! Tests about the whole process: its threads, its heap, its spins, its forks. Each runs in a process of its own, which is
//! this program, started again; so they are one program to build.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

mod driven_frame;
mod driven_heap;
#[path = "../engine/mod.rs"]
mod engine;
mod engine_threads;
#[cfg(unix)]
mod fork;
mod no_heap;
mod room;
mod scale;
mod spans;
mod spin;

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use millstream_heap_count::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The variable that is set in the process of a test.
const ALONE: &str = "MILLSTREAM_TEST_ALONE";

/// One process at a time, because some tests depend on the processor's time.
static TURN: Mutex<()> = Mutex::new(());

/// Runs the only test of this module in a process of its own.
fn alone(module: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, module) = module.split_once("::").unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.arg(format!("{module}::")).arg("--nocapture");
    let output = process.env(ALONE, "1").output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let has_passed = output.status.success() && stdout.contains("test result: ok. 1 passed");
    assert!(has_passed, "{}\n{stdout}{stderr}", output.status);
}
