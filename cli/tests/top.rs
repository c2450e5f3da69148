//! Runs `millstream top` on the metrics that a soak publishes in another process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A timeout far longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(60);

fn millstream(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(arguments);
    command
}

fn file(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    folder.join("below/metrics.json")
}

fn top(path: &Path, option: &str) -> Output {
    millstream(&["top", path.to_str().unwrap(), option])
        .output()
        .unwrap()
}

/// A running soak, killed on drop.
struct Soak(Child);

impl Drop for Soak {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a frame that satisfies `accept`.
fn frame(path: &Path, accept: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        assert!(
            Instant::now() < deadline,
            "no frame satisfies the condition"
        );
        let output = top(path, "--json");
        match serde_json::from_slice::<Value>(&output.stdout) {
            Ok(frame) if output.status.success() && accept(&frame) => return frame,
            _ => std::thread::yield_now(),
        }
    }
}

#[test]
fn frames_of_a_soak_are_readable_while_it_runs_and_after_a_kill() {
    let path = file("soak");
    let arguments = ["soak", "--minutes", "5", "--threads", "2", "--publish"];
    let mut soak = millstream(&arguments);
    let soak = soak.arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
    let soak = Soak(soak.spawn().unwrap());
    let first = frame(&path, |frame| frame["launches"].as_u64() > Some(0));
    let later = frame(&path, |frame| {
        frame["at_ms"].as_u64() > first["at_ms"].as_u64()
            && frame["latencies"]["runs"]["count"].as_u64() > Some(0)
    });
    assert_eq!(first["command"], "soak");
    assert_eq!(first["pid"], soak.0.id());
    assert!(later["tasks"].as_u64() > first["tasks"].as_u64());
    assert_eq!(later["queues"].as_array().unwrap().len(), 4);
    assert!(later["clients_total"].as_u64() > Some(0), "{later}");
    assert!(later["memory"]["reserved"].as_u64() > Some(0));
    assert!(
        later["faults"]["panicked"].is_u64(),
        "the soak's kernels panic intentionally"
    );

    let text = String::from_utf8(top(&path, "--once").stdout).unwrap();
    assert!(text.starts_with("millstream soak on "), "{text}");
    assert!(
        text.contains("task, until complete") && !text.contains("q quit"),
        "{text}"
    );

    // The last frame of the killed soak is complete.
    drop(soak);
    let last = frame(&path, |_| true);
    assert_eq!(last["is_last"], false);
}

#[test]
fn last_frame_of_an_ended_soak_says_so() {
    let path = file("ends");
    let arguments = ["soak", "--rounds", "1", "--threads", "1", "--publish"];
    let ended = millstream(&arguments).arg(&path).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(frame(&path, |_| true)["is_last"], true);
    let text = String::from_utf8(top(&path, "--once").stdout).unwrap();
    assert!(text.contains("ended, this is the last frame"), "{text}");
    let files: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(files.len(), 1, "a draft is left");
}

/// A pipe without --once gets an error and no escape sequences.
#[test]
fn output_to_a_pipe_without_once_is_an_error() {
    let path = file("piped");
    let arguments = ["soak", "--rounds", "1", "--threads", "1", "--publish"];
    let ended = millstream(&arguments).arg(&path).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let piped = millstream(&["top"]).arg(&path).output().unwrap();
    let error = String::from_utf8(piped.stderr).unwrap();
    assert_eq!((piped.status.code(), &*piped.stdout), (Some(1), &b""[..]));
    assert!(
        error.contains("standard output is not a terminal")
            && error.contains("next: print one frame with --once"),
        "{error}"
    );
}

#[test]
fn missing_or_invalid_metrics_file_is_a_usage_error() {
    let path = file("none");
    let missing = top(&path, "--once");
    assert_eq!(missing.status.code(), Some(2));
    let error = String::from_utf8(missing.stderr).unwrap();
    assert!(
        error.contains("does not exist") && error.contains("next: run"),
        "{error}"
    );
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{\"command\": 7}").unwrap();
    let invalid = top(&path, "--json");
    assert_eq!(invalid.status.code(), Some(2));
    let answer: Value = serde_json::from_slice(&invalid.stdout).unwrap();
    assert!(
        answer["error"]
            .as_str()
            .unwrap()
            .contains("is not a metrics file"),
        "{answer}"
    );
}
