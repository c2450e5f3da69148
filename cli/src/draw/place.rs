//! Computes the coordinates of vertices: layers lie below each other, and each vertex lies as close to the mean of its
//! neighbours as the order of its layer allows.

use super::boxes::NodeBox;
use super::layers::{Layered, Vertex};

/// The least distance between two boxes of a layer, in pixels.
const GAP: f64 = 26.0;
/// The distance between layers, where edges curve.
const LAYER_GAP: f64 = 46.0;
/// The margin around the drawing.
const MARGIN: f64 = 20.0;
/// The number of placement sweeps, alternately downwards and upwards.
const SWEEPS: usize = 40;

/// The coordinates of a drawing, in pixels.
pub(crate) struct Placed {
    /// The horizontal centre of each vertex.
    pub(crate) x: Vec<f64>,
    /// The top and the bottom of each layer.
    pub(crate) layers: Vec<(f64, f64)>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Placed {
    /// Places the vertices. `boxes` has a box for each node, in the order of nodes.
    pub(crate) fn new(layered: &Layered, boxes: &[NodeBox]) -> Self {
        let half = |vertex: usize| match layered.vertices[vertex] {
            Vertex::Node(node) => boxes[node].width / 2.0,
            Vertex::Bend(_) => 2.0,
        };
        let mut x = vec![0.0; layered.vertices.len()];
        for layer in &layered.layers {
            let mut left = 0.0;
            for vertex in layer {
                x[*vertex] = left + half(*vertex);
                left += 2.0 * half(*vertex) + GAP;
            }
        }
        for sweep in 0..SWEEPS {
            let goes_down = sweep % 2 == 0;
            let count = layered.layers.len();
            for step in 0..count {
                let layer = if goes_down { step } else { count - 1 - step };
                align_layer(layered, &layered.layers[layer], goes_down, &half, &mut x);
            }
        }
        let vertices = 0..layered.vertices.len();
        let left = vertices
            .clone()
            .map(|vertex| x[vertex] - half(vertex))
            .fold(f64::MAX, f64::min);
        let left = if left == f64::MAX { 0.0 } else { left };
        x.iter_mut().for_each(|x| *x += MARGIN - left);
        let right = vertices
            .map(|vertex| x[vertex] + half(vertex))
            .fold(MARGIN, f64::max);
        let mut layers = Vec::with_capacity(layered.layers.len());
        let mut top = MARGIN;
        for layer in &layered.layers {
            let height = |vertex: &usize| match layered.vertices[*vertex] {
                Vertex::Node(node) => boxes[node].height,
                Vertex::Bend(_) => 0.0,
            };
            let bottom = top + layer.iter().map(height).fold(0.0, f64::max);
            layers.push((top, bottom));
            top = bottom + LAYER_GAP;
        }
        let height = layers.last().map_or(0.0, |(_, bottom)| *bottom) + MARGIN;
        let width = right + MARGIN;
        Self {
            x,
            layers,
            width,
            height,
        }
    }
}

/// Moves the vertices of a layer towards the weighted means of their neighbours, without changing their order.
///
/// The result minimizes the weighted sum of squared distances from those means, under the constraint that boxes keep
/// their gaps (isotonic regression by pooling adjacent violators).
fn align_layer(
    layered: &Layered,
    layer: &[usize],
    goes_down: bool,
    half: &impl Fn(usize) -> f64,
    x: &mut [f64],
) {
    // Adjacent vertices at their least distance, which move together. `start` is the position of the first, minus its
    // offset in the layer.
    struct Block {
        start: f64,
        weight: f64,
        count: usize,
    }
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(layer.len());
    let mut blocks: Vec<Block> = Vec::with_capacity(layer.len());
    for (index, vertex) in layer.iter().enumerate() {
        if index > 0 {
            offset += half(layer[index - 1]) + GAP + half(*vertex);
        }
        offsets.push(offset);
        let (first, second) = (&layered.above[*vertex], &layered.below[*vertex]);
        let (others, rest) = if goes_down {
            (first, second)
        } else {
            (second, first)
        };
        let others = if others.is_empty() { rest } else { others };
        let is_bend = |vertex: usize| matches!(layered.vertices[vertex], Vertex::Bend(_));
        // The weight straightens long edges in preference to short ones.
        let weight = |other: usize| {
            if is_bend(*vertex) && is_bend(other) {
                8.0
            } else {
                1.0
            }
        };
        let weights: f64 = others.iter().map(|other| weight(*other)).sum();
        let wanted = match others.is_empty() {
            true => x[*vertex],
            false => {
                others
                    .iter()
                    .map(|other| x[*other] * weight(*other))
                    .sum::<f64>()
                    / weights
            }
        };
        let mut block = Block {
            start: wanted - offset,
            weight: weights.max(0.1),
            count: 1,
        };
        while let Some(before) = blocks.pop_if(|before| before.start > block.start) {
            let weight = before.weight + block.weight;
            let start = before.start * before.weight + block.start * block.weight;
            block = Block {
                start: start / weight,
                weight,
                count: before.count + block.count,
            };
        }
        blocks.push(block);
    }
    let starts = blocks
        .iter()
        .flat_map(|block| std::iter::repeat_n(block.start, block.count));
    for ((vertex, offset), start) in layer.iter().zip(offsets).zip(starts) {
        x[*vertex] = start + offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::dot::parse;

    #[test]
    fn boxes_do_not_overlap_and_lie_within_the_drawing() {
        let text = "digraph { a -> b; a -> c; b -> d; c -> d; a -> d; e -> c; f -> c; g -> d }";
        let graph = parse(text).unwrap();
        let layered = Layered::new(&graph).unwrap();
        let boxes: Vec<NodeBox> = graph.nodes.iter().map(NodeBox::new).collect();
        let placed = Placed::new(&layered, &boxes);
        for layer in &layered.layers {
            let nodes = layer
                .iter()
                .filter_map(|vertex| match layered.vertices[*vertex] {
                    Vertex::Node(node) => Some((placed.x[*vertex], boxes[node].width)),
                    Vertex::Bend(_) => None,
                });
            let nodes: Vec<(f64, f64)> = nodes.collect();
            for pair in nodes.windows(2) {
                assert!(pair[0].0 + pair[0].1 / 2.0 + GAP <= pair[1].0 - pair[1].1 / 2.0 + 1e-6);
            }
            for (x, width) in nodes {
                assert!(x - width / 2.0 >= MARGIN - 1e-6);
                assert!(x + width / 2.0 <= placed.width - MARGIN + 1e-6);
            }
        }
    }
}
