//! Assigns nodes to layers so that every edge points down, and orders each layer to reduce crossings. (Sugiyama, Tagawa
//! and Toda, "Methods for visual understanding of hierarchical system structures", 1981.)
//!
//! An edge over several layers has a *bend* in each layer between its ends. Bends are ordered like nodes. A *vertex* is
//! a node or a bend.

use super::dot::Graph;

/// The most vertices that are laid out. A larger drawing would be unreadable.
pub(crate) const VERTICES_MAX: usize = 50_000;

/// The number of ordering sweeps, alternately downwards and upwards.
const SWEEPS: usize = 24;

/// A vertex of a layer, with the index of its node or edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vertex {
    Node(usize),
    Bend(usize),
}

/// A graph in layers.
#[derive(Debug)]
pub(crate) struct Layered {
    /// All vertices. The nodes come first, in their order.
    pub(crate) vertices: Vec<Vertex>,
    /// The vertices of each layer, from left to right.
    pub(crate) layers: Vec<Vec<usize>>,
    /// The layer of each vertex.
    pub(crate) layer_of: Vec<usize>,
    /// The vertices along each edge: two nodes and the bends between them.
    pub(crate) paths: Vec<Vec<usize>>,
    /// The neighbours of each vertex in the layer above.
    pub(crate) above: Vec<Vec<usize>>,
    /// The neighbours of each vertex in the layer below.
    pub(crate) below: Vec<Vec<usize>>,
}

/// The reason why a graph cannot be layered.
#[derive(Debug, PartialEq)]
pub(crate) enum LayerError {
    /// The graph has a cycle through this node.
    Cycle(String),
    /// The graph has more than [`VERTICES_MAX`] vertices.
    TooLarge,
}

impl Layered {
    pub(crate) fn new(graph: &Graph) -> Result<Self, LayerError> {
        let layer_of = layers_of(graph)?;
        let mut layered = Self {
            vertices: (0..graph.nodes.len()).map(Vertex::Node).collect(),
            layers: vec![Vec::new(); layer_of.iter().max().map_or(0, |last| last + 1)],
            paths: Vec::with_capacity(graph.edges.len()),
            above: Vec::new(),
            below: Vec::new(),
            layer_of,
        };
        for (edge, ends) in graph.edges.iter().enumerate() {
            let mut path = vec![ends.from];
            for layer in layered.layer_of[ends.from] + 1..layered.layer_of[ends.to] {
                path.push(layered.vertices.len());
                layered.vertices.push(Vertex::Bend(edge));
                layered.layer_of.push(layer);
            }
            path.push(ends.to);
            layered.paths.push(path);
            if layered.vertices.len() > VERTICES_MAX {
                return Err(LayerError::TooLarge);
            }
        }
        layered.above = vec![Vec::new(); layered.vertices.len()];
        layered.below = vec![Vec::new(); layered.vertices.len()];
        for pair in layered.paths.iter().flat_map(|path| path.windows(2)) {
            layered.below[pair[0]].push(pair[1]);
            layered.above[pair[1]].push(pair[0]);
        }
        layered.order_depth_first();
        layered.reduce_crossings();
        Ok(layered)
    }

    /// Orders the vertices initially: depth first, from each vertex of the upper layers.
    fn order_depth_first(&mut self) {
        let mut is_seen = vec![false; self.vertices.len()];
        let mut starts: Vec<usize> = (0..self.vertices.len()).collect();
        starts.sort_by_key(|vertex| self.layer_of[*vertex]);
        for start in starts {
            let mut pending = vec![start];
            while let Some(vertex) = pending.pop() {
                if std::mem::replace(&mut is_seen[vertex], true) {
                    continue;
                }
                self.layers[self.layer_of[vertex]].push(vertex);
                pending.extend(self.below[vertex].iter().rev());
            }
        }
    }

    /// Sorts each layer by the mean position of its vertices' neighbours, sweeping down and up, and keeps the order
    /// with the fewest crossings.
    fn reduce_crossings(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for sweep in 0..SWEEPS {
            if best.0 == 0 {
                break;
            }
            let goes_down = sweep % 2 == 0;
            let mut order = vec![0.0; self.vertices.len()];
            let count = self.layers.len();
            for step in 0..count {
                let layer = if goes_down { step } else { count - 1 - step };
                let mut vertices = std::mem::take(&mut self.layers[layer]);
                let middle = |vertex: usize, order: &[f64]| {
                    let others = if goes_down {
                        &self.above[vertex]
                    } else {
                        &self.below[vertex]
                    };
                    let sum: f64 = others.iter().map(|other| order[*other]).sum();
                    (!others.is_empty()).then(|| sum / others.len() as f64)
                };
                let mut keyed: Vec<(f64, usize)> = Vec::with_capacity(vertices.len());
                for (index, vertex) in vertices.iter().enumerate() {
                    // A vertex without neighbours there keeps its relative position.
                    let share = index as f64 / vertices.len() as f64;
                    keyed.push((middle(*vertex, &order).unwrap_or(share), *vertex));
                }
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                vertices.clear();
                vertices.extend(keyed.iter().map(|(_, vertex)| *vertex));
                for (index, vertex) in vertices.iter().enumerate() {
                    order[*vertex] = (index as f64 + 0.5) / vertices.len() as f64;
                }
                self.layers[layer] = vertices;
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    /// Returns the number of crossings of edges between neighbouring layers.
    pub(crate) fn crossings(&self) -> usize {
        let mut index = vec![0; self.vertices.len()];
        for layer in &self.layers {
            for (at, vertex) in layer.iter().enumerate() {
                index[*vertex] = at;
            }
        }
        let mut crossings = 0;
        for layer in &self.layers {
            // The sorted ends of edges that begin further left. An edge crosses those that end to the right of its end.
            let mut ends: Vec<usize> = Vec::new();
            for vertex in layer {
                let mut mine: Vec<usize> =
                    self.below[*vertex].iter().map(|end| index[*end]).collect();
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

/// Returns the layer of each node: below all its predecessors. A node without predecessors is directly above its
/// highest successor.
fn layers_of(graph: &Graph) -> Result<Vec<usize>, LayerError> {
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
        return Err(LayerError::Cycle(name.to_owned()));
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

    fn layered(edges: &str) -> Result<Layered, LayerError> {
        Layered::new(&parse(&format!("digraph {{ {edges} }}")).unwrap())
    }

    #[test]
    fn every_step_of_an_edge_goes_down_one_layer() {
        let drawn = layered("a -> b -> c -> d; a -> d; x -> d").unwrap();
        assert_eq!(drawn.layers.len(), 4);
        for pair in drawn.paths.iter().flat_map(|path| path.windows(2)) {
            assert_eq!(drawn.layer_of[pair[0]] + 1, drawn.layer_of[pair[1]]);
        }
        // `x` is directly above its successor.
        assert_eq!(drawn.layer_of[4], 2);
    }

    #[test]
    fn planar_graph_has_no_crossings() {
        let drawn = layered("a -> y; b -> x; c -> z; a -> w; b -> z").unwrap();
        assert_eq!(drawn.crossings(), 0);
    }

    #[test]
    fn cycles_and_too_many_bends_are_refused() {
        let error = layered("a -> b -> c -> b").unwrap_err();
        assert_eq!(error, LayerError::Cycle("b".to_owned()));
        let chain: String = (0..1000)
            .map(|i| format!("n{i} -> n{}; n0 -> n{i}a; n{i} -> n{}; ", i + 1, i + 400))
            .collect();
        assert_eq!(layered(&chain).unwrap_err(), LayerError::TooLarge);
    }
}
