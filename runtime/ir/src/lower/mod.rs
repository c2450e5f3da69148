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
use crate::{Blocking, Program, Rows};

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

/// The ways that a launch of this nest may run, each with its function: of those that there are, those that the blocking asks for.
///
/// # Errors
/// The nest is more than a function can hold. (Or was not checked.)
pub fn nest(nest: &Nest, blocking: Blocking) -> Result<Vec<(Kind, Function)>, SsaError> {
    let kinds = kinds(nest).into_iter();
    let kinds = kinds.filter(|kind| kind.is_of(blocking)).map(|kind| {
        // So many at most: an alignment that does not allow it asks for one.
        match (kind, blocking.vector) {
            (Kind::Thread { lanes: 2.. }, Some(lanes)) => Kind::Thread { lanes },
            (kind, _) => kind,
        }
    });
    kinds
        .map(|kind| Ok((kind, rows::function(nest, kind)?)))
        .collect()
}

/// How a program can be cut up for a GPU beside the usual way, which chooses among some of these by the words of a launch.
pub fn blockings(program: &Program) -> Vec<Blocking> {
    let usual = Blocking::USUAL;
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

impl Kind {
    /// May a launch that is cut up so run in this way? One element a thread is always among those that threads walk alone.
    fn is_of(self, blocking: Blocking) -> bool {
        let lanes = match (self, blocking.vector) {
            (Kind::Thread { lanes: 2.. }, Some(most)) => most > 1,
            _ => true,
        };
        lanes
            && match blocking.rows {
                None => true,
                Some(Rows::Across) => matches!(self, Kind::Thread { .. }),
                Some(Rows::Along) => self == Kind::Row,
                Some(Rows::Cube) => self == Kind::Cube,
            }
    }
}

/// All ways to run a nest.
fn kinds(nest: &Nest) -> Vec<Kind> {
    let mut kinds = vec![Kind::Thread { lanes: 1 }];
    let lanes = geometry::lanes(nest);
    if lanes > 1 {
        kinds.push(Kind::Thread { lanes });
    }
    if reduces(nest) && !scatters(nest) {
        kinds.extend([Kind::Row, Kind::Cube]);
    }
    kinds
}

fn reduces(nest: &Nest) -> bool {
    let mut values = nest.values.iter();
    values.any(|value| matches!(value.op, Op::Reduce(..)))
}

fn scatters(nest: &Nest) -> bool {
    nest.stores.iter().any(|store| store.scatter.is_some())
}
