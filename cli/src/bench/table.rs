//! The report for people: a line for each row, and what has changed since an earlier run.
//!
//! Pure: from a [`Report`] to text.

use std::fmt::Write;

use super::figure::Verdict;
use super::report::{Change, Comparison, Report};
use crate::demo::{counted, new_table};

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
        None => writeln!(text, "{}", alone(report)),
        Some(compared) => writeln!(text, "{}", beside(report, compared)),
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

fn alone(report: &Report) -> comfy_table::Table {
    let mut table = new_table(["path", "median", "", "spread", "least", "most"]);
    for row in &report.rows {
        let figure = &row.figure;
        table.add_row([
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

fn beside(report: &Report, compared: &Comparison) -> comfy_table::Table {
    let mut table = new_table([
        "path", "median", "", "spread", "before", "ratio", "noise", "so",
    ]);
    for row in &report.rows {
        let is_it = |change: &&Change| change.name == row.name;
        let [before, ratio, noise, so] = match compared.changes.iter().find(is_it) {
            None => ["-", "-", "-", "-"].map(str::to_owned),
            Some(change) => [
                digits(change.before),
                format!("{:.2}", change.ratio),
                percent(change.noise),
                change.verdict.word().to_owned(),
            ],
        };
        table.add_row([
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

/// Three digits that matter: 0.0123, 1.23, 12.3, 123, 12300.
pub(super) fn digits(value: f64) -> String {
    let decimals = match value {
        0.0 => 0,
        value => (2 - value.abs().log10().floor() as i64).clamp(0, 6) as usize,
    };
    format!("{value:.decimals$}")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let told = [0.0, 0.012_34, 1.234, 12.34, 123.4, 12_345.0, 100.0].map(digits);
        assert_eq!(told, ["0", "0.0123", "1.23", "12.3", "123", "12345", "100"]);
    }

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
