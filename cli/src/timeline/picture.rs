//! Draws a timeline as one SVG file.
//!
//! The picture has a lane per queue, a lane per stream, a colour per task name, an arrow per wait of a queue for another,
//! and a tooltip with name, stream and times on each span. The file is self-contained: no script, font or link.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use millstream::report::TraceSpan;

use super::summary::{Summary, lanes};
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
const LEGEND_COLUMNS: usize = 6;
/// The most letters of a name in the legend, which fit in a column.
const LEGEND_LETTERS: usize = 24;
const PANEL_TITLE: f64 = 34.0;
const LANE_GAP: f64 = 4.0;
const QUEUE_LANE: f64 = 30.0;
const STREAM_LANE: f64 = 16.0;
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

/// Draws the first `MAX_SPANS` of the spans. The shares in the picture are those of all spans, which have this summary.
pub(crate) fn draw(spans: &[TraceSpan], summary: &Summary, caption: &Caption<'_>) -> String {
    let mut shown: Vec<&TraceSpan> = spans.iter().collect();
    shown.sort_by_key(|span| (span.start_ns, span.queue, span.stream));
    shown.truncate(MAX_SPANS);
    let start_ns = shown.first().map_or(0, |span| span.start_ns);
    let end_ns = shown.iter().map(|span| span.end_ns).max().unwrap_or(0);
    let names = summary.kernels.iter().map(|kernel| &*kernel.name);
    let picture = Picture {
        shown,
        spans,
        summary,
        colours: names.zip(COLOURS.iter().copied().cycle()).collect(),
        start_ns,
        length_ns: (end_ns - start_ns).max(1),
    };
    picture.render(caption)
}

struct Picture<'a> {
    /// The spans that are drawn.
    shown: Vec<&'a TraceSpan>,
    /// All spans, of which shares are computed.
    spans: &'a [TraceSpan],
    summary: &'a Summary,
    colours: HashMap<&'a str, &'static str>,
    /// The start and the length of the axis.
    start_ns: u64,
    length_ns: u64,
}

/// A panel: its place, its lanes, and the lane of each span.
struct Panel {
    name: &'static str,
    top: f64,
    lane_height: f64,
    lanes: Vec<u64>,
    lane_of: fn(&TraceSpan) -> u64,
}

impl Panel {
    /// Returns the top of a lane; of the lane behind the last one, the bottom of the panel.
    fn y(&self, row: usize) -> f64 {
        self.top + row as f64 * (self.lane_height + LANE_GAP)
    }
}

impl Picture<'_> {
    fn render(&self, caption: &Caption<'_>) -> String {
        let mut svg = String::new();
        let (drawn, tasks) = (self.shown.len() as u64, caption.tasks);
        let note = match drawn < tasks {
            true => format!(" · shows {drawn} of {tasks} tasks, shares are those of all"),
            false => String::new(),
        };
        let subtitle = format!("{}{note}", caption.subtitle);
        text(&mut svg, "title", (28.0, 42.0), caption.title);
        text(&mut svg, "quiet", (28.0, 66.0), &subtitle);
        let legend_rows = self.legend(&mut svg);

        let queues = self.shown.iter().map(|span| span.queue + 1).max();
        let queues = Panel {
            name: "queue",
            top: HEADER + legend_rows as f64 * LEGEND_ROW + PANEL_TITLE,
            lane_height: QUEUE_LANE,
            lanes: (0..queues.unwrap_or(0).max(caption.queues).into()).collect(),
            lane_of: |span| span.queue.into(),
        };
        let streams: BTreeSet<u64> = self.shown.iter().map(|span| span.stream).collect();
        let streams = Panel {
            name: "stream",
            top: queues.y(queues.lanes.len()) + AXIS + PANEL_TITLE,
            lane_height: STREAM_LANE,
            lanes: streams.into_iter().collect(),
            lane_of: |span| span.stream,
        };
        let waits = waits(&self.shown);
        let note = match waits.len() {
            0 => String::new(),
            count => format!(
                "{}: each arrow is from the end of the awaited task to the start of the task that waited",
                counted(count, "wait")
            ),
        };
        self.panel(&mut svg, &queues, &note);
        self.arrows(&mut svg, &queues, &waits);
        self.panel(&mut svg, &streams, "");
        let height = streams.y(streams.lanes.len()) + AXIS + 12.0;
        document((WIDTH, height), &svg)
    }

    fn x(&self, ns: u64) -> f64 {
        LEFT + (ns - self.start_ns) as f64 / self.length_ns as f64 * PLOT
    }

    /// Draws the colours of the names and their shares in the time of all tasks. Returns the number of rows.
    fn legend(&self, svg: &mut String) -> usize {
        let kernels = &self.summary.kernels;
        let all = kernels.iter().map(|kernel| kernel.total_ns).sum::<u64>();
        for (index, kernel) in kernels.iter().enumerate() {
            let x = 28.0 + (index % LEGEND_COLUMNS) as f64 * (WIDTH / LEGEND_COLUMNS as f64);
            let y = HEADER + (index / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
            let colour = self.colours[&*kernel.name];
            rect(svg, (x, y + 2.0), (14.0, 14.0), colour, "");
            let share = percent(kernel.total_ns as f64 / all.max(1) as f64);
            let name: String = kernel.name.chars().take(LEGEND_LETTERS).collect();
            text(svg, "", (x + 21.0, y + 13.5), &format!("{name} {share}"));
        }
        kernels.len().div_ceil(LEGEND_COLUMNS).max(1)
    }

    fn panel(&self, svg: &mut String, panel: &Panel, note: &str) {
        let title = panel.top - 14.0;
        text(svg, "panel", (28.0, title), &format!("{}s", panel.name));
        text(svg, "quiet", (LEFT, title), note);
        text(svg, "quiet end", (WIDTH - 20.0, title), "busy");
        self.axis(svg, panel.top, panel.y(panel.lanes.len()));
        // Of all spans, as in the summary.
        let busy = lanes(self.spans, panel.lane_of).into_iter();
        let busy: HashMap<u64, f64> = busy.map(|lane| (lane.queue, lane.busy)).collect();
        let rows: HashMap<u64, usize> = panel.lanes.iter().copied().zip(0..).collect();
        let height = panel.lane_height;
        for (lane, row) in panel.lanes.iter().zip(0..) {
            let y = panel.y(row);
            let _ = writeln!(
                svg,
                r#"<rect class="lane" x="{LEFT}" y="{y:.1}" width="{PLOT}" height="{height}" rx="2"/>"#
            );
            let middle = y + height / 2.0 + 4.5;
            let label = format!("{} {lane}", panel.name);
            text(svg, "end", (LEFT - 12.0, middle), &label);
            let share = percent(busy.get(lane).copied().unwrap_or(0.0));
            text(svg, "quiet end", (WIDTH - 20.0, middle), &share);
        }
        for span in &self.shown {
            self.span(svg, panel.y(rows[&(panel.lane_of)(span)]), height, span);
        }
    }

    fn axis(&self, svg: &mut String, top: f64, bottom: f64) {
        let step = tick_step(self.length_ns);
        let (unit, unit_ns) = unit(self.length_ns);
        let decimals = if step < unit_ns { 1 } else { 0 };
        let (top, end) = (top - 4.0, bottom + 4.0);
        for at in (0..=self.length_ns / step).map(|tick| tick * step) {
            let x = self.x(self.start_ns + at);
            let _ = writeln!(svg, r#"<path class="grid" d="M{x:.1} {top:.1}V{end:.1}"/>"#);
            let value = at as f64 / unit_ns as f64;
            let label = format!("{value:.decimals$} {unit}");
            text(svg, "quiet middle", (x, bottom + 20.0), &label);
        }
    }

    /// Draws waits between the lanes of queues.
    fn arrows(&self, svg: &mut String, queues: &Panel, waits: &[Wait<'_>]) {
        let after_start = |ns: u64| duration(ns - self.start_ns);
        for Wait { before, after } in waits {
            let middle = |span: &TraceSpan| queues.y(span.queue as usize) + QUEUE_LANE / 2.0;
            let (x, y) = (self.x(before.end_ns), middle(before));
            let (to_x, to_y) = (self.x(after.start_ns), middle(after));
            let path = format!("M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}");
            let hover = escape(&format!(
                "{} on queue {} waited for {} on queue {}\nfrom {} to {}",
                after.name,
                after.queue,
                before.name,
                before.queue,
                after_start(before.end_ns),
                after_start(after.start_ns),
            ));
            let _ = writeln!(
                svg,
                r#"<g class="wait"><path class="halo" d="{path}"/><path class="arrow" d="{path}"/><circle cx="{x:.1}" cy="{y:.1}" r="2.5"/><title>{hover}</title></g>"#
            );
        }
    }

    fn span(&self, svg: &mut String, y: f64, height: f64, span: &TraceSpan) {
        let (x, end) = (self.x(span.start_ns), self.x(span.end_ns));
        let size = ((end - x).max(SPAN_WIDTH_MIN), height);
        let after_start = |ns: u64| duration(ns - self.start_ns);
        let hover = format!(
            "{}: {}\nstream {}, queue {}\nfrom {} to {}",
            span.name,
            duration(span.end_ns - span.start_ns),
            span.stream,
            span.queue,
            after_start(span.start_ns),
            after_start(span.end_ns),
        );
        rect(svg, (x, y), size, self.colours[&*span.name], &hover);
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
