//! Draws a timeline as one SVG file.
//!
//! The picture has a lane per queue, a lane per stream, a colour per task name, an arrow per wait of a queue for another,
//! and a tooltip with name, stream and times on each span. The file is self-contained: no script, font or link.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use millstream::TraceSpan;

use super::summary::union;
use crate::svg::{document, escape, rect, text};
use crate::units::{counted, duration, tick_step, unit};

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

/// Draws the first `MAX_SPANS` of the spans. The shares in the picture are those of all spans.
pub(crate) fn draw(spans: &[TraceSpan], caption: &Caption<'_>) -> String {
    let mut all: Vec<&TraceSpan> = spans
        .iter()
        .filter(|span| span.end_ns >= span.start_ns)
        .collect();
    all.sort_by_key(|span| (span.start_ns, span.queue, span.stream));
    let shown = &all[..all.len().min(MAX_SPANS)];
    Picture::new(shown, &all, caption.queues).render(caption)
}

/// Returns the first start and the last end.
fn ends_ns(spans: &[&TraceSpan]) -> (u64, u64) {
    let start_ns = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
    let end_ns = spans.iter().map(|span| span.end_ns).max().unwrap_or(0);
    (start_ns, end_ns)
}

struct Picture<'a> {
    /// The spans that are drawn.
    shown: &'a [&'a TraceSpan],
    /// All spans, of which shares are computed.
    all: &'a [&'a TraceSpan],
    queues: u32,
    streams: BTreeSet<u64>,
    colours: HashMap<&'a str, &'static str>,
    /// The names of drawn spans in order of appearance, with their total times.
    totals_ns: Vec<(&'a str, u64)>,
    /// The start and the length of the axis.
    start_ns: u64,
    length_ns: u64,
}

/// A panel: its lanes with their labels, and the lane of each span.
struct Panel<'a> {
    top: f64,
    lane_height: f64,
    lanes: &'a [(u64, String)],
    lane_of: fn(&TraceSpan) -> u64,
}

impl<'a> Picture<'a> {
    fn new(shown: &'a [&'a TraceSpan], all: &'a [&'a TraceSpan], queues: u32) -> Self {
        let (start_ns, end_ns) = ends_ns(shown);
        let mut totals: HashMap<&str, u64> = HashMap::new();
        for span in all {
            *totals.entry(&span.name).or_default() += span.end_ns - span.start_ns;
        }
        let mut colours = HashMap::new();
        let mut totals_ns: Vec<(&str, u64)> = Vec::new();
        for span in shown {
            let taken = totals_ns.len();
            colours.entry(&*span.name).or_insert_with(|| {
                totals_ns.push((&span.name, totals[&*span.name]));
                COLOURS[taken % COLOURS.len()]
            });
        }
        let most_lanes = shown.iter().map(|span| span.queue + 1).max().unwrap_or(0);
        Self {
            shown,
            all,
            queues: queues.max(most_lanes),
            streams: shown.iter().map(|span| span.stream).collect(),
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
        let drawn = self.shown.len() as u64;
        let note = if drawn < caption.tasks {
            format!(
                " · shows {drawn} of {} tasks, shares are those of all",
                caption.tasks
            )
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

        let waits = waits(self.shown);
        let header = |svg: &mut String, top: f64, name: &str, note: &str, share: &str| {
            text(svg, "panel", (28.0, top - 14.0), name);
            text(svg, "quiet", (LEFT, top - 14.0), note);
            text(svg, "quiet end", (WIDTH - 20.0, top - 14.0), share);
        };
        let note = match waits.len() {
            0 => String::new(),
            count => format!(
                "{}: each arrow is from the end of the awaited task to the start of the task that waited",
                counted(count, "wait")
            ),
        };
        header(&mut svg, queues_top, "Queues", &note, "busy");
        self.axis(&mut svg, queues_top, queues_bottom);
        let lanes: Vec<_> = (0..self.queues)
            .map(|queue| (u64::from(queue), format!("queue {queue}")))
            .collect();
        let panel = Panel {
            top: queues_top,
            lane_height: QUEUE_LANE,
            lanes: &lanes,
            lane_of: |span| u64::from(span.queue),
        };
        self.lanes(&mut svg, &panel);
        self.arrows(&mut svg, queues_top, &waits);

        header(&mut svg, streams_top, "Streams", "", "busy");
        self.axis(&mut svg, streams_top, streams_bottom);
        let lanes: Vec<_> = self
            .streams
            .iter()
            .map(|stream| (*stream, format!("stream {stream}")))
            .collect();
        let panel = Panel {
            top: streams_top,
            lane_height: stream_lane,
            lanes: &lanes,
            lane_of: |span| span.stream,
        };
        self.lanes(&mut svg, &panel);
        document((WIDTH, height), &svg)
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

    /// Returns the share of a name in the time of all tasks.
    fn share(&self, total_ns: u64) -> String {
        let all = self.all.iter().map(|span| span.end_ns - span.start_ns);
        percent(total_ns as f64 / all.sum::<u64>().max(1) as f64)
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
                escape(&self.share(*total)),
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

    fn lanes(&self, svg: &mut String, panel: &Panel<'_>) {
        let height = panel.lane_height;
        let busy = self.busy(panel.lane_of);
        let mut by_lane: BTreeMap<u64, Vec<&TraceSpan>> = BTreeMap::new();
        for span in self.shown {
            by_lane.entry((panel.lane_of)(span)).or_default().push(span);
        }
        for (row, (lane, label)) in panel.lanes.iter().enumerate() {
            let y = panel.top + row as f64 * (height + LANE_GAP);
            let _ = writeln!(
                svg,
                r#"<rect class="lane" x="{LEFT}" y="{y:.1}" width="{PLOT}" height="{height}" rx="2"/>"#
            );
            // Only every second of the narrow lanes has a label, so that labels stay legible.
            if height >= 12.0 || row % 2 == 0 {
                let middle = y + height / 2.0 + 4.5;
                text(svg, "end", (LEFT - 12.0, middle), label);
                let share = percent(busy.get(lane).copied().unwrap_or(0.0));
                text(svg, "quiet end", (WIDTH - 20.0, middle), &share);
            }
            for span in by_lane.get(lane).into_iter().flatten() {
                self.span(svg, y, height, span);
            }
        }
    }

    /// Returns the busy share of each lane: that of all spans, as in the summary.
    fn busy(&self, lane_of: fn(&TraceSpan) -> u64) -> BTreeMap<u64, f64> {
        let (start_ns, end_ns) = ends_ns(self.all);
        let length_ns = (end_ns - start_ns).max(1) as f64;
        let mut times: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for span in self.all {
            let lane = times.entry(lane_of(span)).or_default();
            lane.push((span.start_ns, span.end_ns));
        }
        let share = |(lane, times): (u64, Vec<(u64, u64)>)| {
            let busy = union(times).into_iter().map(|(start, end)| end - start);
            (lane, busy.sum::<u64>() as f64 / length_ns)
        };
        times.into_iter().map(share).collect()
    }

    /// Draws waits between the lanes of queues.
    fn arrows(&self, svg: &mut String, top: f64, waits: &[Wait<'_>]) {
        let middle =
            |queue: u32| top + f64::from(queue) * (QUEUE_LANE + LANE_GAP) + QUEUE_LANE / 2.0;
        for Wait { before, after } in waits {
            let (x, y) = (self.x(before.end_ns), middle(before.queue));
            let (to_x, to_y) = (self.x(after.start_ns), middle(after.queue));
            let path = format!("M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}");
            let hover = format!(
                "{} on queue {} waited for {} on queue {}\nfrom {} to {}",
                after.name,
                after.queue,
                before.name,
                before.queue,
                duration(before.end_ns - self.start_ns),
                duration(after.start_ns - self.start_ns),
            );
            let _ = writeln!(
                svg,
                r#"<g class="wait"><path class="halo" d="{path}"/><path class="arrow" d="{path}"/><circle cx="{x:.1}" cy="{y:.1}" r="2.5"/><title>{}</title></g>"#,
                escape(&hover),
            );
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

/// Formats a share of 1 in percent. A share that is not zero is not shown as zero.
fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.5 => "<1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// A wait: `after` started after the end of `before`, which ran on another queue.
struct Wait<'a> {
    before: &'a TraceSpan,
    after: &'a TraceSpan,
}

/// Returns the waits between the spans. A wait for a task that has no span is a wait for the last earlier task of its
/// queue, since a queue's tasks end in order. A wait without such a task is left out.
fn waits<'a>(spans: &[&'a TraceSpan]) -> Vec<Wait<'a>> {
    let mut queues: HashMap<u32, Vec<&TraceSpan>> = HashMap::new();
    for span in spans {
        queues.entry(span.queue).or_default().push(span);
    }
    for queue in queues.values_mut() {
        queue.sort_by_key(|span| span.cursor);
    }
    let awaited = |queue: u32, cursor: u64| {
        let queue = queues.get(&queue)?;
        let behind = queue.partition_point(|span| span.cursor <= cursor);
        queue.get(behind.checked_sub(1)?).copied()
    };
    let mut waits = Vec::new();
    for after in spans {
        for wait in &after.waits {
            if let Some(before) = awaited(wait.queue, wait.cursor) {
                waits.push(Wait { before, after });
            }
        }
    }
    waits
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
