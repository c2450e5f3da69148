//! Replays of recordings as graphs of the driver.
//!
//! # Protocol
//!
//! A recording is a plan: its tasks, and an order with an edge from each task to the later tasks that conflict with it.
//! The device keeps one [`State`] for each recording and queue. Queues do not share a graph, because the driver runs
//! the launches of one graph one after the other.
//!
//! ```text
//!        1st replay              2nd replay: build, launch              each later replay: update, launch
//!  New ────────────► SeenOnce ─────────────────────────────► Ready ──┐
//!                        │                                    │ ▲    │
//!                        └──────────► Unsupported ◄───────────┘ └────┘
//! ```
//!
//! The first replay is issued task by task, because many recordings are replayed once: as many tasks at a time as the
//! queue has room for, so that they do not fill the stream, where the driver would block the device thread (I12). Each
//! later replay takes these steps:
//!
//! 1. *Collect*. The device walks the tasks and writes the driver calls that they would make to [`Steps`]: launches
//!    with copies of their parameters, copies, memsets. No call reaches the stream, so the device may still fall back.
//! 2. *Build* (`SeenOnce`). Each step becomes a node. Each node of a task depends on the nodes of the tasks right
//!    before it in the plan's order, so the driver runs tasks concurrently if they do not conflict. A task without
//!    steps (a launch of no cubes) passes its dependencies on. Then the graph is instantiated.
//!    *Update* (`Ready`). The steps are compared with those of the last launch. Each node whose values differ gets new
//!    parameters.
//! 3. *Launch*. One call launches the graph on the queue's stream. Then the new steps replace the old ones, and the
//!    queue notes all cursors of the replay as issued.
//!
//! # Example
//!
//! A recording fills A, then runs K (reads A, writes B) and L (reads A, writes C), then copies B to D. The plan has the
//! edges 0→1, 0→2 and 1→3.
//!
//! ```text
//!  memset A ──┬──► kernel K ──► copy B to D          K and L run concurrently; the copy waits for K alone
//!             └──► kernel L
//!
//!  replay 1                     4 calls, task by task
//!  replay 2                     4 calls add the nodes, 1 instantiates, 1 launches
//!  replay 3, other handle for C    1 call updates the node of L, 1 launches
//!  replay 4, same handles       1 call launches
//! ```
//!
//! # Fallback
//!
//! The device issues a replay task by task, so that an error names its task, in these cases:
//!
//! - The recording has fewer than `TASKS_MIN` tasks, or the device has `GRAPHS_MAX` graphs. The state stays.
//! - A profile is open: a graph has a single span. The state stays.
//! - Parameters of this replay overlap: the plan's edges assume that they are distinct. The state stays.
//! - A task is refused while it is collected. The tasks before it are issued, and the error names it. The state stays.
//! - The steps have another shape than those of the graph: a shorter fill may need other memsets. The state stays.
//! - A launch has attributes, or cuBLASLt performs it: these have no nodes here. The state becomes `Unsupported`.
//! - The driver refuses to build, update or launch the graph. Nothing was issued; the state becomes `Unsupported`.
//!   An error that destroys the context ends the device instead.
//!
//! # Orderings
//!
//! A graph is one unit of work on its stream: the stream orders it with the tasks before and after it, and the waits
//! for other queues are issued before the launch (I1, I2). Within the graph only the plan's edges order nodes. An
//! update does not affect launches in flight, which keep the parameters that they were launched with.
//!
//! # Tests
//!
//! `tests/cuda/tests/cuda/replays.rs`, and the module `replaying` of the conformance suite, on the fake driver. It runs
//! nodes in any order that the edges permit, and its checker reports a missing edge as a race;
//! `tests/mutants/invariants/i1_graph_without_edges.patch` proves that.

mod graph;
mod steps;

use std::sync::Arc;

pub(crate) use graph::Graph;
pub(crate) use steps::{Action, StepSink, Steps};

/// The state of a device for replays.
#[derive(Default)]
pub(crate) struct Replays {
    /// The steps of the replay that is being collected. Reused, so that a replay allocates nothing (I9).
    pub(crate) steps: Steps,
    /// Counts the graphs: each holds a clone.
    pub(crate) graphs: Arc<()>,
}

/// The states of one recording, by queue.
pub(crate) type QueueStates = Box<[State]>;

/// The state of one recording on one queue.
pub(crate) enum State {
    /// Not replayed yet.
    New,
    /// Replayed once; the next replay builds the graph.
    SeenOnce,
    /// The next replay updates and launches the graph.
    Ready(Box<Graph>),
    /// The driver refused the graph, or a task has no node. All replays are issued task by task.
    Unsupported,
}
