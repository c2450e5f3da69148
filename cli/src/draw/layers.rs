//! Which nodes are beside each other, and in which order: layers from the top down, so that every edge goes down. (Sugiyama,
//! Tagawa and Toda, "Methods for visual understanding of hierarchical system structures", 1981.)
//!
//! An edge over several layers has a *bend* in each of those between, which takes part in the order as nodes do. Nodes and bends
//! together are *places*.

use super::dot::Graph;

/// Most places that are laid out: drawings with more show nothing to anybody.
pub(crate) const PLACES_MAX: usize = 50_000;

/// How often the layers are put in order, from the top down and from the bottom up.
const SWEEPS: usize = 24;

/// A place in a layer: of a node, or of a bend of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Node(usize),
    Bend(usize),
}

/// A graph in layers.
#[derive(Debug)]
pub(crate) struct Layered {
    /// What each place is of. Those of nodes come first, in the order of nodes.
    pub(crate) places: Vec<Of>,
    /// The places of each layer, from the left.
    pub(crate) layers: Vec<Vec<usize>>,
    /// The layer of each place.
    pub(crate) layer_of: Vec<usize>,
    /// The places along each edge: two nodes and the bends between them.
    pub(crate) ways: Vec<Vec<usize>>,
    /// The places above each place that it hangs together with, and those below.
    pub(crate) above: Vec<Vec<usize>>,
    pub(crate) below: Vec<Vec<usize>>,
}

/// Why there are no layers.
#[derive(Debug, PartialEq)]
pub(crate) enum Unlayered {
    /// An edge leads back to this node.
    Circle(String),
    TooLarge,
}

impl Layered {
    pub(crate) fn new(graph: &Graph) -> Result<Self, Unlayered> {
        let layer_of = layers_of(graph)?;
        let mut layered = Self {
            places: (0..graph.nodes.len()).map(Of::Node).collect(),
            layers: vec![Vec::new(); layer_of.iter().max().map_or(0, |last| last + 1)],
            ways: Vec::with_capacity(graph.edges.len()),
            above: Vec::new(),
            below: Vec::new(),
            layer_of,
        };
        for (edge, ends) in graph.edges.iter().enumerate() {
            let mut way = vec![ends.from];
            for layer in layered.layer_of[ends.from] + 1..layered.layer_of[ends.to] {
                way.push(layered.places.len());
                layered.places.push(Of::Bend(edge));
                layered.layer_of.push(layer);
            }
            way.push(ends.to);
            layered.ways.push(way);
            if layered.places.len() > PLACES_MAX {
                return Err(Unlayered::TooLarge);
            }
        }
        layered.above = vec![Vec::new(); layered.places.len()];
        layered.below = vec![Vec::new(); layered.places.len()];
        for pair in layered.ways.iter().flat_map(|way| way.windows(2)) {
            layered.below[pair[0]].push(pair[1]);
            layered.above[pair[1]].push(pair[0]);
        }
        layered.begin();
        layered.untangle();
        Ok(layered)
    }

    /// A first order: as they are met going down from each node of the first layers.
    fn begin(&mut self) {
        let mut is_seen = vec![false; self.places.len()];
        let mut starts: Vec<usize> = (0..self.places.len()).collect();
        starts.sort_by_key(|place| self.layer_of[*place]);
        for start in starts {
            let mut pending = vec![start];
            while let Some(place) = pending.pop() {
                if std::mem::replace(&mut is_seen[place], true) {
                    continue;
                }
                self.layers[self.layer_of[place]].push(place);
                pending.extend(self.below[place].iter().rev());
            }
        }
    }

    /// Puts each layer in the order of the middles of what its places hang together with, down and up, and keeps the order with
    /// the fewest crossings.
    fn untangle(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for sweep in 0..SWEEPS {
            if best.0 == 0 {
                break;
            }
            let goes_down = sweep % 2 == 0;
            let mut order = vec![0.0; self.places.len()];
            let count = self.layers.len();
            for step in 0..count {
                let layer = if goes_down { step } else { count - 1 - step };
                let mut places = std::mem::take(&mut self.layers[layer]);
                let middle = |place: usize, order: &[f64]| {
                    let others = if goes_down {
                        &self.above[place]
                    } else {
                        &self.below[place]
                    };
                    let sum: f64 = others.iter().map(|other| order[*other]).sum();
                    (!others.is_empty()).then(|| sum / others.len() as f64)
                };
                let mut keyed: Vec<(f64, usize)> = Vec::with_capacity(places.len());
                for (index, place) in places.iter().enumerate() {
                    // What hangs together with nothing there stays about where it is.
                    let share = index as f64 / places.len() as f64;
                    keyed.push((middle(*place, &order).unwrap_or(share), *place));
                }
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                places.clear();
                places.extend(keyed.iter().map(|(_, place)| *place));
                for (index, place) in places.iter().enumerate() {
                    order[*place] = (index as f64 + 0.5) / places.len() as f64;
                }
                self.layers[layer] = places;
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    /// How often edges between neighbouring layers cross.
    pub(crate) fn crossings(&self) -> usize {
        let mut index = vec![0; self.places.len()];
        for layer in &self.layers {
            for (at, place) in layer.iter().enumerate() {
                index[*place] = at;
            }
        }
        let mut crossings = 0;
        for layer in &self.layers {
            // Where the edges end that begin further left: one that ends left of some of them crosses those.
            let mut ends: Vec<usize> = Vec::new();
            for place in layer {
                let mut mine: Vec<usize> =
                    self.below[*place].iter().map(|end| index[*end]).collect();
                mine.sort_unstable();
                for end in &mine {
                    crossings += ends.len() - ends.partition_point(|other| other <= end);
                }
                for end in mine {
                    let at = ends.partition_point(|other| *other <= end);
                    ends.insert(at, end);
                }
            }
        }
        crossings
    }
}

/// The layer of each node: below all that lead to it. What nothing leads to is right above the first that it leads to.
fn layers_of(graph: &Graph) -> Result<Vec<usize>, Unlayered> {
    let count = graph.nodes.len();
    let mut below = vec![Vec::new(); count];
    let mut missing = vec![0_usize; count];
    for edge in &graph.edges {
        below[edge.from].push(edge.to);
        missing[edge.to] += 1;
    }
    let is_start: Vec<bool> = missing.iter().map(|missing| *missing == 0).collect();
    let mut layers = vec![0; count];
    let mut ready: Vec<usize> = (0..count).filter(|node| is_start[*node]).collect();
    let mut done = 0;
    while let Some(node) = ready.pop() {
        done += 1;
        for next in &below[node] {
            layers[*next] = layers[*next].max(layers[node] + 1);
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    if done < count {
        let node = (0..count).find(|node| missing[*node] > 0).unwrap_or(0);
        let name = graph.nodes[node].label.lines().next().unwrap_or_default();
        return Err(Unlayered::Circle(name.to_owned()));
    }
    for node in (0..count).filter(|node| is_start[*node]) {
        let first = below[node].iter().map(|next| layers[*next]).min();
        layers[node] = first.map_or(0, |first| first - 1);
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::dot::parse;

    fn layered(edges: &str) -> Result<Layered, Unlayered> {
        Layered::new(&parse(&format!("digraph {{ {edges} }}")).unwrap())
    }

    #[test]
    fn every_edge_goes_down_by_one_layer_at_a_time() {
        let drawn = layered("a -> b -> c -> d; a -> d; x -> d").unwrap();
        assert_eq!(drawn.layers.len(), 4);
        for pair in drawn.ways.iter().flat_map(|way| way.windows(2)) {
            assert_eq!(drawn.layer_of[pair[0]] + 1, drawn.layer_of[pair[1]]);
        }
        // `x` is right above what it leads to.
        assert_eq!(drawn.layer_of[4], 2);
    }

    #[test]
    fn what_need_not_cross_does_not() {
        let drawn = layered("a -> y; b -> x; c -> z; a -> w; b -> z").unwrap();
        assert_eq!(drawn.crossings(), 0);
    }

    #[test]
    fn circles_and_endless_edges_are_refused() {
        let error = layered("a -> b -> c -> b").unwrap_err();
        assert_eq!(error, Unlayered::Circle("b".to_owned()));
        let chain: String = (0..1000)
            .map(|i| format!("n{i} -> n{}; n0 -> n{i}a; n{i} -> n{}; ", i + 1, i + 400))
            .collect();
        assert_eq!(layered(&chain).unwrap_err(), Unlayered::TooLarge);
    }
}
