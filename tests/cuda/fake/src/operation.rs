//! The operations of streams.

use std::ops::Range;
use std::sync::Arc;

use crate::access::Step;
use crate::clock::Point;
use crate::event::Recorded;
use crate::native::Native;
use ptx::Kernel;

/// The source of a copy from the host.
#[derive(Clone)]
pub(crate) enum HostSource {
    /// Pageable memory: the bytes were read during the call.
    Taken(Vec<u8>),
    /// Pinned memory: the bytes are read when the copy is executed. `was` has the bytes at the call, which must not
    /// change until then. It is `None` if an earlier operation is still to write them.
    Pinned { rows: Rows, was: Option<Vec<u8>> },
}

/// Rows of `width` bytes, `pitch` bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) start: u64,
    pub(crate) pitch: u64,
    pub(crate) width: u64,
    pub(crate) rows: u64,
}

impl Rows {
    /// Returns a single row.
    pub(crate) fn line(start: u64, bytes: u64) -> Self {
        Self {
            start,
            pitch: bytes,
            width: bytes,
            rows: 1,
        }
    }

    /// Returns the range from the first byte to the last.
    pub(crate) fn bounds(self) -> Range<u64> {
        match self.rows {
            0 => self.start..self.start,
            rows => self.start..self.start + (rows - 1) * self.pitch + self.width,
        }
    }

    /// Returns the number of bytes in all rows.
    pub(crate) fn bytes(self) -> u64 {
        self.width * self.rows
    }

    /// Returns the range of each row; contiguous rows are one range.
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

/// The attributes of a launch.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Extras {
    /// The blocks of a cluster.
    pub(crate) cluster: Option<[u32; 3]>,
    /// Whether all blocks run at once.
    pub(crate) cooperative: bool,
    /// Whether it may start before the previous work has completed. The fake never does that.
    pub(crate) programmatic: bool,
}

/// A launch of a kernel.
#[derive(Clone)]
pub(crate) struct Launch {
    /// The handle of its function, which may be invalid by now.
    pub(crate) function: u64,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) cubes: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// The bytes of all parameters, at their offsets.
    pub(crate) parameters: Vec<u8>,
    pub(crate) extras: Extras,
}

impl Launch {
    /// Formats a launch on a stream of this priority for a session: `blur <<<[8, 1, 1], [256, 1, 1], 0>>> cluster [2, 1,
    /// 1] priority -3`.
    pub(crate) fn describe(&self, priority: i32) -> String {
        let (name, extras) = (&self.kernel.name, &self.extras);
        let mut text = format!(
            "{name} <<<{:?}, {:?}, {}>>>",
            self.cubes, self.threads, self.shared_bytes
        );
        if let Some(cluster) = extras.cluster {
            text += &format!(" cluster {cluster:?}");
        }
        for (set, word) in [
            (extras.cooperative, " cooperative"),
            (extras.programmatic, " programmatic"),
        ] {
            text += if set { word } else { "" };
        }
        text + &format!(" priority {priority}")
    }
}

/// A launch of an executable graph.
#[derive(Clone)]
pub(crate) struct GraphRun {
    /// The number of the graph.
    pub(crate) number: u64,
    /// The previous launch. This one starts after it, because an executable graph runs once at a time.
    pub(crate) after: Option<Point>,
    pub(crate) nodes: Vec<GraphNode>,
}

/// A node of an executable graph, and of its launches.
#[derive(Clone)]
pub(crate) struct GraphNode {
    /// The node of the graph.
    pub(crate) of: u64,
    pub(crate) operation: Operation,
    /// The indices of the nodes that it depends on.
    pub(crate) after: Vec<usize>,
}

impl GraphRun {
    /// Returns `true` if a node runs this kernel.
    pub(crate) fn has(&self, kernel: &Arc<Kernel>) -> bool {
        self.nodes.iter().any(|node| match &node.operation {
            Operation::Launch(launch) => Arc::ptr_eq(&launch.kernel, kernel),
            _ => false,
        })
    }
}

/// An operation of a stream. A node of a graph is a launch, a copy within GPU memory, or a fill.
#[derive(Clone)]
pub(crate) enum Operation {
    /// Memory is valid from here on.
    Allocate(Range<u64>),
    /// Memory is released.
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
    /// Native code of a library.
    Native(Native),
    /// A whole graph.
    Graph(GraphRun),
    /// Waits for a point of a stream.
    Wait(Point),
    /// Records an event: stores its time.
    Record(Recorded),
}

impl Operation {
    /// Returns the name of a node in reports.
    pub(crate) fn node_name(&self) -> String {
        match self {
            Operation::Launch(launch) => format!("kernel `{}`", launch.kernel.name),
            Operation::Copy { .. } => "a copy".to_owned(),
            _ => "a fill".to_owned(),
        }
    }

    /// Returns `true` if a node can be updated to `new`.
    pub(crate) fn may_become(&self, new: &Operation) -> bool {
        use Operation::{Copy, Fill, Launch};
        match (self, new) {
            (Launch(_), Launch(_)) | (Copy { .. }, Copy { .. }) => true,
            (
                Fill { target: old, unit },
                Fill {
                    target,
                    unit: other,
                },
            ) => {
                // An update of a fill with several rows can only change its address and value.
                let shape = |target: &Rows| (target.pitch, target.width, target.rows);
                let both_are_lines = old.rows == 1 && target.rows == 1;
                both_are_lines || (shape(old) == shape(target) && unit.len() == other.len())
            }
            _ => false,
        }
    }
}

/// An operation in the queue of its stream.
pub(crate) struct Queued {
    pub(crate) step: Step,
    pub(crate) operation: Operation,
}
