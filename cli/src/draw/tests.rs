//! Property tests: any text is drawn or refused without a panic, and any acyclic graph gets finite coordinates.

use proptest::prelude::*;

use super::{boxes, dot, layers, place, svg};

/// Draws a text, if it is a valid graph without cycles.
fn draw(text: &str) -> Option<String> {
    let graph = dot::parse(text).ok()?;
    let layered = layers::Layered::new(&graph).ok()?;
    let boxes: Vec<boxes::NodeBox> = graph.nodes.iter().map(boxes::NodeBox::new).collect();
    let placed = place::Placed::new(&layered, &boxes);
    Some(svg::drawing(&graph, &layered, &placed, &boxes))
}

proptest! {
    #[test]
    fn any_text_is_drawn_or_refused(text in r#"digraph \{([ab;,=\n\[\]{}"\\é-]|->|label="[^"]*"|shape=box|//.*\n)*\}"#) {
        draw(&text);
    }

    #[test]
    fn any_acyclic_graph_is_drawn(edges in prop::collection::vec((0_u32..60, 1_u32..60), 0..120)) {
        let edges = edges.iter().map(|(from, down)| format!("{from} -> {};", from + down));
        let drawn = draw(&format!("digraph {{ {} }}", edges.collect::<String>()));
        prop_assert!(drawn.is_some_and(|svg| !svg.contains("NaN") && !svg.contains("inf")));
    }
}
