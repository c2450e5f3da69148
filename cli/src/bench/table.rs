//! The report for people: a line for each row, and what has changed since an earlier run.
//!
//! Pure: from a [`Report`] to text.

use std::fmt::Write;

use millstream_harness::{Table, Verdict, digits, percent, ratio};

use super::report::{Change, Comparison, Report};
use crate::demo::counted;

/// The whole report, with a line break at its end.
pub(super) fn render(report: &Report) -> String {
    let device = &report.device;
    let mut text = format!(
        "{} ({}, {}): medians of {}, in {:.1} s\n\n",
        device.name,
        device.backend,
        counted(device.queues, "queue"),
        counted(
            report.rows.first().map_or(0, |row| row.figure.samples),
            "sample"
        ),
        report.seconds,
    );
    let _ = match &report.compared {
        None => writeln!(text, "{}", alone(report).text()),
        Some(compared) => writeln!(text, "{}", beside(report, compared).text()),
    };
    text.push_str("spread: half of the samples lie within so much of the median\n");
    for left_out in &report.left_out {
        let _ = writeln!(text, "left out: {}: {}", left_out.name, left_out.reason);
    }
    if let Some(compared) = &report.compared {
        notes(&mut text, compared);
    }
    if report.debug_build {
        text.push_str(
            "this is a debug build, whose figures mean nothing: `cargo run --release -- bench`\n",
        );
    } else if report.quick {
        text.push_str("--quick is for looking: leave it out for figures to be quoted\n");
    }
    text
}

fn alone(report: &Report) -> Table {
    let mut table = Table::new(["path", "median", "", "spread", "least", "most"], 1..6);
    for row in &report.rows {
        let figure = &row.figure;
        table.row([
            row.name.clone(),
            digits(figure.median),
            row.unit.word().to_owned(),
            percent(figure.spread()),
            digits(figure.least),
            digits(figure.most),
        ]);
    }
    table
}

fn beside(report: &Report, compared: &Comparison) -> Table {
    let header = [
        "path", "median", "", "spread", "before", "ratio", "noise", "so",
    ];
    let mut table = Table::new(header, 1..8);
    for row in &report.rows {
        let is_it = |change: &&Change| change.name == row.name;
        let [before, ratio, noise, so] = match compared.changes.iter().find(is_it) {
            None => ["-", "-", "-", "-"].map(str::to_owned),
            Some(change) => [
                digits(change.before),
                ratio(Some(change.ratio)),
                percent(change.noise),
                change.verdict.word().to_owned(),
            ],
        };
        table.row([
            row.name.clone(),
            digits(row.figure.median),
            row.unit.word().to_owned(),
            percent(row.figure.spread()),
            before,
            ratio,
            noise,
            so,
        ]);
    }
    table
}

fn notes(text: &mut String, compared: &Comparison) {
    let of = |verdict| {
        compared
            .changes
            .iter()
            .filter(|change| change.verdict == verdict)
            .count()
    };
    let _ = writeln!(
        text,
        "beside {}: {} better, {} worse, {} within noise (their quartiles overlap)",
        compared.file.display(),
        of(Verdict::Better),
        of(Verdict::Worse),
        of(Verdict::WithinNoise),
    );
    if !compared.differs.is_empty() {
        let _ = writeln!(
            text,
            "that run was of another {}: these figures do not compare",
            compared.differs.join(", another "),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn every_row_is_told_and_what_is_left_out() {
        let mut report = sample(&[30.0, 31.0, 32.0]);
        report.debug_build = true;
        let text = render(&report);
        for part in [
            "a <processor> (cpu, 2 queues): medians of 3 samples, in 3.2 s",
            "a launch, caller's side",
            "31.0",
            "million/s",
            "3.2 %",
            "left out: a step of a graph and its answer: no compiler",
            "debug build",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        assert!(!text.contains("ratio"));
    }

    #[test]
    fn what_has_changed_stands_beside() {
        let mut report = sample(&[60.0, 62.0, 64.0]);
        let mut before = sample(&[30.0, 31.0, 32.0]);
        before.device.name = "another".into();
        before.rows.pop();
        report.compared = Some(Comparison::of(&report, &before, Path::new("old.json")));
        let text = render(&report);
        for part in [
            "2.00",
            "6.5 %",
            "beside old.json: 0 better, 1 worse, 1 within noise",
            "that run was of another device: these figures do not compare",
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
