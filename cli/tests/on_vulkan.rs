//! Runs the commands on the first GPU of the Vulkan loader, with Khronos' validation layer if it is installed.
//!
//! Without a driver every test is skipped, and says so. `MILLSTREAM_VULKAN=required` makes that a failure, and also
//! requires the validation layer: `cargo xtask vulkan` provides both.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod folder;

use folder::Folder;
use millstream::vulkan::{Vulkan, gpus};
use millstream_picture::Picture;
use serde_json::Value;

/// Whether there is a driver to test.
fn is_available() -> bool {
    let is_required = std::env::var("MILLSTREAM_VULKAN").is_ok_and(|value| value == "required");
    match gpus() {
        Ok(_) => true,
        Err(error) => {
            assert!(!is_required, "{error}");
            println!("skipped: {error}");
            false
        }
    }
}

/// The demo checks every drawing against its reference, and the drawings are those of the CPU.
#[test]
fn demo_draws_what_the_cpu_draws() {
    if !is_available() {
        return;
    }
    let folder = Folder::new("on-vulkan-demo");
    // One pixel; rows shorter than the blur; more columns than a cube has threads; more pixels than a cube counts.
    let sizes = [(1, 1), (7, 5), (33, 20), (300, 3), (200, 190)];
    for (width, height) in sizes {
        folder.photograph(&format!("{width}x{height}.png"), width, height);
    }
    for backend in ["vulkan", "cpu"] {
        let options = format!("--backend {backend} --output {backend}");
        let arguments =
            format!("demo {options} --input in --threads 4 --queues 3 --repeat 3 --json");
        let report = folder.run(&arguments).with(0).json();
        assert_eq!(report["run"]["equal"], 3 * sizes.len());
        assert_eq!(report["teardown"]["drained"], true);
        assert_eq!(report["settings"]["backend"], backend);
    }
    for (width, height) in sizes {
        let drawing = |backend: &str| {
            let path = folder.file(&format!("{backend}/photos/{width}x{height}.png"));
            Picture::open(path).unwrap()
        };
        let (got, expected) = (drawing("vulkan"), drawing("cpu"));
        assert_eq!(got.size(), (width, height));
        let mut pairs = got.pixels().iter().zip(expected.pixels());
        let is_equal = pairs.all(|(got, expected)| got.0[0].abs_diff(expected.0[0]) <= 1);
        assert!(is_equal, "{width} x {height}");
    }
}

#[test]
fn doctor_describes_and_tests_each_gpu() {
    if !is_available() {
        return;
    }
    let folder = Folder::new("on-vulkan-doctor");
    let diagnosis = folder.run("doctor --json").with(0).json();
    let known = gpus().unwrap();
    let described = diagnosis["vulkan"]["gpus"].as_array().unwrap();
    assert_eq!(described.len(), known.len());
    let first = &described[0];
    assert_eq!(first["name"], known[0].name);
    assert_eq!(first["driver"], known[0].driver);
    assert_eq!(first["lacks"], Value::Array(Vec::new()));
    let validation = Vulkan::is_validation_installed();
    assert_eq!(diagnosis["vulkan"]["validation"], validation);
    let rows = diagnosis["backends"].as_array().unwrap();
    let row = rows.iter().find(|row| row["backend"] == "vulkan").unwrap();
    let test = &row["ready"]["self_test"];
    assert_eq!(test["passed"]["steps"], 3000, "{row}");
}

#[test]
fn bench_measures_every_row() {
    if !is_available() {
        return;
    }
    let arguments = "bench --device vulkan:0 --quick --threads 2 --json";
    let folder = Folder::new("on-vulkan-bench");
    let report = folder.run(arguments).with(0).json();
    assert_eq!(report["device"]["backend"], "vulkan");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16);
    for row in rows {
        assert!(row["min"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn ordinal_beyond_the_last_gpu_is_an_error_with_the_next_step() {
    if !is_available() {
        return;
    }
    let arguments = "bench --device vulkan:99 --quick --json";
    let folder = Folder::new("on-vulkan-ordinal");
    let report = folder.run(arguments).with(1).json();
    assert!(report.to_string().contains("ordinal 99"), "{report}");
}
