//! Tests of the picture of a timeline.

use millstream::report::TraceWait;

use super::super::span;
use super::*;

fn picture(spans: &[TraceSpan], queues: u32) -> String {
    let (title, subtitle) = ("t", "s");
    draw(
        spans,
        &Summary::of(spans),
        &Caption {
            title,
            subtitle,
            queues,
            tasks: spans.len() as u64,
        },
    )
}

fn hovers(svg: &str) -> usize {
    svg.matches("<title>").count()
}

#[test]
fn each_span_is_drawn_once_per_panel() {
    let spans = [
        span("luma", 1, 0, 0, 1_000),
        span("blur", 2, 1, 500, 9_000),
        span("luma", 2, 1, 9_000, 9_500),
    ];
    let svg = picture(&spans, 2);
    assert_eq!(hovers(&svg), 2 * spans.len());
    assert!(svg.contains("blur: 8.5 µs\nstream 2, queue 1\nfrom 500 ns to 9.0 µs"));
}

#[test]
fn idle_queues_have_lanes_and_a_name_has_one_colour() {
    let svg = picture(&[span("a", 3, 0, 0, 10), span("a", 7, 0, 10, 20)], 4);
    for label in ["queue 0", "queue 3", "stream 3", "stream 7"] {
        assert!(svg.contains(&format!(">{label}</text>")), "{label}");
    }
    assert!(!svg.contains(COLOURS[1]));
}

#[test]
fn waits_between_queues_are_arrows_from_end_to_start() {
    let wait = TraceWait {
        queue: 0,
        cursor: 1,
    };
    let mut spans = [span("a", 1, 0, 0, 400), span("b", 2, 1, 600, 1_000)];
    (spans[0].cursor, spans[1].waits) = (1, vec![wait]);
    let svg = picture(&spans, 2);
    assert_eq!(svg.matches(r#"<g class="wait">"#).count(), 1);
    let y = |queue: &str| {
        let label = svg.lines().find(|line| line.contains(queue)).unwrap();
        let y: f64 = label.split('"').nth(5).unwrap().parse().unwrap();
        y - 4.5
    };
    let path = format!(
        r#"class="arrow" d="M{:.1} {:.1}L{:.1} {:.1}""#,
        LEFT + 0.4 * PLOT,
        y(">queue 0<"),
        LEFT + 0.6 * PLOT,
        y(">queue 1<")
    );
    assert!(svg.contains(&path), "`{path}` is missing in\n{svg}");
    assert!(svg.contains("b on queue 1 waited for a on queue 0\nfrom 400 ns to 600 ns"));
    assert!(svg.contains("1 wait: each arrow"));
    spans[1].waits.clear();
    assert!(!picture(&spans, 2).contains("each arrow"));
}

/// Tasks of one queue can overlap, such as a copy and a kernel on a GPU.
#[test]
fn busy_is_the_union_and_shares_below_half_a_percent_are_not_zero() {
    let spans = [
        span("long", 1, 0, 0, 900),
        span("long", 2, 0, 100, 900),
        span("short", 2, 0, 999, 1_000),
    ];
    let svg = picture(&spans, 1);
    assert!(svg.contains(">90 %</text>"), "{svg}");
    assert!(
        svg.contains(">short &lt;1 %</text>") && !svg.contains("<1"),
        "{svg}"
    );
}

#[test]
fn picture_without_spans_is_valid() {
    let svg = picture(&[], 0);
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

/// A file may have times up to the limit of `u64`.
#[test]
fn axis_of_the_longest_timeline_ends() {
    let half = u64::MAX / 2;
    let svg = picture(
        &[span("a", 1, 0, 0, half), span("b", 1, 0, half, u64::MAX)],
        1,
    );
    assert_eq!(hovers(&svg), 4);
    assert!((8..=40).contains(&svg.matches("class=\"grid\"").count()));
}

#[test]
fn picture_is_limited_and_reports_the_number_of_shown_tasks() {
    let spans: Vec<_> = (0..MAX_SPANS as u64 + 5)
        .map(|i| span("k", 0, 0, i * 10, i * 10 + 9))
        .collect();
    let svg = picture(&spans, 1);
    assert_eq!(hovers(&svg), 2 * MAX_SPANS);
    assert!(svg.contains("shows 8000 of 8005 tasks"));
}

fn task(queue: u32, cursor: u64, waits: &[(u32, u64)]) -> TraceSpan {
    let waits = waits.iter().map(|(queue, cursor)| TraceWait {
        queue: *queue,
        cursor: *cursor,
    });
    TraceSpan {
        cursor,
        waits: waits.collect(),
        ..span("k", 0, queue, 10 * cursor, 10 * cursor + 5)
    }
}

#[test]
fn wait_is_for_the_awaited_task_or_the_last_one_before_it() {
    let spans = [
        task(0, 1, &[]),
        task(0, 4, &[]),
        task(1, 5, &[(0, 4)]),
        task(1, 6, &[(0, 3)]),
        // Nothing of queue 2, and nothing as early on queue 0.
        task(1, 7, &[(2, 9), (0, 0)]),
    ];
    let spans: Vec<_> = spans.iter().collect();
    let waits = waits(&spans);
    let pairs = waits
        .iter()
        .map(|wait| (wait.before.cursor, wait.after.cursor));
    assert_eq!(pairs.collect::<Vec<_>>(), [(4, 5), (1, 6)]);
}
