//! Streams: queues of operations, and the streams whose next operation may run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::capture::Capture;
use crate::clock::Clock;
use crate::operation::{Operation, Queued};
use ptx::Kernel;

/// A stream of the driver.
pub(crate) struct Stream {
    /// The number in reports.
    pub(crate) number: u64,
    /// The context that it was created in.
    pub(crate) context: u64,
    /// The requested priority, clamped to the supported range.
    pub(crate) priority: i32,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) clock: Clock,
    /// Whether a test holds the stream.
    pub(crate) held: bool,
    /// Whether it was destroyed; it is removed when its queue is empty.
    pub(crate) destroyed: bool,
    pub(crate) capture: Option<Capture>,
}

/// All streams of a session.
#[derive(Default)]
pub(crate) struct Streams {
    pub(crate) live: BTreeMap<u64, Stream>,
    /// The last executed tick of each stream, including removed ones.
    done: BTreeMap<u64, u64>,
    /// The names of held kernels.
    pub(crate) held_kernels: BTreeSet<String>,
}

impl Streams {
    /// Returns `true` if the stream has executed this tick.
    pub(crate) fn is_complete(&self, stream: u64, tick: u64) -> bool {
        self.done.get(&stream).copied().unwrap_or(0) >= tick
    }

    /// Returns the streams whose next operation may run.
    pub(crate) fn runnable(&self) -> Vec<u64> {
        let may = |stream: &&u64| {
            let stream = &self.live[*stream];
            !stream.held
                && stream
                    .queue
                    .front()
                    .is_some_and(|queued| match &queued.operation {
                        Operation::Wait(point) => self.is_complete(point.stream, point.tick),
                        Operation::Graph(run) => run
                            .after
                            .as_ref()
                            .is_none_or(|point| self.is_complete(point.stream, point.tick)),
                        Operation::Launch(launch) => {
                            !self.held_kernels.contains(&launch.kernel.name)
                        }
                        Operation::Native(native) => native.is_ready(),
                        _ => true,
                    })
        };
        self.live.keys().filter(may).copied().collect()
    }

    /// Returns `true` if no stream of this context has work, besides allocations and frees, which take no time.
    pub(crate) fn are_idle(&self, context: u64) -> bool {
        let is_memory = |queued: &Queued| {
            matches!(
                queued.operation,
                Operation::Allocate(_) | Operation::Free(_)
            )
        };
        let all = self.live.values();
        let mut of_context = all.filter(|stream| stream.context == context);
        of_context.all(|stream| stream.queue.iter().all(is_memory))
    }

    /// Returns the number of streams whose next operation is this kernel.
    pub(crate) fn at_kernel(&self, name: &str) -> usize {
        let next = self.live.values().filter_map(|stream| stream.queue.front());
        let is_kernel = |queued: &&Queued| matches!(&queued.operation, Operation::Launch(launch) if launch.kernel.name == name);
        next.filter(is_kernel).count()
    }

    /// Removes and returns the next operation of a stream.
    pub(crate) fn take(&mut self, stream: u64) -> Option<Queued> {
        self.live.get_mut(&stream)?.queue.pop_front()
    }

    /// Notes that the stream has executed this tick.
    pub(crate) fn complete(&mut self, stream: u64, tick: u64) {
        self.done.insert(stream, tick);
        let ended = |stream: &Stream| stream.destroyed && stream.queue.is_empty();
        if self.live.get(&stream).is_some_and(ended) {
            self.live.remove(&stream);
        }
    }

    /// Returns `true` if a queued operation runs this kernel.
    pub(crate) fn is_queued(&self, kernel: &Arc<Kernel>) -> bool {
        let queued = self.live.values().flat_map(|stream| &stream.queue);
        let mut operations = queued.map(|queued| &queued.operation);
        operations.any(|operation| match operation {
            Operation::Launch(launch) => Arc::ptr_eq(&launch.kernel, kernel),
            Operation::Graph(run) => run.has(kernel),
            _ => false,
        })
    }

    /// Returns the part of the host's clock that every queued operation knows. Later operations join the host's clock,
    /// so they know it as well.
    pub(crate) fn known_to_all(&self, host: &Clock) -> Clock {
        let mut known = host.clone();
        for stream in self.live.values() {
            for queued in &stream.queue {
                known.meet(&queued.step.clock);
            }
        }
        known
    }
}
