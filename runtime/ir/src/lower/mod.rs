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
//! 2. A row is divided into *passes*. A reduction must be complete before a value that depends on it, so pass
//!    `p` computes the reductions of depth `p`, and loads and recomputes the elements that it needs. All stores of
//!    elements are in the last pass.
//! 3. `rows` writes the loops of a kind, and the accumulators of reductions, `emit` the values and stores at one index.
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
//!  meeting      m = reduce subgroup max        m = reduce subgroup max        both have the maximum of the row
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
mod rows;

pub use geometry::{Geometry, geometry};
pub use matmul::{matmul, tiles};

use crate::nest::{Level, Nest, Op, Store, ValueId};
use crate::ssa::Function;
use crate::{Blocking, Program, ProgramError, ReduceOp, Rows};

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

// Divides the values of a nest into passes over a row.
//
// A reduction must be complete before a value that depends on it. So the first pass over a row computes the reductions
// that depend on no other, the next pass those that depend on these, and so on. A later pass recomputes the elements
// that it needs: loads of a row hit the cache, and keeping a row in registers would bound its length.

/// The passes of a nest.
struct Plan {
    /// Values that are computed once for each row, before the first pass.
    row_values: Vec<ValueId>,
    /// The passes.
    passes: Vec<Pass>,
    /// Stores once for each row, by index.
    stores: Vec<usize>,
}

/// One pass over a row.
#[derive(Default)]
struct Pass {
    /// Values that are computed for each element, in order.
    inner: Vec<ValueId>,
    /// Reductions: id, operation, and operand.
    reduces: Vec<(ValueId, ReduceOp, ValueId)>,
    /// Stores for each element, by index.
    stores: Vec<usize>,
    /// Values that are computed once for each row after the pass, in order, without the reductions.
    row_values: Vec<ValueId>,
}

impl Plan {
    /// Divides a valid nest.
    fn of(nest: &Nest) -> Self {
        let levels = nest.levels();
        let level = |id: ValueId| levels[usize::from(id)];
        let used = nest.needed(nest.stores.iter().flat_map(Store::values), |_| true);
        let stages = nest.stages();
        let is_reduce = |id: ValueId| matches!(nest.values[usize::from(id)].op, Op::Reduce(..));
        let ids = || (0..nest.values.len() as ValueId).filter(|id| used[usize::from(*id)]);
        let reduced = ids().filter(|id| is_reduce(*id));
        let walks = reduced.map(|id| stages[usize::from(id)]).max().unwrap_or(0);

        let inner_stores: Vec<usize> = places(nest, Level::Inner).collect();
        let stored = inner_stores
            .iter()
            .flat_map(|store| nest.stores[*store].values());
        let store_stages = stored.map(|id| stages[usize::from(id)]);
        // All element stores are in the last pass: a nest that works in place has loaded everything that it needs of an
        // element by then.
        let last_store = store_stages
            .max()
            .map(|stage| stage.max(walks.saturating_sub(1)));
        let count = walks.max(last_store.map_or(0, |stage| stage + 1));

        let once = |stage: usize| {
            ids()
                .filter(|id| level(*id) == Level::Outer && !is_reduce(*id))
                .filter(|id| stages[usize::from(*id)] == stage)
                .collect()
        };
        let passes = (0..count).map(|pass| {
            let reduces: Vec<_> = ids()
                .filter(|id| stages[usize::from(*id)] == pass + 1)
                .filter_map(|id| match nest.values[usize::from(id)].op {
                    Op::Reduce(op, of) => Some((id, op, of)),
                    _ => None,
                })
                .collect();
            let stores = match last_store {
                Some(last) if last == pass => inner_stores.clone(),
                _ => Vec::new(),
            };
            Pass {
                inner: inner_of(nest, &levels, &reduces, &stores),
                row_values: once(pass + 1),
                reduces,
                stores,
            }
        });
        Plan {
            row_values: once(0),
            passes: passes.collect(),
            stores: places(nest, Level::Outer).collect(),
        }
    }
}

fn places(nest: &Nest, level: Level) -> impl Iterator<Item = usize> {
    let stores = nest.stores.iter().enumerate();
    stores
        .filter(move |(_, store)| store.level == level)
        .map(|(place, _)| place)
}

/// Returns the element values that these reductions and stores need, in order. Values of rows exist already.
fn inner_of(
    nest: &Nest,
    levels: &[Level],
    reduces: &[(ValueId, ReduceOp, ValueId)],
    stores: &[usize],
) -> Vec<ValueId> {
    let is_inner = |index: usize| levels[index] == Level::Inner;
    let stored = stores.iter().flat_map(|store| nest.stores[*store].values());
    let roots = reduces.iter().map(|(_, _, of)| *of).chain(stored);
    let needed = nest.needed(roots, is_inner);
    let inner = (0..needed.len()).filter(|index| needed[*index] && is_inner(*index));
    inner.map(|index| index as ValueId).collect()
}
