//! Renders a [`Report`] as text: a line for each row, and the changes since an earlier run.

use std::fmt::Write;

use millstream_harness::{Table, Verdict, digits, percent, ratio};

use super::report::{Change, Comparison, Report};
use crate::demo::counted;

/// A larger spread is no measure of uncertainty any more: some samples took several times as long as others.
const SPREAD_MAX: f64 = 1.0;

/// Renders the whole report, which ends with a line break.
pub(super) fn render(report: &Report) -> String {
    let device = &report.device;
    let mut text = format!(
        "{} ({}, {}): medians of {}, in {:.1} s\n\n",
        device.name,
        device.backend,
        counted(device.queues, "queue"),
        counted(
            report.rows.first().map_or(0, |row| row.summary.samples),
            "sample"
        ),
        report.seconds,
    );
    let _ = match &report.compared {
        None => writeln!(text, "{}", plain_table(report).text()),
        Some(compared) => writeln!(text, "{}", comparison_table(report, compared).text()),
    };
    text.push_str("spread: half of the samples lie within this distance of the median\n");
    if report
        .rows
        .iter()
        .any(|row| row.summary.spread() > SPREAD_MAX)
    {
        text.push_str(
            "unstable: that distance is more than the median itself; repeat on an idle machine\n",
        );
    }
    for left_out in &report.left_out {
        let _ = writeln!(text, "not measured: {}: {}", left_out.name, left_out.reason);
    }
    if let Some(compared) = &report.compared {
        notes(&mut text, compared);
    }
    if report.debug_build {
        text.push_str(
            "this is a debug build, its figures have no meaning: run `cargo run --release -- bench`\n",
        );
    } else if report.quick {
        text.push_str("figures of --quick are rough: omit it before you publish any\n");
    }
    text
}

/// Formats a spread or noise, a share of the median.
fn spread(share: f64) -> String {
    match share > SPREAD_MAX {
        true => "unstable".to_owned(),
        false => percent(share),
    }
}

fn plain_table(report: &Report) -> Table {
    let mut table = Table::new(["operation", "median", "", "spread", "min", "max"], 1..6);
    for row in &report.rows {
        let summary = &row.summary;
        table.row([
            row.name.clone(),
            digits(summary.median),
            row.unit.word().to_owned(),
            spread(summary.spread()),
            digits(summary.min),
            digits(summary.max),
        ]);
    }
    table
}

fn comparison_table(report: &Report, compared: &Comparison) -> Table {
    let header = [
        "operation",
        "median",
        "",
        "spread",
        "before",
        "ratio",
        "noise",
        "verdict",
    ];
    let mut table = Table::new(header, 1..8);
    for row in &report.rows {
        let same_row = |change: &&Change| change.name == row.name;
        let [before, ratio, noise, verdict] = match compared.changes.iter().find(same_row) {
            None => ["-", "-", "-", "-"].map(str::to_owned),
            Some(change) => [
                digits(change.before),
                ratio(Some(change.ratio)),
                spread(change.noise),
                change.verdict.word().to_owned(),
            ],
        };
        table.row([
            row.name.clone(),
            digits(row.summary.median),
            row.unit.word().to_owned(),
            spread(row.summary.spread()),
            before,
            ratio,
            noise,
            verdict,
        ]);
    }
    table
}

fn notes(text: &mut String, compared: &Comparison) {
    let count = |verdict| {
        compared
            .changes
            .iter()
            .filter(|change| change.verdict == verdict)
            .count()
    };
    let _ = writeln!(
        text,
        "compared with {}: {} better, {} worse, {} within noise (the quartiles overlap)",
        compared.file.display(),
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::WithinNoise),
    );
    if !compared.differs.is_empty() {
        let _ = writeln!(
            text,
            "the runs differ in {}: their figures are not comparable",
            compared.differs.join(", "),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn report_lists_every_row_and_every_row_that_was_not_measured() {
        let mut report = sample(&[30.0, 31.0, 32.0]);
        report.debug_build = true;
        let text = render(&report);
        for part in [
            "a <processor> (cpu, 2 queues): medians of 3 samples, in 3.2 s",
            "launch, caller's side",
            "31.0",
            "million/s",
            "3.2 %",
            "not measured: graph step and readback: no compiler",
            "debug build",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        assert!(!text.contains("verdict"));
    }

    #[test]
    fn spread_above_the_median_is_unstable() {
        let mut report = sample(&[30.0, 31.0, 32.0]);
        assert!(!render(&report).contains("unstable"));
        report.rows[0].summary.upper_quartile = 300.0 * report.rows[0].summary.median;
        let text = render(&report);
        let row = text
            .lines()
            .find(|line| line.contains(&report.rows[0].name))
            .unwrap();
        assert!(row.contains("unstable") && !row.contains('%'), "{row}");
        assert!(text.contains("unstable: that distance"), "{text}");
    }

    #[test]
    fn comparison_shows_ratios_verdicts_and_differing_settings() {
        let mut report = sample(&[60.0, 62.0, 64.0]);
        let mut before = sample(&[30.0, 31.0, 32.0]);
        before.device.name = "another".into();
        before.rows.pop();
        report.compared = Some(Comparison::of(&report, &before, Path::new("old.json")));
        let text = render(&report);
        for part in [
            "2.00",
            "6.5 %",
            "compared with old.json: 0 better, 1 worse, 1 within noise",
            "the runs differ in device: their figures are not comparable",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        let launches = text
            .lines()
            .find(|line| line.contains("launches, 2 threads"))
            .unwrap();
        assert!(launches.contains("┆      - ┆"), "{launches}");
    }
}
