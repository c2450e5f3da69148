//! `millstream draw`: draws a schedule as SVG from the output of `Schedule::dot`, without Graphviz.
//!
//! | module | contents |
//! | --- | --- |
//! | [`dot`] | parses the part of the DOT language that schedules use |
//! | [`boxes`] | wraps the text of a node and computes its size |
//! | [`layers`] | assigns nodes to layers and orders each layer |
//! | [`place`] | computes coordinates |
//! | [`svg`] | writes the SVG |
//!
//! `docs/decisions/0033-draw-has-its-own-parser-and-layout.md` explains why no other crate does this.

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

/// The largest file that is read. Schedules are far smaller.
const BYTES_MAX: u64 = 16 << 20;

/// The result of one run.
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
    let layered = layers::Layered::new(&graph).map_err(|error| match error {
        layers::LayerError::Cycle(node) => CommandError::ScheduleCycle {
            path: path.clone(),
            node,
        },
        layers::LayerError::TooLarge => CommandError::ScheduleTooLarge {
            path: path.clone(),
            what: "nodes and edge bends",
            most: layers::VERTICES_MAX as u64,
        },
    })?;
    let boxes: Vec<boxes::NodeBox> = graph.nodes.iter().map(boxes::NodeBox::new).collect();
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
            "drew {nodes} nodes and {edges} edges to {target}\n"
        ))?;
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests;
