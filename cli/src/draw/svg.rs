//! Writes the SVG: boxes with wrapped text, coloured by kind, and edges that curve between layers.

use std::fmt::Write;

use super::boxes::{LINE, NodeBox, PADDING};
use super::dot::{Graph, Node};
use super::layers::{Layered, Vertex};
use super::place::Placed;
use crate::xml::escape;

/// The font size.
const FONT_SIZE: f64 = 11.0;

/// Returns the fill and the stroke of a node. The word after its number is its kind.
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

/// Renders the drawing.
pub(crate) fn drawing(
    graph: &Graph,
    layered: &Layered,
    placed: &Placed,
    boxes: &[NodeBox],
) -> String {
    let (width, height) = (placed.width.ceil(), placed.height.ceil());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"{FONT_SIZE}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (edge, path) in graph.edges.iter().zip(&layered.paths) {
        edge_path(&mut svg, &edge.label, path, layered, placed, boxes);
    }
    // The nodes are the first vertices, in their order.
    for (vertex, (node, size)) in graph.nodes.iter().zip(boxes).enumerate() {
        let middle = (placed.x[vertex], middle(vertex, layered, placed));
        node_box(&mut svg, node, size, middle);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns the vertical centre of a vertex.
fn middle(vertex: usize, layered: &Layered, placed: &Placed) -> f64 {
    let (top, bottom) = placed.layers[layered.layer_of[vertex]];
    (top + bottom) / 2.0
}

fn node_box(svg: &mut String, node: &Node, size: &NodeBox, (x, middle): (f64, f64)) {
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

/// Draws an edge from the lower side of a box through its bends to an arrow on the upper side of another.
fn edge_path(
    svg: &mut String,
    label: &str,
    path: &[usize],
    layered: &Layered,
    placed: &Placed,
    boxes: &[NodeBox],
) {
    const ARROW: f64 = 6.0;
    let end = |vertex: usize, sign: f64| {
        let reach = match layered.vertices[vertex] {
            Vertex::Node(node) => boxes[node].height / 2.0,
            Vertex::Bend(_) => 0.0,
        };
        middle(vertex, layered, placed) + sign * reach
    };
    let (Some(first), Some(last)) = (path.first(), path.last()) else {
        return;
    };
    let mut at = (placed.x[*first], end(*first, 1.0));
    let mut curve = format!("M{:.1} {:.1}", at.0, at.1);
    let tip = (placed.x[*last], end(*last, -1.0));
    for pair in path.windows(2) {
        let (above, below) = (layered.layer_of[pair[0]], layered.layer_of[pair[1]]);
        // A straight line to the bottom of the layer, then a curve to the next layer.
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
            curve,
            "L{:.1} {start:.1}C{:.1} {half:.1} {to:.1} {half:.1} {to:.1} {stop:.1}L{to:.1} {goal:.1}",
            at.0, at.0
        );
        at = (to, goal);
    }
    let _ = writeln!(
        svg,
        "<path d=\"{curve}\" fill=\"none\" stroke=\"#8a919d\" stroke-width=\"1.2\"><title>{}</title></path>\
         <path d=\"M{:.1} {:.1}l-3.4 -7.5h6.8z\" fill=\"#8a919d\"/>",
        escape(label),
        tip.0,
        tip.1
    );
}
