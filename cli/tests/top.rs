//! What a soak publishes, as another process finds it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// Ended, whatever becomes of the test.
struct Soak(Child);

impl Drop for Soak {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The frame that is there, once it is one that `suits`.
fn frame(path: &Path, suits: impl Fn(&Value) -> bool) -> Value {
    let give_up = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < give_up, "no such frame");
        let told = top(path, "--json");
        match serde_json::from_slice::<Value>(&told.stdout) {
            Ok(frame) if told.status.success() && suits(&frame) => return frame,
            _ => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_soak_is_watched_while_it_works_and_told_of_when_it_was_killed() {
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
    assert!(later["clients_in_all"].as_u64() > Some(0), "{later}");
    assert!(later["memory"]["reserved"].as_u64() > Some(0));
    assert!(
        later["faults"]["panicked"].is_u64(),
        "its kernels panic on purpose"
    );

    let text = String::from_utf8(top(&path, "--once").stdout).unwrap();
    assert!(text.starts_with("millstream soak on "), "{text}");
    assert!(
        text.contains("task, until complete") && !text.contains("q quit"),
        "{text}"
    );

    // It is killed: what it has left is whole.
    drop(soak);
    let last = frame(&path, |_| true);
    assert_eq!(last["is_last"], false);
}

#[test]
fn a_soak_that_ends_says_so() {
    let path = file("ends");
    let arguments = ["soak", "--rounds", "1", "--threads", "1", "--publish"];
    let ended = millstream(&arguments).arg(&path).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(frame(&path, |_| true)["is_last"], true);
    let text = String::from_utf8(top(&path, "--once").stdout).unwrap();
    assert!(text.contains("it has ended"), "{text}");
    let beside: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(beside.len(), 1, "no draft is left");
}

/// Whoever forgot --once in a pipe is told, and finds nothing there that is for screens.
#[test]
fn without_a_terminal_nothing_is_drawn() {
    let path = file("piped");
    let arguments = ["soak", "--rounds", "1", "--threads", "1", "--publish"];
    let ended = millstream(&arguments).arg(&path).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let piped = millstream(&["top"]).arg(&path).output().unwrap();
    let said = String::from_utf8(piped.stderr).unwrap();
    assert_eq!((piped.status.code(), &*piped.stdout), (Some(1), &b""[..]));
    assert!(
        said.contains("standard output is none")
            && said.contains("next: print one frame with --once"),
        "{said}"
    );
}

#[test]
fn what_is_no_frame_is_bad_usage() {
    let path = file("none");
    let nothing = top(&path, "--once");
    assert_eq!(nothing.status.code(), Some(2));
    let said = String::from_utf8(nothing.stderr).unwrap();
    assert!(
        said.contains("nothing is published") && said.contains("next: run"),
        "{said}"
    );
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{\"command\": 7}").unwrap();
    let other = top(&path, "--json");
    assert_eq!(other.status.code(), Some(2));
    let said: Value = serde_json::from_slice(&other.stdout).unwrap();
    assert!(
        said["error"].as_str().unwrap().contains("is no frame"),
        "{said}"
    );
}
