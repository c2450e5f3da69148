//! Runs `millstream timeline` as a program, on a timeline of the demo and on invalid files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use millstream_picture::{Picture, Rgb};
use serde_json::Value;

fn folder(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("timeline-{test}"));
    // An earlier run may have left the folder.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(path.join("in")).unwrap();
    path
}

fn millstream(folder: &Path, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_millstream"));
    program.current_dir(folder).args(arguments);
    program.output().unwrap()
}

#[test]
fn timeline_of_the_demo_is_summarized_and_drawn() {
    let folder = folder("demo");
    let photo = Picture::from_fn(40, 30, |x, y| Rgb([x as u8, y as u8, 7]));
    photo.save(folder.join("in/a.png")).unwrap();
    let demo =
        "demo --input in --output out --threads 3 --queues 2 --repeat 2 --timeline t.json --json";
    let demo = millstream(&folder, &demo.split(' ').collect::<Vec<_>>());
    assert_eq!(demo.status.code(), Some(0), "{demo:?}");
    let demo: Value = serde_json::from_slice(&demo.stdout).unwrap();
    assert_eq!(demo["files"]["saved_timeline"], "t.json");

    let output = millstream(
        &folder,
        &["timeline", "t.json", "--json", "--picture", "t.svg"],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["spans"], demo["runtime"]["tasks"]);
    let kernels = report["kernels"].as_array().unwrap();
    let sobel = kernels
        .iter()
        .find(|kernel| kernel["name"] == "sobel")
        .unwrap();
    assert_eq!(sobel["count"], demo["run"]["photos"]);
    let svg = fs::read_to_string(folder.join("t.svg")).unwrap();
    for queue in report["queues"].as_array().unwrap() {
        let busy = queue["busy"].as_f64().unwrap();
        assert!(busy <= 1.0, "{queue}");
        // The demo, the summary and the picture say the same.
        let number = queue["queue"].as_u64().unwrap();
        let in_demo = &demo["runtime"]["queues"][number as usize];
        assert_eq!(in_demo["occupancy"], queue["busy"]);
        let label = svg.find(&format!(">queue {number}<")).unwrap();
        let share = svg[label..].lines().nth(1).unwrap();
        let expected = match busy {
            0.0..0.005 => ">&lt;1 %</text>".to_owned(),
            _ => format!(">{:.0} %</text>", 100.0 * busy),
        };
        assert!(share.ends_with(&expected), "{share} for {busy}");
    }
    assert!(svg.contains(">Timeline of t.json<"), "{svg}");
    assert!(svg.starts_with("<svg") && svg.contains("sobel"));

    let text = millstream(&folder, &["timeline", "t.json"]);
    let text = String::from_utf8(text.stdout).unwrap();
    for part in ["t.json: ", "longest gaps", "median", "sobel"] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

#[test]
fn invalid_timeline_exits_with_2_and_prints_the_next_step() {
    let folder = folder("wrong");
    let span = |args: &str, ts: &str| {
        format!(
            r#"{{"traceEvents":[{{"ph":"X","cat":"queue","name":"k","ts":{ts},"dur":1,"args":{args}}}]}}"#
        )
    };
    let args = r#"{"queue":0,"stream":1}"#;
    for (text, expected) in [
        (String::new(), "EOF while parsing a value at line 1"),
        ("{}".to_owned(), "missing field `traceEvents`"),
        ("[]".to_owned(), "`t.json` is not a timeline"),
        (r#"{"traceEvents":7}"#.to_owned(), "expected a sequence"),
        (
            r#"{"traceEvents":[]}"#.to_owned(),
            "timeline `t.json` has no tasks",
        ),
        (
            r#"{"traceEvents":[{"ph":"B"}]}"#.to_owned(),
            "timeline `t.json` has no tasks",
        ),
        (span(args, "1")[..60].to_owned(), "EOF while parsing"),
        (
            span(r#"{"queue":0}"#, "1"),
            "a span has no queue or no stream",
        ),
        (
            span(r#"{"queue":99,"stream":1}"#, "1"),
            "a span is on queue 99, expected a queue below 16",
        ),
        (span(args, "-1"), "-1 microseconds is not a valid time"),
        (span(args, "1e300"), "microseconds is not a valid time"),
    ] {
        fs::write(folder.join("t.json"), &text).unwrap();
        let output = millstream(&folder, &["timeline", "t.json", "--json"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {error}");
        assert!(error.contains(expected), "`{expected}` is not in {error}");
        assert!(error.contains("next: name a file that"), "{error}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["exit_code"], 2);
    }
    fs::write(folder.join("t.json"), span(args, "1")).unwrap();
    for (arguments, expected) in [
        (
            &["timeline", "nowhere.json"][..],
            "`nowhere.json` cannot be read",
        ),
        (&["timeline", "in"], "`in` cannot be read"),
        (
            &["timeline", "t.json", "--picture", "no/t.svg"],
            "with --picture",
        ),
    ] {
        let output = millstream(&folder, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "`{expected}` is not in {error}");
    }
}

/// A file may have names and times that no device reports.
#[test]
fn control_characters_and_the_longest_times_are_accepted() {
    let folder = folder("odd");
    let half = (u64::MAX / 2 - 1_000_000) / 1_000;
    let span = |name: &str, ts: u64, dur: u64| {
        let args = serde_json::json!({"queue": 0, "stream": u64::MAX, "other": [[[]]]});
        serde_json::json!({"ph": "X", "cat": "queue", "name": name, "ts": ts, "dur": dur, "args": args})
    };
    let odd = "\u{1b}[2J\"quoted\"\n<&\u{ffff}\u{1f980}";
    let events = [span(odd, 0, 1), span("", half, half)];
    let text = serde_json::json!({ "traceEvents": events }).to_string();
    fs::write(folder.join("t.json"), text).unwrap();
    let output = millstream(&folder, &["timeline", "t.json", "--picture", "t.svg"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("[2J\"quoted\"\u{fffd}<&"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let svg = fs::read_to_string(folder.join("t.svg")).unwrap();
    assert!(svg.ends_with("</svg>\n") && !svg.contains('\u{1b}') && !svg.contains('\u{ffff}'));
    let output = millstream(&folder, &["timeline", "t.json", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kernels"][1]["name"], odd);
}

#[test]
fn unwritable_timeline_is_a_usage_error_before_the_run() {
    let folder = folder("unwritable");
    Picture::from_fn(2, 2, |_, _| Rgb([0; 3]))
        .save(folder.join("in/a.png"))
        .unwrap();
    let demo = "demo --input in --output out --timeline no/t.json";
    let output = millstream(&folder, &demo.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("`no/t.json` cannot be written"), "{error}");
    assert!(error.contains("with --timeline"), "{error}");
    assert!(!folder.join("out/timeline.svg").exists());
}
