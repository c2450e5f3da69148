//! `millstream timeline`, on a timeline of the demo and on invalid files.

use crate::Folder;

#[test]
fn timeline_of_the_demo_is_summarized_and_drawn() {
    let folder = Folder::new("timeline-demo");
    folder.photograph("a.png", 40, 30);
    let demo = "--threads 3 --queues 2 --repeat 2 --timeline t.json --json";
    let demo = folder.demo(demo).with(0).json();
    assert_eq!(demo["files"]["saved_timeline"], "t.json");
    assert!(demo["profile"].is_null(), "only with --profile");
    assert_eq!(demo["device"]["queues"], 2);

    let report = folder
        .run("timeline t.json --json --picture t.svg")
        .with(0)
        .json();
    assert_eq!(report["spans"], demo["runtime"]["tasks"]);
    let kernels = report["kernels"].as_array().unwrap();
    let sobel = kernels
        .iter()
        .find(|kernel| kernel["name"] == "sobel")
        .unwrap();
    assert_eq!(sobel["count"], demo["run"]["photos"]);
    let svg = folder.read("t.svg");
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

    let text = folder.run("timeline t.json");
    text.prints(&["t.json: ", "longest gaps", "median", "sobel"]);
}

#[test]
fn invalid_timeline_exits_with_2_and_prints_the_next_step() {
    let folder = Folder::new("timeline-wrong");
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
        folder.write("t.json", &text);
        let ended = folder.run("timeline t.json --json");
        let ended = ended.refuses(&[expected, "next: name a file that"]);
        assert_eq!(ended.json()["exit_code"], 2);
    }
    folder.write("t.json", span(args, "1"));
    for (arguments, expected) in [
        ("nowhere.json", "`nowhere.json` cannot be read"),
        ("in", "`in` cannot be read"),
        ("t.json --picture no/t.svg", "with --picture"),
    ] {
        folder
            .run(&format!("timeline {arguments}"))
            .refuses(&[expected]);
    }
}

/// A file may have names and times that no device reports.
#[test]
fn control_characters_and_the_longest_times_are_accepted() {
    let folder = Folder::new("timeline-odd");
    let half = (u64::MAX / 2 - 1_000_000) / 1_000;
    let span = |name: &str, ts: u64, dur: u64| {
        let args = serde_json::json!({"queue": 0, "stream": u64::MAX, "other": [[[]]]});
        serde_json::json!({"ph": "X", "cat": "queue", "name": name, "ts": ts, "dur": dur, "args": args})
    };
    let odd = "\u{1b}[2J\"quoted\"\n<&\u{ffff}\u{1f980}";
    let events = [span(odd, 0, 1), span("", half, half)];
    let text = serde_json::json!({ "traceEvents": events }).to_string();
    folder.write("t.json", text);
    let text = folder.run("timeline t.json --picture t.svg").with(0).out;
    assert!(text.contains("[2J\"quoted\"\u{fffd}<&"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let svg = folder.read("t.svg");
    assert!(svg.ends_with("</svg>\n") && !svg.contains('\u{1b}') && !svg.contains('\u{ffff}'));
    let report = folder.run("timeline t.json --json").json();
    assert_eq!(report["kernels"][1]["name"], odd);
}

#[test]
fn unwritable_timeline_is_a_usage_error_before_the_run() {
    let folder = Folder::new("timeline-unwritable");
    folder.photograph("a.png", 2, 2);
    let ended = folder.demo("--timeline no/t.json");
    ended.refuses(&["`no/t.json` cannot be written", "with --timeline"]);
    assert!(!folder.file("out/timeline.svg").exists());
}
