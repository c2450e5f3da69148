//! The report as SVG: launch rates by thread count, and below them the changes since an earlier run.

use millstream_harness::{Axis, Mark, Plot, Verdict};

use super::report::{Change, Measured, Report};

/// The axis of changes. Ratios outside of it are drawn at its ends.
const RATIOS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// Renders the report as SVG.
pub(super) fn draw(report: &Report) -> String {
    let device = &report.device;
    let launches: Vec<Mark> = report.rows.iter().filter_map(launches).collect();
    let most = launches.iter().map(|mark| mark.range[1]);
    let plot = Plot::new(&format!("{} ({})", device.name, device.backend)).panel(
        "launches by thread count, million/s (whiskers: quartiles)",
        &Axis::from_zero(most.fold(0.0, f64::max)),
        &launches,
    );
    let Some(compared) = &report.compared else {
        return plot.svg();
    };
    let file = compared.file.display();
    let subtitle = format!("ratio of medians, this run to {file}");
    let changes: Vec<Mark> = compared.changes.iter().map(change).collect();
    let axis = Axis::logarithmic(&RATIOS);
    plot.panel(&subtitle, &axis, &changes).svg()
}

/// Returns the mark of a row that measures a number of threads.
fn launches(row: &Measured) -> Option<Mark> {
    let threads = row.threads?;
    Some(Mark {
        name: row.name.clone(),
        value: row.summary.median,
        range: [row.summary.lower_quartile, row.summary.upper_quartile],
        colour: "#0969da",
        note: format!("{} by {threads}", row.unit.word()),
    })
}

fn change(change: &Change) -> Mark {
    Mark {
        name: change.name.clone(),
        value: change.ratio,
        range: [1.0 - change.noise, 1.0 + change.noise].map(|off| change.ratio * off),
        colour: match change.verdict {
            Verdict::Better => "#1a7f37",
            Verdict::Worse => "#cf222e",
            Verdict::WithinNoise => "#8c959f",
        },
        note: change.verdict.word().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::report::Comparison;
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn plot_has_a_mark_per_thread_count_and_per_change() {
        let (mut report, before) = (sample(&[60.0, 62.0, 64.0]), sample(&[30.0, 31.0, 32.0]));
        let svg = draw(&report);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("a &lt;processor&gt; (cpu)"), "{svg}");
        report.compared = Some(Comparison::of(&report, &before, Path::new("old.json")));
        let svg = draw(&report);
        assert_eq!(svg.matches("<circle").count(), 2 + 3);
        assert!(svg.contains("this run to old.json") && svg.contains("caller's side: 2.00 worse"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
