//! The report as a picture: launches over threads, and below that what has changed since an earlier run.

use std::fmt::Write;

use super::figure::Verdict;
use super::report::{Comparison, Measured, Report};
use super::table::digits;
use crate::demo::svg::text;
use crate::xml::escape;

const WIDTH: f64 = 860.0;
/// Where words end and figures begin.
const LEFT: f64 = 270.0;
const RIGHT: f64 = 40.0;
const PLOT: f64 = WIDTH - LEFT - RIGHT;
/// Of the curve.
const HEIGHT: f64 = 220.0;
const TOP: f64 = 70.0;
/// Of a line of the changes.
const LINE: f64 = 24.0;
/// Changes are shown from a quarter to four times; beyond that they lie at the edge.
const RATIO_MAX: f64 = 4.0;

const STYLE: &str = "<style>text{font:13px sans-serif;fill:#24292f}.title{font-size:17px;font-weight:600}\
.quiet{fill:#6e7781;font-size:12px}.name{text-anchor:end}.tick{text-anchor:middle;fill:#6e7781;font-size:12px}\
.grid{stroke:#d0d7de}.curve{stroke:#0969da;stroke-width:2;fill:none}.whisker{stroke:#0969da}\
.better{fill:#1a7f37;stroke:#1a7f37}.worse{fill:#cf222e;stroke:#cf222e}.noise{fill:#8c959f;stroke:#8c959f}</style>\n";

/// The picture, as SVG.
pub(super) fn draw(report: &Report) -> String {
    let changes = report
        .compared
        .as_ref()
        .map_or(0, |compared| compared.changes.len() + 3);
    let height = TOP + HEIGHT + 70.0 + changes as f64 * LINE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\n\
         {STYLE}<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let device = &report.device;
    text(
        &mut svg,
        "title",
        (20.0, 30.0),
        &format!("{} ({})", device.name, device.backend),
    );
    text(
        &mut svg,
        "quiet",
        (20.0, 50.0),
        "launches, million a second, over threads; whiskers are quartiles",
    );
    curve(&mut svg, report);
    if let Some(compared) = &report.compared {
        changed(&mut svg, compared, TOP + HEIGHT + 70.0);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Launches of all threads, over how many they are.
fn curve(svg: &mut String, report: &Report) {
    let points: Vec<(usize, &Measured)> = report
        .rows
        .iter()
        .filter_map(|row| Some((row.threads?, row)))
        .collect();
    let most = points
        .iter()
        .map(|(_, row)| row.figure.most)
        .fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    let y = |value: f64| TOP + HEIGHT * (1.0 - value / most);
    let steps = points.len().saturating_sub(1).max(1) as f64;
    let x = |place: usize| LEFT + PLOT * place as f64 / steps;
    for quarter in 0..=4 {
        let value = most * f64::from(quarter) / 4.0;
        line(svg, "grid", (LEFT, y(value)), (LEFT + PLOT, y(value)));
        text(svg, "name", (LEFT - 8.0, y(value) + 4.0), &digits(value));
    }
    let mut path = String::new();
    for (place, (threads, row)) in points.iter().enumerate() {
        let (x, figure) = (x(place), &row.figure);
        let pen = if place == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{pen}{x:.1} {:.1}", y(figure.median));
        line(
            svg,
            "whisker",
            (x, y(figure.lower_quartile)),
            (x, y(figure.upper_quartile)),
        );
        let hover = format!("{}: {}", row.name, digits(figure.median));
        dot(svg, "whisker", (x, y(figure.median)), &hover);
        text(svg, "tick", (x, TOP + HEIGHT + 20.0), &threads.to_string());
    }
    let _ = writeln!(svg, r#"<path class="curve" d="{path}"/>"#);
}

/// Where a ratio lies: the same in the middle, twice and half as far from it.
fn place(ratio: f64) -> f64 {
    let far = match ratio > 0.0 {
        true => ratio.log2() / RATIO_MAX.log2(),
        false => -1.0,
    };
    LEFT + PLOT * (0.5 + far.clamp(-1.0, 1.0) / 2.0)
}

fn changed(svg: &mut String, compared: &Comparison, top: f64) {
    let title = format!(
        "beside {}: this run's median to that one's",
        compared.file.display()
    );
    text(svg, "quiet", (20.0, top), &title);
    let (first, last) = (top + LINE, top + LINE * (compared.changes.len() + 1) as f64);
    for ratio in [0.25, 0.5, 1.0, 2.0, 4.0] {
        line(svg, "grid", (place(ratio), first), (place(ratio), last));
        text(svg, "tick", (place(ratio), last + 16.0), &digits(ratio));
    }
    for (index, change) in compared.changes.iter().enumerate() {
        let y = first + LINE * (index as f64 + 0.5);
        let class = match change.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::WithinNoise => "noise",
        };
        text(svg, "name", (LEFT - 8.0, y + 4.0), &change.name);
        let [from, to] =
            [1.0 - change.noise, 1.0 + change.noise].map(|off| place(change.ratio * off));
        line(svg, class, (from, y), (to, y));
        let hover = format!(
            "{}: {:.2}, {}",
            change.name,
            change.ratio,
            change.verdict.word()
        );
        dot(svg, class, (place(change.ratio), y), &hover);
    }
}

fn line(svg: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(
        svg,
        r#"<path class="{class}" d="M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"/>"#
    );
}

fn dot(svg: &mut String, class: &str, (x, y): (f64, f64), hover: &str) {
    let _ = writeln!(
        svg,
        r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="4"><title>{}</title></circle>"#,
        escape(hover)
    );
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn the_curve_has_a_point_for_each_number_of_threads() {
        let svg = draw(&sample(&[30.0]));
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("a &lt;processor&gt; (cpu)"));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn each_change_lies_where_its_ratio_says() {
        let (mut report, before) = (sample(&[60.0, 62.0, 64.0]), sample(&[30.0, 31.0, 32.0]));
        report.compared = Some(Comparison::of(&report, &before, Path::new("old.json")));
        let svg = draw(&report);
        assert_eq!(svg.matches("<circle").count(), 2 + 3);
        assert!(svg.contains(&format!(r#"<circle class="worse" cx="{:.1}""#, place(2.0))));
        assert!(
            place(0.25) == LEFT && place(4.0) == LEFT + PLOT && place(1.0) == LEFT + PLOT / 2.0
        );
        assert!(place(0.0) == LEFT && place(100.0) == LEFT + PLOT);
    }
}
