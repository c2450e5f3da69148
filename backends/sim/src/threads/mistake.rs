//! What is wrong with a kernel: each mistake names the element, the lines and the threads.

use std::fmt;
use std::sync::Arc;

use millstream_ir::ssa::{PARTS_BEYOND, ThreadPosition};

/// A line of a source file, displayed as `src/main.rs:12`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceLine {
    /// The file; empty if it is unknown.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.file {
            "" => write!(f, "line {}", self.line),
            file => write!(f, "{file}:{}", self.line),
        }
    }
}

/// How a thread accesses an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    /// A plain load.
    Load,
    /// A plain store.
    Store,
    /// An atomic operation that may store.
    Atomic,
    /// An atomic load.
    AtomicLoad,
}

impl AccessKind {
    pub(super) const ALL: [Self; 4] = [Self::Store, Self::Atomic, Self::Load, Self::AtomicLoad];

    /// Returns `true` if two accesses of these kinds need an order: one may store, and one is not atomic.
    pub(super) fn conflicts(self, other: Self) -> bool {
        let is_atomic = |kind| matches!(kind, Self::Atomic | Self::AtomicLoad);
        !(self.only_loads() && other.only_loads() || is_atomic(self) && is_atomic(other))
    }

    /// Returns `true` if such an access never stores.
    pub(super) fn only_loads(self) -> bool {
        matches!(self, Self::Load | Self::AtomicLoad)
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Load => "loads it",
            Self::Store => "stores it",
            Self::Atomic => "updates it atomically",
            Self::AtomicLoad => "loads it atomically",
        }
    }
}

/// An access of a thread to an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadAccess {
    /// The index of the thread's cube.
    pub cube: u64,
    /// The index of the thread in its cube.
    pub thread: u32,
    /// How it accesses the element.
    pub kind: AccessKind,
    /// Where, if the source of the kernel is known.
    pub line: Option<SourceLine>,
    /// The statement, by its index among those of the kernel.
    pub statement: usize,
}

impl fmt::Display for ThreadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, cube, .. } = self;
        write!(f, "thread {thread} of cube {cube} {}", self.kind.verb())?;
        self.line
            .as_ref()
            .map_or(Ok(()), |line| write!(f, " at {line}"))
    }
}

/// A mistake of a kernel, which ended its launch.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KernelMistake {
    /// Two threads access an element, and nothing orders the accesses.
    Race {
        /// The buffer or the shared array.
        memory: Arc<str>,
        /// The index of the element.
        index: usize,
        /// The access that came first in this run.
        first: ThreadAccess,
        /// The other access.
        second: ThreadAccess,
    },
    /// A load of an element of a shared array that no thread of the cube has stored: it could have any value.
    Unset {
        /// The shared array.
        memory: Arc<str>,
        /// The index of the element.
        index: usize,
        /// The load.
        load: ThreadAccess,
    },
    /// An access to an element that does not exist.
    OutOfBounds {
        /// The buffer or the array.
        memory: Arc<str>,
        /// The index of the first element of the access.
        index: i64,
        /// The number of elements of the access.
        lanes: u8,
        /// The number of elements that exist.
        len: usize,
        /// Where, if the source of the kernel is known.
        line: Option<SourceLine>,
    },
    /// An access to several elements whose first index is no multiple of their number.
    Misaligned {
        /// The buffer or the array.
        memory: Arc<str>,
        /// The index of the first element of the access.
        index: i64,
        /// The number of elements of the access.
        lanes: u8,
        /// Where, if the source of the kernel is known.
        line: Option<SourceLine>,
    },
    /// An assertion does not hold.
    Assertion {
        /// The assertion, and its values.
        text: Arc<str>,
        /// The thread.
        thread: ThreadPosition,
        /// Where, if the source of the kernel is known.
        line: Option<SourceLine>,
    },
    /// Two threads of a cube wait at different barriers or reductions, or one waits and the other has ended.
    Diverged {
        /// The index of the cube.
        cube: u64,
        /// The two threads, and where each waits: `None` if it has ended, or the line is unknown.
        threads: [(u32, Option<SourceLine>); 2],
    },
}

impl KernelMistake {
    /// Returns what to do about a race.
    fn remedy(first: &ThreadAccess, second: &ThreadAccess) -> &'static str {
        let is_one_line = match (&first.line, &second.line) {
            (Some(first), Some(second)) => first == second,
            _ => first.statement == second.statement,
        };
        match first.cube == second.cube && !is_one_line {
            true => "put `barrier()` between them",
            false => {
                "use atomics, let each thread have its own element, or store to another buffer"
            }
        }
    }
}

impl fmt::Display for KernelMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Race {
                memory,
                index,
                first,
                second,
            } => {
                write!(f, "race for `{memory}[{index}]`: {first}, and {second}")?;
                if [first.kind, second.kind] == [AccessKind::Store; 2] {
                    f.write_str(", which is a race even if both store the same value")?;
                }
                write!(f, "; {}", Self::remedy(first, second))
            }
            Self::Unset {
                memory,
                index,
                load,
            } => write!(
                f,
                "`{memory}[{index}]` has no value yet, and {load}; a shared array begins with any values, store it first"
            ),
            Self::OutOfBounds {
                memory,
                index,
                lanes,
                len,
                line,
            } => {
                let is_part = PARTS_BEYOND.contains(index);
                match is_part {
                    true => write!(
                        f,
                        "an index of an array in an element of `{memory}` is out of bounds"
                    )?,
                    false => {
                        let access = Access(memory, *index, *lanes);
                        write!(
                            f,
                            "`{access}` is out of bounds, `{memory}` has {len} elements"
                        )?;
                    }
                }
                if let Some(line) = line {
                    write!(f, ": {line}")?;
                }
                f.write_str(match is_part {
                    true => "; compare it with the array's length first",
                    false => "; compare the index with the length first",
                })
            }
            Self::Misaligned {
                memory,
                index,
                lanes,
                line,
            } => {
                let access = Access(memory, *index, *lanes);
                write!(
                    f,
                    "`{access}` is misaligned, the first index must be a multiple of {lanes}"
                )?;
                line.as_ref().map_or(Ok(()), |line| write!(f, ": {line}"))
            }
            Self::Assertion { text, thread, line } => {
                write!(f, "{text}, in {thread}")?;
                line.as_ref().map_or(Ok(()), |line| write!(f, " at {line}"))
            }
            Self::Diverged { cube, threads } => {
                f.write_str("only some threads of a cube reach a barrier or reduction:")?;
                for ((thread, line), and) in threads.iter().zip(["", ","]) {
                    write!(f, "{and} thread {thread} of cube {cube} ")?;
                    match line {
                        Some(line) => write!(f, "waits at {line}")?,
                        None => f.write_str("waits elsewhere, or has ended")?,
                    }
                }
                f.write_str("; let conditions around it be the same for all threads")
            }
        }
    }
}

/// The elements of an access, displayed as `x[3]` or `x[4..8]`.
struct Access<'a>(&'a str, i64, u8);

impl fmt::Display for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Access(memory, index, lanes) = self;
        match lanes {
            1 => write!(f, "{memory}[{index}]"),
            lanes => write!(
                f,
                "{memory}[{index}..{}]",
                index.saturating_add((*lanes).into())
            ),
        }
    }
}
