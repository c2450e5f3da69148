//! Streams: operations in order, and which of them may be next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::access::Step;
use crate::clock::Clock;
use crate::event::Recorded;
use crate::graph::{Captured, Run};
use crate::tensor_map::{self, TensorMap};
use ptx::Kernel;

/// A moment of a stream: everything up to an operation of it, and what that knew.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) stream: u64,
    pub(crate) tick: u64,
    pub(crate) clock: Arc<Clock>,
}

/// Where a copy from the host takes its bytes.
pub(crate) enum HostSource {
    /// Pageable: taken at the call.
    Taken(Vec<u8>),
    /// Pinned: read when the copy is executed. What it was at the call must still be there, unless what was asked before
    /// is to write it.
    Pinned { rows: Rows, was: Option<Vec<u8>> },
}

/// Rows of bytes: `rows` times `width`, `pitch` apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) start: u64,
    pub(crate) pitch: u64,
    pub(crate) width: u64,
    pub(crate) rows: u64,
}

impl Rows {
    /// Bytes in one row.
    pub(crate) fn line(start: u64, bytes: u64) -> Self {
        Self {
            start,
            pitch: bytes,
            width: bytes,
            rows: 1,
        }
    }

    /// From the first byte to behind the last.
    pub(crate) fn bounds(self) -> Range<u64> {
        match self.rows {
            0 => self.start..self.start,
            rows => self.start..self.start + (rows - 1) * self.pitch + self.width,
        }
    }

    /// Bytes of all rows.
    pub(crate) fn bytes(self) -> u64 {
        self.width * self.rows
    }

    /// The bytes of each row; one range where they touch.
    pub(crate) fn ranges(self) -> impl Iterator<Item = Range<u64>> {
        let (rows, width) = match self.pitch == self.width {
            true => (self.rows.min(1), self.width * self.rows),
            false => (self.rows, self.width),
        };
        (0..rows).map(move |row| {
            let start = self.start + row * self.pitch;
            start..start + width
        })
    }
}

/// What a launch asks for besides, by its attributes.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Extras {
    /// Blocks of a cluster.
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) cluster_policy: Option<u32>,
    /// All blocks are there at once.
    pub(crate) cooperative: bool,
    /// It may begin before what comes before it has ended. Here it never does.
    pub(crate) programmatic: bool,
    pub(crate) priority: Option<i32>,
}

/// A kernel, to be run.
#[derive(Clone)]
pub(crate) struct Launch {
    /// By its handle, which may have ended since.
    pub(crate) function: u64,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) cubes: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// The bytes of all parameters, where the kernel has them.
    pub(crate) parameters: Vec<u8>,
    pub(crate) extras: Extras,
}

impl Launch {
    /// As a session tells of it: `blur <<<[8, 1, 1], [256, 1, 1], 0>>> cluster [2, 1, 1] priority -3`.
    pub(crate) fn said(&self) -> String {
        let (name, extras) = (&self.kernel.name, &self.extras);
        let mut said = format!(
            "{name} <<<{:?}, {:?}, {}>>>",
            self.cubes, self.threads, self.shared_bytes
        );
        if let Some(cluster) = extras.cluster {
            said += &format!(" cluster {cluster:?}");
        }
        if let Some(policy) = extras.cluster_policy {
            said += &format!(" policy {policy}");
        }
        for (is, word) in [
            (extras.cooperative, " cooperative"),
            (extras.programmatic, " programmatic"),
        ] {
            said += if is { word } else { "" };
        }
        if let Some(priority) = extras.priority {
            said += &format!(" priority {priority}");
        }
        for parameter in &self.kernel.parameters {
            let bytes = self.parameters[parameter.offset..].first_chunk();
            if parameter.bytes == tensor_map::BYTES
                && let Some(map) = bytes.and_then(TensorMap::decode)
            {
                said += &format!(" {map}");
            }
        }
        said
    }
}

/// `CUhostFn`
pub(crate) type HostFunction = extern "C" fn(u64);

/// What a stream does.
pub(crate) enum Operation {
    /// Memory is there from here on.
    Allocate(Range<u64>),
    /// Memory is there no more.
    Free(Range<u64>),
    CopyIn {
        target: Rows,
        source: HostSource,
    },
    CopyOut {
        target: Rows,
        source: Rows,
        pinned: bool,
    },
    Copy {
        target: Rows,
        source: Rows,
    },
    Fill {
        target: Rows,
        unit: Vec<u8>,
    },
    Launch(Launch),
    /// A graph, all of it.
    Graph(Run),
    /// A function of the host's, and what it is called with.
    Call {
        function: HostFunction,
        data: u64,
    },
    /// Nothing goes on before that moment.
    Wait(Moment),
    /// An event was recorded here, and when is told.
    Record(Recorded),
    /// One store of so many low bytes of a value.
    WriteValue {
        address: u64,
        bytes: u64,
        value: u64,
        /// What was done before is visible to who sees the value.
        releases: bool,
    },
}

/// An operation in its stream.
pub(crate) struct Queued {
    pub(crate) step: Step,
    pub(crate) operation: Operation,
}

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
