//! `millstream draw`: a schedule's graph, as `Schedule::dot` writes it, as a picture in SVG. Graphviz is not needed.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`dot`] | reads Graphviz's language, as much of it as schedules are written in |
//! | [`boxes`] | the text of a node, wrapped, and the room that it takes |
//! | [`layers`] | which nodes are beside each other, and in which order |
//! | [`place`] | where each of them lies |
//! | [`svg`] | draws it |
//!
//! Why none of this is a crate of others: `docs/decisions/0036-schedules-are-drawn-by-hand.md`.

mod boxes;
mod dot;
mod layers;
mod place;
mod svg;

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use crate::args::DrawArgs;
use crate::exit::{CommandError, Exit};
use crate::output;

/// Largest file that is read: schedules are far below, and what is above is something else.
const BYTES_MAX: u64 = 16 << 20;

/// What was drawn.
#[derive(Serialize)]
struct Report {
    exit_code: u8,
    output: PathBuf,
    nodes: usize,
    edges: usize,
    width: f64,
    height: f64,
}

/// Runs the command.
pub(crate) fn run(args: &DrawArgs) -> Result<Exit, CommandError> {
    let path = &args.file;
    let unreadable = |source| CommandError::ScheduleUnreadable {
        path: path.clone(),
        source,
    };
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    if bytes > BYTES_MAX {
        let (path, most) = (path.clone(), BYTES_MAX >> 20);
        return Err(CommandError::ScheduleTooLarge {
            path,
            what: "MiB",
            most,
        });
    }
    let text = fs::read(path).map_err(unreadable)?;
    let text = String::from_utf8_lossy(&text);
    let graph = dot::parse(&text).map_err(|source| CommandError::NotASchedule {
        path: path.clone(),
        source: Box::new(source),
    })?;
    let layered = layers::Layered::new(&graph).map_err(|why| match why {
        layers::Unlayered::Circle(node) => CommandError::ScheduleCycle {
            path: path.clone(),
            node,
        },
        layers::Unlayered::TooLarge => CommandError::ScheduleTooLarge {
            path: path.clone(),
            what: "places of nodes and edges",
            most: layers::PLACES_MAX as u64,
        },
    })?;
    let boxes: Vec<boxes::Box> = graph.nodes.iter().map(boxes::Box::new).collect();
    let placed = place::Placed::new(&layered, &boxes);
    let drawing = svg::drawing(&graph, &layered, &placed, &boxes);
    let target = match &args.output {
        Some(target) => target.clone(),
        None => path.with_extension("svg"),
    };
    fs::write(&target, drawing).map_err(|source| CommandError::DrawingUnwritable {
        path: target.clone(),
        source,
    })?;
    let report = Report {
        exit_code: Exit::Success.code(),
        nodes: graph.nodes.len(),
        edges: graph.edges.len(),
        width: placed.width,
        height: placed.height,
        output: target,
    };
    if args.json {
        output::json(&report)?;
    } else {
        let (nodes, edges) = (report.nodes, report.edges);
        let target = report.output.display();
        output::text(&format!(
            "{nodes} nodes and {edges} edges drawn in {target}\n"
        ))?;
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests;
