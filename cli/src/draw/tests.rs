//! Whatever a file says, it is drawn or refused: nothing panics, and no place is without a number.

use proptest::prelude::*;

use super::{boxes, dot, layers, place, svg};

/// The drawing of a text, if it is one of a graph without circles.
fn drawn(text: &str) -> Option<String> {
    let graph = dot::parse(text).ok()?;
    let layered = layers::Layered::new(&graph).ok()?;
    let boxes: Vec<boxes::Box> = graph.nodes.iter().map(boxes::Box::new).collect();
    let placed = place::Placed::new(&layered, &boxes);
    Some(svg::drawing(&graph, &layered, &placed, &boxes))
}

proptest! {
    #[test]
    fn any_text_is_drawn_or_refused(text in r#"digraph \{([ab;,=\n\[\]{}"\\é-]|->|label="[^"]*"|shape=box|//.*\n)*\}"#) {
        drawn(&text);
    }

    #[test]
    fn any_graph_that_goes_down_is_drawn(edges in prop::collection::vec((0_u32..60, 1_u32..60), 0..120)) {
        let edges = edges.iter().map(|(from, down)| format!("{from} -> {};", from + down));
        let drawn = drawn(&format!("digraph {{ {} }}", edges.collect::<String>()));
        prop_assert!(drawn.is_some_and(|svg| !svg.contains("NaN") && !svg.contains("inf")));
    }
}
