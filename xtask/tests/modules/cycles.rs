//! Cycles in a directed graph of names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// For each name those that it names, each with the reason.
pub(crate) type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// The strongly connected components of more than one name: those that all reach each other, sorted.
pub(crate) fn components(arrows: &Arrows) -> Vec<Vec<String>> {
    let reached: BTreeMap<_, _> = arrows
        .keys()
        .map(|from| (from, reach(arrows, from)))
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

/// What is reached from `from` by one arrow or more.
fn reach(arrows: &Arrows, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(from) = open.pop() {
        for to in arrows.get(from).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.clone()) {
                open.push(to);
            }
        }
    }
    reached
}

/// A shortest cycle within a component, as `a -> b -> a`, and the reason for each of its arrows.
pub(crate) fn shortest(arrows: &Arrows, component: &[String]) -> String {
    let cycles = component
        .iter()
        .filter_map(|start| cycle_through(arrows, start));
    let cycle = cycles.min_by_key(Vec::len).unwrap();
    let reasons = cycle
        .windows(2)
        .map(|pair| format!("\n    {}", arrows[pair[0]][pair[1]]));
    cycle.join(" -> ") + &reasons.collect::<String>()
}

/// A shortest way from `start` back to it.
fn cycle_through<'a>(arrows: &'a Arrows, start: &'a str) -> Option<Vec<&'a str>> {
    let mut before = BTreeMap::<&str, &str>::new();
    let mut open = VecDeque::from([start]);
    while let Some(from) = open.pop_front() {
        for to in arrows.get(from).into_iter().flat_map(BTreeMap::keys) {
            if before.contains_key(to.as_str()) {
                continue;
            }
            before.insert(to, from);
            open.push_back(to);
        }
    }
    let mut way = vec![start, before.get(start)?];
    while way.last() != Some(&start) {
        way.push(before[way.last()?]);
    }
    way.reverse();
    Some(way)
}
