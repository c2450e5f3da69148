//! How rows are printed: a table for terminals, and one of Markdown.

use millstream_harness::{Figure, Table, digits_or_dash, ratio};

use crate::report::{Report, Row, Target};

/// Said wherever figures of the fake are shown.
pub(crate) const FAKE: &str = "This is the fake driver, not a GPU: these figures mean nothing.";

/// For people at a terminal.
pub(crate) fn text(report: &Report) -> String {
    let (around, table) = (circumstances(report), table(report, "missed").text());
    let mut text = format!("{around}\n\n{table}\n{}\n", sums(report));
    for (group, why) in report.failures() {
        text += &format!("- {group}: {why}.\n");
    }
    if report.fake {
        text += &format!("{FAKE}\n");
    }
    text
}

/// The same as Markdown.
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

/// Where and how it was measured.
pub(crate) fn circumstances(report: &Report) -> String {
    format!(
        "{} (compute capability {}, {:.0} GiB), driver of CUDA {}, {} with {} cores, {}, millstream {}; {}",
        report.device,
        report.capability,
        report.memory_bytes as f64 / f64::from(1 << 30),
        report.driver,
        report.processor,
        report.cores,
        report.date,
        report.version,
        match (report.quick, report.rounds) {
            (true, _) => "a quick look, not to be quoted".to_owned(),
            (false, rounds) => format!("medians of {rounds} rounds"),
        }
    )
}

/// How it went altogether.
pub(crate) fn sums(report: &Report) -> String {
    let (reached, all) = report.reached();
    let failed = report.failures().count();
    let failed = match failed {
        0 => String::new(),
        _ => format!("; {failed} did not come out"),
    };
    format!("{reached} of {all} targets reached{failed}.")
}

fn cells(row: &Row, missed: &str) -> [String; 7] {
    let median = |figure: Option<Figure>| digits_or_dash(figure.map(|figure| figure.median));
    let verdict = match (&row.failure, row.reached) {
        (Some(_), _) => "did not come out",
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
