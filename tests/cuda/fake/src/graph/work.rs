//! The work of graph nodes.

use crate::memory::Memory;
use crate::operation::{HostSource, Launch, Operation, Rows};

/// The source or target of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyEnd {
    pub(crate) rows: Rows,
    /// Whether it is host memory, which is pinned.
    pub(crate) is_host: bool,
}

/// The work of a node.
#[derive(Clone)]
pub(crate) enum Work {
    /// A kernel, with the parameters of the call that added or updated it.
    Launch(Launch),
    Copy {
        target: CopyEnd,
        source: CopyEnd,
    },
    Fill {
        target: Rows,
        unit: Vec<u8>,
    },
    /// No work; only for edges.
    Empty,
}

impl Work {
    /// `CUgraphNodeType`
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Work::Launch(_) => 0,
            Work::Copy { .. } => 1,
            Work::Fill { .. } => 2,
            Work::Empty => 5,
        }
    }

    /// Returns the name in reports.
    pub(super) fn name(&self) -> String {
        match self {
            Work::Launch(launch) => format!("kernel `{}`", launch.kernel.name),
            Work::Copy { .. } => "a copy".to_owned(),
            Work::Fill { .. } => "a fill".to_owned(),
            Work::Empty => "nothing".to_owned(),
        }
    }

    /// Returns the address of each parameter of a launch within its stored bytes.
    pub(crate) fn values(&self) -> Vec<u64> {
        let Work::Launch(launch) = self else {
            return Vec::new();
        };
        let start = launch.parameters.as_ptr() as u64;
        let parameters = launch.kernel.parameters.iter();
        parameters
            .map(|parameter| start + parameter.offset as u64)
            .collect()
    }

    /// Counts the work as an operation in flight that reads pinned memory.
    pub(super) fn begin_read(&self, memory: &mut Memory) {
        if let Work::Copy { source, .. } = self
            && source.is_host
        {
            memory.adjust_pending(source.rows.start, true);
        }
    }

    /// Counts the work as an operation in flight that writes pinned memory, whose bytes are undefined until then.
    /// Called after `begin_read` of all nodes.
    pub(super) fn begin_write(&self, memory: &mut Memory) {
        if let Work::Copy { target, .. } = self
            && target.is_host
        {
            memory.expect_rows(target.rows);
        }
    }

    /// Converts the work to an operation. Called after `begin_read` and `begin_write` of all nodes.
    pub(super) fn operation(&self, memory: &mut Memory) -> Option<Operation> {
        Some(match self.clone() {
            Work::Launch(launch) => Operation::Launch(launch),
            Work::Fill { target, unit } => Operation::Fill { target, unit },
            Work::Copy { target, source } => match (source.is_host, target.is_host) {
                (true, _) => Operation::CopyIn {
                    target: target.rows,
                    source: HostSource::Pinned {
                        rows: source.rows,
                        was: memory.pinned_bytes(source.rows),
                    },
                },
                (false, true) => Operation::CopyOut {
                    target: target.rows,
                    source: source.rows,
                    pinned: true,
                },
                (false, false) => Operation::Copy {
                    target: target.rows,
                    source: source.rows,
                },
            },
            Work::Empty => return None,
        })
    }
}
