//! Plots as SVG: panels below each other. Each panel has an axis, and one line per value.

use std::fmt::Write;

use crate::digits;
use crate::ticks::{levels, tick_text};

const WIDTH: f64 = 960.0;
/// The x coordinate at which names end and the axis begins.
const LEFT: f64 = 360.0;
const AXIS_WIDTH: f64 = 500.0;
/// The height of a mark's line.
const LINE: f64 = 20.0;
/// The space below the last line of a panel, for ticks.
const BELOW: f64 = 46.0;

pub(crate) const STYLE: &str = "<style>text{font:13px sans-serif;fill:#24292f}.title{font-size:17px;font-weight:600}\
.panel{font-weight:600}.quiet,.tick{fill:#57606a;font-size:12px}.name{text-anchor:end}.tick{text-anchor:middle}</style>\n";

/// An axis from its first tick to its last. Values beyond an end are drawn at the end.
#[derive(Clone, Debug)]
pub struct Axis {
    ticks: Vec<f64>,
    scale: fn(f64) -> f64,
}

impl Axis {
    /// Creates a linear axis with round ticks from zero to at least `most`, or to one if `most` is zero.
    pub fn from_zero(most: f64) -> Self {
        Self {
            ticks: levels(most),
            scale: |value| value,
        }
    }

    /// Creates a logarithmic axis. `ticks` must ascend and be above zero.
    pub fn logarithmic(ticks: &[f64]) -> Self {
        Self {
            ticks: ticks.to_vec(),
            scale: f64::ln,
        }
    }

    fn x(&self, value: f64) -> f64 {
        let at = |value: Option<&f64>| (self.scale)(value.copied().unwrap_or(1.0));
        let (first, last) = (at(self.ticks.first()), at(self.ticks.last()));
        let share = ((self.scale)(value) - first) / (last - first);
        // NaN is drawn at the left end: it is not above zero.
        LEFT + AXIS_WIDTH * if share > 0.0 { share.min(1.0) } else { 0.0 }
    }
}

/// A value on an axis: a dot, with a whisker for its uncertainty.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The text on the left.
    pub name: String,
    /// The value of the dot.
    pub value: f64,
    /// The ends of the whisker.
    pub range: [f64; 2],
    /// The colour of dot and whisker, in CSS notation.
    pub colour: &'static str,
    /// Text that the tooltip shows after the name and the value.
    pub note: String,
}

/// A plot, built panel by panel.
///
/// ```
/// use millstream_harness::{Axis, Mark, Plot};
///
/// let mark = Mark {
///     name: "launches, 2 threads".to_owned(),
///     value: 4.5,
///     range: [4.1, 4.6],
///     colour: "teal",
///     note: String::new(),
/// };
/// let plot = Plot::new("a processor").panel("million/s", &Axis::from_zero(5.0), &[mark]);
/// assert!(plot.svg().contains("launches, 2 threads"));
/// ```
#[derive(Clone, Debug)]
pub struct Plot {
    body: String,
    /// The y coordinate of the next panel.
    top: f64,
}

impl Plot {
    /// Creates a plot with a title and no panels.
    pub fn new(title: &str) -> Self {
        let (body, top) = (String::new(), 56.0);
        let mut plot = Self { body, top };
        plot.text("title", (20.0, 30.0), title);
        plot
    }

    /// Adds a panel.
    #[must_use]
    pub fn panel(mut self, subtitle: &str, axis: &Axis, marks: &[Mark]) -> Self {
        self.text("panel", (20.0, self.top), subtitle);
        let first = self.top + 10.0;
        let last = first + LINE * marks.len() as f64;
        for tick in &axis.ticks {
            let x = axis.x(*tick);
            self.line("#d0d7de", (x, first), (x, last));
            self.text("tick", (x, last + 16.0), &tick_text(*tick));
        }
        for (index, mark) in marks.iter().enumerate() {
            let (x, y) = (axis.x(mark.value), first + LINE * (index as f64 + 0.5));
            let [from, to] = mark.range.map(|end| (axis.x(end), y));
            let value = digits(mark.value);
            self.text("name", (LEFT - 8.0, y + 4.0), &mark.name);
            self.line(mark.colour, from, to);
            self.text("quiet", (LEFT + AXIS_WIDTH + 12.0, y + 4.0), &value);
            let _ = writeln!(
                self.body,
                r#"<circle fill="{}" cx="{x:.1}" cy="{y:.1}" r="4"><title>{}: {value} {}</title></circle>"#,
                mark.colour,
                escape(&mark.name),
                escape(&mark.note),
            );
        }
        self.top = last + BELOW;
        self
    }

    /// Returns the plot as the text of an SVG file.
    pub fn svg(self) -> String {
        let (body, height) = (self.body, self.top);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\n\
             {STYLE}<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
        )
    }

    fn text(&mut self, class: &str, (x, y): (f64, f64), words: &str) {
        let place = format!(r#"class="{class}" x="{x:.1}" y="{y:.1}""#);
        let _ = writeln!(self.body, "<text {place}>{}</text>", escape(words));
    }

    fn line(&mut self, colour: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let path = format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}");
        let _ = writeln!(self.body, r#"<path stroke="{colour}" d="{path}"/>"#);
    }
}

/// Escapes text for use anywhere in XML, and replaces characters that XML forbids, so that no name breaks the file.
pub(crate) fn escape(text: &str) -> String {
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

    const RIGHT: f64 = LEFT + AXIS_WIDTH;

    #[test]
    fn values_are_placed_by_the_axis_and_clamped_to_its_ends() {
        let middle = f64::midpoint(LEFT, RIGHT);
        let ratios = Axis::logarithmic(&[0.25, 1.0, 4.0]);
        let places = [0.25, 1.0, 4.0, 0.0, 100.0, f64::NAN].map(|ratio| ratios.x(ratio));
        assert_eq!(places, [LEFT, middle, RIGHT, LEFT, RIGHT, LEFT]);
        let places = [0.0, 5.0, 20.0].map(|value| Axis::from_zero(10.0).x(value));
        assert_eq!(places, [LEFT, middle, RIGHT]);
        assert_eq!(Axis::from_zero(0.0).x(0.0), LEFT);
    }

    #[test]
    fn ticks_of_an_axis_from_zero_are_round() {
        let mark = Mark {
            name: String::new(),
            value: 4.37,
            range: [4.37; 2],
            colour: "red",
            note: String::new(),
        };
        let svg = Plot::new("")
            .panel("", &Axis::from_zero(4.37), &[mark])
            .svg();
        let ticks = svg.lines().filter(|line| line.contains(r#"class="tick""#));
        let ticks = ticks.filter_map(|line| line.split(['>', '<']).nth(2));
        let ticks: Vec<_> = ticks.collect();
        assert_eq!(ticks, ["0", "1", "2", "3", "4", "5"]);
    }

    #[test]
    fn mark_has_a_dot_and_a_whisker_and_its_name_is_escaped() {
        let mark = Mark {
            name: "<&\"\u{1}>".to_owned(),
            value: 2.0,
            range: [1.0, 4.0],
            colour: "red",
            note: "worse".to_owned(),
        };
        let axis = Axis::from_zero(4.0);
        let svg = Plot::new("a & b").panel("", &axis, &[mark]).svg();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(svg.contains(&format!(r#"<circle fill="red" cx="{:.1}""#, axis.x(2.0))));
        assert!(svg.contains("<title>&lt;&amp;&quot;\u{fffd}&gt;: 2.00 worse</title>"));
        let whisker = format!(r#"d="M{:.1} 76.0L{:.1} 76.0""#, axis.x(1.0), axis.x(4.0));
        assert!(svg.contains(&whisker) && svg.contains("a &amp; b"), "{svg}");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
