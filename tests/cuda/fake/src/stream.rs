//! Streams: operations in order, and which of them may be next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::clock::Clock;
use crate::graph::Captured;
use crate::operation::{Operation, Queued};
use ptx::Kernel;

/// A stream of the driver.
pub(crate) struct Stream {
    /// As reports call it.
    pub(crate) number: u64,
    /// The context that it was made in.
    pub(crate) context: u64,
    /// As it was made, within what there is.
    pub(crate) priority: i32,
    pub(crate) flags: u32,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) clock: Clock,
    /// What it is given goes into a graph.
    pub(crate) capture: Option<Captured>,
    pub(crate) held: bool,
    /// It waits for the end of a function of the host's.
    pub(crate) busy: bool,
    /// It ends when its queue is empty.
    pub(crate) destroyed: bool,
}

/// All streams of a session.
#[derive(Default)]
pub(crate) struct Streams {
    pub(crate) live: BTreeMap<u64, Stream>,
    /// The last operation of each that was executed. Kept for streams that have ended.
    done: BTreeMap<u64, u64>,
    /// Kernels of these names do not begin.
    pub(crate) held_kernels: BTreeSet<String>,
}

impl Streams {
    /// Has this moment come?
    pub(crate) fn is_over(&self, stream: u64, tick: u64) -> bool {
        self.done.get(&stream).copied().unwrap_or(0) >= tick
    }

    /// Streams whose next operation may be executed.
    pub(crate) fn runnable(&self) -> Vec<u64> {
        let may = |stream: &&u64| {
            let stream = &self.live[*stream];
            !stream.held
                && !stream.busy
                && stream
                    .queue
                    .front()
                    .is_some_and(|queued| match &queued.operation {
                        Operation::Wait(moment) => self.is_over(moment.stream, moment.tick),
                        Operation::Graph(run) => run
                            .after
                            .as_ref()
                            .is_none_or(|moment| self.is_over(moment.stream, moment.tick)),
                        Operation::Launch(launch) => {
                            !self.held_kernels.contains(&launch.kernel.name)
                        }
                        _ => true,
                    })
        };
        self.live.keys().filter(may).copied().collect()
    }

    /// Does any wait for the end of a function of the host's?
    pub(crate) fn is_busy(&self) -> bool {
        self.live.values().any(|stream| stream.busy)
    }

    /// Streams whose next operation is this kernel.
    pub(crate) fn at_kernel(&self, name: &str) -> usize {
        let next = self.live.values().filter_map(|stream| stream.queue.front());
        let comes = |queued: &&Queued| matches!(&queued.operation, Operation::Launch(launch) if launch.kernel.name == name);
        next.filter(comes).count()
    }

    /// Takes the next operation of a stream.
    pub(crate) fn take(&mut self, stream: u64) -> Option<Queued> {
        self.live.get_mut(&stream)?.queue.pop_front()
    }

    /// An operation of this stream has been executed.
    pub(crate) fn passed(&mut self, stream: u64, tick: u64) {
        self.done.insert(stream, tick);
        if let Some(stream) = self.live.get_mut(&stream) {
            stream.busy = false;
        }
        let ended = |stream: &Stream| stream.destroyed && stream.queue.is_empty();
        if self.live.get(&stream).is_some_and(ended) {
            self.live.remove(&stream);
        }
    }

    /// Is this kernel yet to run?
    pub(crate) fn is_queued(&self, kernel: &Arc<Kernel>) -> bool {
        let queued = self.live.values().flat_map(|stream| &stream.queue);
        let mut operations = queued.map(|queued| &queued.operation);
        operations.any(|operation| match operation {
            Operation::Launch(launch) => Arc::ptr_eq(&launch.kernel, kernel),
            Operation::Graph(run) => run.has(kernel),
            _ => false,
        })
    }

    /// What every stream, and everything in every queue, knows of what `host` knows.
    pub(crate) fn known_by_all(&self, host: &Clock) -> Clock {
        let mut known = host.clone();
        for stream in self.live.values() {
            for queued in &stream.queue {
                known.meet(&queued.step.clock);
            }
        }
        known
    }
}
