//! Prints rows as a table for terminals or as Markdown.

use millstream_harness::{Summary, Table, digits_or_dash, ratio};

use crate::report::{Report, Row, Target};

/// A warning wherever figures of the fake are shown.
pub(crate) const FAKE: &str =
    "These figures are meaningless: they were measured on the fake driver, not on a GPU.";

/// Formats the table for a terminal.
pub(crate) fn text(report: &Report) -> String {
    let (environment, table) = (environment(report), table(report, "missed").text());
    let mut text = format!("{environment}\n\n{table}\n{}\n", summary(report));
    for (group, why) in report.failures() {
        text += &format!("- {group}: {why}.\n");
    }
    if report.fake {
        text += &format!("{FAKE}\n");
    }
    text
}

/// Formats the table as Markdown.
pub(crate) fn markdown(report: &Report) -> String {
    table(report, "**missed**").markdown()
}

fn table(report: &Report, missed: &str) -> Table {
    let header = ["measure", "unit", "raw", "ours", "ratio", "target", ""];
    let mut table = Table::new(header, 2..6);
    for row in &report.rows {
        table.row(cells(row, missed));
    }
    table
}

/// Describes the machine and the run.
pub(crate) fn environment(report: &Report) -> String {
    format!(
        "{} ({}, {:.0} GiB), {}, {} with {} cores, {}, millstream {}; {}",
        report.device,
        report.capability,
        report.memory_bytes as f64 / f64::from(1 << 30),
        report.driver,
        report.processor,
        report.cores,
        report.date,
        report.version,
        match (report.quick, report.rounds) {
            (true, _) => "a quick run, not to be quoted".to_owned(),
            (false, rounds) => format!("medians of {rounds} rounds"),
        }
    )
}

/// Summarizes reached targets and failures in one line.
pub(crate) fn summary(report: &Report) -> String {
    let (reached, all) = report.reached();
    let failed = report.failures().count();
    let failed = match failed {
        0 => String::new(),
        _ => format!("; {failed} groups could not be measured"),
    };
    format!("{reached} of {all} targets reached{failed}.")
}

fn cells(row: &Row, missed: &str) -> [String; 7] {
    let median = |summary: Option<Summary>| digits_or_dash(summary.map(|summary| summary.median));
    let verdict = match (&row.failure, row.reached) {
        (Some(_), _) => "failed",
        (None, Some(true)) => "reached",
        (None, Some(false)) => missed,
        (None, None) => "",
    };
    let target = row.target.map(|target| match target {
        Target::OfRaw(_) => format!("ratio {}", target.limit()),
        Target::AtMost(_) => target.limit().to_string(),
    });
    [
        row.measure.clone(),
        row.unit.clone(),
        median(row.raw),
        median(row.ours),
        ratio(row.ratio),
        target.unwrap_or_default(),
        verdict.to_owned(),
    ]
}
