//! Where places lie: layers below each other, and in each layer as near as there is room to the middle of what a place hangs
//! together with.

use super::boxes::Box;
use super::layers::{Layered, Of};

/// Room between neighbours, in pixels.
const GAP: f64 = 26.0;
/// Room between layers, in which edges bend.
const BETWEEN: f64 = 46.0;
/// Room about the whole.
const MARGIN: f64 = 20.0;
/// How often places are moved, from the top down and from the bottom up.
const SWEEPS: usize = 40;

/// Where everything lies, in pixels.
pub(crate) struct Placed {
    /// The middle of each place, from the left.
    pub(crate) x: Vec<f64>,
    /// Upper and lower end of each layer.
    pub(crate) layers: Vec<(f64, f64)>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Placed {
    /// Places nodes, whose boxes are in their order.
    pub(crate) fn new(layered: &Layered, boxes: &[Box]) -> Self {
        let half = |place: usize| match layered.places[place] {
            Of::Node(node) => boxes[node].width / 2.0,
            Of::Bend(_) => 2.0,
        };
        let mut x = vec![0.0; layered.places.len()];
        for layer in &layered.layers {
            let mut left = 0.0;
            for place in layer {
                x[*place] = left + half(*place);
                left += 2.0 * half(*place) + GAP;
            }
        }
        for sweep in 0..SWEEPS {
            let goes_down = sweep % 2 == 0;
            let count = layered.layers.len();
            for step in 0..count {
                let layer = if goes_down { step } else { count - 1 - step };
                settle(layered, &layered.layers[layer], goes_down, &half, &mut x);
            }
        }
        let places = 0..layered.places.len();
        let left = places
            .clone()
            .map(|place| x[place] - half(place))
            .fold(f64::MAX, f64::min);
        let left = if left == f64::MAX { 0.0 } else { left };
        x.iter_mut().for_each(|x| *x += MARGIN - left);
        let right = places
            .map(|place| x[place] + half(place))
            .fold(MARGIN, f64::max);
        let mut layers = Vec::with_capacity(layered.layers.len());
        let mut top = MARGIN;
        for layer in &layered.layers {
            let height = |place: &usize| match layered.places[*place] {
                Of::Node(node) => boxes[node].height,
                Of::Bend(_) => 0.0,
            };
            let bottom = top + layer.iter().map(height).fold(0.0, f64::max);
            layers.push((top, bottom));
            top = bottom + BETWEEN;
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

/// Moves the places of a layer to where they would like to be, as far as their order and their room allow: so that the sum of the
/// squares of what each is away from there is the least.
fn settle(
    layered: &Layered,
    layer: &[usize],
    goes_down: bool,
    half: &impl Fn(usize) -> f64,
    x: &mut [f64],
) {
    // Places that are pushed against each other: where the first would be, and how much that matters.
    struct Pushed {
        start: f64,
        weight: f64,
        count: usize,
    }
    let mut room = 0.0;
    let mut rooms = Vec::with_capacity(layer.len());
    let mut all: Vec<Pushed> = Vec::with_capacity(layer.len());
    for (index, place) in layer.iter().enumerate() {
        if index > 0 {
            room += half(layer[index - 1]) + GAP + half(*place);
        }
        rooms.push(room);
        let (first, second) = (&layered.above[*place], &layered.below[*place]);
        let (others, rest) = if goes_down {
            (first, second)
        } else {
            (second, first)
        };
        let others = if others.is_empty() { rest } else { others };
        let is_bend = |place: usize| matches!(layered.places[place], Of::Bend(_));
        // Long edges are straight before short ones are.
        let weight = |other: usize| {
            if is_bend(*place) && is_bend(other) {
                8.0
            } else {
                1.0
            }
        };
        let weights: f64 = others.iter().map(|other| weight(*other)).sum();
        let wanted = match others.is_empty() {
            true => x[*place],
            false => {
                others
                    .iter()
                    .map(|other| x[*other] * weight(*other))
                    .sum::<f64>()
                    / weights
            }
        };
        let mut pushed = Pushed {
            start: wanted - room,
            weight: weights.max(0.1),
            count: 1,
        };
        while let Some(before) = all.pop_if(|before| before.start > pushed.start) {
            let weight = before.weight + pushed.weight;
            let start = before.start * before.weight + pushed.start * pushed.weight;
            pushed = Pushed {
                start: start / weight,
                weight,
                count: before.count + pushed.count,
            };
        }
        all.push(pushed);
    }
    let starts = all
        .iter()
        .flat_map(|pushed| std::iter::repeat_n(pushed.start, pushed.count));
    for ((place, room), start) in layer.iter().zip(rooms).zip(starts) {
        x[*place] = start + room;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::dot::parse;

    #[test]
    fn nothing_overlaps_and_nothing_lies_outside() {
        let text = "digraph { a -> b; a -> c; b -> d; c -> d; a -> d; e -> c; f -> c; g -> d }";
        let graph = parse(text).unwrap();
        let layered = Layered::new(&graph).unwrap();
        let boxes: Vec<Box> = graph.nodes.iter().map(Box::new).collect();
        let placed = Placed::new(&layered, &boxes);
        for layer in &layered.layers {
            let nodes = layer
                .iter()
                .filter_map(|place| match layered.places[*place] {
                    Of::Node(node) => Some((placed.x[*place], boxes[node].width)),
                    Of::Bend(_) => None,
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
