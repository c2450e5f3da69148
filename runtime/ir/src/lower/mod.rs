//! Nests and products as functions of a thread: what GPUs run.
//!
//! ```text
//!  Nest ── nest() ──► functions, one for each way that a launch may run ──► compiled once
//!  words of a launch ── geometry() ──► which of them, as how many cubes
//! ```
//! | kind | who walks a row | for |
//! | --- | --- | --- |
//! | [`Kind::Thread`] | a thread, or one thread several neighbouring rows | elementwise kernels, reductions over a slow axis, scatters |
//! | [`Kind::Row`] | 32 threads, 8 rows a cube | many short rows |
//! | [`Kind::Cube`] | 512 threads | long rows, and few |
//!
//! All are pure functions: nothing here knows a device.

mod emit;
mod geometry;
mod matmul;
mod passes;
mod reduce;
mod rows;

pub use geometry::{Geometry, Limits, geometry};
pub use matmul::{Tiles, matmul, tiles};
pub use reduce::neutral;

use crate::nest::{Nest, Op};
use crate::ssa::{Function, SsaError};

/// Threads of a cube whose threads work alone.
pub const THREADS: u32 = 256;
/// Threads that walk a row together where a cube has several rows.
pub const ROW_THREADS: u32 = 32;
/// Rows of such a cube.
pub const ROWS_A_CUBE: u32 = 8;
/// Threads of a cube that walks one row.
pub const CUBE_THREADS: u32 = 512;

/// A way to run a nest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A thread for each row, or for so many neighbouring ones.
    Thread {
        /// How many.
        lanes: u8,
    },
    /// 32 threads for each row, and 8 rows a cube.
    Row,
    /// A cube for each row.
    Cube,
}

/// The ways that a launch of this nest may run, each with its function.
///
/// # Errors
/// The nest is more than a function can hold. (Or was not checked.)
pub fn nest(nest: &Nest) -> Result<Vec<(Kind, Function)>, SsaError> {
    let mut kinds = vec![Kind::Thread { lanes: 1 }];
    let lanes = geometry::lanes(nest);
    if lanes > 1 {
        kinds.push(Kind::Thread { lanes });
    }
    let reduces = nest
        .values
        .iter()
        .any(|value| matches!(value.op, Op::Reduce(..)));
    let scatters = nest.stores.iter().any(|store| store.scatter.is_some());
    if reduces && !scatters {
        kinds.extend([Kind::Row, Kind::Cube]);
    }
    let functions = kinds.into_iter();
    functions
        .map(|kind| Ok((kind, rows::function(nest, kind)?)))
        .collect()
}
