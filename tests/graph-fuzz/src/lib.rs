//! Random graphs against what NumPy computes of them.
//!
//! `make/` holds the Python that makes cases; this crate runs them. A [`Case`] is a graph, data for its inputs, and what each of its
//! roots is in each of a few runs, with a bound for what rounding may change. [`Bench::run`] runs it in several [`Mode`]s.
//!
//! | file | what it is |
//! | --- | --- |
//! | `case` | the format of a case, and what is wrong with a text that is none |
//! | `built` | a case as lazy buffers, and which inputs each of its nodes depends on |
//! | `expect` | does what came out lie within its bounds? |
//! | `rig` | the devices, and data on them |
//! | `trial` | one schedule of a case: bound, run, read and compared |
//! | `modes` | the ways in which a case is run |
//! | `held` | schedules of which a part is made once |
//! | `failing` | runs of data that failed |

mod built;
mod case;
mod expect;
mod failing;
mod held;
mod modes;
mod rig;
mod trial;

pub use case::{Case, CaseError, Dim, Expected, Input, Node, Number, Run, Scalar, Stored, Symbol};
pub use modes::{Bench, Finding, Mode};
