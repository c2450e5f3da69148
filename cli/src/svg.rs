//! The few shapes of SVG that timelines and plots need, as text.
//!
//! Every word that comes from outside goes through `escape`, so that no name can break the file.

use std::fmt::Write;

use crate::xml::escape;

/// One line of text, starting, ending or centred at (x, y) as its class says.
pub(crate) fn text(svg: &mut String, class: &str, (x, y): (f64, f64), content: &str) {
    let _ = writeln!(
        svg,
        r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#,
        escape(content)
    );
}

/// A coloured rectangle; `hover` is shown under the mouse, if there is any.
pub(crate) fn rect(
    svg: &mut String,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    colour: &str,
    hover: &str,
) {
    let _ = write!(
        svg,
        r#"<rect class="task" x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{height}" fill="{colour}""#
    );
    if hover.is_empty() {
        svg.push_str("/>\n");
    } else {
        let _ = writeln!(svg, "><title>{}</title></rect>", escape(hover));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_text() {
        let mut svg = String::new();
        rect(
            &mut svg,
            (0.0, 0.0),
            (1.0, 1.0),
            "red",
            "<&\"\u{1}\u{ffff}>\n",
        );
        text(&mut svg, "title", (0.0, 0.0), "a < b");
        assert!(
            svg.contains("<title>&lt;&amp;&quot;\u{fffd}\u{fffd}&gt;\n</title>"),
            "{svg}"
        );
        assert!(svg.contains(">a &lt; b</text>"), "{svg}");
    }
}
