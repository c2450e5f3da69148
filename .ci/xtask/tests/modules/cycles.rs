//! Finds cycles in a directed graph of names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The edges from each name to others, each with its reason.
pub(crate) type Edges = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the strongly connected components that have a cycle, sorted.
pub(crate) fn components(edges: &Edges) -> Vec<Vec<String>> {
    let reached: BTreeMap<_, _> = edges
        .keys()
        .map(|from| (from, reach(edges, from)))
        .collect();
    let components: BTreeSet<Vec<_>> = reached
        .iter()
        .filter(|(from, reached)| reached.contains(**from))
        .map(|(from, all)| {
            all.iter()
                .filter(|to| reached.get(to).is_some_and(|back| back.contains(*from)))
                .cloned()
                .collect()
        })
        .collect();
    components.into_iter().collect()
}

/// Returns the names that are reachable from `from` by at least one edge.
fn reach(edges: &Edges, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(from) = open.pop() {
        for to in edges.get(from).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.clone()) {
                open.push(to);
            }
        }
    }
    reached
}

/// Returns a shortest cycle of a component, as `a -> b -> a`, with the reason for each edge.
pub(crate) fn shortest(edges: &Edges, component: &[String]) -> String {
    let cycles = component
        .iter()
        .filter_map(|start| cycle_through(edges, start));
    let cycle = cycles.min_by_key(Vec::len).unwrap();
    let reasons = cycle
        .windows(2)
        .map(|pair| format!("\n    {}", edges[pair[0]][pair[1]]));
    cycle.join(" -> ") + &reasons.collect::<String>()
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
