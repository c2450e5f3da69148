//! Runs the commands on the first GPU of the Vulkan loader, with Khronos' validation layer if it is installed.
//!
//! Without a driver every test is skipped, and says so. `MILLSTREAM_VULKAN=required` makes that a failure, and also
//! requires the validation layer: `cargo xtask vulkan` provides both.
#![cfg(feature = "vulkan")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use millstream::vulkan::{Vulkan, gpus};
use millstream_picture::{Picture, Rgb};
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

/// Runs a command that prints JSON, and returns it with the exit code.
fn run(folder: &Path, arguments: &str) -> (i32, Value) {
    let program = env!("CARGO_BIN_EXE_millstream");
    // The driver may be in another root; then this test was started by a script, which also starts the program.
    let mut command = match std::env::var_os("MILLSTREAM_VULKAN_RUN") {
        Some(script) => {
            let mut command = Command::new(script);
            command.arg(program);
            command
        }
        None => Command::new(program),
    };
    if Vulkan::is_validation_installed() {
        // The layer prints its messages to standard output, where they make the JSON invalid.
        command.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
    }
    // The pipeline cache of this test, not the user's.
    command.env("XDG_CACHE_HOME", folder);
    command.current_dir(folder).args(arguments.split(' '));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_str(&text);
    let json = json.unwrap_or_else(|_| panic!("`{arguments}` printed no JSON: {text}\n{error}"));
    (output.status.code().unwrap(), json)
}

fn folder(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("on-vulkan-{test}"));
    // An earlier run may have left the folder.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(path.join("in")).unwrap();
    path
}

/// The demo checks every drawing against its reference, and the drawings are those of the CPU.
#[test]
fn demo_draws_what_the_cpu_draws() {
    if !is_available() {
        return;
    }
    let folder = folder("demo");
    // One pixel; rows shorter than the blur; more columns than a cube has threads; more pixels than a cube counts.
    let sizes = [(1, 1), (7, 5), (33, 20), (300, 3), (200, 190)];
    for (width, height) in sizes {
        let pixel = |x, y| Rgb([(x * 7) as u8, (y * 5) as u8, (x * y) as u8]);
        let photograph = Picture::from_fn(width, height, pixel);
        let name = format!("in/{width}x{height}.png");
        photograph.save(folder.join(name)).unwrap();
    }
    for backend in ["vulkan", "cpu"] {
        let options = format!("--backend {backend} --output {backend}");
        let arguments =
            format!("demo {options} --input in --threads 4 --queues 3 --repeat 3 --json");
        let (code, report) = run(&folder, &arguments);
        assert_eq!(code, 0, "{report}");
        assert_eq!(report["run"]["equal"], 3 * sizes.len());
        assert_eq!(report["teardown"]["drained"], true);
        assert_eq!(report["settings"]["backend"], backend);
    }
    for (width, height) in sizes {
        let drawing = |backend: &str| {
            let path = folder.join(format!("{backend}/photos/{width}x{height}.png"));
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
    let (code, diagnosis) = run(&folder("doctor"), "doctor --json");
    assert_eq!(code, 0, "{diagnosis}");
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
    let (code, report) = run(&folder("bench"), arguments);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["device"]["backend"], "vulkan");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 18);
    for row in rows {
        let min = row["min"].as_f64().unwrap();
        assert!(row["unit"] == "%" || min > 0.0, "{row}");
    }
}

#[test]
fn ordinal_beyond_the_last_gpu_is_an_error_with_the_next_step() {
    if !is_available() {
        return;
    }
    let arguments = "bench --device vulkan:99 --quick --json";
    let (code, report) = run(&folder("ordinal"), arguments);
    assert_eq!(code, 1, "{report}");
    assert!(report.to_string().contains("ordinal 99"), "{report}");
}
