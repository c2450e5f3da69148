//! Line charts as SVG: values over a logarithmic axis.

use std::fmt::Write;

use crate::digits;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 660.0;
const TOP: f64 = 80.0;
const BOTTOM: f64 = 420.0;
/// The height of a line of the legend.
const NAME_HEIGHT: f64 = 20.0;

const STYLE: &str = "<style>text{font:13px sans-serif;fill:#24292f}.title{font-size:17px;font-weight:600}\
.panel{font-weight:600}.quiet,.tick{fill:#57606a;font-size:12px}.name{text-anchor:end}.tick{text-anchor:middle}</style>\n";

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// The text of the legend.
    pub name: String,
    /// Its colour, in CSS notation.
    pub colour: &'static str,
    /// Points from left to right: a value above zero on the logarithmic axis, and one on the linear axis.
    pub points: Vec<(f64, f64)>,
}

/// Returns a chart of lines as the text of an SVG file: with a logarithmic axis to the right, which `along` names, and a
/// linear axis from zero upwards.
///
/// ```
/// use millstream_harness::{Line, chart};
///
/// let line = Line {
///     name: "weak".to_owned(),
///     colour: "teal",
///     points: vec![(1.0, 100.0), (64.0, 93.0)],
/// };
/// let svg = chart(["efficiency", "a cluster"], "ranks", &[line]);
/// assert!(svg.contains("weak") && svg.contains("ranks"));
/// ```
pub fn chart([title, subtitle]: [&str; 2], along: &str, lines: &[Line]) -> String {
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
    text("title", (20.0, 30.0), &escape(title));
    text("quiet", (20.0, 52.0), &escape(subtitle));
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
        text("name", (LEFT - 8.0, y(*level) + 4.0), &tick_text(*level));
    }
    for level in &levels {
        let _ = writeln!(
            body,
            r##"<path stroke="#d0d7de" d="M{LEFT:.1} {0:.1}L{RIGHT:.1} {0:.1}"/>"##,
            y(*level)
        );
    }
    for (line, row) in lines.iter().zip(0..) {
        let mut path = String::new();
        for (index, point) in line.points.iter().enumerate() {
            let step = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{step}{:.1} {:.1}", x(point.0), y(point.1));
        }
        let (colour, name) = (line.colour, escape(&line.name));
        let _ = writeln!(
            body,
            r#"<path stroke="{colour}" stroke-width="2" fill="none" d="{path}"/><text style="fill:{colour}" x="{:.1}" y="{:.1}">{name}</text>"#,
            RIGHT + 12.0,
            TOP + NAME_HEIGHT * f64::from(row),
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

/// Returns round values from zero to at least `most`: three to nine of them, a constant step apart. From zero to one if
/// `most` is not above zero.
fn levels(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let unit = 10_f64.powf((most / 4.0).log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0].map(|factor| factor * unit);
    let step = round.into_iter().rfind(|step| *step <= most / 4.0);
    let step = step.unwrap_or(unit);
    // A value that rounding puts a little above a tick needs no further one.
    let last = (most / step - 1e-9).ceil() as u32;
    (0..=last).map(|level| step * f64::from(level)).collect()
}

/// Formats a tick with three significant digits, without zeros at the end of a fraction: 0.25, 2.5, 25, 1024.
fn tick_text(value: f64) -> String {
    let text = digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Escapes text for use anywhere in XML, and replaces characters that XML forbids, so that no name breaks the file.
fn escape(text: &str) -> String {
    let allowed = |c: char| match c {
        c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => '\u{fffd}',
        c => c,
    };
    let text: String = text.chars().map(allowed).collect();
    let text = text.replace('&', "&amp;").replace('"', "&quot;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_placed_by_both_axes_and_names_are_escaped() {
        let line = |name: &str| Line {
            name: name.to_owned(),
            colour: "red",
            points: vec![(1.0, 100.0), (16.0, 50.0), (256.0, 50.0)],
        };
        let svg = chart(["a & b", ""], "ranks", &[line("<one>"), line("two")]);
        let middle = (f64::midpoint(LEFT, RIGHT), f64::midpoint(TOP, BOTTOM));
        let place = format!(r#"cx="{:.1}" cy="{:.1}""#, middle.0, middle.1);
        assert_eq!(svg.matches(&place).count(), 2, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains(r#"y="80.0">&lt;one&gt;<"#), "{svg}");
        assert!(svg.contains(r#"y="100.0">two<"#), "{svg}");
        assert!(svg.contains("a &amp; b"));
    }

    #[test]
    fn a_chart_without_lines_is_a_picture_without_lines() {
        let svg = chart(["none", ""], "ranks", &[]);
        assert!(!svg.contains("NaN") && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn levels_are_round() {
        assert_eq!(levels(102.0), [0.0, 25.0, 50.0, 75.0, 100.0, 125.0]);
        assert_eq!(levels(1.0), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(levels(f64::NEG_INFINITY).len(), 5);
        for tenth in 1..2_000 {
            let levels = levels(f64::from(tenth) / 10.0);
            assert!((5..=9).contains(&levels.len()), "{levels:?}");
        }
    }

    #[test]
    fn ticks_have_no_zeros_at_the_end_of_a_fraction() {
        let texts = [0.0, 0.25, 0.5, 2.5, 7.5, 25.0, 100.0, 1024.0, 0.1 + 0.2].map(tick_text);
        let expected = ["0", "0.25", "0.5", "2.5", "7.5", "25", "100", "1024", "0.3"];
        assert_eq!(texts, expected);
    }
}
