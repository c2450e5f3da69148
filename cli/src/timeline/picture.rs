//! Draws a timeline as one SVG file.
//!
//! The picture has a lane per queue, a lane per stream, a colour per task name, and a tooltip with
//! name, stream and times on each span. The file is self-contained: no script, font or link.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use millstream::TraceSpan;

use crate::svg::{rect, text};
use crate::units::{duration, tick_step, unit};
use crate::xml::escape;

/// The most spans in a picture. Browsers draw this number quickly.
pub(crate) const MAX_SPANS: usize = 8_000;

const WIDTH: f64 = 1480.0;
const LEFT: f64 = 112.0;
const RIGHT: f64 = 84.0;
const PLOT: f64 = WIDTH - LEFT - RIGHT;
const HEADER: f64 = 84.0;
const LEGEND_ROW: f64 = 26.0;
const PANEL_TITLE: f64 = 34.0;
const LANE_GAP: f64 = 4.0;
const QUEUE_LANE: f64 = 30.0;
const AXIS: f64 = 44.0;
/// The least width of a span, so that it is visible.
const SPAN_WIDTH_MIN: f64 = 0.7;

/// Colours that most people can distinguish. Names take them in order of appearance.
const COLOURS: [&str; 12] = [
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7",
    "#9c755f", "#6b7b3a", "#d37295", "#a0a8b0",
];

/// The text above the lanes, and facts that the spans may lack.
pub(crate) struct Caption<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
    /// The number of queues of the device, including idle ones.
    pub(crate) queues: u32,
    /// The number of tasks that the device ran. The picture says so if it shows fewer.
    pub(crate) tasks: u64,
}

/// Draws the first `MAX_SPANS` of the spans.
pub(crate) fn draw(spans: &[TraceSpan], caption: &Caption<'_>) -> String {
    let mut shown: Vec<&TraceSpan> = spans
        .iter()
        .filter(|span| span.end_ns >= span.start_ns)
        .collect();
    shown.sort_by_key(|span| (span.start_ns, span.queue, span.stream));
    shown.truncate(MAX_SPANS);
    Picture::new(&shown, caption.queues).render(caption)
}

struct Picture<'a> {
    spans: &'a [&'a TraceSpan],
    queues: u32,
    streams: BTreeSet<u64>,
    colours: HashMap<&'a str, &'static str>,
    /// Names in order of appearance, with their total times.
    totals_ns: Vec<(&'a str, u64)>,
    start_ns: u64,
    length_ns: u64,
}

impl<'a> Picture<'a> {
    fn new(spans: &'a [&'a TraceSpan], queues: u32) -> Self {
        let start_ns = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
        let end_ns = spans.iter().map(|span| span.end_ns).max().unwrap_or(0);
        let mut colours = HashMap::new();
        let mut totals_ns: Vec<(&str, u64)> = Vec::new();
        for span in spans {
            let taken = totals_ns.len();
            colours.entry(&*span.name).or_insert_with(|| {
                totals_ns.push((&span.name, 0));
                COLOURS[taken % COLOURS.len()]
            });
            if let Some((_, total)) = totals_ns.iter_mut().find(|(name, _)| **name == *span.name) {
                *total += span.end_ns - span.start_ns;
            }
        }
        let most_lanes = spans.iter().map(|span| span.queue + 1).max().unwrap_or(0);
        Self {
            spans,
            queues: queues.max(most_lanes),
            streams: spans.iter().map(|span| span.stream).collect(),
            colours,
            totals_ns,
            start_ns,
            length_ns: (end_ns - start_ns).max(1),
        }
    }

    fn render(&self, caption: &Caption<'_>) -> String {
        let stream_lane = match self.streams.len() {
            0..=16 => 20.0,
            17..=40 => 14.0,
            _ => 9.0,
        };
        let legend_rows = self.legend_layout().1;
        let queues_top = HEADER + legend_rows * LEGEND_ROW + PANEL_TITLE;
        let queues_bottom = queues_top + f64::from(self.queues) * (QUEUE_LANE + LANE_GAP);
        let streams_top = queues_bottom + AXIS + PANEL_TITLE;
        let streams_bottom = streams_top + self.streams.len() as f64 * (stream_lane + LANE_GAP);
        let height = streams_bottom + AXIS + 12.0;

        let mut svg = String::new();
        open(&mut svg, height);
        let drawn = self.spans.len() as u64;
        let note = if drawn < caption.tasks {
            format!(" · shows {drawn} of {} tasks", caption.tasks)
        } else {
            String::new()
        };
        text(&mut svg, "title", (28.0, 42.0), caption.title);
        text(
            &mut svg,
            "quiet",
            (28.0, 66.0),
            &format!("{}{note}", caption.subtitle),
        );
        self.legend(&mut svg);

        text(&mut svg, "panel", (28.0, queues_top - 14.0), "Queues");
        text(
            &mut svg,
            "quiet end",
            (WIDTH - 20.0, queues_top - 14.0),
            "busy",
        );
        self.axis(&mut svg, queues_top, queues_bottom);
        let lanes: Vec<_> = (0..self.queues)
            .map(|queue| (u64::from(queue), format!("queue {queue}")))
            .collect();
        self.lanes(&mut svg, queues_top, QUEUE_LANE, &lanes, |span| {
            u64::from(span.queue)
        });

        text(&mut svg, "panel", (28.0, streams_top - 14.0), "Streams");
        text(
            &mut svg,
            "quiet end",
            (WIDTH - 20.0, streams_top - 14.0),
            "share",
        );
        self.axis(&mut svg, streams_top, streams_bottom);
        let lanes: Vec<_> = self
            .streams
            .iter()
            .map(|stream| (*stream, format!("stream {stream}")))
            .collect();
        self.lanes(&mut svg, streams_top, stream_lane, &lanes, |span| {
            span.stream
        });
        svg.push_str("</svg>\n");
        svg
    }

    fn x(&self, ns: u64) -> f64 {
        LEFT + (ns - self.start_ns) as f64 / self.length_ns as f64 * PLOT
    }

    /// Returns the position of each entry of the legend, and the number of rows.
    fn legend_layout(&self) -> (Vec<(f64, f64)>, f64) {
        let (mut x, mut y) = (28.0, HEADER);
        let mut places = Vec::new();
        for (name, total) in &self.totals_ns {
            let width = 44.0 + (name.chars().count() + self.share(*total).len()) as f64 * 7.4;
            if x + width > WIDTH - 20.0 && x > 28.0 {
                (x, y) = (28.0, y + LEGEND_ROW);
            }
            places.push((x, y));
            x += width;
        }
        (places, (y - HEADER) / LEGEND_ROW + 1.0)
    }

    fn share(&self, total_ns: u64) -> String {
        let all: u64 = self.totals_ns.iter().map(|(_, total)| total).sum();
        format!("{:.0} %", total_ns as f64 / all.max(1) as f64 * 100.0)
    }

    fn legend(&self, svg: &mut String) {
        for ((name, total), (x, y)) in self.totals_ns.iter().zip(self.legend_layout().0) {
            rect(svg, (x, y + 2.0), (14.0, 14.0), self.colours[name], "");
            let _ = writeln!(
                svg,
                r#"<text x="{:.1}" y="{:.1}">{} <tspan class="quiet">{}</tspan></text>"#,
                x + 21.0,
                y + 13.5,
                escape(name),
                self.share(*total),
            );
        }
    }

    fn axis(&self, svg: &mut String, top: f64, bottom: f64) {
        let step = tick_step(self.length_ns);
        let (unit, unit_ns) = unit(self.length_ns);
        let decimals = if step < unit_ns { 1 } else { 0 };
        let mut at = 0;
        while at <= self.length_ns {
            let x = self.x(self.start_ns + at);
            let _ = writeln!(
                svg,
                r#"<path class="grid" d="M{x:.1} {:.1}V{:.1}"/>"#,
                top - 4.0,
                bottom + 4.0
            );
            let value = at as f64 / unit_ns as f64;
            text(
                svg,
                "quiet middle",
                (x, bottom + 20.0),
                &format!("{value:.decimals$} {unit}"),
            );
            // The addition can overflow, since a timeline can be as long as `u64` nanoseconds.
            let Some(next) = at.checked_add(step) else {
                break;
            };
            at = next;
        }
    }

    fn lanes(
        &self,
        svg: &mut String,
        top: f64,
        height: f64,
        lanes: &[(u64, String)],
        lane_of: impl Fn(&TraceSpan) -> u64,
    ) {
        let mut by_lane: BTreeMap<u64, Vec<&TraceSpan>> = BTreeMap::new();
        for span in self.spans {
            by_lane.entry(lane_of(span)).or_default().push(span);
        }
        for (row, (lane, label)) in lanes.iter().enumerate() {
            let y = top + row as f64 * (height + LANE_GAP);
            let spans = by_lane.get(lane).map_or(&[][..], Vec::as_slice);
            let busy: u64 = spans.iter().map(|span| span.end_ns - span.start_ns).sum();
            let _ = writeln!(
                svg,
                r#"<rect class="lane" x="{LEFT}" y="{y:.1}" width="{PLOT}" height="{height}" rx="2"/>"#
            );
            // Only every second of the narrow lanes has a label, so that labels stay legible.
            if height >= 12.0 || row % 2 == 0 {
                let middle = y + height / 2.0 + 4.5;
                text(svg, "end", (LEFT - 12.0, middle), label);
                let share = busy as f64 / self.length_ns as f64 * 100.0;
                text(
                    svg,
                    "quiet end",
                    (WIDTH - 20.0, middle),
                    &format!("{share:.0} %"),
                );
            }
            for span in spans {
                self.span(svg, y, height, span);
            }
        }
    }

    fn span(&self, svg: &mut String, y: f64, height: f64, span: &TraceSpan) {
        let x = self.x(span.start_ns);
        let width = (self.x(span.end_ns) - x).max(SPAN_WIDTH_MIN);
        let after = |ns: u64| duration(ns - self.start_ns);
        let hover = format!(
            "{}: {}\nstream {}, queue {}\nfrom {} to {}",
            span.name,
            duration(span.end_ns - span.start_ns),
            span.stream,
            span.queue,
            after(span.start_ns),
            after(span.end_ns),
        );
        rect(
            svg,
            (x, y),
            (width, height),
            self.colours[&*span.name],
            &hover,
        );
    }
}

fn open(svg: &mut String, height: f64) {
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0}" viewBox="0 0 {WIDTH} {height:.0}">
<style>
text {{ font: 13px system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; fill: #23272e }}
.title {{ font-size: 24px; font-weight: 700 }} .panel {{ font-size: 15px; font-weight: 600 }}
.quiet {{ fill: #79818d }} .end {{ text-anchor: end }} .middle {{ text-anchor: middle }}
.grid {{ stroke: #d9dde3; stroke-width: 1 }} .lane {{ fill: #eceff3 }}
.task:hover {{ stroke: #23272e; stroke-width: 1.5 }}
</style>
<rect width="100%" height="100%" fill="#fbfbfc"/>"##
    );
}

#[cfg(test)]
mod tests {
    use super::super::span;
    use super::*;

    fn picture(spans: &[TraceSpan], queues: u32) -> String {
        let (title, subtitle) = ("t", "s");
        draw(
            spans,
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
}
