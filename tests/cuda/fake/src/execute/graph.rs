//! Executes one launch of a graph: for its stream it is one operation. Its nodes are executed one after the other, in
//! any order that the edges permit, by the seed; two that touch the same bytes without a way along edges are reported.

use std::ops::Range;

use crate::access::Step;
use crate::code::Code;
use crate::operation::{GraphPart, GraphRun, Operation, Queued};
use crate::state::State;
use ptx::Kind;

use super::execute;

/// What a node touched.
type Touched = Vec<(Kind, Range<u64>)>;

/// Executes a launch.
pub(super) fn run(state: &mut State, step: &Step, run: GraphRun) -> Result<(), Code> {
    let parts = run.parts;
    // What comes before each, by any way; filled in as they are executed.
    let mut before: Vec<Vec<bool>> = vec![Vec::new(); parts.len()];
    let mut touched: Vec<Option<Touched>> = parts.iter().map(|_| None).collect();
    let names: Vec<String> = parts
        .iter()
        .enumerate()
        .map(|(place, part)| format!("{} (node {} of {})", part.name, place + 1, step.name))
        .collect();
    let mut waiting: Vec<(usize, GraphPart)> = parts.into_iter().enumerate().collect();
    while !waiting.is_empty() {
        let may = |(_, part): &&(usize, GraphPart)| {
            part.after.iter().all(|other| touched[*other].is_some())
        };
        let ready: Vec<usize> = waiting
            .iter()
            .enumerate()
            .filter_map(|(at, waits)| may(&waits).then_some(at))
            .collect();
        debug_assert!(
            !ready.is_empty(),
            "a graph with a cycle is not instantiated"
        );
        let (place, part) = waiting.swap_remove(ready[state.chance.below(ready.len())]);
        let mut known = vec![false; names.len()];
        for other in &part.after {
            known[*other] = true;
            for (knows, too) in known.iter_mut().zip(&before[*other]) {
                *knows |= *too;
            }
        }
        let touches = execute_part(state, step, &names[place], part.operation)?;
        for (other, touches_of_other) in touched.iter().enumerate() {
            if let (false, Some(of_other)) = (known[other], touches_of_other) {
                report_races(state, (&names[place], &touches), (&names[other], of_other));
            }
        }
        before[place] = known;
        touched[place] = Some(touches);
    }
    Ok(())
}

fn execute_part(
    state: &mut State,
    step: &Step,
    name: &str,
    operation: Option<Operation>,
) -> Result<Touched, Code> {
    let Some(operation) = operation else {
        return Ok(Vec::new());
    };
    let step = Step {
        name: name.into(),
        ..step.clone()
    };
    state.time.pass(&operation);
    state.touched = Some(Vec::new());
    let done = execute(state, Queued { step, operation });
    let touched = state.touched.take().unwrap_or_default();
    done.map(|()| touched)
}

/// Reports the first bytes that two nodes touch, one of them writing.
fn report_races(state: &mut State, one: (&str, &Touched), other: (&str, &Touched)) {
    for (kind, bytes) in one.1 {
        for (kind_of_other, bytes_of_other) in other.1 {
            let (start, end) = (
                bytes.start.max(bytes_of_other.start),
                bytes.end.min(bytes_of_other.end),
            );
            if start < end && kind.conflicts(*kind_of_other) {
                state.report(format!(
                    "race: {} {} bytes {start:#x} to {end:#x}, which {} {}, and no edge of the graph orders the two",
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
