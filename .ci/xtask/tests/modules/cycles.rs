//! Finds cycles in a directed graph of names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The edges from each name to others, each with its reason.
pub(crate) type Edges = BTreeMap<String, BTreeMap<String, String>>;

/// Returns a shortest cycle through each name that has one, as `a -> b -> a` with the reason for each edge: one of each
/// set of names.
pub(crate) fn all(edges: &Edges) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut cycles: Vec<_> = edges
        .keys()
        .filter_map(|start| cycle_through(edges, start))
        .collect();
    cycles.retain(|cycle| seen.insert(cycle.iter().copied().collect::<BTreeSet<_>>()));
    let text = |cycle: Vec<&str>| {
        let pairs = cycle.windows(2);
        let reasons = pairs.map(|pair| format!("\n    {}", edges[pair[0]][pair[1]]));
        cycle.join(" -> ") + &reasons.collect::<String>()
    };
    cycles.into_iter().map(text).collect()
}

/// Returns a shortest path from `start` back to itself.
fn cycle_through<'a>(edges: &'a Edges, start: &'a str) -> Option<Vec<&'a str>> {
    let mut before = BTreeMap::<&str, &str>::new();
    let mut open = VecDeque::from([start]);
    while let Some(from) = open.pop_front() {
        for to in edges.get(from).into_iter().flat_map(BTreeMap::keys) {
            if before.contains_key(to.as_str()) {
                continue;
            }
            before.insert(to, from);
            open.push_back(to);
        }
    }
    let mut path = vec![start, before.get(start)?];
    while path.last() != Some(&start) {
        path.push(before[path.last()?]);
    }
    path.reverse();
    Some(path)
}
