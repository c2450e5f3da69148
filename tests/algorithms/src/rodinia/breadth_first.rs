//! Breadth-first search: the steps from a node of a graph to each other.
//!
//! Rodinia's threads all store `true` to the mark of a node that several reach. That is a race, which the simulator
//! reports even though the values are equal: so they store atomically.

use millstream::prelude::*;

use crate::{Checked, equal, uniform};

/// The steps to a node that no way leads to.
const FAR: u32 = u32::MAX;

/// Marks the nodes behind the edges of the last found. The edges of node `i` are those from `starts[i]`.
#[kernel]
pub fn expand(step: u32, starts: &[u32], edges: &[u32], steps: &[u32], marks: &[Atomic<u32>]) {
    let i = thread();
    if steps[i] == step {
        for edge in starts[i]..starts[i + 1] {
            marks[edges[edge]].store(1);
        }
    }
}

/// Gives the marked nodes that are new their steps, and counts them.
#[kernel]
pub fn advance(step: u32, marks: &[u32], steps: &mut [u32], found: &[Atomic<u32>]) {
    let i = thread();
    if marks[i] > 0 && steps[i] == FAR {
        steps[i] = step;
        found[step].fetch_add(1);
    }
}

/// Returns the steps from a node to each.
fn search(
    stream: &Stream,
    starts: &[u32],
    edges: &[u32],
    from: usize,
) -> Result<Vec<u32>, millstream::Error> {
    let nodes = starts.len() - 1;
    let mut first = vec![FAR; nodes];
    first[from] = 0;
    let (starts, edges) = (stream.create(starts)?, stream.create(edges)?);
    let (mut steps, marks) = (stream.create(&first)?, stream.create(&vec![0; nodes])?);
    let found = stream.create(&vec![0; nodes + 1])?;
    for step in 0..nodes as u32 {
        expand(step, &starts, &edges, &steps, &marks).launch(stream, nodes)?;
        advance(step + 1, &marks, &mut steps, &found).launch_each(stream)?;
        if stream.read(&found).wait()?[step as usize + 1] == 0 {
            break;
        }
    }
    stream.read(&steps).wait()
}

/// The same in ordinary Rust.
fn expected(graph: &[Vec<u32>], from: usize) -> Vec<u32> {
    let mut steps = vec![FAR; graph.len()];
    steps[from] = 0;
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for other in graph[node].iter().map(|it| *it as usize) {
            if steps[other] == FAR {
                steps[other] = steps[node] + 1;
                queue.push_back(other);
            }
        }
    }
    steps
}

/// Compares the search with plain Rust.
///
/// # Errors
/// They differ.
pub fn breadth_first_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    let random = |nodes: usize, edges: usize| -> Vec<Vec<u32>> {
        let ends = uniform(1, nodes * edges)
            .into_iter()
            .map(|it| (it * nodes as f32) as u32);
        ends.collect::<Vec<_>>()
            .chunks(edges)
            .map(<[u32]>::to_vec)
            .collect()
    };
    let graphs = [
        // One node, with an edge to itself; a ring; nodes that no edge leads to; two edges between the same nodes.
        (vec![vec![0]], 0),
        ((0..13).map(|i| vec![(i + 1) % 13]).collect(), 5),
        (vec![vec![1, 1], vec![0], vec![0, 1], vec![]], 0),
        (random(300, 2), 299),
        (random(300, 12), 0),
    ];
    for (graph, from) in graphs {
        let mut starts = vec![0];
        starts.extend(graph.iter().scan(0, |sum, it| {
            *sum += it.len() as u32;
            Some(*sum)
        }));
        let steps = search(&stream, &starts, &graph.concat(), from)?;
        equal("steps", &steps, &expected(&graph, from))?;
    }
    Ok(())
}
