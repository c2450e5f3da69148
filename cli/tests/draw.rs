//! Runs `millstream draw` as a program, and checks exit codes, standard output and files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use millstream::DType;
use millstream::graph::{Graph, Schedule};
use serde_json::Value;

fn folder(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("draw-{test}"));
    // An earlier run may have left the folder.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn draw(arguments: &[&str]) -> Output {
    let mut draw = Command::new(env!("CARGO_BIN_EXE_millstream"));
    draw.arg("draw").args(arguments).output().unwrap()
}

/// Returns a schedule of two kernels and a product, with a name that XML and DOT escape.
fn schedule() -> Schedule {
    let graph = Graph::new();
    let x = graph.input("x<\"1\">", DType::F32, [8, 16]);
    let w = graph.input("w", DType::F32, [16, 4]);
    Schedule::create_one(&x.softmax(-1).matmul(&w).softmax(-1)).unwrap()
}

#[test]
fn drawing_of_a_schedule_has_every_item() {
    let folder = folder("schedule");
    let (file, schedule) = (folder.join("step.dot"), schedule());
    fs::write(&file, schedule.dot()).unwrap();
    let output = draw(&[file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text.contains("drew 5 nodes and 4 edges to"), "{text}");
    let svg = fs::read_to_string(folder.join("step.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for item in schedule.items() {
        assert!(svg.contains(&format!(" {}</text>", item.kind())), "{svg}");
    }
    assert!(svg.contains(">x&lt;&quot;1&quot;&gt;</text>"), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn json_draw_prints_one_object() {
    let folder = folder("json");
    let (file, target) = (folder.join("a.dot"), folder.join("b.svg"));
    fs::write(&file, schedule().dot()).unwrap();
    let (file, target) = (file.to_str().unwrap(), target.to_str().unwrap());
    let output = draw(&[file, "-o", target, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["exit_code"], 0);
    assert_eq!((&report["nodes"], &report["edges"]), (&5.into(), &4.into()));
    assert_eq!(report["output"], target);
    assert!(Path::new(target).exists());
}

#[test]
fn invalid_schedule_exits_with_2_and_prints_the_next_step() {
    let folder = folder("wrong");
    let file = folder.join("a.dot");
    for (text, expected) in [
        ("", "line 1: expected `digraph`"),
        (
            "digraph {\n a -> b [label=\n",
            "line 3: expected a value, got the end of the file",
        ),
        (
            "digraph { a -> b -> c -> b }",
            "has a cycle through node `b`",
        ),
        ("\u{0}\u{1}\u{2}", "unexpected character"),
    ] {
        fs::write(&file, text).unwrap();
        let output = draw(&[file.to_str().unwrap(), "--json"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "`{expected}` is not in {error}");
        assert!(error.contains("next: name a file that"), "{error}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["exit_code"], 2);
        assert!(!folder.join("a.svg").exists());
    }
    let missing = draw(&["/nowhere/at/all.dot"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&missing.stderr).contains("`/nowhere/at/all.dot` cannot be read")
    );
    fs::write(&file, schedule().dot()).unwrap();
    let unwritable = draw(&[file.to_str().unwrap(), "-o", "/nowhere/at/all.svg"]);
    assert_eq!(unwritable.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&unwritable.stderr)
            .contains("`/nowhere/at/all.svg` cannot be written")
    );
}

#[test]
fn empty_schedule_gives_an_empty_drawing() {
    let folder = folder("empty");
    let file = folder.join("a.dot");
    fs::write(&file, "digraph schedule {}").unwrap();
    let output = draw(&[file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
