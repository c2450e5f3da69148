//! The parts of our pictures. The files are self-contained: no script, font or link.
//!
//! Names pass through `escape`, so that none can break the file.

use std::fmt::Write;

/// Returns the text escaped for use in XML elements and attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML forbids these characters even in escaped form.
            c if c.is_control() && c != '\n' => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Appends a line of text. Its class decides whether it starts, ends or is centred at (x, y).
pub(crate) fn text(svg: &mut String, class: &str, (x, y): (f64, f64), content: &str) {
    let content = escape(content);
    let _ = writeln!(
        svg,
        r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{content}</text>"#
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
    let title = match hover {
        "" => String::new(),
        hover => format!("<title>{}</title>", escape(hover)),
    };
    let _ = writeln!(
        svg,
        r#"<rect class="task" x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{height}" fill="{colour}">{title}</rect>"#
    );
}

/// Returns a whole picture of this size.
pub(crate) fn document((width, height): (f64, f64), body: &str) -> String {
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0}" viewBox="0 0 {width} {height:.0}">
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="#23272e"/></marker></defs>
<style>
text {{ font: 13px system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; fill: #23272e }}
.title {{ font-size: 24px; font-weight: 700 }} .panel {{ font-size: 15px; font-weight: 600 }}
.quiet {{ fill: #5b636e }} .end {{ text-anchor: end }} .middle {{ text-anchor: middle }}
.grid {{ stroke: #d9dde3; stroke-width: 1 }} .lane {{ fill: #eceff3 }}
.halo {{ stroke: #ffffff; stroke-width: 4; stroke-opacity: 0.8; fill: none }}
.arrow {{ stroke: #23272e; stroke-width: 1.5; fill: none; marker-end: url(#head) }} .wait:hover .arrow {{ stroke-width: 3 }}
.task:hover {{ stroke: #23272e; stroke-width: 1.5 }}
</style>
<rect width="100%" height="100%" fill="#fbfbfc"/>
{body}</svg>
"##
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_in_names_are_escaped() {
        let mut svg = String::new();
        let name = "<&\"\u{1}\u{ffff}>\n";
        rect(&mut svg, (0.0, 0.0), (1.0, 1.0), "red", name);
        text(&mut svg, "title", (0.0, 0.0), "a < b");
        assert!(svg.contains("<title>&lt;&amp;&quot;\u{fffd}\u{fffd}&gt;\n</title>"));
        assert!(svg.contains(">a &lt; b</text>"), "{svg}");
    }
}
