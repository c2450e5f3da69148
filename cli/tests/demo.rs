//! The command line as a user meets it: exit codes, standard output, files.
//!
//! Each test runs the built program in a folder of its own. Nothing here knows the program's
//! inside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use image::{Luma, Rgb, RgbImage};
use serde_json::Value;

/// A folder of one test, below the build's own temporary folder.
struct Desk(PathBuf);

impl Desk {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // Left over from an earlier run, perhaps.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("in")).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn photograph(&self, name: &str, width: u32, height: u32) {
        let pixel = |x, y| Rgb([(x * 7) as u8, (y * 5) as u8, (x * y) as u8]);
        RgbImage::from_fn(width, height, pixel)
            .save(self.file("in").join(name))
            .unwrap();
    }

    /// Runs the demo on `in` with results in `out`.
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
fn a_good_run_exits_with_0_and_leaves_its_pictures() {
    let desk = Desk::new("good");
    desk.photograph("a.png", 40, 30);
    desk.photograph("b.jpg", 33, 50);
    let output = desk.demo(&["--threads", "3", "--repeat", "2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("every image and histogram equals the reference"));
    assert_eq!(
        stderr(&output),
        "",
        "nothing is wrong, and no terminal is there for a bar"
    );
    assert_eq!(
        image::image_dimensions(desk.file("out/photos/a.png")).unwrap(),
        (40, 30)
    );
    assert_eq!(
        image::image_dimensions(desk.file("out/photos/b.png")).unwrap(),
        (33, 50)
    );
    assert!(image::open(desk.file("out/contact-sheet.png")).is_ok());
    let timeline = fs::read_to_string(desk.file("out/timeline.svg")).unwrap();
    for name in ["luma", "blur_x", "blur_y", "sobel", "tone", "histogram"] {
        assert!(timeline.contains(name), "{name} is not on the timeline");
    }
}

#[test]
fn json_is_the_only_thing_on_standard_output_and_adds_up() {
    let desk = Desk::new("json");
    desk.photograph("a.png", 20, 20);
    desk.photograph("b.png", 30, 10);
    let output = desk.demo(&["--json", "--threads", "2", "--repeat", "3", "--queues", "2"]);
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
        "{tasks} tasks for six photographs of six launches each"
    );
    assert!(
        report["runtime"]["memory_high_water_bytes"]
            .as_u64()
            .unwrap()
            > 0
    );
}

/// What each kernel took is told where it is asked for, of every task, and nowhere else.
#[test]
fn a_profile_tells_what_each_kernel_took() {
    let desk = Desk::new("profile");
    desk.photograph("a.png", 20, 20);
    let options = ["--threads", "2", "--repeat", "3"];
    let output = desk.demo(&[&options[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert!(report["profile"].is_null());
    let output = desk.demo(&[&options[..], &["--json", "--profile"]].concat());
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
    let output = desk.demo(&[&options[..], &["--profile"]].concat());
    for words in ["total ms", "blur_x", "busy "] {
        assert!(stdout(&output).contains(words), "{}", stdout(&output));
    }
}

#[test]
fn files_that_are_no_photographs_are_reported_and_exit_with_3() {
    let desk = Desk::new("skipped");
    desk.photograph("good.png", 8, 8);
    fs::write(desk.file("in/notes.txt"), "hello").unwrap();
    fs::write(desk.file("in/broken.png"), b"\x89PNG\r\n\x1a\nnothing").unwrap();
    let output = desk.demo(&["--repeat", "1"]);
    assert_eq!(code(&output), 3);
    assert!(stdout(&output).contains("notes.txt: it is neither JPEG nor PNG"));
    assert!(stdout(&output).contains("broken.png: it cannot be decoded"));
    assert!(desk.file("out/photos/good.png").exists());
}

#[test]
fn one_pixel_one_thread_and_one_queue_are_enough() {
    let desk = Desk::new("one");
    desk.photograph("dot.png", 1, 1);
    desk.photograph("line.png", 1, 300);
    desk.photograph("row.png", 300, 1);
    let output = desk.demo(&["--threads", "1", "--queues", "1", "--repeat", "1"]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    // An even photograph is paper without ink: 0.8 + 0.2 * luma, and the pixel is black.
    let dot = image::open(desk.file("out/photos/dot.png"))
        .unwrap()
        .into_luma8();
    assert_eq!(dot.get_pixel(0, 0), &Luma([204]));
}

#[test]
fn more_threads_than_photographs_and_either_strategy_give_the_same_drawings() {
    let desk = Desk::new("threads");
    for name in ["a.png", "b.png", "c.png"] {
        desk.photograph(name, 61, 47);
    }
    let mut drawings = Vec::new();
    for strategy in ["interleave", "sequential"] {
        let output = desk.demo(&["--threads", "64", "--strategy", strategy, "--repeat", "5"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        drawings.push(fs::read(desk.file("out/photos/b.png")).unwrap());
    }
    assert!(drawings[0] == drawings[1]);
}

#[test]
fn bad_folders_exit_with_2_and_say_what_to_do_next() {
    let desk = Desk::new("folders");
    let empty = desk.demo(&[]);
    assert_eq!(code(&empty), 2);
    assert!(
        stderr(&empty).contains("no photograph in"),
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

    desk.photograph("a.png", 2, 2);
    fs::write(desk.file("out"), "a file in the way").unwrap();
    let unwritable = desk.demo(&[]);
    assert_eq!(code(&unwritable), 2);
    assert!(
        stderr(&unwritable).contains("cannot be written"),
        "{}",
        stderr(&unwritable)
    );
}

#[test]
fn zero_threads_are_bad_usage() {
    let output = program().args(["demo", "--threads", "0"]).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("0 is not in 1..=256"),
        "{}",
        stderr(&output)
    );
}

/// I5, I10: a short soak on each device is clean, and says what it did.
#[test]
fn a_soak_of_some_rounds_is_clean_and_reports_what_it_did() {
    for device in [["--backend", "cpu"], ["--backend", "sim"]] {
        let options = ["soak", "--json", "--rounds", "3", "--threads", "3"];
        let output = program().args(options).args(device).output().unwrap();
        let report: Value = serde_json::from_str(stdout(&output)).unwrap();
        assert_eq!(report["violations"], Value::Array(Vec::new()), "{device:?}");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert_eq!(report["counts"]["clients"], 9);
        let count = |name: &str| report["counts"][name].as_u64().unwrap();
        assert!(count("steps") >= 9 * 20, "{report}");
        assert!(count("data") > 0 && count("given") > 0, "{report}");
    }
}

#[test]
fn a_soak_that_cannot_be_is_bad_usage() {
    for options in [["--minutes", "0"], ["--threads", "0"], ["--rounds", "0"]] {
        let output = program().arg("soak").args(options).output().unwrap();
        assert_eq!(code(&output), 2, "{options:?}");
    }
}

#[test]
fn the_doctor_finds_the_processor() {
    let text = program().args(["doctor", "--quick"]).output().unwrap();
    assert_eq!(code(&text), 0);
    for part in ["cpu", "ready", "left out"] {
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
            .find(|found| found["backend"] == backend)
            .unwrap()
    };
    // A GPU, or why there is none and what to do.
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

/// They go where the user says, and nothing but them.
#[test]
fn completions_are_a_script() {
    let output = program().args(["completions", "bash"]).output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    assert!(stdout(&output).starts_with("_millstream()"));
}

/// What is asked for is done, or refused with what to do instead.
#[test]
fn faults_of_the_processor_are_bad_usage() {
    for faults in ["on", "off"] {
        let output = program()
            .args(["soak", "--rounds", "1", "--faults", faults])
            .output()
            .unwrap();
        assert_eq!(code(&output), 2);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("--backend sim"), "{told}");
    }
}
