//! Prints results: a table for people, one JSON object a row for programs.

use std::process::ExitCode;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

use super::RowResult;

const HEADER: [&str; 8] = [
    "measure",
    "unit",
    "ours",
    "peer",
    "ours/peer",
    "std",
    "target",
    "reached",
];

/// Columns that hold numbers.
const NUMBERS: std::ops::RangeInclusive<usize> = 2..=6;

/// A few digits that matter, and no more.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size < 0.1 => format!("{value:.3}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), number)
}

/// The machine as it was, the table, and below it what yielded no figures.
pub(crate) fn print(results: &[RowResult]) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    println!("cores: {cores}, load at the end: {load}");
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(HEADER);
    for column in NUMBERS {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for result in results {
        let target = match (result.at_most, result.at_least) {
            (Some(limit), _) => format!("<= {}", number(limit)),
            (None, Some(limit)) => format!(">= {}", number(limit)),
            (None, None) => "-".into(),
        };
        let reached = match result.reached {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        table.add_row([
            result.measure.to_string(),
            result.unit.to_string(),
            optional(result.ours),
            optional(result.peer),
            optional(result.ratio),
            optional(result.reference),
            target,
            reached.to_string(),
        ]);
    }
    println!("{table}");
    for result in results {
        for failure in &result.failures {
            println!("{}: {failure}", result.measure);
        }
    }
}

/// One JSON object a row.
pub(crate) fn print_json(results: &[RowResult]) -> ExitCode {
    for result in results {
        match serde_json::to_string(result) {
            Ok(line) => println!("{line}"),
            Err(error) => {
                eprintln!("a row cannot be written as JSON: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
