//! What streams do: operations, and what they are made of.

use std::ops::Range;
use std::sync::Arc;

use crate::access::Step;
use crate::clock::Moment;
use crate::event::Recorded;
use crate::host_function::HostFunction;
use crate::tensor_map::{self, TensorMap};
use ptx::Kernel;

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

/// One launch of an executable graph.
pub(crate) struct GraphRun {
    /// Of the graph.
    pub(crate) number: u64,
    /// It begins no sooner: an executable graph runs once at a time.
    pub(crate) after: Option<Moment>,
    pub(crate) parts: Vec<GraphPart>,
}

/// A node of a graph, to be executed.
pub(crate) struct GraphPart {
    pub(crate) name: String,
    /// None: nothing.
    pub(crate) operation: Option<Operation>,
    /// Places of the parts that come before it.
    pub(crate) after: Vec<usize>,
}

impl GraphRun {
    pub(crate) fn name(&self) -> String {
        format!("graph {}", self.number)
    }

    /// Does it run this kernel?
    pub(crate) fn has(&self, kernel: &Arc<Kernel>) -> bool {
        self.parts.iter().any(|part| match &part.operation {
            Some(Operation::Launch(launch)) => Arc::ptr_eq(&launch.kernel, kernel),
            _ => false,
        })
    }
}

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
    Graph(GraphRun),
    /// A function of the host's, and what it is called with.
    Call {
        function: HostFunction,
        data: u64,
    },
    /// Nothing goes on before that moment.
    Wait(Moment),
    /// An event was recorded here; its time is kept.
    Record(Recorded),
    /// One store of the low bytes of a value.
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
