//! Why a function is not one.

use std::fmt;

use super::Type;

/// Why a function is not one. The place is the statement, as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SsaError {
    /// A name that cannot be one.
    Name {
        /// The name.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A cube that cannot be.
    Threads {
        /// Along each axis.
        threads: [u32; 3],
    },
    /// There is more of something than there may be.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        given: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Something is named that does not exist.
    Missing {
        /// What kind of thing.
        what: &'static str,
        /// Its index.
        index: u64,
        /// Where it is named.
        place: String,
    },
    /// A value is used where it is not defined: before, or outside of the block that defines it.
    Scope {
        /// The value.
        value: u32,
        /// Where it is used.
        place: String,
    },
    /// A value is defined more than once.
    Twice {
        /// The value.
        value: u32,
        /// Where it is defined again.
        place: String,
    },
    /// A type does not fit.
    Type {
        /// Where.
        place: String,
        /// What was expected.
        expected: String,
        /// What was given.
        given: Type,
    },
    /// A constant has bits that its type has not.
    Const {
        /// Where.
        place: String,
    },
    /// An access is wider than one can be, or of a number of lanes that no value has.
    Width {
        /// Where.
        place: String,
        /// The type.
        given: Type,
    },
    /// A buffer is touched otherwise than it says.
    Mode {
        /// Its name.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Threads of a cube would meet where not all of them come by.
    Divergent {
        /// Where.
        place: String,
    },
    /// A reduction that threads do not make together.
    Reduce {
        /// Where.
        place: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Something is added at once where it cannot be.
    Atomic {
        /// Where.
        place: String,
    },
    /// A loop never gets on.
    Step {
        /// Where.
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
                "cubes are of {threads:?} threads: each axis needs 1, all together have at most {}, and z at most 64",
                super::THREADS_MAX
            ),
            SsaError::TooMany { what, given, limit } => {
                write!(f, "{given} {what} are more than {limit}")
            }
            SsaError::Missing { what, index, place } => {
                write!(f, "`{place}` names {what} {index}, which is not there")
            }
            SsaError::Scope { value, place } => write!(
                f,
                "`{place}` uses %{value}, which is not defined there: carry it out of a block in a local"
            ),
            SsaError::Twice { value, place } => {
                write!(f, "`{place}` defines %{value} a second time")
            }
            SsaError::Type {
                place,
                expected,
                given,
            } => write!(f, "`{place}` takes {expected}, not {given}"),
            SsaError::Const { place } => {
                write!(f, "`{place}` has bits that its type has not")
            }
            SsaError::Width { place, given } => write!(
                f,
                "`{place}` is of {given}: values have 1, 2, 4, 8 or 16 lanes, and accesses at most {} bytes",
                super::ACCESS_BYTES_MAX
            ),
            SsaError::Mode { name, why } => write!(f, "`{name}` {why}"),
            SsaError::Divergent { place } => write!(
                f,
                "`{place}` is reached by some threads of a cube alone: conditions and bounds around it must be the same for all"
            ),
            SsaError::Reduce { place, why } => write!(f, "`{place}` {why}"),
            SsaError::Atomic { place } => write!(
                f,
                "`{place}` cannot be: only i32, u32, i64, u64, f32 and f64 in updated buffers and shared arrays are added to at once"
            ),
            SsaError::Step { place } => write!(f, "`{place}` never gets on: its step is below 1"),
            SsaError::Foreign { name } => {
                write!(f, "`{name}` uses a value of another function")
            }
        }
    }
}

impl std::error::Error for SsaError {}
