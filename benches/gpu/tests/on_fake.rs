//! The whole program on the fake driver. Its figures are meaningless there, but every row is measured, and the fake
//! reports no mistake and no leak.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
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

/// Creates a folder for this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

const PAGE: &str = "# Results\n\n<!-- on a GPU: begin; written by `millstream-gpu-bench import` -->\nnot run\n\
                    <!-- on a GPU: end -->\nbelow\n";

/// Every row is measured, on both sides if it has two. An import of the figures is refused, unless `--allow-fake` is
/// set, and repeating it changes nothing.
#[test]
fn every_row_is_measured_and_imported() {
    let folder = folder("rows");
    let (json, page) = (folder.join("bench.json"), folder.join("RESULTS.md"));
    let [json_text, page_text, folder_text] =
        [&json, &page, &folder].map(|path| path.to_str().unwrap());

    let printed = text(&on_fake(&["--quick", "--json", json_text]), 0);
    assert!(printed.contains("figures are meaningless"), "{printed}");
    let report = std::fs::read_to_string(&json).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 45, "{printed}");
    for row in rows {
        assert!(row["failure"].is_null(), "{row}");
        let raw = row["raw"]["median"].as_f64().unwrap();
        assert!(raw.is_finite(), "{row}");
        let has_target = !row["target"].is_null();
        assert_eq!(has_target, row["reached"].is_boolean(), "{row}");
        assert!(!has_target || !row["ours"].is_null(), "{row}");
    }

    std::fs::write(&page, PAGE).unwrap();
    let mut refused = bench(&["import", folder_text, "--into", page_text]);
    let printed = text(&refused.output().unwrap(), 1);
    assert!(printed.contains("fake driver"), "{printed}");
    assert_eq!(std::fs::read_to_string(&page).unwrap(), PAGE);

    let import = || {
        let mut command = bench(&["import", folder_text, "--into", page_text, "--allow-fake"]);
        text(&command.output().unwrap(), 0);
        std::fs::read_to_string(&page).unwrap()
    };
    let written = import();
    assert!(written.starts_with("# Results") && written.ends_with("\nbelow\n"));
    assert!(!written.contains("not run"), "{written}");
    for row in rows {
        let measure = row["measure"].as_str().unwrap();
        assert!(written.contains(&format!("| {measure} ")), "{measure}");
    }
    assert_eq!(import(), written, "a second import changes the page");
}

#[test]
fn a_failed_import_says_why() {
    let folder = folder("refused");
    let file = folder.join("bench.json");
    let import = || {
        let mut command = bench(&["import", folder.to_str().unwrap(), "--into", "nowhere.md"]);
        text(&command.output().unwrap(), 1)
    };
    let _ = std::fs::remove_file(&file);
    let printed = import();
    assert!(
        printed.contains("cannot read `") && printed.contains("bench.json`"),
        "{printed}"
    );
    for (content, expected) in [
        ("{", "is not a file of results"),
        ("{\"format\": 3}", "is not a file of results"),
        ("{\"format\": 1}", "has format 1, expected 3"),
    ] {
        std::fs::write(&file, content).unwrap();
        let printed = import();
        assert!(printed.contains(expected), "{printed}");
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
