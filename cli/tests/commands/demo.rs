//! `millstream demo` and `doctor`.

use std::fs;
use std::path::Path;

use millstream_picture::{Picture, Rgb};
use serde_json::Value;

use crate::Folder;

#[test]
fn successful_demo_exits_with_0_and_writes_its_pictures() {
    let folder = Folder::new("good");
    folder.photograph("a.png", 40, 30);
    let jpeg = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/photos/gradient.jpg");
    fs::copy(jpeg, folder.file("in/b.jpg")).unwrap();
    let ended = folder.demo("--threads 3 --repeat 2").with(0);
    ended.prints(&["every image and histogram equals the reference"]);
    assert_eq!(
        ended.err, "",
        "no errors, and no progress without a terminal"
    );
    let size = |file| Picture::open(folder.file(file)).unwrap().size();
    assert_eq!(size("out/photos/a.png"), (40, 30));
    assert_eq!(size("out/photos/b.png"), (33, 50));
    let timeline = folder.read("out/timeline.svg");
    for name in ["luma", "blur_x", "blur_y", "sobel", "tone", "histogram"] {
        assert!(timeline.contains(name), "{name} is missing in the timeline");
    }
}

/// The demo as a new user runs it, on the photographs of the repository.
#[test]
#[ignore = "slow without optimization: run `cargo xtask demo`"]
fn demo_of_the_photographs_succeeds() {
    let folder = Folder::new("photographs");
    let report = folder
        .run("demo --json --repeat 1 --output out")
        .with(0)
        .json();
    assert_eq!(report["run"]["photos"], 12);
    assert_eq!(report["run"]["equal"], 12);
}

#[test]
fn json_demo_prints_one_object_with_consistent_counts() {
    let folder = Folder::new("json");
    folder.photograph("a.png", 20, 20);
    folder.photograph("b.png", 30, 10);
    let report = folder
        .demo("--json --threads 2 --repeat 3 --queues 2")
        .json();
    assert_eq!(report["exit_code"], 0);
    assert_eq!(report["run"]["photos"], 6);
    assert_eq!(report["run"]["equal"], 6);
    assert_eq!(report["device"]["queues"], 2);
    let threads = report["threads"].as_array().unwrap().iter();
    let by_thread = threads.map(|thread| thread["photos"].as_u64().unwrap());
    assert_eq!(by_thread.sum::<u64>(), 6);
    let runtime = |name: &str| report["runtime"][name].as_u64().unwrap();
    assert!(runtime("tasks") >= 6 * 6, "six launches of each conversion");
    assert!(runtime("memory_high_water_bytes") > 0);
}

#[test]
fn profile_reports_the_time_of_each_kernel_only_if_requested() {
    let folder = Folder::new("profile");
    folder.photograph("a.png", 20, 20);
    let report = folder.demo("--threads 2 --repeat 3 --json").json();
    assert!(report["profile"].is_null());
    let report = folder
        .demo("--threads 2 --repeat 3 --json --profile")
        .json();
    let profile = &report["profile"];
    let facts = (&profile["untimed"], &profile["is_cut"]);
    assert_eq!(facts, (&0.into(), &false.into()));
    let kernels = profile["kernels"].as_array().unwrap();
    let blur = kernels.iter().find(|kernel| kernel["name"] == "blur_x");
    assert_eq!(blur.unwrap()["tasks"], 3);
    let total = |kernel: &Value| kernel["total_ms"].as_f64().unwrap();
    assert!(kernels.is_sorted_by(|one, other| total(one) >= total(other)));
    let tasks = |value: &Value| value["tasks"].as_u64().unwrap();
    assert_eq!(kernels.iter().map(tasks).sum::<u64>(), tasks(profile));
    let text = folder.demo("--threads 2 --repeat 3 --profile");
    text.prints(&["total ms", "blur_x", "busy "]);
}

#[test]
fn skipped_files_are_reported_and_exit_with_3() {
    let folder = Folder::new("skipped");
    folder.photograph("good.png", 8, 8);
    folder.write("in/notes.txt", "hello");
    folder.write("in/broken.png", b"\x89PNG\r\n\x1a\nnothing");
    let ended = folder.demo("--repeat 1").with(3);
    ended.prints(&[
        "notes.txt: neither JPEG nor PNG",
        "broken.png: cannot be decoded",
    ]);
    assert!(folder.file("out/photos/good.png").exists());
}

#[test]
fn one_pixel_one_thread_and_one_queue_suffice() {
    let folder = Folder::new("one");
    folder.photograph("dot.png", 1, 1);
    folder.photograph("line.png", 1, 300);
    folder.photograph("row.png", 300, 1);
    folder.demo("--threads 1 --queues 1 --repeat 1").with(0);
    // A uniform photograph has no ink: its tone is 0.8 + 0.2 * luma, and this pixel is black.
    let dot = Picture::open(folder.file("out/photos/dot.png")).unwrap();
    assert_eq!(dot.pixels(), [Rgb([204; 3])]);
}

#[test]
fn drawings_do_not_depend_on_the_strategy() {
    let folder = Folder::new("threads");
    for name in ["a.png", "b.png", "c.png"] {
        folder.photograph(name, 61, 47);
    }
    let drawings = ["interleave", "sequential"].map(|strategy| {
        let options = format!("--threads 64 --strategy {strategy} --repeat 5");
        folder.demo(&options).with(0);
        fs::read(folder.file("out/photos/b.png")).unwrap()
    });
    assert!(drawings[0] == drawings[1]);
}

#[test]
fn invalid_options_exit_with_2_and_print_the_next_step() {
    let folder = Folder::new("folders");
    folder.demo("--repeat 1").refuses(&["no photographs in"]);
    let missing = folder.run("demo --input /nowhere/at/all --json");
    let missing = missing.refuses(&["next: name a folder"]);
    assert_eq!(missing.json()["exit_code"], 2);
    folder.photograph("a.png", 2, 2);
    folder.write("out", "not a folder");
    folder.demo("--repeat 1").refuses(&["cannot be written"]);
    let zero = folder.run("demo --threads 0");
    zero.refuses(&["0 is not in 1..=256"]);
}

#[test]
fn doctor_finds_the_cpu_and_the_simulator() {
    let folder = Folder::new("doctor");
    let text = folder.run("doctor --quick").with(0);
    text.prints(&["cpu", "ready", "skipped"]);
    let diagnosis = folder.run("doctor --json").json();
    let backends = diagnosis["backends"].as_array().unwrap();
    let of = |backend: &str| {
        let mut backends = backends.iter();
        backends.find(|it| it["backend"] == backend).unwrap()
    };
    assert!(of("cpu")["ready"]["queues"].as_u64().unwrap() > 0);
    // A machine without a GPU gets a reason that names the driver.
    let gpu = of("cuda");
    let reason = gpu["unavailable"]["reason"].as_str();
    let names_it = reason.is_some_and(|reason| reason.contains("driver"));
    assert!(gpu["ready"].is_object() || names_it, "{gpu}");
    assert_eq!(of("sim")["for_tests"], true);
    for device in [of("cpu"), of("sim")] {
        let test = &device["ready"]["self_test"]["passed"];
        assert!(test["steps"].as_u64().unwrap() > 0, "{device}");
    }
}
