//! Replays of recordings, launched as one graph of the driver.
//!
//! The first replay of a recording on a queue is issued task by task: many are replayed once. The second builds a graph, and each
//! one after it changes what is different (other handles, mostly) and launches it: one call of the driver for all tasks, and one
//! more for each that changed. There is a graph for each queue, because launches of one graph wait for each other. Its edges are
//! those of the plan, so that the driver runs side by side what does not conflict.
//!
//! A replay whose parameters overlap, and whatever the driver refuses of a graph, is issued task by task, so that a failure names its
//! task.

mod graph;
mod steps;

use std::sync::Arc;

pub(crate) use graph::Graph;
pub(crate) use steps::{Action, Steps, Taking};

/// What a device has for replays.
#[derive(Default)]
pub(crate) struct Replays {
    /// The steps of the replay that is taken down; kept so that it takes no heap (I9).
    pub(crate) steps: Steps,
    /// Counts the graphs: each has a clone.
    pub(crate) graphs: Arc<()>,
}

/// What is known of a recording, by queue.
pub(crate) struct Known(pub(crate) Box<[State]>);

/// What is known of a recording on a queue.
pub(crate) enum State {
    /// It was not replayed.
    New,
    /// It was replayed once.
    Once,
    /// The next replay launches it.
    Ready(Box<Graph>),
    /// The driver takes no graph of it, or it has what graphs do not have here.
    Never,
}

impl Known {
    /// Nothing, on this many queues.
    pub(crate) fn new(queues: usize) -> Self {
        Self((0..queues).map(|_| State::New).collect())
    }
}
