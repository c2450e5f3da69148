//! Compiles a function: decides for each value whether it is a scalar, affine or a column, and writes steps.
//!
//! A scalar is computed in the outermost block that has its operands, because scalars never trap.
//!
//! | module | contents |
//! | --- | --- |
//! | `values`, `affine` | operations |
//! | `memory` | loads and stores |
//! | `control` | branches and loops |
//! | `columns` | which columns share memory |

mod affine;
mod columns;
mod control;
mod memory;
mod values;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_ir::DType;
use millstream_ir::ssa::{Axis, Block, Function, Position, Stmt, ValueId};
use millstream_loops::level::Level;

use crate::code::{
    Affine, Code, Constants, Loops, Operand, Place, Reference, Step, Steps, Test, UNPLACED,
};
use crate::kernels;
use crate::survey::{Survey, survey};

/// The bytes of columns that are in use at once: two thirds of the L1 cache of most processors.
const CHUNK_BYTES: usize = 32 << 10;
/// Chunks have a multiple of this many threads: whole vectors.
const CHUNK_THREADS: usize = 64;

/// One lane of a value.
#[derive(Clone, Copy, Debug)]
enum Lane {
    Scalar(Place),
    /// Of type `i64` or `u64`.
    Affine(Affine),
    Column(Operand),
    /// A bool.
    Test(Test),
}

/// What is known of a scalar.
#[derive(Clone, Copy)]
struct Known {
    /// The index of the open block that defines it.
    depth: usize,
    constant: Option<u64>,
}

/// The place of a local.
#[derive(Clone, Copy)]
enum Home {
    /// A variable that is the same for all threads.
    Scalar(Place),
    Column(Operand),
    /// Its first byte in a thread's share of arrays.
    Array(usize),
}

/// A column.
#[derive(Clone, Copy)]
struct Column {
    size: u32,
    /// Whether its content must remain from the begin of a chunk to its end.
    is_fixed: bool,
    /// Whether it may be a buffer's memory.
    is_direct: bool,
}

/// A block whose steps are being written.
#[derive(Default)]
struct Open {
    steps: Steps,
    /// The columns that this block has written for affine values and tests.
    written: Vec<(ValueId, u8)>,
    /// The mask of the threads that go on behind a statement that some leave.
    after: Option<Operand>,
}

struct Lower<'a> {
    function: &'a Function,
    survey: Survey,
    /// The threads of a cube along each axis, or as rows and columns.
    shape: [u32; 3],
    /// The number that divides threads of one axis into rows and columns, if the function does that.
    width: Option<u32>,
    level: Level,
    open: Vec<Open>,
    scalars: Vec<Known>,
    constants: HashMap<u64, Place>,
    words: HashMap<u16, Place>,
    positions: HashMap<(Position, Axis), Place>,
    columns: Vec<Column>,
    values: Vec<Vec<Lane>>,
    /// The columns of affine values and of tests, for lanes of values.
    written: HashMap<(ValueId, u8), Operand>,
    homes: Vec<Home>,
    /// Whether the content of each local is the same for all threads.
    uniform: Vec<bool>,
    /// The first byte of each shared array.
    shared: Vec<usize>,
    line: u32,
    leaves: bool,
}

/// Compiles a checked function.
pub(crate) fn compile(function: &Function) -> Code {
    match compile_as(function, function.threads) {
        (_, Some(width)) => compile_as(function, [width, function.threads[0] / width, 1]).0,
        (code, None) => code,
    }
}

/// Compiles a function for cubes of this shape. Also returns the width that the threads of its only axis should have.
fn compile_as(function: &Function, shape: [u32; 3]) -> (Code, Option<u32>) {
    static IDS: AtomicU64 = AtomicU64::new(1);
    let mut lower = Lower {
        function,
        survey: survey(function),
        shape,
        width: None,
        level: Level::of_processor(),
        open: vec![Open::default()],
        scalars: Vec::new(),
        constants: HashMap::new(),
        words: HashMap::new(),
        positions: HashMap::new(),
        columns: Vec::new(),
        values: vec![Vec::new(); function.values.len()],
        written: HashMap::new(),
        homes: Vec::new(),
        uniform: function.uniform_locals(),
        shared: Vec::new(),
        line: 0,
        leaves: false,
    };
    // Steps without a second or third operand name the first scalar.
    lower.constant(0);
    let (local_bytes, zeros) = lower.settle();
    let shared_bytes = lower.share();
    lower.stmts(&function.body);
    let mut steps = lower.open.pop().map_or_else(Vec::new, |open| open.steps);
    let placed = columns::place(&mut steps, &lower.columns, lower.scalars.len());
    let threads = function.threads.iter().product::<u32>() as usize;
    let bytes: usize = placed.sizes.iter().map(|size| *size as usize).sum();
    let chunks = (threads * (bytes + local_bytes)).div_ceil(CHUNK_BYTES);
    let chunk = match lower.survey.meets || chunks <= 1 {
        true => threads,
        false => threads
            .div_ceil(chunks)
            .next_multiple_of(CHUNK_THREADS)
            .min(threads),
    };
    let code = Code {
        // Only a number that no other function has.
        id: IDS.fetch_add(1, Ordering::Relaxed),
        function: function.clone(),
        shape,
        threads,
        chunk,
        loops: loops(lower.level, shape[0]),
        steps,
        leaves: lower.leaves,
        tables: function.tables.iter().map(Constants::of).collect(),
        scalars: lower.scalars.len(),
        constants: lower
            .constants
            .iter()
            .map(|(bits, place)| (*place, *bits))
            .collect(),
        words: lower
            .words
            .iter()
            .map(|(index, place)| (*place, *index))
            .collect(),
        positions: lower
            .positions
            .iter()
            .map(|((position, axis), place)| (*place, *position, *axis))
            .collect(),
        zeros: zeros
            .into_iter()
            .filter_map(|zero| placed.operand(zero))
            .collect(),
        columns: placed.sizes,
        direct: placed.direct,
        shared_bytes,
        local_bytes,
    };
    (code, lower.width)
}

/// Returns the loops that steps do not name.
fn loops(level: Level, width: u32) -> Loops {
    let sizes = [1, 2, 4, 8];
    Loops {
        fill: sizes.map(|size| kernels::fill(size, level)),
        blend: [false, true].map(|scalar| sizes.map(|size| kernels::blend(size, scalar, level))),
        ramp: kernels::ramp(level),
        rows: kernels::rows(4, width as usize, level),
        masks: kernels::masks(level),
    }
}

impl Lower<'_> {
    /// Chooses the places of locals. Returns the bytes of a thread's arrays, and what must be zeros at first.
    fn settle(&mut self) -> (usize, Vec<Operand>) {
        let function = self.function;
        let (mut bytes, mut zeros) = (0, Vec::new());
        for (index, array) in function.locals.iter().enumerate() {
            let size = array.dtype.size();
            let home = if !self.survey.is_variable[index] {
                let start = bytes;
                bytes = (bytes + size * array.len as usize).next_multiple_of(8);
                Home::Array(start)
            } else if self.uniform[index] {
                let place = self.new_scalar(0);
                zeros.push(Operand::scalar(place));
                Home::Scalar(place)
            } else {
                let column = self.new_column(array.dtype);
                if !self.survey.begins_stored[index] {
                    self.columns[(column.place & !UNPLACED) as usize].is_fixed = true;
                    zeros.push(column);
                }
                Home::Column(column)
            };
            self.homes.push(home);
        }
        (bytes, zeros)
    }

    /// Chooses the places of shared arrays. Returns their bytes.
    fn share(&mut self) -> usize {
        let mut bytes = 0;
        for array in &self.function.shared {
            self.shared.push(bytes);
            bytes = (bytes + array.dtype.size() * array.len as usize).next_multiple_of(64);
        }
        bytes
    }

    fn emit(&mut self, step: Step) {
        let current = self.open.len() - 1;
        self.open[current].steps.push(step);
    }

    /// Writes a block with a function. Returns its steps.
    fn block(&mut self, write: impl FnOnce(&mut Self)) -> Steps {
        self.open.push(Open::default());
        write(self);
        let Some(open) = self.open.pop() else {
            unreachable!("the block was opened above")
        };
        for key in open.written {
            self.written.remove(&key);
        }
        open.steps
    }

    fn stmts(&mut self, block: &Block) {
        for stmt in block {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let { value, op } => {
                let lanes = self.define(*value, op);
                self.values[*value as usize] = lanes;
            }
            Stmt::Store { to, at, value } => self.store(*to, *at, *value),
            Stmt::If {
                condition,
                then,
                otherwise,
            } => self.branch(*condition, then, otherwise),
            Stmt::For {
                index,
                start,
                end,
                step,
                body,
                ..
            } => self.repeat_for(*index, [*start, *end, *step], body),
            Stmt::Loop { body } => self.repeat(body),
            Stmt::Break | Stmt::Continue | Stmt::Return => self.leave(stmt),
            // Each step runs for all threads before the next one begins, so no thread has to wait.
            Stmt::Barrier => {}
            Stmt::Say(say) => self.say(say),
            Stmt::Line(line) => self.line = *line,
        }
    }

    fn new_scalar(&mut self, depth: usize) -> Place {
        self.scalars.push(Known {
            depth,
            constant: None,
        });
        (self.scalars.len() - 1) as Place
    }

    fn constant(&mut self, bits: u64) -> Place {
        if let Some(place) = self.constants.get(&bits) {
            return *place;
        }
        let place = self.new_scalar(0);
        self.scalars[place as usize].constant = Some(bits);
        self.constants.insert(bits, place);
        place
    }

    fn known(&self, place: Place) -> Option<u64> {
        self.scalars[place as usize].constant
    }

    /// Returns the outermost block that has these scalars.
    fn depth(&self, of: &[Place]) -> usize {
        let depths = of.iter().map(|place| self.scalars[*place as usize].depth);
        depths.max().unwrap_or(0)
    }

    /// Computes a scalar.
    fn scalar(&mut self, f: Reference, of: &[Place]) -> Place {
        let mut all = [0; 3];
        all[..of.len()].copy_from_slice(of);
        let known = all.map(|place| self.known(place));
        if let [Some(a), Some(b), Some(c)] = known {
            return self.constant(f.of([a, b, c]));
        }
        let depth = self.depth(of);
        let to = self.new_scalar(depth);
        self.open[depth].steps.push(Step::Scalar { to, f, of: all });
        to
    }

    /// Returns a new column.
    fn new_column(&mut self, dtype: DType) -> Operand {
        let size = dtype.size() as u32;
        self.columns.push(Column {
            size,
            is_fixed: false,
            is_direct: false,
        });
        let place = (self.columns.len() - 1) as Place | UNPLACED;
        Operand { place, size }
    }

    /// Returns a new column for a mask.
    fn new_mask(&mut self) -> Operand {
        self.new_column(DType::Bool)
    }
}
