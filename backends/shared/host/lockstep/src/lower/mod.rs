//! Compiles a function: decides for each value whether it is a scalar, affine or a column, and writes steps.
//!
//! A scalar is computed in the outermost block that has its operands, because scalars never trap.
//!
//! | module | contents |
//! | --- | --- |
//! | `values`, `affine`, `together` | operations: of one thread, and of several |
//! | `operands` | their operands |
//! | `products` | sums of products |
//! | `memory` | loads and stores |
//! | `control` | branches and loops |
//! | `columns` | which columns share memory |

mod affine;
mod columns;
mod control;
mod memory;
mod operands;
mod products;
mod together;
mod values;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_ir::DType;
use millstream_ir::ssa::{Axis, Block, Function, Position, Stmt, ValueId};
use millstream_loops::level::Level;

use crate::code::{
    Affine, Code, Constants, Loops, Operand, Place, Reference, Step, Steps, Test, UNPLACED, VARIES,
    slot, varies,
};
use crate::kernels;
use crate::survey::{Survey, survey};

/// The bytes of columns that are in use at once: two thirds of the L1 cache of most processors.
const CHUNK_BYTES: usize = 32 << 10;
/// The bytes of columns and shared arrays of cubes that run side by side: a part of the L2 cache of most processors.
const SIDE_BY_SIDE_BYTES: usize = 192 << 10;
/// The most threads of cubes that run side by side: for these, a step costs little besides its loop.
const SIDE_BY_SIDE_THREADS: usize = 2048;
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
    /// A bool: all of some tests, by their index.
    All(usize),
}

/// What is known of a scalar.
#[derive(Clone, Copy)]
struct Known {
    /// The index of the open block that defines it.
    depth: usize,
    varies: bool,
    constant: Option<u64>,
    /// The greatest `u64` that it may be, if that is known.
    most: Option<u64>,
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
    /// Whether its content depends on the threads' positions alone.
    is_constant: bool,
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
    /// The steps that compute constant columns.
    prologue: Steps,
    scalars: Vec<Known>,
    constants: HashMap<u64, Place>,
    words: HashMap<u16, Place>,
    positions: HashMap<(Position, Axis), Place>,
    columns: Vec<Column>,
    values: Vec<Vec<Lane>>,
    /// Tests that must all be true.
    tests: Vec<Vec<Test>>,
    /// The columns of affine values and of tests, for lanes of values.
    written: HashMap<(ValueId, u8), Operand>,
    homes: Vec<Home>,
    /// Whether the content of each local is the same for all threads of a cube, and of a launch.
    uniform: Vec<bool>,
    launch_uniform: Vec<bool>,
    /// The first byte of each shared array.
    shared: Vec<usize>,
    /// The last product, with its factors.
    product: Option<(ValueId, [ValueId; 2])>,
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
        prologue: Vec::new(),
        scalars: Vec::new(),
        constants: HashMap::new(),
        words: HashMap::new(),
        positions: HashMap::new(),
        columns: Vec::new(),
        values: vec![Vec::new(); function.values.len()],
        tests: Vec::new(),
        written: HashMap::new(),
        homes: Vec::new(),
        uniform: function.uniform_locals(),
        launch_uniform: function.launch_uniform_locals(),
        shared: Vec::new(),
        product: None,
        line: 0,
        leaves: false,
    };
    // Steps without a second or third operand name the first scalar.
    lower.constant(0);
    let (local_bytes, zeros) = lower.settle();
    let shared_bytes = lower.share();
    lower.stmts(&function.body);
    let mut steps = std::mem::take(&mut lower.prologue);
    let prologue = steps.len();
    steps.extend(lower.open.pop().into_iter().flat_map(|open| open.steps));
    let placed = columns::place(&mut steps, &lower.columns, lower.scalars.len());
    let threads = function.threads.iter().product::<u32>() as usize;
    let bytes: usize = placed.sizes.iter().map(|size| *size as usize).sum();
    let bytes = threads * (bytes + local_bytes);
    let chunks = bytes.div_ceil(CHUNK_BYTES);
    let fits = (SIDE_BY_SIDE_BYTES / (bytes + shared_bytes).max(1))
        .min(SIDE_BY_SIDE_THREADS / threads)
        .max(1);
    let (chunk, cubes) = match lower.survey.meets || chunks <= 1 {
        // What threads say comes cube by cube.
        true if lower.survey.says => (threads, 1),
        true => (threads * fits, fits),
        false => {
            let part = threads.div_ceil(chunks).next_multiple_of(CHUNK_THREADS);
            (part.min(threads), 1)
        }
    };
    let code = Code {
        // Only a number that no other function has.
        id: IDS.fetch_add(1, Ordering::Relaxed),
        function: function.clone(),
        shape,
        threads,
        chunk,
        cubes,
        loops: loops(lower.level, shape[0]),
        steps,
        prologue,
        leaves: lower.leaves,
        tables: function.tables.iter().map(Constants::of).collect(),
        scalars: lower.scalars.iter().map(|known| known.varies).collect(),
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
        mul_add: [width as usize, 0].map(|width| kernels::mul_add(width, level)),
        masks: kernels::masks(level),
        bounds: kernels::bounds(level),
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
                let place = self.new_scalar(0, !self.launch_uniform[index]);
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

    fn new_scalar(&mut self, depth: usize, varies: bool) -> Place {
        self.scalars.push(Known {
            depth,
            varies,
            constant: None,
            most: None,
        });
        let place = (self.scalars.len() - 1) as Place;
        if varies { place | VARIES } else { place }
    }

    fn constant(&mut self, bits: u64) -> Place {
        if let Some(place) = self.constants.get(&bits) {
            return *place;
        }
        let place = self.new_scalar(0, false);
        self.scalars[slot(place)].constant = Some(bits);
        self.scalars[slot(place)].most = Some(bits);
        self.constants.insert(bits, place);
        place
    }

    fn known(&self, place: Place) -> Option<u64> {
        self.scalars[slot(place)].constant
    }

    /// Returns a new scalar for what is computed of these, and the outermost block that has them.
    fn new_result(&mut self, of: &[Place]) -> (Place, usize) {
        let depths = of.iter().map(|place| self.scalars[slot(*place)].depth);
        let depth = depths.max().unwrap_or(0);
        let varies = of.iter().any(|place| varies(*place));
        (self.new_scalar(depth, varies), depth)
    }

    /// Computes a scalar.
    fn scalar(&mut self, f: Reference, of: &[Place]) -> Place {
        let mut all = [0; 3];
        all[..of.len()].copy_from_slice(of);
        let known = all.map(|place| self.known(place));
        if let [Some(a), Some(b), Some(c)] = known {
            return self.constant(f.of([a, b, c]));
        }
        let (to, depth) = self.new_result(of);
        let step = Step::Scalar {
            to,
            f,
            of: all,
            masked: false,
        };
        self.open[depth].steps.push(step);
        to
    }

    /// Returns a new column.
    fn new_column(&mut self, dtype: DType) -> Operand {
        let size = dtype.size() as u32;
        self.columns.push(Column {
            size,
            is_fixed: false,
            is_direct: false,
            is_constant: false,
        });
        let place = (self.columns.len() - 1) as Place | UNPLACED;
        Operand { place, size }
    }

    /// Returns a new column for a mask.
    fn new_mask(&mut self) -> Operand {
        self.new_column(DType::Bool)
    }
}
