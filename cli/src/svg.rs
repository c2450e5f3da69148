//! The SVG shapes of drawings and timelines.
//!
//! Names pass through `escape`, so that none can break the file.

use std::fmt::Write;

use crate::xml::escape;

/// Appends a line of text. Its class decides whether it starts, ends or is centred at (x, y).
pub(crate) fn text(svg: &mut String, class: &str, (x, y): (f64, f64), content: &str) {
    let _ = writeln!(
        svg,
        r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#,
        escape(content)
    );
}

/// Appends a coloured rectangle with `hover` as its tooltip, unless that is empty.
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
    fn markup_in_names_is_escaped() {
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
