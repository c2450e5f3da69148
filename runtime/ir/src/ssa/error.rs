//! The errors of functions.

use std::fmt;

use super::Type;

/// The reason why a function is invalid. The place is the text of the statement.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SsaError {
    /// An invalid name.
    Name {
        /// The name.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// Invalid cube dimensions.
    Threads {
        /// The threads along each axis.
        threads: [u32; 3],
    },
    /// A count exceeds its limit.
    TooMany {
        /// The kind of item.
        what: &'static str,
        /// The number of items.
        given: u64,
        /// The limit.
        limit: u64,
    },
    /// A name refers to nothing.
    Missing {
        /// The kind of item.
        what: &'static str,
        /// The index.
        index: u64,
        /// The statement.
        place: String,
    },
    /// A value is used before its definition, or outside of its block.
    Scope {
        /// The value.
        value: u32,
        /// The statement.
        place: String,
    },
    /// A value is defined more than once.
    Twice {
        /// The value.
        value: u32,
        /// The statement.
        place: String,
    },
    /// A type does not fit.
    Type {
        /// The statement.
        place: String,
        /// The expected type.
        expected: String,
        /// The actual type.
        given: Type,
    },
    /// A constant has bits that its type does not have.
    Const {
        /// The statement.
        place: String,
    },
    /// An access is too wide, or a value has an invalid number of lanes.
    Width {
        /// The statement.
        place: String,
        /// The type.
        given: Type,
    },
    /// A buffer is accessed in a way that its mode does not allow.
    Mode {
        /// The name of the buffer.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// A barrier or reduction that only some threads of a cube may reach.
    Divergent {
        /// The statement.
        place: String,
    },
    /// An invalid reduction.
    Reduce {
        /// The statement.
        place: String,
        /// The reason.
        why: &'static str,
    },
    /// An atomic addition to memory or of a type that does not support it.
    Atomic {
        /// The statement.
        place: String,
    },
    /// The step of a loop is below 1.
    Step {
        /// The statement.
        place: String,
    },
    /// A value, a place or a variable of another builder was used.
    Foreign {
        /// The function in which it was used.
        name: String,
    },
}

impl fmt::Display for SsaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SsaError::Name { name, why } => write!(f, "the name `{name}` {why}"),
            SsaError::Threads { threads } => write!(
                f,
                "cubes have {threads:?} threads: each axis needs at least 1, all together at most {}, and z at most 64",
                super::THREADS_MAX
            ),
            SsaError::TooMany { what, given, limit } => {
                write!(f, "expected at most {limit} {what}, got {given}")
            }
            SsaError::Missing { what, index, place } => {
                write!(f, "`{place}` names {what} {index}, which does not exist")
            }
            SsaError::Scope { value, place } => write!(
                f,
                "`{place}` uses %{value}, which is not defined there: pass it out of a block in a local"
            ),
            SsaError::Twice { value, place } => {
                write!(
                    f,
                    "`{place}` defines %{value} a second time: each value is defined once"
                )
            }
            SsaError::Type {
                place,
                expected,
                given,
            } => write!(f, "`{place}` expects {expected}, got {given}"),
            SsaError::Const { place } => {
                write!(
                    f,
                    "`{place}` has bits that its type does not have: use a constant of that type"
                )
            }
            SsaError::Width { place, given } => write!(
                f,
                "`{place}` has type {given}: values have 1, 2, 4, 8 or 16 lanes, and accesses at most {} bytes",
                super::ACCESS_BYTES_MAX
            ),
            SsaError::Mode { name, why } => write!(f, "`{name}` {why}"),
            SsaError::Divergent { place } => write!(
                f,
                "only some threads of a cube may reach `{place}`: conditions and bounds around it must be the same for all"
            ),
            SsaError::Reduce { place, why } => write!(f, "`{place}` {why}"),
            SsaError::Atomic { place } => write!(
                f,
                "`{place}` is not supported: atomic additions need i32, u32, i64, u64, f32 or f64, in an updated buffer or a shared array"
            ),
            SsaError::Step { place } => {
                write!(f, "`{place}` has a step below 1: use a positive constant")
            }
            SsaError::Foreign { name } => {
                write!(
                    f,
                    "`{name}` uses a value of another function: build it with this builder"
                )
            }
        }
    }
}

impl std::error::Error for SsaError {}
