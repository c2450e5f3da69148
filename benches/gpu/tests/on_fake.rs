//! The whole program on a driver without a GPU: its figures mean nothing there, but every row comes out, and the driver
//! sees nothing wrong and nothing left.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Has its library built and found.
use fake_cuda as _;

/// The program; it finds the fake where this test does.
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

/// What it says, of a run that must end with this code.
fn said(output: &Output, code: i32) -> String {
    let [out, error] =
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    assert_eq!(output.status.code(), Some(code), "{out}{error}");
    out + &error
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

const PAGE: &str = "# Results\n\n<!-- on a GPU: begin; written by `millstream-gpu-bench import` -->\nnot run\n\
                    <!-- on a GPU: end -->\nbelow\n";

/// Every row comes out, with both sides where there are two; then the figures go into a page, if they may.
#[test]
fn every_row_comes_out_and_is_read_back() {
    let folder = folder("rows");
    let (json, page) = (folder.join("bench.json"), folder.join("RESULTS.md"));
    let [json_text, page_text, folder_text] =
        [&json, &page, &folder].map(|path| path.to_str().unwrap());

    let told = said(&on_fake(&["--quick", "--json", json_text]), 0);
    assert!(told.contains("figures mean nothing"), "{told}");
    let text = std::fs::read_to_string(&json).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 45, "{told}");
    for row in rows {
        assert!(row["failure"].is_null(), "{row}");
        let raw = row["raw"]["median"].as_f64().unwrap();
        assert!(raw.is_finite(), "{row}");
        let has_target = !row["target"].is_null();
        assert_eq!(has_target, row["reached"].is_boolean(), "{row}");
        assert!(!has_target || !row["ours"].is_null(), "{row}");
    }

    std::fs::write(&page, PAGE).unwrap();
    let refused = bench(&["import", folder_text, "--into", page_text]);
    let told = said(&{ refused }.output().unwrap(), 1);
    assert!(told.contains("fake driver"), "{told}");
    assert_eq!(std::fs::read_to_string(&page).unwrap(), PAGE);

    let taken = || {
        let mut command = bench(&["import", folder_text, "--into", page_text, "--allow-fake"]);
        said(&command.output().unwrap(), 0);
        std::fs::read_to_string(&page).unwrap()
    };
    let written = taken();
    assert!(written.starts_with("# Results") && written.ends_with("\nbelow\n"));
    assert!(!written.contains("not run"), "{written}");
    for row in rows {
        let measure = row["measure"].as_str().unwrap();
        assert!(written.contains(&format!("| {measure} ")), "{measure}");
    }
    assert_eq!(taken(), written, "written again, it is the same");
}

#[test]
fn what_cannot_be_imported_is_said() {
    let folder = folder("refused");
    let file = folder.join("bench.json");
    let import = || {
        let mut command = bench(&["import", folder.to_str().unwrap(), "--into", "nowhere.md"]);
        said(&command.output().unwrap(), 1)
    };
    let _ = std::fs::remove_file(&file);
    assert!(import().contains("bench.json` cannot be read"));
    for (text, what) in [
        ("{", "is not what `--json` writes"),
        ("{\"format\": 2}", "is not what `--json` writes"),
        ("{\"format\": 1}", "is of format 1, and this reads 2"),
    ] {
        std::fs::write(&file, text).unwrap();
        let told = import();
        assert!(told.contains(what), "{told}");
    }
}

/// I5: without a GPU it says what the backend says, by an exit code of its own.
#[test]
fn a_machine_without_a_gpu_is_told_so_i5() {
    let told = said(&bench(&["--quick"]).output().unwrap(), 3);
    assert!(told.starts_with("error: "), "{told}");
    assert!(told.contains("cuda"), "{told}");
}

#[test]
fn a_group_that_is_not_there_is_bad_usage() {
    said(&bench(&["--only", "nonsense"]).output().unwrap(), 2);
}

/// That the others end by 0 says something only if the fake tells what a program leaves: this one runs itself, and leaves a context.
#[test]
fn a_program_that_leaves_something_on_the_fake_ends_by_a_code_of_its_own() {
    const LEAVES: &str = "MILLSTREAM_BENCH_LEAVES_A_CONTEXT";
    if std::env::var_os(LEAVES).is_some() {
        type Retain = unsafe extern "C" fn(*mut u64, i32) -> u32;
        let mut context = 0;
        // SAFETY: the fake's library, by its functions' types; it stays loaded.
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
    let name = "a_program_that_leaves_something_on_the_fake_ends_by_a_code_of_its_own";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact"]).env(LEAVES, "1");
    let told = said(&command.env("FAKE_CUDA_SESSION", "7").output().unwrap(), 86);
    assert!(told.contains("leak: "), "{told}");
}
