//! Timelines as files: the exact text, names that JSON writes otherwise, times to the nanosecond.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::io::{self, Write};

use millstream::{Cpu, Device, DeviceOptions, TraceSpan, timeline};
use serde_json::Value;

fn span(name: &str, stream: u64, queue: u32, start_ns: u64, end_ns: u64) -> TraceSpan {
    TraceSpan {
        name: name.into(),
        stream,
        queue,
        start_ns,
        end_ns,
    }
}

fn text(spans: &[TraceSpan]) -> String {
    let mut file = Vec::new();
    timeline::write(spans, &mut file).unwrap();
    String::from_utf8(file).unwrap()
}

fn events(spans: &[TraceSpan]) -> Vec<Value> {
    let file: Value = serde_json::from_str(&text(spans)).unwrap();
    file["traceEvents"].as_array().unwrap().clone()
}

/// The spans on the lanes of queues, without what lanes are called.
fn on_queues(spans: &[TraceSpan]) -> Vec<Value> {
    let mut events = events(spans);
    events.retain(|event| event["cat"] == "queue");
    events
}

/// What viewers read does not change unnoticed.
#[test]
fn the_text_of_a_timeline_is_this() {
    let spans = [
        span("luma", 7, 0, 1_000, 2_500),
        span("copy", 7, 1, 2_001, 2_001),
    ];
    let expected = r#"{"displayTimeUnit":"ns","traceEvents":[
{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"queues: what the device ran"}},
{"name":"process_sort_index","ph":"M","ts":0,"pid":1,"tid":0,"args":{"sort_index":1}},
{"name":"process_name","ph":"M","ts":0,"pid":2,"tid":0,"args":{"name":"streams: whose work it was"}},
{"name":"process_sort_index","ph":"M","ts":0,"pid":2,"tid":0,"args":{"sort_index":2}},
{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":1,"args":{"name":"queue 0"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":1,"tid":1,"args":{"sort_index":0}},
{"name":"thread_name","ph":"M","ts":0,"pid":2,"tid":1,"args":{"name":"stream 7"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":2,"tid":1,"args":{"sort_index":7}},
{"name":"luma","cat":"queue","ph":"X","ts":1,"dur":1.500,"pid":1,"tid":1,"args":{"queue":0,"stream":7}},
{"name":"luma","cat":"stream","ph":"X","ts":1,"dur":1.500,"pid":2,"tid":1,"args":{"queue":0,"stream":7}},
{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":2,"args":{"name":"queue 1"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":1,"tid":2,"args":{"sort_index":1}},
{"name":"copy","cat":"queue","ph":"X","ts":2.001,"dur":0,"pid":1,"tid":2,"args":{"queue":1,"stream":7}},
{"name":"copy","cat":"stream","ph":"X","ts":2.001,"dur":0,"pid":2,"tid":1,"args":{"queue":1,"stream":7}}
]}
"#;
    assert_eq!(text(&spans), expected);
}

#[test]
fn any_name_survives() {
    let name = "a \"b\" \\ \n\t\u{1}\u{1f} µ 漢 </script>";
    assert_eq!(on_queues(&[span(name, 1, 0, 0, 1)])[0]["name"], name);
}

/// A span of a week after a start of a year, and one that ends before it begins.
#[test]
fn times_keep_their_nanoseconds() {
    let year = 365 * 24 * 3_600 * 1_000_000_000;
    let file = text(&[
        span("k", 1, 0, year + 7, year + 7 + 604_800_000_000_090),
        span("k", 1, 0, u64::MAX, 5),
    ]);
    assert!(file.contains("\"ts\":31536000000000.007,\"dur\":604800000000.090,"));
    assert!(file.contains("\"ts\":18446744073709551.615,\"dur\":0,"));
}

#[test]
fn spans_stay_in_their_order() {
    let spans = [
        span("b", 1, 1, 50, 60),
        span("a", 2, 0, 10, 20),
        span("c", 1, 0, 30, 40),
    ];
    let names: Vec<Value> = on_queues(&spans)
        .iter()
        .map(|event| event["name"].clone())
        .collect();
    assert_eq!(names, ["b", "a", "c"]);
}

/// Of a real device: what the format asks of every event, a name for every lane, and each span once on either side.
#[test]
fn every_event_of_a_device_has_what_viewers_need() {
    let options = DeviceOptions::default().trace(1_000);
    let device = Device::open_with(Cpu::default().queues(2), options).unwrap();
    for _ in 0..3 {
        let stream = device.client().stream();
        let data = stream.create(&[1_u32; 100]).unwrap();
        stream.fill(&data, 2).unwrap();
        stream.sync().wait().unwrap();
    }
    let spans = device.trace().unwrap();
    assert!(spans.len() >= 3, "{spans:?}");
    let (mut sides, mut named, mut used) = (HashMap::new(), Vec::new(), Vec::new());
    for event in events(&spans) {
        for number in ["pid", "tid"] {
            assert!(event[number].is_u64(), "no {number} in {event}");
        }
        assert!(
            event["ts"].is_number() && event["name"].is_string(),
            "{event}"
        );
        let lane = (event["pid"].clone(), event["tid"].clone());
        match event["ph"].as_str().unwrap() {
            "X" => {
                assert!(event["dur"].as_f64().unwrap() >= 0.0, "{event}");
                *sides.entry(event["cat"].clone()).or_insert(0) += 1;
                used.push(lane);
            }
            "M" => named.push(lane),
            other => panic!("{other} is no kind of event that we write"),
        }
    }
    assert_eq!(
        sides,
        HashMap::from([
            ("queue".into(), spans.len()),
            ("stream".into(), spans.len())
        ])
    );
    assert!(used.iter().all(|lane| named.contains(lane)));
}

#[test]
fn a_file_that_is_full_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = timeline::write(&[], Full).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn no_span_is_a_timeline_too() {
    assert_eq!(events(&[]).len(), 4);
}
