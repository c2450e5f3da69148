//! Timelines as files: the exact text, escaped names, and times to the nanosecond.

use std::collections::HashMap;
use std::io::{self, Write};

use millstream::sim::Sim;
use millstream::{
    Cpu, CubeCount, Device, DeviceOptions, Kernel, OpenError,
    report::{TraceSpan, TraceWait},
    timeline, update,
};
use rstest::rstest;
use serde_json::Value;

fn span(name: &str, stream: u64, queue: u32, start_ns: u64, end_ns: u64) -> TraceSpan {
    TraceSpan {
        name: name.into(),
        stream,
        queue,
        start_ns,
        end_ns,
        ..TraceSpan::default()
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

/// Returns the spans on the lanes of queues, without the names of lanes.
fn on_queues(spans: &[TraceSpan]) -> Vec<Value> {
    let mut events = events(spans);
    events.retain(|event| event["cat"] == "queue");
    events
}

/// Guards the format that viewers read: lanes of queues, of streams by client, and an arrow.
#[test]
fn a_timeline_has_exactly_this_text() {
    let spans = [
        TraceSpan {
            client: 3,
            cursor: 5,
            ..span("luma", 7, 0, 1_000, 2_500)
        },
        TraceSpan {
            client: 4,
            client_name: "shop \"2\"".into(),
            cursor: 2,
            waits: vec![TraceWait {
                queue: 0,
                cursor: 5,
            }],
            ..span("copy", 9, 1, 2_501, 2_501)
        },
    ];
    let expected = r#"{"displayTimeUnit":"ns","traceEvents":[
{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"queues: what the device ran"}},
{"name":"process_sort_index","ph":"M","ts":0,"pid":1,"tid":0,"args":{"sort_index":1}},
{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":1,"args":{"name":"queue 0"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":1,"tid":1,"args":{"sort_index":0}},
{"name":"process_name","ph":"M","ts":0,"pid":2,"tid":0,"args":{"name":"client 3"}},
{"name":"process_sort_index","ph":"M","ts":0,"pid":2,"tid":0,"args":{"sort_index":2}},
{"name":"thread_name","ph":"M","ts":0,"pid":2,"tid":1,"args":{"name":"client 3: stream 7"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":2,"tid":1,"args":{"sort_index":7}},
{"name":"luma","cat":"queue","ph":"X","ts":1,"dur":1.500,"pid":1,"tid":1,"args":{"client":3,"stream":7,"queue":0,"cursor":5}},
{"name":"luma","cat":"stream","ph":"X","ts":1,"dur":1.500,"pid":2,"tid":1,"args":{"client":3,"stream":7,"queue":0,"cursor":5}},
{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":2,"args":{"name":"queue 1"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":1,"tid":2,"args":{"sort_index":1}},
{"name":"process_name","ph":"M","ts":0,"pid":3,"tid":0,"args":{"name":"shop \"2\""}},
{"name":"process_sort_index","ph":"M","ts":0,"pid":3,"tid":0,"args":{"sort_index":3}},
{"name":"thread_name","ph":"M","ts":0,"pid":3,"tid":2,"args":{"name":"shop \"2\": stream 9"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":3,"tid":2,"args":{"sort_index":9}},
{"name":"copy","cat":"queue","ph":"X","ts":2.501,"dur":0,"pid":1,"tid":2,"args":{"client":4,"client_name":"shop \"2\"","stream":9,"queue":1,"cursor":2,"waits":[[0,5]]}},
{"name":"copy","cat":"stream","ph":"X","ts":2.501,"dur":0,"pid":3,"tid":2,"args":{"client":4,"client_name":"shop \"2\"","stream":9,"queue":1,"cursor":2,"waits":[[0,5]]}},
{"name":"wait","cat":"wait","ph":"s","id":1,"ts":2.499,"pid":1,"tid":1},
{"name":"wait","cat":"wait","ph":"f","bp":"e","id":1,"ts":2.501,"pid":1,"tid":2}
]}
"#;
    assert_eq!(text(&spans), expected);
}

/// An arrow starts at a span of the file, whatever the order of spans in its queue.
#[test]
fn an_arrow_is_written_only_if_the_awaited_span_was_written() {
    let wait = |cursor| vec![TraceWait { queue: 0, cursor }];
    let at = |cursor, start_ns| TraceSpan {
        cursor,
        ..span("a", 1, 0, start_ns, start_ns + 10)
    };
    let waits = |cursor| TraceSpan {
        waits: wait(cursor),
        ..span("b", 2, 1, 500, 600)
    };
    let spans = [
        at(7, 100),
        at(5, 300),
        at(6, 0),
        waits(5),
        waits(8),
        waits(7),
    ];
    let starts: Vec<Value> = events(&spans)
        .into_iter()
        .filter(|event| event["ph"] == "s")
        .map(|event| event["ts"].clone())
        .collect();
    assert_eq!(starts, [0.309, 0.109]);
}

/// A span lists the task of another queue that it waited for; tasks of the same queue are not listed.
#[test]
fn a_span_lists_the_task_of_another_queue_that_it_waited_for() {
    let options = DeviceOptions::default().trace(1_000);
    let device = Device::open_with(Cpu::default().queues(2), options).unwrap();
    let (first, second) = (
        device.new_client().new_stream(),
        device.new_client().new_stream(),
    );
    let (started, start_receiver) = std::sync::mpsc::channel();
    let (release, release_receiver) = std::sync::mpsc::channel::<()>();
    let (started, release_receiver) = (
        std::sync::Mutex::new(started),
        std::sync::Mutex::new(release_receiver),
    );
    let client = device.new_client();
    let slow = client
        .kernel(
            Kernel::new("slow")
                .updates::<u32>("data")
                .native(move |_, _| {
                    started.lock().unwrap().send(()).unwrap();
                    release_receiver.lock().unwrap().recv().unwrap();
                }),
        )
        .unwrap();
    let data = first.create(&[1_u32; 100]).unwrap();
    first
        .launch(&slow, CubeCount::single(), (update(&data),))
        .unwrap();
    first.flush().unwrap();
    start_receiver.recv().unwrap();
    second.fill(&data, 2).unwrap();
    second.flush().unwrap();
    // The device answers this after it has admitted and issued both tasks.
    device.stats().unwrap();
    release.send(()).unwrap();
    device.sync().wait().unwrap();

    let spans = device.trace().unwrap();
    let named = |name: &str| spans.iter().find(|span| &*span.name == name).unwrap();
    let (slow, fill) = (named("slow"), named("fill"));
    assert_ne!(slow.client, fill.client);
    assert_ne!(slow.queue, fill.queue);
    assert!(slow.waits.iter().all(|wait| wait.queue != fill.queue));
    let (queue, cursor) = (slow.queue, slow.cursor);
    assert_eq!(fill.waits, [TraceWait { queue, cursor }]);
    let arrows = events(&spans);
    let arrows = arrows.iter().filter(|event| event["ph"] == "f");
    let to_fill = arrows.filter(|event| event["ts"] == fill.start_ns as f64 / 1e3);
    assert_eq!(to_fill.count(), 1);
    // The spans are taken once, so the next ones list no wait.
    second.fill(&data, 3).unwrap();
    device.sync().wait().unwrap();
    let later = device.trace().unwrap();
    assert!(later.iter().all(|span| span.waits.is_empty()), "{later:?}");
}

#[test]
fn any_name_is_escaped_and_read_back() {
    let name = "a \"b\" \\ \n\t\u{1}\u{1f} µ 漢 </script>";
    assert_eq!(on_queues(&[span(name, 1, 0, 0, 1)])[0]["name"], name);
}

/// A span of a week that starts after a year, and one that ends before it starts.
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
fn spans_keep_their_order() {
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

/// Spans of a real device: every event has the fields of the format, every lane has a name, and each span is on a
/// queue's and on a stream's lane.
#[test]
fn every_event_of_a_device_has_the_fields_that_viewers_need() {
    let options = DeviceOptions::default().trace(1_000);
    let device = Device::open_with(Cpu::default().queues(2), options).unwrap();
    for _ in 0..3 {
        let stream = device.new_client().new_stream();
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
            other => panic!("unexpected kind of event: {other}"),
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
fn a_write_error_of_the_file_is_returned() {
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
fn no_spans_make_a_valid_timeline() {
    assert_eq!(events(&[]).len(), 2);
}

/// I12: the newest spans are kept and older ones are evicted, also after a read that came before the tasks ran, and
/// while a profile is open.
#[rstest]
#[case::cpu(|options| Device::open_with(Cpu::default().queues(1), options))]
#[case::sim(|options| Device::open_with(Sim::seed(1).queues(1), options))]
fn the_newest_spans_are_kept_however_often_the_trace_is_read_i12(
    #[case] open: fn(DeviceOptions) -> Result<Device, OpenError>,
    #[values(false, true)] is_profiled: bool,
    #[values(0, 8, 20, 100)] reads_after: usize,
) {
    let device = open(DeviceOptions::default().trace(16)).unwrap();
    let (release, release_receiver) = std::sync::mpsc::channel::<()>();
    let release_receiver = std::sync::Mutex::new(release_receiver);
    let waits = Kernel::new("waits")
        .updates::<u32>("data")
        .native(move |_, _| release_receiver.lock().unwrap().recv().unwrap());
    let client = device.new_client();
    let (waits, stream) = (client.kernel(waits).unwrap(), client.new_stream());
    let data = stream.create(&[1_u32; 100]).unwrap();
    stream.sync().wait().unwrap();
    device.trace().unwrap();
    let token = is_profiled.then(|| stream.start_profile().unwrap());
    stream
        .launch(&waits, CubeCount::single(), (update(&data),))
        .unwrap();
    for task in 1..=100 {
        stream.fill(&data, 2).unwrap();
        if task == reads_after {
            stream.flush().unwrap();
            assert_eq!(device.trace().unwrap(), [], "no task has run");
        }
    }
    release.send(()).unwrap();
    device.sync().wait().unwrap();
    let spans = device.trace().unwrap();
    let cursors: Vec<u64> = spans.iter().map(|span| span.cursor).collect();
    let last = cursors.iter().max().copied().unwrap_or(0);
    assert_eq!(cursors, (last - 15..=last).collect::<Vec<_>>());
    assert!(last > 100);
    if let Some(token) = token {
        assert_eq!(stream.end_profile(token).wait().unwrap().tasks, 101);
    }
}

/// Returns the lanes of streams: their names, and the number of spans on each.
fn stream_lanes(spans: &[TraceSpan]) -> Vec<(String, usize)> {
    let events = events(spans);
    let at = |event: &Value| (event["pid"].clone(), event["tid"].clone());
    let of_streams = |event: &&Value| event["name"] == "thread_name" && event["pid"] != 1;
    let lanes = events.iter().filter(of_streams);
    lanes
        .map(|lane| {
            let on_it = |event: &&Value| event["cat"] == "stream" && at(event) == at(lane);
            let spans = events.iter().filter(on_it).count();
            (lane["args"]["name"].as_str().unwrap().to_owned(), spans)
        })
        .collect()
}

/// Streams that have ended share lanes if they do not overlap; a live stream has its own lane, and clients share none.
#[test]
fn the_lane_of_a_stream_that_has_ended_is_reused() {
    let ended = |client: u32, stream, start_ns, end_ns| TraceSpan {
        client,
        client_name: format!("tenant {client}").into(),
        stream_ended: true,
        ..span("work", stream, 0, start_ns, end_ns)
    };
    let lives = TraceSpan {
        stream_ended: false,
        ..ended(1, 3, 0, 10)
    };
    let spans = [
        lives,
        ended(1, 4, 0, 10),
        ended(2, 5, 5, 15),
        ended(1, 4, 10, 20),
        ended(1, 6, 20, 30),
        ended(1, 7, 25, 35),
        ended(1, 8, 40, 50),
    ];
    assert_eq!(
        stream_lanes(&spans),
        [
            ("tenant 1: stream 3".to_owned(), 1),
            ("tenant 1: 3 streams in turn".to_owned(), 4),
            ("tenant 2: stream 5".to_owned(), 1),
            ("tenant 1: stream 7".to_owned(), 1)
        ]
    );
}

/// A stream for each request uses few lanes, which have the client's name.
#[rstest]
#[case::cpu(|options| Device::open_with(Cpu::default(), options))]
#[case::sim(|options| Device::open_with(Sim::seed(1), options))]
fn a_stream_for_each_request_uses_few_lanes(
    #[case] open: fn(DeviceOptions) -> Result<Device, OpenError>,
) {
    let device = open(DeviceOptions::default().trace(10_000)).unwrap();
    let client = device.client_builder().name("shop").build();
    for request in 0..100 {
        let stream = client.new_stream();
        let values = stream.create(&[request; 100]).unwrap();
        assert_eq!(stream.read(&values).wait().unwrap()[0], request);
    }
    device.sync().wait().unwrap();
    let spans = device.trace().unwrap();
    let lanes = stream_lanes(&spans);
    assert!(spans.iter().all(|span| &*span.client_name == "shop"));
    // The end of the last one or two streams may not have been observed.
    assert!(lanes.len() <= 4, "{lanes:?}");
    assert!(lanes[0].0.starts_with("shop: "), "{lanes:?}");
}
