//! Runs the command line as a program, and checks exit codes, standard output and files.
//!
//! Each test runs the built binary in its own folder.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use millstream_picture::{Picture, Rgb};
use serde_json::Value;

/// The folder of one test, below the build's temporary folder.
struct Workspace(PathBuf);

impl Workspace {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // An earlier run may have left the folder.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("in")).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn photograph(&self, name: &str, width: u32, height: u32) {
        let pixel = |x, y| Rgb([(x * 7) as u8, (y * 5) as u8, (x * y) as u8]);
        Picture::from_fn(width, height, pixel)
            .save(self.file("in").join(name))
            .unwrap();
    }

    /// Runs the demo from `in` to `out`.
    fn demo(&self, options: &[&str]) -> Output {
        let mut demo = program();
        demo.arg("demo").arg("--input").arg(self.file("in"));
        demo.arg("--output").arg(self.file("out")).args(options);
        demo.output().unwrap()
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_millstream"))
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn successful_demo_exits_with_0_and_writes_its_pictures() {
    let workspace = Workspace::new("good");
    workspace.photograph("a.png", 40, 30);
    let jpeg = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/photos/gradient.jpg");
    fs::copy(jpeg, workspace.file("in/b.jpg")).unwrap();
    let output = workspace.demo(&["--threads", "3", "--repeat", "2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("every image and histogram equals the reference"));
    assert_eq!(
        stderr(&output),
        "",
        "expected no errors, and no progress bar without a terminal"
    );
    let size = |file| Picture::open(workspace.file(file)).unwrap().size();
    assert_eq!(size("out/photos/a.png"), (40, 30));
    assert_eq!(size("out/photos/b.png"), (33, 50));
    let timeline = fs::read_to_string(workspace.file("out/timeline.svg")).unwrap();
    for name in ["luma", "blur_x", "blur_y", "sobel", "tone", "histogram"] {
        assert!(timeline.contains(name), "{name} is missing in the timeline");
    }
}

/// The demo as a new user runs it, on the photographs of the repository.
#[test]
#[ignore = "slow without optimization: run `cargo xtask demo`"]
fn demo_of_the_photographs_succeeds() {
    let workspace = Workspace::new("photographs");
    let mut demo = program();
    demo.args(["demo", "--json", "--repeat", "1", "--output"]);
    let output = demo.arg(workspace.file("out")).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(report["run"]["photos"], 12);
    assert_eq!(report["run"]["equal"], 12);
}

#[test]
fn json_demo_prints_one_object_with_consistent_counts() {
    let workspace = Workspace::new("json");
    workspace.photograph("a.png", 20, 20);
    workspace.photograph("b.png", 30, 10);
    let output = workspace.demo(&["--json", "--threads", "2", "--repeat", "3", "--queues", "2"]);
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(report["exit_code"], 0);
    assert_eq!(report["run"]["photos"], 6);
    assert_eq!(report["run"]["equal"], 6);
    assert_eq!(report["device"]["queues"], 2);
    let by_thread = report["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["photos"].as_u64().unwrap());
    assert_eq!(by_thread.sum::<u64>(), 6);
    let tasks = report["runtime"]["tasks"].as_u64().unwrap();
    assert!(
        tasks >= 6 * 6,
        "{tasks} tasks for six conversions of six launches each"
    );
    assert!(
        report["runtime"]["memory_high_water_bytes"]
            .as_u64()
            .unwrap()
            > 0
    );
}

#[test]
fn profile_reports_the_time_of_each_kernel_only_if_requested() {
    let workspace = Workspace::new("profile");
    workspace.photograph("a.png", 20, 20);
    let options = ["--threads", "2", "--repeat", "3"];
    let output = workspace.demo(&[&options[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert!(report["profile"].is_null());
    let output = workspace.demo(&[&options[..], &["--json", "--profile"]].concat());
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    let profile = &report["profile"];
    assert_eq!(
        (&profile["untimed"], &profile["is_cut"]),
        (&0.into(), &false.into())
    );
    let kernels = profile["kernels"].as_array().unwrap();
    let blur = kernels.iter().find(|kernel| kernel["name"] == "blur_x");
    assert_eq!(blur.unwrap()["tasks"], 3);
    let total = |kernel: &Value| kernel["total_ms"].as_f64().unwrap();
    assert!(kernels.is_sorted_by(|one, other| total(one) >= total(other)));
    let of_kernels = kernels
        .iter()
        .map(|kernel| kernel["tasks"].as_u64().unwrap());
    assert_eq!(of_kernels.sum::<u64>(), profile["tasks"].as_u64().unwrap());
    let output = workspace.demo(&[&options[..], &["--profile"]].concat());
    for words in ["total ms", "blur_x", "busy "] {
        assert!(stdout(&output).contains(words), "{}", stdout(&output));
    }
}

#[test]
fn skipped_files_are_reported_and_exit_with_3() {
    let workspace = Workspace::new("skipped");
    workspace.photograph("good.png", 8, 8);
    fs::write(workspace.file("in/notes.txt"), "hello").unwrap();
    fs::write(workspace.file("in/broken.png"), b"\x89PNG\r\n\x1a\nnothing").unwrap();
    let output = workspace.demo(&["--repeat", "1"]);
    assert_eq!(code(&output), 3);
    assert!(stdout(&output).contains("notes.txt: neither JPEG nor PNG"));
    assert!(stdout(&output).contains("broken.png: cannot be decoded"));
    assert!(workspace.file("out/photos/good.png").exists());
}

#[test]
fn one_pixel_one_thread_and_one_queue_suffice() {
    let workspace = Workspace::new("one");
    workspace.photograph("dot.png", 1, 1);
    workspace.photograph("line.png", 1, 300);
    workspace.photograph("row.png", 300, 1);
    let output = workspace.demo(&["--threads", "1", "--queues", "1", "--repeat", "1"]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    // A uniform photograph has no ink: its tone is 0.8 + 0.2 * luma, and this pixel is black.
    let dot = Picture::open(workspace.file("out/photos/dot.png")).unwrap();
    assert_eq!(dot.pixels(), [Rgb([204; 3])]);
}

#[test]
fn drawings_do_not_depend_on_the_strategy() {
    let workspace = Workspace::new("threads");
    for name in ["a.png", "b.png", "c.png"] {
        workspace.photograph(name, 61, 47);
    }
    let mut drawings = Vec::new();
    for strategy in ["interleave", "sequential"] {
        let output = workspace.demo(&["--threads", "64", "--strategy", strategy, "--repeat", "5"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        drawings.push(fs::read(workspace.file("out/photos/b.png")).unwrap());
    }
    assert!(drawings[0] == drawings[1]);
}

#[test]
fn invalid_folders_exit_with_2_and_print_the_next_step() {
    let workspace = Workspace::new("folders");
    let empty = workspace.demo(&[]);
    assert_eq!(code(&empty), 2);
    assert!(
        stderr(&empty).contains("no photographs in"),
        "{}",
        stderr(&empty)
    );

    let mut missing = program();
    let missing = missing
        .args(["demo", "--input", "/nowhere/at/all", "--json"])
        .output()
        .unwrap();
    assert_eq!(code(&missing), 2);
    assert!(
        stderr(&missing).contains("next: name a folder"),
        "{}",
        stderr(&missing)
    );
    let answer: Value = serde_json::from_str(stdout(&missing)).unwrap();
    assert_eq!(answer["exit_code"], 2);

    workspace.photograph("a.png", 2, 2);
    fs::write(workspace.file("out"), "not a folder").unwrap();
    let unwritable = workspace.demo(&[]);
    assert_eq!(code(&unwritable), 2);
    assert!(
        stderr(&unwritable).contains("cannot be written"),
        "{}",
        stderr(&unwritable)
    );
}

#[test]
fn zero_threads_are_a_usage_error() {
    let output = program().args(["demo", "--threads", "0"]).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("0 is not in 1..=256"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn doctor_finds_the_cpu_and_the_simulator() {
    let text = program().args(["doctor", "--quick"]).output().unwrap();
    assert_eq!(code(&text), 0);
    for part in ["cpu", "ready", "skipped"] {
        assert!(stdout(&text).contains(part), "{}", stdout(&text));
    }
    let json = program().args(["doctor", "--json"]).output().unwrap();
    let diagnosis: Value = serde_json::from_str(stdout(&json)).unwrap();
    assert!(
        diagnosis["backends"][0]["ready"]["queues"]
            .as_u64()
            .unwrap()
            > 0
    );
    let backends = diagnosis["backends"].as_array().unwrap();
    let of = |backend: &str| {
        backends
            .iter()
            .find(|finding| finding["backend"] == backend)
            .unwrap()
    };
    // A machine without a GPU gets a reason that names the driver.
    let gpu = of("cuda");
    let reason = gpu["unavailable"]["reason"].as_str();
    assert!(
        gpu["ready"].is_object() || reason.is_some_and(|reason| reason.contains("driver")),
        "{gpu}"
    );
    let simulator = of("sim");
    assert_eq!(
        (&simulator["backend"], &simulator["for_tests"]),
        (&"sim".into(), &true.into())
    );
    assert!(simulator["ready"].is_object(), "{simulator}");
    for device in [of("cpu"), simulator] {
        let test = &device["ready"]["self_test"]["passed"];
        assert!(test["steps"].as_u64().unwrap() > 0, "{device}");
    }
}
