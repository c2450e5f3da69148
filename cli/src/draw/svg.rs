//! The drawing itself: boxes with wrapped text, coloured by what they are, and edges that bend between layers.

use std::fmt::Write;

use super::boxes::{Box, LINE, PADDING};
use super::dot::{Graph, Node};
use super::layers::{Layered, Of};
use super::place::Placed;
use crate::xml::escape;

/// Size of letters.
const LETTER: f64 = 11.0;

/// Fill, edge and letters of a node, by the word behind its number.
fn colours(node: &Node) -> (&'static str, &'static str) {
    let kind = node
        .label
        .lines()
        .next()
        .and_then(|line| line.split(' ').nth(1));
    match (node.is_round, kind) {
        (true, _) => ("#f4f5f7", "#9aa1ad"),
        (_, Some("matmul")) => ("#fff0dc", "#d9822b"),
        (_, Some("kernel")) => ("#e4effb", "#2f74c0"),
        (_, Some("set" | "copy")) => ("#e5f5e8", "#3a9a55"),
        (_, Some("custom" | "ssa")) => ("#f1e8fb", "#8250c4"),
        _ => ("#ffffff", "#5b6270"),
    }
}

/// The drawing.
pub(crate) fn drawing(graph: &Graph, layered: &Layered, placed: &Placed, boxes: &[Box]) -> String {
    let (width, height) = (placed.width.ceil(), placed.height.ceil());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"{LETTER}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (edge, way) in graph.edges.iter().zip(&layered.ways) {
        edge_path(&mut svg, &edge.label, way, layered, placed, boxes);
    }
    // The places of nodes come first, in their order.
    for (place, (node, size)) in graph.nodes.iter().zip(boxes).enumerate() {
        let middle = (placed.x[place], middle(place, layered, placed));
        node_box(&mut svg, node, size, middle);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The height of a place's middle.
fn middle(place: usize, layered: &Layered, placed: &Placed) -> f64 {
    let (top, bottom) = placed.layers[layered.layer_of[place]];
    (top + bottom) / 2.0
}

fn node_box(svg: &mut String, node: &Node, size: &Box, (x, middle): (f64, f64)) {
    let (fill, ink) = colours(node);
    let (left, top) = (x - size.width / 2.0, middle - size.height / 2.0);
    let radius = if node.is_round {
        size.height / 2.0
    } else {
        5.0
    };
    let (width, height) = (size.width, size.height);
    let title = escape(&node.label);
    let _ = writeln!(
        svg,
        "<g><title>{title}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         rx=\"{radius:.1}\" fill=\"{fill}\" stroke=\"{ink}\"/>"
    );
    for (index, line) in size.lines.iter().enumerate() {
        let baseline = top + PADDING / 2.0 + LINE * (index as f64 + 0.75);
        let style = match (node.is_round, index) {
            (true, _) => "fill=\"#3c424d\"".to_owned(),
            (_, 0) => format!("fill=\"{ink}\" font-weight=\"bold\""),
            (_, 1) => "fill=\"#20242b\"".to_owned(),
            _ => "fill=\"#5b6270\"".to_owned(),
        };
        let text = escape(line.trim_end());
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{baseline:.1}\" text-anchor=\"middle\" {style}>{text}</text>"
        );
    }
    svg.push_str("</g>\n");
}

/// An edge from the lower side of a box, through its bends, to an arrow on the upper side of another.
fn edge_path(
    svg: &mut String,
    label: &str,
    way: &[usize],
    layered: &Layered,
    placed: &Placed,
    boxes: &[Box],
) {
    const ARROW: f64 = 6.0;
    let end = |place: usize, sign: f64| {
        let reach = match layered.places[place] {
            Of::Node(node) => boxes[node].height / 2.0,
            Of::Bend(_) => 0.0,
        };
        middle(place, layered, placed) + sign * reach
    };
    let (Some(first), Some(last)) = (way.first(), way.last()) else {
        return;
    };
    let mut at = (placed.x[*first], end(*first, 1.0));
    let mut path = format!("M{:.1} {:.1}", at.0, at.1);
    let tip = (placed.x[*last], end(*last, -1.0));
    for pair in way.windows(2) {
        let (above, below) = (layered.layer_of[pair[0]], layered.layer_of[pair[1]]);
        // Straight down to the end of the layer, a curve to the next one, and on.
        let (start, stop) = (placed.layers[above].1, placed.layers[below].0);
        let to = placed.x[pair[1]];
        let half = (start + stop) / 2.0;
        let goal = if pair[1] == *last {
            tip.1 - ARROW
        } else {
            placed.layers[below].1
        };
        let stop = stop.min(goal);
        let _ = write!(
            path,
            "L{:.1} {start:.1}C{:.1} {half:.1} {to:.1} {half:.1} {to:.1} {stop:.1}L{to:.1} {goal:.1}",
            at.0, at.0
        );
        at = (to, goal);
    }
    let _ = writeln!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#8a919d\" stroke-width=\"1.2\"><title>{}</title></path>\
         <path d=\"M{:.1} {:.1}l-3.4 -7.5h6.8z\" fill=\"#8a919d\"/>",
        escape(label),
        tip.0,
        tip.1
    );
}
