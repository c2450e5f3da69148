//! The reference of SSA functions: each thread of a cube is a thread of the host, with the
//! [reference](millstream_ir::scalar) of each operation. Slow, and small enough to verify by reading: tests compare
//! everything else with it. Values are bits.
//!
//! Threads meet at barriers and reductions. It panics if they do not: if threads wait at different statements, or for a
//! thread that has ended. So it shows whether the check of a function is right that all threads get there.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use millstream_ir::ssa::{
    Block, Function, Memory, Op, Position, Scope, Shuffle, Stmt, Table, Type, ValueId,
};
use millstream_ir::{DType, scalar};

/// Why an operation exists for its type.
const CHECKED: &str = "the function is checked";

/// Runs a checked function over buffers of bytes, cube by cube. An access out of bounds gives zeros, or does nothing.
/// Returns whether there was one.
pub fn run(function: &Function, cubes: u32, buffers: &mut [Vec<u8>], words: &[u64]) -> bool {
    let mut is_out_of_bounds = false;
    for cube in 0..cubes {
        let shared = function.shared.iter();
        let shared = shared.map(|array| vec![0; array.dtype.size() * array.len as usize]);
        let threads: u32 = function.threads.iter().product();
        let met = Met {
            buffers: buffers.to_vec(),
            shared: shared.collect(),
            is_out_of_bounds: false,
            waiting: HashMap::new(),
            last: Vec::new(),
            round: 0,
            has_failed: false,
            ended: 0,
        };
        let cube_of = Cube {
            function,
            words,
            position: [cube, cubes],
            met: Mutex::new(met),
            change: Condvar::new(),
        };
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let cube = &cube_of;
                scope.spawn(move || cube.thread(thread).run());
            }
        });
        let met = cube_of.lock();
        is_out_of_bounds |= met.is_out_of_bounds;
        buffers.clone_from_slice(&met.buffers);
    }
    is_out_of_bounds
}

/// What the threads of a cube share.
struct Met {
    buffers: Vec<Vec<u8>>,
    shared: Vec<Vec<u8>>,
    is_out_of_bounds: bool,
    /// For each thread that waits the address of its statement, and its value.
    waiting: HashMap<u32, (usize, u64)>,
    /// The values of the last meeting, by thread.
    last: Vec<u64>,
    /// The number of meetings so far.
    round: u64,
    /// The number of threads that have ended.
    ended: u32,
    has_failed: bool,
}

struct Cube<'a> {
    function: &'a Function,
    words: &'a [u64],
    /// The index of the cube, and the number of cubes.
    position: [u32; 2],
    met: Mutex<Met>,
    /// A meeting has ended, or has failed.
    change: Condvar,
}

impl Cube<'_> {
    fn lock(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> u32 {
        self.function.threads.iter().product()
    }

    fn thread(&self, index: u32) -> Thread<'_> {
        let locals = self.function.locals.iter();
        Thread {
            cube: self,
            index,
            values: vec![Vec::new(); self.function.values.len()],
            locals: locals
                .map(|array| vec![0; array.dtype.size() * array.len as usize])
                .collect(),
        }
    }

    /// Waits for all threads of the cube at this statement. Returns the values that they bring, by thread.
    fn meet(&self, thread: u32, stmt: &Stmt, value: u64) -> Vec<u64> {
        let mut met = self.lock();
        let (round, address) = (met.round, std::ptr::from_ref(stmt).addr());
        met.has_failed |= met.ended > 0 || met.waiting.values().any(|(at, _)| *at != address);
        met.waiting.insert(thread, (address, value));
        if met.waiting.len() == self.threads() as usize {
            met.last = (0..self.threads())
                .map(|thread| met.waiting[&thread].1)
                .collect();
            met.waiting.clear();
            met.round += 1;
        }
        self.change.notify_all();
        while met.round == round && !met.has_failed {
            met = self
                .change
                .wait(met)
                .unwrap_or_else(PoisonError::into_inner);
        }
        assert!(
            !met.has_failed,
            "only some threads of a cube reach a barrier"
        );
        met.last.clone()
    }
}

struct Thread<'a> {
    cube: &'a Cube<'a>,
    index: u32,
    /// The lanes of each value.
    values: Vec<Vec<u64>>,
    locals: Vec<Vec<u8>>,
}

/// Where a thread goes on behind a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    Next,
    Iteration,
    Loop,
    Nowhere,
}

/// Returns the elements of a table, as memory has them.
fn bytes_of(table: &Table) -> Vec<u8> {
    let elements = table.bits.iter();
    elements
        .flat_map(|bits| bits.to_le_bytes().into_iter().take(table.dtype.size()))
        .collect()
}

/// Combines the values of a subgroup: those of the lower half with those of the upper one, and so on.
fn tree(values: &[u64], combine: fn(u64, u64) -> u64) -> u64 {
    let (lower, upper) = values.split_at(values.len() / 2);
    let pairs = lower.iter().zip(upper);
    match values {
        [value] => *value,
        _ => tree(
            &pairs.map(|(a, b)| combine(*a, *b)).collect::<Vec<_>>(),
            combine,
        ),
    }
}

impl Thread<'_> {
    fn run(mut self) {
        self.block(&self.cube.function.body);
        let mut met = self.cube.lock();
        met.ended += 1;
        met.has_failed |= !met.waiting.is_empty();
        self.cube.change.notify_all();
    }

    fn get(&self, value: ValueId) -> u64 {
        self.values[value as usize][0]
    }

    fn of(&self, value: ValueId) -> Type {
        self.cube.function.values[value as usize]
    }

    fn block(&mut self, block: &Block) -> Path {
        let mut paths = block.iter().map(|stmt| self.stmt(stmt));
        paths.find(|path| *path != Path::Next).unwrap_or(Path::Next)
    }

    /// Runs an iteration of a loop. Returns where the thread goes on behind the loop if it leaves the loop.
    fn iteration(&mut self, body: &Block) -> Option<Path> {
        match self.block(body) {
            Path::Next | Path::Iteration => None,
            Path::Loop => Some(Path::Next),
            Path::Nowhere => Some(Path::Nowhere),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) -> Path {
        match stmt {
            Stmt::Let { value, op } => {
                self.values[*value as usize] = self.op(*value, op, stmt);
                Path::Next
            }
            Stmt::Store { to, at, value } => {
                let lanes = self.values[*value as usize].clone();
                self.access(*to, *at, self.of(*value), |lane, dtype, bytes| {
                    scalar::store(dtype, lanes[lane], bytes);
                });
                Path::Next
            }
            Stmt::If {
                condition,
                then,
                otherwise,
            } => self.block(if self.get(*condition) == 0 {
                otherwise
            } else {
                then
            }),
            Stmt::For {
                index,
                start,
                end,
                step,
                body,
                ..
            } => {
                let [start, end, step] = [start, end, step].map(|bound| self.get(*bound) as i64);
                let step = usize::try_from(step).unwrap_or_default();
                let indices = (start..end).step_by(step.max(1));
                for at in indices.take(if step == 0 { 0 } else { usize::MAX }) {
                    self.values[*index as usize] = vec![at as u64];
                    if let Some(path) = self.iteration(body) {
                        return path;
                    }
                }
                Path::Next
            }
            Stmt::Loop { body } => loop {
                if let Some(path) = self.iteration(body) {
                    return path;
                }
            },
            Stmt::Break => Path::Loop,
            Stmt::Continue => Path::Iteration,
            Stmt::Return => Path::Nowhere,
            Stmt::Barrier => {
                self.cube.meet(self.index, stmt, 0);
                Path::Next
            }
            Stmt::Line(_) | Stmt::Say(_) => Path::Next,
        }
    }

    /// Accesses the elements of memory, lane by lane, if all of them are in bounds.
    fn access(
        &mut self,
        memory: Memory,
        at: Option<ValueId>,
        of: Type,
        mut each: impl FnMut(usize, DType, &mut [u8]),
    ) {
        let at = at.map_or(0, |at| self.get(at) as i64);
        let (_, dtype) = self.cube.function.memory(memory).expect(CHECKED);
        let mut met = self.cube.lock();
        let mut table = match memory {
            Memory::Table(index) => bytes_of(&self.cube.function.tables[usize::from(index)]),
            _ => Vec::new(),
        };
        let bytes = match memory {
            Memory::Param(index) => &mut met.buffers[usize::from(index)],
            Memory::Shared(index) => &mut met.shared[usize::from(index)],
            Memory::Local(index) => &mut self.locals[usize::from(index)],
            Memory::Table(_) => &mut table,
        };
        let size = dtype.size();
        let start = usize::try_from(at).ok().and_then(|at| at.checked_mul(size));
        let end = start.and_then(|start| start.checked_add(size * usize::from(of.lanes)));
        let elements = start
            .zip(end)
            .and_then(|(start, end)| bytes.get_mut(start..end));
        match elements {
            Some(elements) => {
                let lanes = elements.chunks_mut(size).enumerate();
                lanes.for_each(|(lane, bytes)| each(lane, dtype, bytes));
            }
            None => met.is_out_of_bounds = true,
        }
    }

    fn op(&mut self, value: ValueId, op: &Op, stmt: &Stmt) -> Vec<u64> {
        let of = self.of(value);
        match op {
            Op::Load(memory, at) => {
                let mut lanes = vec![0; of.lanes.into()];
                self.access(*memory, *at, of, |lane, dtype, bytes| {
                    lanes[lane] = scalar::load(dtype, bytes);
                });
                lanes
            }
            Op::Atomic(op, memory, at) => {
                let mut operands = op.operands().map(|operand| self.get(operand));
                let operands = std::array::from_fn(|_| operands.next().unwrap_or_default());
                let (stored, mut before) = (op.function(of.dtype), 0);
                self.access(*memory, Some(*at), of, |_, dtype, bytes| {
                    before = scalar::load(dtype, bytes);
                    scalar::store(dtype, stored(before, operands), bytes);
                });
                vec![before]
            }
            Op::Reduce(scope, op, a) => {
                let all = self.cube.meet(self.index, stmt, self.get(*a));
                let combine = scalar::combines(*op).and_then(|by| scalar::binary(by, of.dtype));
                let combine = combine.expect(CHECKED);
                let combined = match scope {
                    Scope::Cube => all.into_iter().reduce(combine).unwrap_or_default(),
                    Scope::Subgroup(width) => {
                        let first = self.index / width * width;
                        tree(&all[first as usize..][..*width as usize], combine)
                    }
                };
                vec![combined]
            }
            Op::Shuffle(from, width, a, by) => {
                let all = self.cube.meet(self.index, stmt, self.get(*a));
                let (place, by) = (i64::from(self.index % width), self.get(*by) as i64);
                let source = match from {
                    Shuffle::Lane => by,
                    Shuffle::Xor => place ^ by,
                    Shuffle::Down => place.wrapping_add(by),
                    Shuffle::Up => place.wrapping_sub(by),
                };
                let inside = 0..i64::from(*width);
                let source = match inside.contains(&by) && inside.contains(&source) {
                    true => source,
                    false => place,
                };
                let first = self.index / width * width;
                vec![all[first as usize + source as usize]]
            }
            op => (0..of.lanes)
                .map(|lane| self.lane(of.dtype, op, lane))
                .collect(),
        }
    }

    fn lane(&self, dtype: DType, op: &Op, lane: u8) -> u64 {
        let get = |value: &ValueId| self.values[*value as usize][usize::from(lane)];
        match op {
            Op::Const(bits) => *bits,
            Op::Scalar(index) => scalar::of_word(dtype, self.cube.words[usize::from(*index)]),
            Op::Position(position, axis) => {
                let threads = self.cube.function.threads;
                let [x, y, _] = threads;
                let axis = *axis as usize;
                let [cube, cubes] = self.cube.position;
                let found = match position {
                    Position::Thread => {
                        [self.index % x, self.index / x % y, self.index / x / y][axis]
                    }
                    Position::Threads => threads[axis],
                    Position::Cube => [cube, 0, 0][axis],
                    Position::Cubes => [cubes, 1, 1][axis],
                };
                found.into()
            }
            Op::Lane(a, lane) => self.values[*a as usize][usize::from(*lane)],
            Op::Splat(a) => self.get(*a),
            Op::Pack(lanes) => self.get(lanes[usize::from(lane)]),
            Op::Unary(op, a) => scalar::unary(*op, dtype).expect(CHECKED)(get(a)),
            Op::Binary(op, a, b) => scalar::binary(*op, dtype).expect(CHECKED)(get(a), get(b)),
            Op::Compare(op, a, b) => scalar::compare(*op, self.of(*a).dtype)(get(a), get(b)),
            Op::Select(condition, a, b) => scalar::select(get(condition), get(a), get(b)),
            Op::Cast(a) => scalar::cast(self.of(*a).dtype, dtype)(get(a)),
            Op::Bits(a) => get(a),
            Op::Fma(a, b, c) => scalar::fma(dtype).expect(CHECKED)(get(a), get(b), get(c)),
            Op::Random(seed, counter) => scalar::random(get(seed), get(counter)),
            other => unreachable!("`{other:?}` is no operation on lanes"),
        }
    }
}
