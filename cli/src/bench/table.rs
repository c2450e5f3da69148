//! Renders a [`Report`] as text: a line for each row, and the changes since an earlier run; and as a picture.

use std::fmt::Write;

use super::report::{Report, Verdict};
use crate::output::Table;
use crate::svg;
use crate::units::counted;

/// A larger spread is no measure of uncertainty any more: some samples took several times as long as others.
const SPREAD_MAX: f64 = 1.0;

impl Verdict {
    /// Returns the verdict as text, and its colour in pictures.
    fn word(self) -> (&'static str, &'static str) {
        match self {
            Self::Better => ("better", "#1a7f37"),
            Self::Worse => ("worse", "#cf222e"),
            Self::WithinNoise => ("within noise", "#8c959f"),
        }
    }
}

/// Renders the whole report, which ends with a line break.
pub(super) fn render(report: &Report) -> String {
    let device = &report.device;
    let samples = report.rows.first().map_or(0, |row| row.summary.samples);
    let mut text = format!(
        "{} ({}, {}): medians of {}, in {:.1} s\n\n{}\n",
        device.name,
        device.backend,
        counted(device.queues, "queue"),
        counted(samples, "sample"),
        report.seconds,
        rows(report),
    );
    text.push_str("spread: half of the samples lie within this distance of the median\n");
    if let Some(compared) = &report.compared {
        let _ = writeln!(
            text,
            "compared with {}; within noise: the quartiles overlap",
            compared.file.display()
        );
        if !compared.differs.is_empty() {
            let differs = compared.differs.join(", ");
            let _ = writeln!(
                text,
                "the runs differ in {differs}: their figures are not comparable"
            );
        }
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

fn rows(report: &Report) -> Table {
    let mut header = vec!["operation", "median", "", "spread", "min", "max"];
    if report.compared.is_some() {
        header.extend(["before", "ratio", "noise", "verdict"]);
    }
    let mut table = Table::new(&header);
    for row in &report.rows {
        let summary = &row.summary;
        let unit = if row.unit == "us" { "µs" } else { &row.unit };
        let mut cells = vec![
            row.name.clone(),
            digits(summary.median),
            unit.to_owned(),
            spread(summary.spread()),
            digits(summary.min),
            digits(summary.max),
        ];
        if report.compared.is_some() {
            cells.extend(match &row.change {
                None => ["-", "-", "-", "-"].map(str::to_owned),
                Some(change) => [
                    digits(change.before),
                    format!("{:.2}", change.ratio),
                    spread(change.noise),
                    change.verdict.word().0.to_owned(),
                ],
            });
        }
        table.row(cells);
    }
    table
}

/// Formats a value with three significant digits.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        magnitude => (2 - magnitude.log10().floor() as i64).clamp(0, 6) as usize,
    };
    format!("{value:.decimals$}")
}

/// Formats a spread or noise, a share of the median.
fn spread(share: f64) -> String {
    match share > SPREAD_MAX {
        true => "unstable".to_owned(),
        false => format!("{:.1} %", share * 100.0),
    }
}

/// Draws the launch rates by thread count, and below them the changes since an earlier run.
pub(super) fn draw(report: &Report) -> String {
    let rates = report.rows.iter().filter(|row| row.threads.is_some());
    let most = rates.clone().map(|row| row.summary.median);
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    let (mut body, mut y) = (String::new(), 10.0);
    let (name, backend) = (&report.device.name, &report.device.backend);
    let title = format!("{name} ({backend}): launches by thread count");
    heading(&mut body, &mut y, &title);
    for row in rates {
        let (median, unit) = (row.summary.median, &row.unit);
        let text = format!("{} {unit}", digits(median));
        bar(
            &mut body,
            &mut y,
            &row.name,
            (median / most, "#0969da"),
            &text,
        );
    }
    if let Some(compared) = &report.compared {
        let file = compared.file.display();
        let title = format!("ratio of medians, this run to {file}; the longest bars: 2 or more");
        heading(&mut body, &mut y, &title);
    }
    for row in &report.rows {
        if let Some(change) = &row.change {
            let (word, colour) = change.verdict.word();
            // The scale ends at twice the earlier median.
            let share = (change.ratio / 2.0).min(1.0);
            let text = format!("{:.2} {word}", change.ratio);
            bar(&mut body, &mut y, &row.name, (share, colour), &text);
        }
    }
    svg::document((860.0, y + 10.0), &body)
}

/// Draws the heading of a panel at `y`, and moves `y` below it.
fn heading(body: &mut String, y: &mut f64, title: &str) {
    svg::text(body, "panel", (20.0, *y + 20.0), title);
    *y += 36.0;
}

/// Draws a bar at `y` with its name before and text behind it, and moves `y` below it. Its length is a share of the panel.
fn bar(body: &mut String, y: &mut f64, name: &str, (share, colour): (f64, &str), text: &str) {
    svg::text(body, "end", (260.0, *y + 12.0), name);
    svg::rect(body, (270.0, *y), (400.0 * share, 15.0), colour, "");
    svg::text(body, "quiet", (680.0, *y + 12.0), text);
    *y += 20.0;
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn report_lists_every_row() {
        let mut report = sample(&[30.0, 31.0, 32.0]);
        report.debug_build = true;
        let text = render(&report);
        for part in [
            "a <processor> (cpu, 2 queues): medians of 3 samples, in 3.2 s",
            "launch, caller's side",
            "31.0",
            "million/s",
            "3.2 %",
            "debug build",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        assert!(!text.contains("verdict") && !text.contains("unstable"));
        report.rows[0].summary.upper_quartile = 300.0 * report.rows[0].summary.median;
        assert!(render(&report).contains("unstable"));
    }

    #[test]
    fn comparison_shows_ratios_verdicts_and_differing_settings() {
        let mut report = sample(&[60.0, 62.0, 64.0]);
        let mut before = sample(&[30.0, 31.0, 32.0]);
        before.device.name = "another".into();
        before.rows.pop();
        report.compare(&before, Path::new("old.json"));
        let text = render(&report);
        for part in [
            "2.00",
            "6.5 %",
            "compared with old.json",
            "the runs differ in device: their figures are not comparable",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        let svg = draw(&report);
        assert!(svg.contains("a &lt;processor&gt; (cpu)"), "{svg}");
        assert!(svg.contains("this run to old.json") && svg.contains("2.00 worse"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn values_have_three_significant_digits() {
        let actual = [0.0, 0.012_34, 1.234, 12.34, 123.4, 12_345.0].map(digits);
        assert_eq!(actual, ["0", "0.0123", "1.23", "12.3", "123", "12345"]);
    }
}
