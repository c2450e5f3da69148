//! The whole program on the fake driver. Its figures are meaningless there, but every row is measured, and the fake
//! reports no mistake and no leak.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::{Command, Output};

/// The dependency builds the fake's library, which the loader then finds.
use fake_cuda as _;

/// Returns the program's command. The program finds the fake where this test does.
fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream-gpu-bench"));
    command.args(arguments).env_remove("FAKE_CUDA_SESSION");
    command
}

fn on_fake(arguments: &[&str]) -> Output {
    bench(arguments)
        .env("FAKE_CUDA_SESSION", "7")
        .output()
        .unwrap()
}

/// Asserts the exit code of a run and returns its output and its errors.
fn text(output: &Output, code: i32) -> String {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    stdout + &stderr
}

/// Every row is measured, on both sides if it has two, and the record says that its figures are meaningless.
#[test]
fn every_row_is_measured() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench.json");
    let printed = text(&on_fake(&["--quick", "--json", file.to_str().unwrap()]), 0);
    assert!(printed.contains("figures are meaningless"), "{printed}");
    let record = std::fs::read_to_string(&file).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let notes = record["notes"].as_str().unwrap();
    assert!(notes.contains("figures are meaningless"), "{notes}");
    let rows = record["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 44, "{printed}");
    for row in rows {
        assert!(row["failures"].is_null(), "{row}");
        let [ours, raw] = [0, 1].map(|side| row["samples"][side][0].as_f64());
        assert!(raw.unwrap().is_finite(), "{row}");
        assert!(row["limit"].is_null() || ours.is_some(), "{row}");
    }
}

/// I5: without a GPU the program prints the backend's error and exits with a code of its own.
#[test]
fn a_machine_without_a_gpu_has_its_own_exit_code_i5() {
    let printed = text(&bench(&["--quick"]).output().unwrap(), 3);
    assert!(printed.starts_with("error: "), "{printed}");
    assert!(printed.contains("cuda"), "{printed}");
}

#[test]
fn an_unknown_group_is_a_usage_error() {
    text(&bench(&["--only", "nonsense"]).output().unwrap(), 2);
}

/// The fake reports a leak by the exit code 86, so that a code of 0 in the other tests proves that nothing leaks. This
/// test runs itself as a program that leaks a context.
#[test]
fn a_program_that_leaks_on_the_fake_exits_with_its_own_code() {
    const LEAKS: &str = "MILLSTREAM_BENCH_LEAKS_A_CONTEXT";
    if std::env::var_os(LEAKS).is_some() {
        type Retain = unsafe extern "C" fn(*mut u64, i32) -> u32;
        let mut context = 0;
        // SAFETY: the functions have the types of the fake's library, which stays loaded.
        unsafe {
            let library = libloading::Library::new("libcuda.so").unwrap();
            let init = library.get::<unsafe extern "C" fn(u32) -> u32>("cuInit");
            assert_eq!(init.unwrap()(0), 0);
            let retain = library.get::<Retain>("cuDevicePrimaryCtxRetain").unwrap();
            assert_eq!(retain(&raw mut context, 0), 0);
            std::mem::forget(library);
        }
        return;
    }
    let name = "a_program_that_leaks_on_the_fake_exits_with_its_own_code";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact"]).env(LEAKS, "1");
    let printed = text(&command.env("FAKE_CUDA_SESSION", "7").output().unwrap(), 86);
    assert!(printed.contains("leak: "), "{printed}");
}
