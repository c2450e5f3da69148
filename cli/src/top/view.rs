//! Draws a frame to a buffer of any size. The lower parts are omitted if the buffer is too small.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use millstream::MAX_QUEUES;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table, Widget};

use super::frame::{Client, Frame, Quantiles, Queue};
use crate::units::bytes;

/// The rates that are kept for the sparkline: as many as a wide terminal has columns.
const HISTORY_MAX: usize = 300;

/// The width of a queue's bar, in characters.
const BAR: usize = 12;

/// The order of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// By memory in use.
    #[default]
    Memory,
    /// By completed tasks.
    Tasks,
    /// By the tasks that their streams hold.
    Held,
    /// By name.
    Name,
}

impl Sort {
    /// Returns the next order of the cycle.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Memory => Self::Tasks,
            Self::Tasks => Self::Held,
            Self::Held => Self::Name,
            Self::Name => Self::Memory,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Tasks => "tasks",
            Self::Held => "held",
            Self::Name => "name",
        }
    }
}

/// The state of the view.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) frame: Option<Frame>,
    /// The tasks per second, oldest first.
    pub(crate) rates: VecDeque<u64>,
    pub(crate) sort: Sort,
    pub(crate) is_paused: bool,
    /// A problem of the source, if there is one.
    pub(crate) notice: Option<String>,
}

impl View {
    /// Shows `frame`, unless the view is paused or shows it already.
    pub(crate) fn update(&mut self, frame: Frame) {
        let is_current = self
            .frame
            .as_ref()
            .is_some_and(|current| current.at_ms == frame.at_ms);
        if is_current || self.is_paused {
            return;
        }
        if self.rates.len() == HISTORY_MAX {
            self.rates.pop_front();
        }
        self.rates.push_back(frame.tasks_per_second as u64);
        self.frame = Some(frame);
    }
}

/// Draws the view on the whole buffer.
pub(crate) fn draw(canvas: &mut Buffer, view: &View) {
    let all = canvas.area;
    let Some(frame) = &view.frame else {
        let text = view
            .notice
            .as_deref()
            .unwrap_or("waiting for the first frame");
        return Paragraph::new(text.to_owned()).render(all, canvas);
    };
    let latency_rows = if frame.latencies.is_some() { 5 } else { 0 };
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(3),
        Constraint::Length(1 + queues(frame).len() as u16),
        Constraint::Length(1),
        Constraint::Length(latency_rows),
        Constraint::Length(2),
        Constraint::Length(3),
        Constraint::Fill(1),
        Constraint::Length(1),
    ]);
    let [
        title,
        counts,
        queues,
        memory,
        latencies,
        faults,
        rates,
        clients,
        keys,
    ] = parts.areas(all);
    heading(frame, view).render(title, canvas);
    Paragraph::new(counters(frame)).render(counts, canvas);
    queue_table(frame).render(queues, canvas);
    Paragraph::new(memory_line(frame)).render(memory, canvas);
    if let Some(table) = latency_table(frame) {
        table.render(latencies, canvas);
    }
    Paragraph::new(fault_lines(frame)).render(faults, canvas);
    draw_rates(canvas, rates, view);
    client_table(frame, view.sort).render(clients, canvas);
    let text = format!(
        "q quit   p {}   s sort by {}",
        if view.is_paused { "resume" } else { "pause" },
        view.sort.next().name()
    );
    Line::from(text).dim().render(keys, canvas);
}

fn heading(frame: &Frame, view: &View) -> Line<'static> {
    let uptime = Duration::from_secs(frame.uptime_s as u64);
    let text = format!(
        "millstream {} on {}, process {}, {uptime:?}",
        frame.command, frame.device, frame.pid
    );
    let mut parts = vec![Span::from(text).bold()];
    if frame.epoch > 0 {
        parts.push(Span::from(format!(", epoch {}", frame.epoch)));
    }
    if let Some(notice) = &view.notice {
        parts.push(Span::from(format!("  {notice}")).reversed());
    }
    Line::from(parts)
}

fn counters(frame: &Frame) -> Vec<Line<'static>> {
    vec![
        Line::from(format!(
            "tasks    {} ({}/s), {} launches, {} held by {} streams",
            grouped(frame.tasks),
            grouped(frame.tasks_per_second as u64),
            grouped(frame.launches),
            grouped(frame.tasks_held),
            grouped(frame.streams)
        )),
        Line::from(format!(
            "batches  {} (median {} tasks), waits {} issued, {} implied",
            grouped(frame.batches),
            frame.batch_p50,
            grouped(frame.waits_issued),
            grouped(frame.waits_implied)
        )),
        Line::from(format!(
            "mailbox  {} of {}",
            frame.mailbox_depth, frame.mailbox_capacity
        )),
    ]
}

fn header_row<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::UNDERLINED))
}

/// Returns the queues, at most as many as a device can have: the file is not trusted.
fn queues(frame: &Frame) -> &[Queue] {
    &frame.queues[..frame.queues.len().min(MAX_QUEUES)]
}

fn queue_table(frame: &Frame) -> Table<'static> {
    let row = |(number, queue): (usize, &Queue)| {
        let depth = format!(
            "{} {} of {}",
            bar(queue.depth, queue.depth_max),
            queue.depth,
            queue.depth_max
        );
        Row::new([
            number.to_string(),
            depth,
            format!("{:.0} %", 100.0 * queue.busy),
            grouped(queue.held),
            queue.streams.to_string(),
            grouped(queue.tasks),
        ])
    };
    let widths = [5, 27, 6, 9, 9, 16].map(Constraint::Length);
    Table::new(queues(frame).iter().enumerate().map(row), widths).header(header_row([
        "queue",
        "in flight",
        "busy",
        "held",
        "streams",
        "tasks",
    ]))
}

fn memory_line(frame: &Frame) -> Line<'static> {
    let memory = &frame.memory;
    Line::from(format!(
        "memory   {} in use in {} slices, {} reserved, {} waiting, peak {}",
        bytes(memory.in_use),
        grouped(memory.slices),
        bytes(memory.reserved),
        bytes(memory.waiting),
        bytes(memory.high_water)
    ))
}

fn latency_table(frame: &Frame) -> Option<Table<'static>> {
    let latencies = frame.latencies.as_ref()?;
    let row = |(name, latency): (&'static str, Quantiles)| {
        Row::new([
            name.to_owned(),
            time(latency.p50_ns, latency.count),
            time(latency.p90_ns, latency.count),
            time(latency.p99_ns, latency.count),
            grouped(latency.count),
        ])
    };
    let rows = [
        ("task, until issued", latencies.queued),
        ("task, until complete", latencies.runs),
        ("slice, until free", latencies.slices),
        ("value, until dropped", latencies.values),
    ];
    let widths = [22, 10, 10, 10, 10].map(Constraint::Length);
    Some(
        Table::new(rows.map(row), widths)
            .header(header_row(["latency", "p50", "p90", "p99", "samples"])),
    )
}

fn fault_lines(frame: &Frame) -> Vec<Line<'static>> {
    let faults = frame.faults.iter();
    let faults: Vec<_> = faults
        .map(|(reason, count)| format!("{reason} {}", grouped(*count)))
        .collect();
    let faults = match faults.is_empty() {
        true => "none".to_owned(),
        false => faults.join(", "),
    };
    vec![
        Line::from(format!("faults   {faults}")),
        Line::from(format!(
            "slices   {} poisoned; waiting to be freed: {} slices, {} values",
            grouped(frame.slices_poisoned),
            grouped(frame.slices_waiting),
            grouped(frame.values_waiting)
        )),
    ]
}

fn draw_rates(canvas: &mut Buffer, area: Rect, view: &View) {
    let width = usize::from(area.width);
    let skipped = view.rates.len().saturating_sub(width);
    let rates: Vec<u64> = view.rates.iter().skip(skipped).copied().collect();
    let most = rates.iter().copied().max().unwrap_or(0);
    let block = Block::new().title(format!("tasks/s, max {}", grouped(most)));
    Sparkline::default()
        .data(&rates)
        .block(block)
        .render(area, canvas);
}

fn client_table(frame: &Frame, sort: Sort) -> Table<'static> {
    let mut clients: Vec<&Client> = frame.clients.iter().collect();
    match sort {
        Sort::Memory => clients.sort_by_key(|client| Reverse(client.in_use)),
        Sort::Tasks => clients.sort_by_key(|client| Reverse(client.tasks)),
        Sort::Held => clients.sort_by_key(|client| Reverse(client.tasks_held)),
        Sort::Name => clients.sort_by(|one, other| one.name.cmp(&other.name)),
    }
    let row = |client: &Client| {
        Row::new([
            client.name.clone(),
            bytes(client.in_use),
            bytes(client.high_water),
            client.streams.to_string(),
            grouped(client.tasks),
            grouped(client.tasks_held),
        ])
    };
    let widths = [
        Constraint::Min(12),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(14),
        Constraint::Length(8),
    ];
    let title = format!("{} clients", grouped(frame.clients_total));
    Table::new(clients.into_iter().map(row), widths)
        .header(header_row([
            "client", "in use", "peak", "streams", "tasks", "held",
        ]))
        .block(Block::new().title(title))
}

/// Draws a bar of `now` out of `most`, with at least one block unless `now` is 0.
fn bar(now: u64, most: u64) -> String {
    // `u128`, since the product can exceed `u64`.
    let filled = (u128::from(now.min(most)) * BAR as u128).div_ceil(u128::from(most.max(1)));
    let filled = filled as usize;
    "█".repeat(filled) + &"░".repeat(BAR - filled)
}

fn time(ns: u64, count: u64) -> String {
    match count {
        0 => "-".to_owned(),
        _ => format!("{:.3?}", Duration::from_nanos(ns)),
    }
}

/// Formats a number with separators between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
