//! Executes a launch of a graph, which is one operation of its stream. The seed chooses an order of the nodes that the
//! edges permit. Two nodes that access the same bytes without a path of edges between them are reported as a race.

use std::ops::Range;

use crate::access::Step;
use crate::code::Code;
use crate::operation::{GraphNode, GraphRun, Operation, Queued};
use crate::state::State;
use ptx::Kind;

use super::execute;

/// The accesses of a node.
type NodeAccesses = Vec<(Kind, Range<u64>)>;

/// Executes the launch.
pub(super) fn run(state: &mut State, step: &Step, run: GraphRun) -> Result<(), Code> {
    let nodes = run.nodes;
    // For each executed node, all nodes with a path to it.
    let mut before: Vec<Vec<bool>> = vec![Vec::new(); nodes.len()];
    let mut accesses: Vec<Option<NodeAccesses>> = nodes.iter().map(|_| None).collect();
    let names: Vec<String> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let name = node.operation.node_name();
            format!("{name} (node {} of {})", index + 1, step.name)
        })
        .collect();
    let mut waiting: Vec<(usize, GraphNode)> = nodes.into_iter().enumerate().collect();
    while !waiting.is_empty() {
        let may = |(_, node): &&(usize, GraphNode)| {
            node.after.iter().all(|other| accesses[*other].is_some())
        };
        let ready: Vec<usize> = waiting
            .iter()
            .enumerate()
            .filter_map(|(at, waits)| may(&waits).then_some(at))
            .collect();
        debug_assert!(
            !ready.is_empty(),
            "instantiation refuses a graph with a cycle"
        );
        let (index, node) = waiting.swap_remove(ready[state.rng.below(ready.len())]);
        let mut known = vec![false; names.len()];
        for other in &node.after {
            known[*other] = true;
            for (knows, too) in known.iter_mut().zip(&before[*other]) {
                *knows |= *too;
            }
        }
        let own = execute_node(state, step, &names[index], node.operation)?;
        for (other, of_other) in accesses.iter().enumerate() {
            if let (false, Some(of_other)) = (known[other], of_other) {
                report_races(state, (&names[index], &own), (&names[other], of_other));
            }
        }
        before[index] = known;
        accesses[index] = Some(own);
    }
    Ok(())
}

fn execute_node(
    state: &mut State,
    step: &Step,
    name: &str,
    operation: Operation,
) -> Result<NodeAccesses, Code> {
    let step = Step {
        name: name.into(),
        ..step.clone()
    };
    state.time.advance(&operation);
    state.node_accesses = Some(Vec::new());
    let done = execute(state, Queued { step, operation });
    let accesses = state.node_accesses.take().unwrap_or_default();
    done.map(|()| accesses)
}

/// Reports the first conflicting access of two nodes.
fn report_races(state: &mut State, one: (&str, &NodeAccesses), other: (&str, &NodeAccesses)) {
    for (kind, bytes) in one.1 {
        for (kind_of_other, bytes_of_other) in other.1 {
            let (start, end) = (
                bytes.start.max(bytes_of_other.start),
                bytes.end.min(bytes_of_other.end),
            );
            if start < end && kind.conflicts(*kind_of_other) {
                state.report(format!(
                    "race: {} {} bytes {start:#x} to {end:#x}, which {} {}, without a path of edges between the two",
                    one.0,
                    kind.verb(),
                    other.0,
                    kind_of_other.verb(),
                ));
                return;
            }
        }
    }
}
