//! Renders the summary of a timeline as text.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::Report;
use super::summary::{Gap, Kernel, Queue};
use crate::units::duration;

/// The most names in the table. The JSON has all of them.
const KERNELS_MAX: usize = 40;

pub(super) fn render(report: &Report) -> String {
    let summary = &report.summary;
    let mut text = format!("{}: {}\n\n", report.file.display(), summary.sentence());
    let mut queues = table(["queue", "spans", "busy", "%", "longest gaps"]);
    queues.add_rows(summary.queues.iter().map(queue));
    // The gaps are text, so they are aligned to the left.
    if let Some(gaps) = queues.column_mut(4) {
        gaps.set_cell_alignment(CellAlignment::Left);
    }
    let mut kernels = table(["task", "count", "total", "median", "max"]);
    kernels.add_rows(summary.kernels.iter().take(KERNELS_MAX).map(kernel));
    text += &format!("{queues}\n\n{kernels}\n");
    let hidden = summary.kernels.len().saturating_sub(KERNELS_MAX);
    if hidden > 0 {
        text += &format!("{hidden} more with less total time; --json lists all\n");
    }
    if let Some(picture) = &report.picture {
        text += &format!("\npicture  {}\n", picture.display());
    }
    text
}

fn table(header: [&str; 5]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED.with_rounded_corners());
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn queue(queue: &Queue) -> [String; 5] {
    let gap = |gap: &Gap| format!("{} at {}", duration(gap.length_ns), duration(gap.start_ns));
    let gaps: Vec<String> = queue.longest_gaps.iter().map(gap).collect();
    [
        queue.queue.to_string(),
        queue.spans.to_string(),
        duration(queue.busy_ns),
        format!("{:.1}", queue.busy * 100.0),
        gaps.join(", "),
    ]
}

fn kernel(kernel: &Kernel) -> [String; 5] {
    [
        // A name in the file may have control characters, which must not reach the terminal.
        kernel.name.replace(char::is_control, "\u{fffd}"),
        kernel.count.to_string(),
        duration(kernel.total_ns),
        duration(kernel.median_ns),
        duration(kernel.greatest_ns),
    ]
}
