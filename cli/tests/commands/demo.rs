//! `millstream demo` and `doctor`.

use std::fs;
use std::path::Path;

use millstream_picture::{Picture, Rgb};
use serde_json::Value;

use crate::Folder;

/// One pixel, fewer columns or rows than the blur reads, and more photographs than threads. The demo compares each drawing
/// with a reference in plain code. Its drawings depend on no setting.
#[test]
fn demo_draws_photographs_of_any_size_by_any_number_of_threads() {
    let folder = Folder::new("sizes");
    let sizes = [
        (1, 1),
        (1, 300),
        (300, 1),
        (2, 9),
        (3, 2),
        (5, 5),
        (7, 4),
        (9, 11),
        (61, 47),
    ];
    for (width, height) in sizes {
        folder.photograph(&format!("{width}x{height}.png"), width, height);
    }
    let jpeg = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/photos/gradient.jpg");
    fs::copy(jpeg, folder.file("in/33x50.jpg")).unwrap();
    let ended = folder.demo("--threads 3 --repeat 2 --profile").with(0);
    ended.prints(&["every image and histogram equals the reference"]);
    ended.prints(&[
        "10 photographs converted 2 times",
        "total ms",
        "blur_x",
        "busy ",
    ]);
    assert_eq!(
        ended.err, "",
        "no errors, and no progress without a terminal"
    );
    let timeline = folder.read("out/timeline.svg");
    for name in ["luma", "blur_x", "blur_y", "sobel", "tone", "histogram"] {
        assert!(timeline.contains(name), "{name} is missing in the timeline");
    }
    let drawings = || {
        let drawing = |(width, height)| {
            let path = folder.file(&format!("out/photos/{width}x{height}.png"));
            let drawing = Picture::open(path).unwrap();
            assert_eq!(drawing.size(), (width, height));
            drawing
        };
        sizes
            .into_iter()
            .chain([(33, 50)])
            .map(drawing)
            .collect::<Vec<_>>()
    };
    let first = drawings();
    // A uniform photograph has no ink: its tone is 0.8 + 0.2 * luma, and this pixel is black.
    assert_eq!(first[0].pixels(), [Rgb([204; 3])]);

    for options in [
        "--threads 1 --queues 1 --repeat 1",
        "--threads 64 --queues 2 --repeat 5 --strategy sequential",
    ] {
        let ended = folder.demo(&format!("{options} --json --profile")).with(0);
        let report = ended.json();
        let repeat = report["settings"]["repeat"].as_u64().unwrap();
        let conversions = 10 * repeat;
        assert_eq!(report["run"]["photos"], conversions);
        assert_eq!(report["run"]["equal"], conversions);
        let threads = report["threads"].as_array().unwrap().iter();
        let by_thread = threads.map(|thread| thread["photos"].as_u64().unwrap());
        assert_eq!(by_thread.sum::<u64>(), conversions);
        let tasks = |value: &Value| value["tasks"].as_u64().unwrap();
        let runtime = &report["runtime"];
        assert!(tasks(runtime) >= 6 * conversions, "six launches of each");
        assert!(runtime["memory_high_water_bytes"].as_u64() > Some(0));
        let profile = &report["profile"];
        let facts = (&profile["untimed"], &profile["is_cut"]);
        assert_eq!(facts, (&0.into(), &false.into()));
        let kernels = profile["kernels"].as_array().unwrap();
        let blur = kernels.iter().find(|kernel| kernel["name"] == "blur_x");
        assert_eq!(tasks(blur.unwrap()), conversions);
        let total = |kernel: &Value| kernel["total_ms"].as_f64().unwrap();
        assert!(kernels.is_sorted_by(|one, other| total(one) >= total(other)));
        assert_eq!(kernels.iter().map(tasks).sum::<u64>(), tasks(profile));
        assert!(drawings() == first);
    }
}

/// The demo as a new user runs it, on the photographs of the repository.
#[test]
#[ignore = "slow without optimization: run `cargo xtask gpu`"]
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
