//! Line charts as SVG: values over a logarithmic axis.

use std::fmt::Write;

use crate::digits;
use crate::plot::{STYLE, escape};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 660.0;
const TOP: f64 = 80.0;
const BOTTOM: f64 = 420.0;

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// The text at its end.
    pub name: String,
    /// Its colour, in CSS notation.
    pub colour: &'static str,
    /// Points from left to right: a value above zero on the logarithmic axis, and one on the linear axis.
    pub points: Vec<(f64, f64)>,
}

/// A chart of lines, with a logarithmic axis to the right and a linear axis from zero upwards.
///
/// ```
/// use millstream_harness::{Chart, Line};
///
/// let line = Line {
///     name: "weak".to_owned(),
///     colour: "teal",
///     points: vec![(1.0, 100.0), (64.0, 93.0)],
/// };
/// let svg = Chart::new("efficiency", "a cluster").svg("ranks", &[line]);
/// assert!(svg.contains("weak") && svg.contains("ranks"));
/// ```
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    subtitle: String,
}

impl Chart {
    /// Creates a chart.
    pub fn new(title: &str, subtitle: &str) -> Self {
        Self {
            title: escape(title),
            subtitle: escape(subtitle),
        }
    }

    /// Returns the chart with these lines as the text of an SVG file. `along` names the logarithmic axis.
    pub fn svg(&self, along: &str, lines: &[Line]) -> String {
        let points = || lines.iter().flat_map(|line| &line.points);
        let ends = |value: fn(&(f64, f64)) -> f64| {
            let values = points().map(value).filter(|value| value.is_finite());
            values.fold(
                (f64::INFINITY, f64::NEG_INFINITY),
                |(least, most), value| (least.min(value), most.max(value)),
            )
        };
        let (first, last) = ends(|point| point.0);
        let levels = levels(ends(|point| point.1).1);
        let most = levels.last().copied().unwrap_or(1.0);
        let x = |value: f64| {
            let share = (value / first).ln() / (last / first).ln();
            LEFT + (RIGHT - LEFT) * if share > 0.0 { share.min(1.0) } else { 0.0 }
        };
        let y = |value: f64| BOTTOM - (BOTTOM - TOP) * (value / most).clamp(0.0, 1.0);
        let mut body = String::new();
        let mut text = |class: &str, (x, y): (f64, f64), words: &str| {
            let _ = writeln!(
                body,
                r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{words}</text>"#
            );
        };
        text("title", (20.0, 30.0), &self.title);
        text("quiet", (20.0, 52.0), &self.subtitle);
        text(
            "tick",
            (f64::midpoint(LEFT, RIGHT), BOTTOM + 40.0),
            &escape(along),
        );
        let mut ticks: Vec<f64> = points().map(|point| point.0).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        for tick in &ticks {
            text("tick", (x(*tick), BOTTOM + 18.0), &format!("{tick:.0}"));
        }
        for level in &levels {
            text("name", (LEFT - 8.0, y(*level) + 4.0), &digits(*level));
        }
        // Names of lines that end close to each other are moved apart.
        let ending = |line: &&Line| !line.points.is_empty();
        let mut names: Vec<_> = lines.iter().filter(ending).collect();
        names.sort_by(|one, other| {
            let end = |line: &Line| line.points.last().map_or(0.0, |point| point.1);
            end(other).total_cmp(&end(one))
        });
        let mut above = TOP - 16.0;
        for line in names {
            let end = line.points.last().map_or(0.0, |point| point.1);
            above = (y(end) + 4.0).max(above + 16.0);
            text("", (RIGHT + 12.0, above), &escape(&line.name));
        }
        for level in &levels {
            let _ = writeln!(
                body,
                r##"<path stroke="#d0d7de" d="M{LEFT:.1} {0:.1}L{RIGHT:.1} {0:.1}"/>"##,
                y(*level)
            );
        }
        for line in lines {
            let mut path = String::new();
            for (index, point) in line.points.iter().enumerate() {
                let step = if index == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{step}{:.1} {:.1}", x(point.0), y(point.1));
            }
            let (colour, name) = (line.colour, escape(&line.name));
            let _ = writeln!(
                body,
                r#"<path stroke="{colour}" stroke-width="2" fill="none" d="{path}"/>"#
            );
            for point in &line.points {
                let _ = writeln!(
                    body,
                    r#"<circle fill="{colour}" cx="{:.1}" cy="{:.1}" r="4"><title>{name}, {:.0}: {}</title></circle>"#,
                    x(point.0),
                    y(point.1),
                    point.0,
                    digits(point.1),
                );
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\">\n\
             {STYLE}<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
        )
    }
}

/// Returns round values from zero to at least `most`, some four of them.
fn levels(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let unit = 10_f64.powf((most / 4.0).log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0].map(|factor| factor * unit);
    let step = round.into_iter().rfind(|step| *step <= most / 4.0);
    let step = step.unwrap_or(unit);
    let last = (most / step).ceil() as u32;
    (0..=last).map(|level| step * f64::from(level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_placed_by_both_axes_and_names_do_not_overlap() {
        let line = |name: &str, last| Line {
            name: name.to_owned(),
            colour: "red",
            points: vec![(1.0, 100.0), (16.0, 50.0), (256.0, last)],
        };
        let svg = Chart::new("a & b", "").svg("ranks", &[line("<one>", 50.0), line("two", 50.0)]);
        let middle = (f64::midpoint(LEFT, RIGHT), f64::midpoint(TOP, BOTTOM));
        let place = format!(r#"cx="{:.1}" cy="{:.1}""#, middle.0, middle.1);
        assert_eq!(svg.matches(&place).count(), 2, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 6);
        let name = |y: f64, name| format!(r#"y="{:.1}">{name}<"#, y + 4.0);
        assert!(svg.contains(&name(middle.1, "&lt;one&gt;")), "{svg}");
        assert!(svg.contains(&name(middle.1 + 16.0, "two")), "{svg}");
        assert!(svg.contains("a &amp; b"));
    }

    #[test]
    fn levels_are_round() {
        assert_eq!(levels(102.0), [0.0, 25.0, 50.0, 75.0, 100.0, 125.0]);
        assert_eq!(levels(1.0), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(levels(f64::NEG_INFINITY).len(), 5);
    }

    #[test]
    fn a_chart_without_lines_is_a_picture_without_lines() {
        let svg = Chart::new("none", "").svg("ranks", &[]);
        assert!(!svg.contains("NaN") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
