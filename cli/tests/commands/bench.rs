//! `millstream bench`. The tests check the shape of the report, not the figures, which depend on the machine.

use serde_json::Value;

use crate::Folder;

/// The name and the unit of every row.
const ROWS: [(&str, &str); 16] = [
    ("launch, caller's side", "ns"),
    ("launch and wait", "us"),
    ("launch and wait after 1 ms idle", "us"),
    ("launches, 1 thread", "million/s"),
    ("launches, 2 threads", "million/s"),
    ("replay, per recorded task", "ns"),
    ("task after another stream's task", "ns"),
    ("allocate and drop", "ns"),
    ("4 KiB round trip", "us"),
    ("4 MiB round trip", "us"),
    ("1 MiB upload, in warm copies", "copies"),
    ("1 MiB download, in warm copies", "copies"),
    ("4 MiB upload, in warm copies", "copies"),
    ("4 MiB download, in warm copies", "copies"),
    ("64 MiB upload, in warm copies", "copies"),
    ("64 MiB download, in warm copies", "copies"),
];

#[test]
fn quick_run_has_every_row_and_compares_with_an_earlier_run() {
    let folder = Folder::new("bench-rows");
    let bench = "bench --quick --threads 2 --json";
    let report = folder.run(bench).with(0).json();
    assert_eq!(
        (&report["exit_code"], &report["quick"]),
        (&0.into(), &true.into())
    );
    let rows = report["rows"].as_array().unwrap();
    let names = rows
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["unit"].as_str().unwrap()));
    assert!(names.eq(ROWS));
    for row in rows {
        let of = |name: &str| row[name].as_f64().unwrap();
        assert_eq!(of("samples"), 3.0);
        assert!(of("min") <= of("median"), "{row}");
        assert!(of("median") <= of("max") && of("max").is_finite(), "{row}");
        assert!(of("min") > 0.0, "{row}");
    }

    // The earlier run lacks one row, and another row was a million times as fast in it.
    let mut before = report.clone();
    before["rows"][1]["name"] = "removed row".into();
    for figure in ["min", "lower_quartile", "median", "upper_quartile", "max"] {
        let less = before["rows"][0][figure].as_f64().unwrap() / 1e6;
        before["rows"][0][figure] = less.into();
    }
    folder.write("before.json", before.to_string());
    let compare = format!("{bench} --compare before.json --picture p.svg");
    let report = folder.run(&compare).with(0).json();
    let changes = report["rows"].as_array().unwrap().iter();
    let changes: Vec<_> = changes.map(|row| &row["change"]).collect();
    assert_eq!(changes[0]["verdict"], "worse");
    assert!(changes[0]["ratio"].as_f64().unwrap() > 1_000.0);
    let missing = changes.iter().map(|change| change.is_null());
    assert!(missing.eq((0..ROWS.len()).map(|row| row == 1)));
    assert_eq!(report["compared"]["differs"], Value::Array(Vec::new()));
    let svg = folder.read("p.svg");
    assert!(svg.contains("launches, 2 threads") && svg.contains("before.json"));
}

#[test]
fn simulator_is_measured_and_printed_as_a_table() {
    let folder = Folder::new("bench-sim");
    let text = folder
        .run("bench --quick --threads 1 --device sim")
        .with(0)
        .out;
    for (name, unit) in ROWS.iter().filter(|(name, _)| !name.contains("2 threads")) {
        let line = text.lines().find(|line| line.contains(name)).unwrap();
        let shown = if *unit == "us" { "µs" } else { unit };
        assert!(line.contains(shown), "{line}");
    }
    assert!(text.contains("spread: half of the samples"), "{text}");
}

#[test]
fn usage_errors_exit_with_2_before_anything_is_measured() {
    let folder = Folder::new("bench-wrong");
    let row = r#"{"name":"x","unit":"ns","median":2.0,"lower_quartile":1.0,"upper_quartile":3.0,"min":1.0,"max":0.5,"samples":3}"#;
    let report = format!(
        r#"{{"device":{{"backend":"","name":"","queues":1,"threads":1}},"quick":true,
        "debug_build":true,"seconds":1.0,"rows":[{row}]}}"#
    );
    for (name, text) in [
        ("empty.json", ""),
        ("list.json", "[]"),
        ("other.json", r#"{"rows":[]}"#),
        ("unsound.json", &report),
    ] {
        folder.write(name, text);
    }
    for (file, expected) in [
        ("nowhere", "bench report `nowhere.json` cannot be read"),
        ("empty", "`empty.json` is not a bench report"),
        ("list", "`list.json` is not a bench report"),
        ("other", "missing field `device`"),
        ("unsound", "the figures of `x` are inconsistent"),
    ] {
        let ended = folder.run(&format!("bench --compare {file}.json --json"));
        let ended = ended.refuses(&[expected, "next: name a file that"]);
        assert_eq!(ended.json()["exit_code"], 2);
    }
    // The path is checked before the device is opened: no machine has this device.
    let ended = folder.run("bench --device cuda:9999 --picture no/p.svg");
    ended.refuses(&["with --picture"]);
    folder.run("bench --device abacus").with(2);
}
