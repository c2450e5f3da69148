//! Lowers nests and products to SSA functions: the programs of threads, which GPUs run.
//!
//! ```text
//!  Nest ──nest()──► kinds ──for each: Plan::of, Rows──► one SSA function for each kind ──backend──► compiled once
//!  launch words, addresses, device ──geometry()──► the kind and the number of cubes of this launch
//! ```
//! | kind | threads of a row | used for |
//! | --- | --- | --- |
//! | [`Kind::Thread`] | one, for one or more rows | elementwise kernels, reductions over a slow axis, scatters |
//! | [`Kind::Row`] | 32 threads, 8 rows for each cube | many short rows |
//! | [`Kind::Cube`] | 512 threads | long rows, and few rows |
//!
//! # Protocol
//! 1. [`nest()`] lists the ways to run a nest. A backend compiles the functions of all of them with the kernel, so no
//!    launch waits for a compiler.
//! 2. `passes` divides a row into *passes*. A reduction must be complete before a value that depends on it, so pass
//!    `p` computes the reductions of depth `p`, and loads and recomputes the elements that it needs. All stores of
//!    elements are in the last pass.
//! 3. `rows` writes the loops of a kind, `emit` the values and stores at one index, `reduce` the accumulators.
//! 4. At each launch [`geometry()`] chooses the kind from the lengths and strides in the launch words, and the
//!    alignment of the buffers.
//!
//! # Example
//! `y[row, j] = x[row, j] - max over j of x[row, j]`, with `Kind::Row` and, for brevity, 2 threads and rows of 4
//! elements:
//!
//! ```text
//!               thread 0                       thread 1
//!  pass 0       best = -inf                    best = -inf
//!               best = max(best, x[0])         best = max(best, x[1])
//!               best = max(best, x[2])         best = max(best, x[3])
//!  meeting      m = reduce row max best        m = reduce row max best        both have the maximum of the row
//!  pass 1       y[0] = x[0] - m                y[1] = x[1] - m                x is loaded again
//!               y[2] = x[2] - m                y[3] = x[3] - m
//! ```
//! # Invariants
//! * Every kind that `geometry` returns has a function of `nest` with the same blocking (`tests/lower.rs`,
//!   `any_words_have_a_geometry_with_a_function`).
//! * All threads of a cube reach every reduction and barrier: a team without a row takes part with 0 elements. The SSA
//!   check (`ssa/uniform.rs`) rejects a function that violates this.
//! * Stores are in the last pass, after the last load of the same element by the same thread, so a nest may work in
//!   place. A store once for each row into a buffer that the row loads is behind a barrier, because a reduction of
//!   threads of a row orders no memory.
//! * The number of cubes is bounded; threads and cubes loop over further rows.
//!
//! All functions here are pure: they depend on no device. `tests/lower.rs` checks geometries; `tests/cuda` runs the
//! functions on an interpreter of PTX and compares them with [`scalar`](crate::scalar).

mod emit;
mod geometry;
mod matmul;
mod passes;
mod reduce;
mod rows;

pub use geometry::{Geometry, geometry};
pub use matmul::{matmul, tiles};

use crate::nest::{Nest, Op};
use crate::ssa::Function;
use crate::{Blocking, Program, ProgramError, Rows};

/// The number of threads of a cube of [`Kind::Thread`].
pub const THREADS: u32 = 256;
/// The number of threads of a row of [`Kind::Row`].
pub const ROW_THREADS: u32 = 32;
/// The number of rows of a cube of [`Kind::Row`].
pub const ROWS_A_CUBE: u32 = 8;
/// The number of threads of a cube of [`Kind::Cube`].
pub const CUBE_THREADS: u32 = 512;

/// A way to run a nest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// One thread for each row, or for several neighbouring rows.
    Thread {
        /// The number of neighbouring rows.
        lanes: u8,
    },
    /// 32 threads for each row, and 8 rows for each cube.
    Row,
    /// One cube for each row.
    Cube,
}

/// Returns the kinds that a launch of this nest may use, each with its function: all kinds that the nest supports and
/// the blocking allows.
///
/// # Errors
/// If the nest exceeds the limits of a function, or was not checked.
pub fn nest(nest: &Nest, blocking: Blocking) -> Result<Vec<(Kind, Function)>, ProgramError> {
    let allows = |rows| blocking.rows.is_none_or(|only| only == rows);
    let mut kinds = Vec::new();
    if allows(Rows::Across) {
        kinds.push(Kind::Thread { lanes: 1 });
        // At most this many lanes: a launch whose alignment does not allow them uses one.
        let lanes = geometry::lanes(nest);
        let most = blocking.vector.unwrap_or(lanes);
        if lanes > 1 && most > 1 {
            kinds.push(Kind::Thread { lanes: most });
        }
    }
    if reduces(nest) && !scatters(nest) {
        let of_teams = [(Rows::Along, Kind::Row), (Rows::Cube, Kind::Cube)];
        let allowed = of_teams.into_iter().filter(|(rows, _)| allows(*rows));
        kinds.extend(allowed.map(|(_, kind)| kind));
    }
    let functions = kinds.into_iter();
    functions
        .map(|kind| Ok((kind, rows::function(nest, kind)?)))
        .collect()
}

/// Returns the blockings of a program on a GPU besides the default, which chooses among some of these by the launch
/// words.
pub fn blockings(program: &Program) -> Vec<Blocking> {
    let usual = Blocking::DEFAULT;
    match program {
        Program::Nest(nest) if reduces(nest) && !scatters(nest) => {
            let ways = [Rows::Across, Rows::Along, Rows::Cube];
            ways.map(|rows| usual.rows(rows)).to_vec()
        }
        Program::Nest(nest) => {
            let most = geometry::lanes(nest);
            let narrower = (0..).map(|power| 1 << power);
            let narrower = narrower.take_while(|lanes| *lanes < most);
            narrower.map(|lanes| usual.vector(lanes)).collect()
        }
        Program::Matmul(_) => matmul::blockings().collect(),
        Program::Ssa(_) => Vec::new(),
    }
}

fn reduces(nest: &Nest) -> bool {
    let mut values = nest.values.iter();
    values.any(|value| matches!(value.op, Op::Reduce(..)))
}

fn scatters(nest: &Nest) -> bool {
    nest.stores.iter().any(|store| store.scatter.is_some())
}
