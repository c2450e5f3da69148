//! Prints results: a table for people, one JSON object per row for programs.

use std::process::ExitCode;

use millstream_harness::{Table, digits_or_dash, ratio};

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

/// Prints the state of the machine, the table, and the failures.
pub(crate) fn print(results: &[RowResult]) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    println!("cores: {cores}, load at the end: {load}");
    let mut table = Table::new(HEADER, 2..7);
    for result in results {
        let target = result.limit.map(|limit| limit.to_string());
        let reached = match result.reached {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        table.row([
            result.measure.to_owned(),
            result.unit.to_owned(),
            digits_or_dash(result.ours),
            digits_or_dash(result.peer),
            ratio(result.ratio),
            digits_or_dash(result.reference),
            target.unwrap_or_else(|| "-".to_owned()),
            reached.to_owned(),
        ]);
    }
    println!("{}", table.text());
    for result in results {
        for failure in &result.failures {
            println!("{}: {failure}", result.measure);
        }
    }
}

/// Prints one JSON object per row.
pub(crate) fn print_json(results: &[RowResult]) -> ExitCode {
    for result in results {
        match serde_json::to_string(result) {
            Ok(line) => println!("{line}"),
            Err(error) => {
                eprintln!("cannot write a row as JSON: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
