//! Tests with a synthetic frame on buffers of many sizes.

use super::super::frame::{LatencyQuantiles, Memory};
use super::*;

fn quantiles(count: u64) -> Quantiles {
    Quantiles {
        count,
        p50_ns: 1_500,
        p90_ns: 20_000,
        p99_ns: 3_000_000,
    }
}

fn sample_frame() -> Frame {
    let queue = |depth| Queue {
        tasks: 1_234_567,
        depth,
        depth_max: 512,
        held: 12,
        streams: 3,
        busy: 0.87,
    };
    let client = |id, name: &str, in_use, tasks| Client {
        id,
        name: name.to_owned(),
        streams: 2,
        tasks,
        tasks_held: 1,
        in_use,
        high_water: 2 * in_use,
    };
    Frame {
        command: "soak".to_owned(),
        device: "a processor".to_owned(),
        pid: 42,
        uptime_s: 61.5,
        at_ms: 1,
        is_last: false,
        epoch: 2,
        tasks: 2_469_134,
        tasks_per_second: 98_765.4,
        launches: 1_000,
        batches: 77,
        batch_p50: 31,
        waits_issued: 5,
        waits_implied: 6,
        streams: 9,
        tasks_held: 24,
        mailbox_depth: 3,
        mailbox_capacity: 256,
        queues: vec![queue(0), queue(256)],
        memory: Memory {
            in_use: 3 << 20,
            reserved: 4 << 20,
            waiting: 1 << 10,
            high_water: 5 << 20,
            slices: 17,
        },
        faults: [("panicked".to_owned(), 4)].into(),
        slices_poisoned: 1,
        slices_waiting: 2,
        values_waiting: 0,
        latencies: Some(LatencyQuantiles {
            queued: quantiles(10),
            runs: quantiles(9),
            slices: quantiles(0),
            values: quantiles(1),
        }),
        clients: vec![
            client(1, "thumbnails", 1 << 20, 9),
            client(2, "search", 2 << 20, 5),
        ],
        clients_total: 2,
    }
}

fn draw_lines(width: u16, height: u16, view: &View) -> Vec<String> {
    let mut canvas = Buffer::empty(Rect::new(0, 0, width, height));
    draw(&mut canvas, view);
    super::super::plain_text::lines(&canvas)
}

fn sample_view() -> View {
    let mut view = View::default();
    view.update(sample_frame());
    view
}

#[test]
fn every_figure_of_a_frame_is_drawn() {
    let lines = draw_lines(100, 30, &sample_view());
    let text = lines.join("\n");
    for part in [
        "millstream soak on a processor, process 42, 61s, epoch 2",
        "tasks    2,469,134 (98,765/s), 1,000 launches, 24 held by 9 streams",
        "batches  77 (median 31 tasks), waits 5 issued, 6 implied",
        "mailbox  3 of 256",
        "1     ██████░░░░░░ 256 of 512",
        "87 %",
        "memory   3.0 MiB in use in 17 slices, 4.0 MiB reserved, 1.0 KiB waiting, peak 5.0 MiB",
        "task, until complete   1.500µs    20.000µs   3.000ms    9",
        "slice, until free      -",
        "faults   panicked 4",
        "slices   1 poisoned; waiting to be freed: 2 slices, 0 values",
        "tasks/s, max 98,765",
        "2 clients",
        "q quit   p pause   s sort by tasks",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

#[test]
fn clients_are_sorted_by_the_chosen_order() {
    let first = |sort| {
        let view = View {
            sort,
            ..sample_view()
        };
        let lines = draw_lines(100, 30, &view);
        let at = lines
            .iter()
            .position(|line| line.starts_with("client "))
            .unwrap();
        lines[at + 1].split(' ').next().unwrap().to_owned()
    };
    assert_eq!(first(Sort::Memory), "search");
    assert_eq!(first(Sort::Tasks), "thumbnails");
    assert_eq!(first(Sort::Name), "search");
    let mut all = vec![Sort::default()];
    while all.len() < 5 {
        all.push(all[all.len() - 1].next());
    }
    assert_eq!(all[4], all[0], "four steps return to the first order");
}

#[test]
fn view_is_drawn_on_a_buffer_of_any_size() {
    let mut many = sample_view();
    if let Some(frame) = &mut many.frame {
        frame.queues = vec![frame.queues[1].clone(); 16];
        frame.clients = vec![frame.clients[0].clone(); 200];
    }
    (0..1_000).for_each(|rate| many.rates.push_back(rate));
    for view in [View::default(), sample_view(), many, extreme_view()] {
        for width in [0, 1, 2, 3, 7, 20, 79, 80, 200] {
            for height in [0, 1, 2, 3, 5, 12, 24, 60] {
                draw_lines(width, height, &view);
            }
        }
    }
}

/// Returns a view with values that no device reports, but a file may have.
fn extreme_view() -> View {
    let mut frame = sample_frame();
    let most = Queue {
        tasks: u64::MAX,
        depth: u64::MAX,
        depth_max: u64::MAX,
        held: u64::MAX,
        streams: u64::MAX,
        busy: -1e300,
    };
    frame.queues = vec![most; usize::from(u16::MAX)];
    frame.command = "\u{1b}[2J\n\u{202e}".to_owned();
    frame.clients[0].name = "two\nlines".to_owned();
    (frame.uptime_s, frame.tasks_per_second) = (-1e300, 1e300);
    frame.memory.in_use = u64::MAX;
    let extreme = Quantiles {
        count: u64::MAX,
        p50_ns: u64::MAX,
        p90_ns: 0,
        p99_ns: u64::MAX,
    };
    let latencies = frame.latencies.as_mut().unwrap();
    (latencies.queued, latencies.runs) = (extreme, extreme);
    frame.faults = [("\n\t".to_owned(), u64::MAX)].into();
    let mut view = View::default();
    view.update(frame);
    view
}

#[test]
fn paused_view_keeps_its_frame() {
    let mut view = sample_view();
    view.is_paused = true;
    let mut later = sample_frame();
    (later.at_ms, later.tasks) = (2, 0);
    view.update(later.clone());
    assert_eq!(view.frame.as_ref().map(|frame| frame.at_ms), Some(1));
    view.is_paused = false;
    view.update(later);
    assert_eq!(view.frame.map(|frame| frame.at_ms), Some(2));
    assert_eq!(view.rates.len(), 2);
}

#[test]
fn bars_are_clamped_and_numbers_are_grouped() {
    assert_eq!(bar(0, 512), "░".repeat(12));
    assert_eq!(bar(1, 512), format!("█{}", "░".repeat(11)));
    assert_eq!((bar(600, 512), bar(5, 0)), ("█".repeat(12), "░".repeat(12)));
    assert_eq!(bar(u64::MAX, u64::MAX), "█".repeat(12));
    let texts = [0, 999, 1_000, 1_234_567].map(grouped);
    assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
}
