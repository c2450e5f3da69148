//! How rows are printed: a table for terminals, and one of Markdown.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use crate::report::{Report, Row, Target};
use crate::stats::Figure;

const HEADER: [&str; 7] = ["measure", "unit", "raw", "ours", "ratio", "target", ""];

/// Said wherever figures of the fake are shown.
pub(crate) const FAKE: &str = "This is the fake driver, not a GPU: these figures mean nothing.";

/// For people at a terminal.
pub(crate) fn text(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED.with_rounded_corners());
    table.set_header(HEADER);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(2).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{}\n\n{table}\n{}\n", circumstances(report), sums(report));
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
    let line = |cells: [String; 7]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(HEADER.map(str::to_owned));
    text += "| --- | --- | ---: | ---: | ---: | ---: | --- |\n";
    for row in &report.rows {
        text += &line(cells(row).map(|cell| match cell.as_str() {
            "missed" => "**missed**".to_owned(),
            _ => cell.replace('|', "/"),
        }));
    }
    text
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

fn cells(row: &Row) -> [String; 7] {
    let figure = |figure: Option<Figure>| {
        figure.map_or_else(|| "-".to_owned(), |figure| number(figure.median))
    };
    let verdict = match (&row.failure, row.reached) {
        (Some(_), _) => "did not come out",
        (None, Some(true)) => "reached",
        (None, Some(false)) => "missed",
        (None, None) => "",
    };
    [
        row.measure.clone(),
        row.unit.clone(),
        figure(row.raw),
        figure(row.ours),
        row.ratio
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        match row.target {
            Some(Target::OfRaw(share)) => format!("ratio >= {share:.2}"),
            Some(Target::AtMost(limit)) => format!("<= {limit}"),
            None => String::new(),
        },
        verdict.to_owned(),
    ]
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let said = [0.0, 0.123, 1.234, 12.34, 123.4, 12_345.6].map(number);
        assert_eq!(said, ["0", "0.12", "1.23", "12.3", "123", "12346"]);
    }
}
