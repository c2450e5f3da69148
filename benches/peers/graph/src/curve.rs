//! Measures the cost of scheduling against the number of nodes. The cost per node must not grow with that number.

use std::thread;

use millstream_harness::{Table, digits, median};
use serde::Serialize;

use crate::contenders::ours::{Form, schedule};
use crate::contenders::{Fault, ug};

/// The numbers of nodes of the graphs.
const NODES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// The most nodes of a graph for `ug`, which recurses, so each node takes stack.
const UG_NODES_MAX: usize = 100_000;
/// The stack of the thread for `ug`. The system only backs the pages that it touches.
const UG_STACK_BYTES: usize = 8 << 30;

#[derive(Serialize)]
struct Point {
    side: &'static str,
    form: &'static str,
    nodes: usize,
    write_ns: f64,
    schedule_ns: f64,
    drop_ns: f64,
}

/// Prints the curve: nanoseconds per node, medians of the rounds.
pub(crate) fn curve(rounds: usize, quick: bool, json: bool) -> Result<(), Fault> {
    let forms = [
        ("chain", Form::Chain),
        ("ladder", Form::Ladder),
        ("blocks", Form::Blocks),
    ];
    let most = if quick { NODES[2] } else { NODES[3] };
    let mut points = Vec::new();
    for (form, kind) in forms {
        for nodes in NODES.into_iter().filter(|nodes| *nodes <= most) {
            let seconds = rounds_of(rounds, || schedule(kind, nodes))?;
            points.push(point("ours", form, nodes, seconds));
        }
    }
    for nodes in NODES
        .into_iter()
        .filter(|nodes| *nodes <= UG_NODES_MAX.min(most))
    {
        let deep = || -> Result<[f64; 3], Fault> {
            let chain = move || ug::chain(nodes).map_err(|why| why.to_string());
            let deep = thread::Builder::new().stack_size(UG_STACK_BYTES);
            let joined = deep.spawn(chain)?.join();
            Ok(joined.map_err(|_| "the chain of `ug` panicked")??)
        };
        points.push(point("ug", "chain", nodes, rounds_of(rounds, deep)?));
    }
    if json {
        for point in points {
            println!("{}", serde_json::to_string(&point)?);
        }
        return Ok(());
    }
    let header = [
        "side",
        "graph",
        "nodes",
        "write, ns a node",
        "schedule",
        "drop",
    ];
    let mut table = Table::new(header, 2..6);
    for point in points {
        table.row([
            point.side.to_owned(),
            point.form.to_owned(),
            point.nodes.to_string(),
            digits(point.write_ns),
            digits(point.schedule_ns),
            digits(point.drop_ns),
        ]);
    }
    print!("{}", table.markdown());
    Ok(())
}

fn rounds_of(
    rounds: usize,
    mut one: impl FnMut() -> Result<[f64; 3], Fault>,
) -> Result<[f64; 3], Fault> {
    let all: Vec<[f64; 3]> = (0..rounds).map(|_| one()).collect::<Result<_, _>>()?;
    let of = |part: usize| median(&all.iter().map(|times| times[part]).collect::<Vec<_>>());
    Ok([of(0), of(1), of(2)])
}

fn point(side: &'static str, form: &'static str, nodes: usize, seconds: [f64; 3]) -> Point {
    let [write_ns, schedule_ns, drop_ns] = seconds.map(|seconds| seconds * 1e9 / nodes as f64);
    Point {
        side,
        form,
        nodes,
        write_ns,
        schedule_ns,
        drop_ns,
    }
}
