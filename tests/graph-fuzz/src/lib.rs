//! Random graphs, compared with NumPy.
//!
//! The Python in `make/` generates cases; this crate runs them. A [`Case`] is a graph, the data of its inputs, and the
//! expected roots of several runs, each with a bound for rounding errors. [`Runner::run`] runs it in several [`Mode`]s.
//!
//! | file | contents |
//! | --- | --- |
//! | `case` | the format of a case, and its errors |
//! | `built` | a case as lazy buffers, and the inputs that each node depends on |
//! | `expect` | comparison of results with their bounds |
//! | `rig` | the devices, and data on them |
//! | `trial` | one schedule of a case: binding, running, reading, comparing |
//! | `modes` | the modes of running a case |
//! | `failing` | runs with poisoned data |

mod built;
mod case;
mod expect;
mod failing;
mod modes;
mod rig;
mod trial;

pub use case::{Case, CaseError, Dim, Expected, Input, Node, Number, Run, Scalar, Stored, Symbol};
pub use modes::{Finding, Mode, Runner};

/// Returns the committed random graphs.
///
/// # Errors
/// A line is no case.
pub fn corpus() -> impl Iterator<Item = Result<Case, CaseError>> {
    include_str!("../corpus.jsonl").lines().map(Case::parse)
}

/// Returns graphs that have every operation on every type that it takes.
///
/// # Errors
/// A line is no case.
pub fn operations() -> impl Iterator<Item = Result<Case, CaseError>> {
    include_str!("../operations.jsonl").lines().map(Case::parse)
}

/// Returns a graph for each known error of graph compilers.
///
/// # Errors
/// A line is no case.
pub fn named() -> impl Iterator<Item = Result<Case, CaseError>> {
    include_str!("../named.jsonl").lines().map(Case::parse)
}
