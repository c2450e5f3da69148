//! What a node of a graph does.

use crate::memory::Memory;
use crate::operation::{HostSource, Launch, Operation, Rows};

/// One end of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) rows: Rows,
    /// Memory of the host, which is pinned.
    pub(crate) of_host: bool,
}

/// What a node does.
#[derive(Clone)]
pub(crate) enum Work {
    /// A kernel; its values are those of the call that made or set it.
    Launch(Launch),
    Copy {
        target: End,
        source: End,
    },
    Fill {
        target: Rows,
        unit: Vec<u8>,
    },
    /// Nothing: a place for edges.
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

    /// As a report calls it.
    pub(super) fn name(&self) -> String {
        match self {
            Work::Launch(launch) => format!("kernel `{}`", launch.kernel.name),
            Work::Copy { .. } => "a copy".to_owned(),
            Work::Fill { .. } => "a fill".to_owned(),
            Work::Empty => "nothing".to_owned(),
        }
    }

    /// Where the values of a launch are: each of its parameters in the copy of them all.
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

    /// It is to be done from now on: it reads pinned memory.
    pub(super) fn begin_read(&self, memory: &mut Memory) {
        if let Work::Copy { source, .. } = self
            && source.of_host
        {
            memory.pend(source.rows.start, true);
        }
    }

    /// It is to be done from now on, once all reads have begun: it writes pinned memory, which is undefined until then.
    pub(super) fn begin_write(&self, memory: &mut Memory) {
        if let Work::Copy { target, .. } = self
            && target.of_host
        {
            memory.await_rows(target.rows);
        }
    }

    /// As an operation, once all works that are to be done with it have begun.
    pub(super) fn operation(&self, memory: &mut Memory) -> Option<Operation> {
        Some(match self.clone() {
            Work::Launch(launch) => Operation::Launch(launch),
            Work::Fill { target, unit } => Operation::Fill { target, unit },
            Work::Copy { target, source } => match (source.of_host, target.of_host) {
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
