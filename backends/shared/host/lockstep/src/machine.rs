//! Executes one cube, statement by statement, for all active threads.

use millstream_ir::ssa::{Axis, Block, Function, Memory, Op, Position, Scope, Stmt, Type, ValueId};
use millstream_ir::{BinaryOp, scalar};
use millstream_protocol::{Cube, NativeArgs};

use crate::memory::{Buffer, checked_index};

/// What a missing function of [`scalar`] would contradict.
const CHECKED: &str = "the verifier has checked that the type has the operation";

/// A checked function, and the places of its values.
pub(crate) struct Code {
    function: Function,
    threads: usize,
    /// The index of the first column of each value. A value has one column per lane.
    columns: Vec<usize>,
    columns_len: usize,
    /// The index of the first element of each shared array, and of each local one, which has a column for each element.
    shared: Vec<usize>,
    locals: Vec<usize>,
    arrays_len: usize,
}

/// Lays ranges of these lengths one after the other. Returns the start of each range, and the end of the last one.
fn starts(lens: impl Iterator<Item = usize>, first: usize) -> (Vec<usize>, usize) {
    let mut end = first;
    let starts = lens.map(|len| {
        let start = end;
        end += len;
        start
    });
    (starts.collect(), end)
}

impl Code {
    pub(crate) fn new(function: Function) -> Self {
        let lanes = function.values.iter().map(|ty| usize::from(ty.lanes));
        let (columns, columns_len) = starts(lanes, 0);
        let threads = function.threads.iter().product::<u32>() as usize;
        let shared = function.shared.iter().map(|array| array.len as usize);
        let (shared, shared_len) = starts(shared, 0);
        let locals = function
            .locals
            .iter()
            .map(|array| array.len as usize * threads);
        let (locals, arrays_len) = starts(locals, shared_len);
        Self {
            threads,
            columns,
            columns_len,
            shared,
            locals,
            arrays_len,
            function,
        }
    }
}

/// The memory of a cube, reused by the next one.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Bits of the values: for each lane of each value, a column with all threads.
    columns: Vec<u64>,
    /// The elements of shared and of local arrays.
    arrays: Vec<u64>,
    /// Unused lists of threads, kept so that blocks allocate none.
    spare: Vec<Vec<u32>>,
    /// Whether each thread goes on with the next statement of its block.
    paths: Vec<Path>,
}

/// Where a thread goes on.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Path {
    /// At the next statement.
    #[default]
    Next,
    /// At the next iteration of the innermost loop.
    Iteration,
    /// Behind the innermost loop.
    Loop,
    /// Nowhere: it has returned.
    Nowhere,
}

/// The elements of one access of a thread.
#[derive(Clone, Copy)]
enum Place {
    /// In a buffer, from this index on.
    Buffer(Buffer, usize),
    /// In [`Scratch::arrays`]: the index of the first, and the distance between two.
    Array { first: usize, step: usize },
}

/// A cube that is running.
pub(crate) struct Machine<'a> {
    code: &'a Code,
    scratch: &'a mut Scratch,
    cube: &'a Cube,
    arguments: &'a NativeArgs<'a>,
    /// The line of the source file.
    line: u32,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(
        code: &'a Code,
        scratch: &'a mut Scratch,
        cube: &'a Cube,
        arguments: &'a NativeArgs<'a>,
    ) -> Self {
        // Values are written before they are read, so the values of the previous cube may remain. Locals start as
        // zeros. The content of shared arrays is undefined at the start; clearing them makes runs repeatable.
        scratch.columns.resize(code.columns_len * code.threads, 0);
        scratch.arrays.clear();
        scratch.arrays.resize(code.arrays_len, 0);
        scratch.paths.clear();
        scratch.paths.resize(code.threads, Path::Next);
        Self {
            code,
            scratch,
            cube,
            arguments,
            line: 0,
        }
    }

    pub(crate) fn run(mut self) {
        let mut all = self.take_list();
        all.extend(0..self.code.threads as u32);
        let code = self.code;
        self.block(&code.function.body, &mut all);
        self.scratch.spare.push(all);
    }

    /// Returns an empty list of threads.
    fn take_list(&mut self) -> Vec<u32> {
        let mut list = self.scratch.spare.pop().unwrap_or_default();
        list.clear();
        list
    }

    fn type_of(&self, value: ValueId) -> Type {
        self.code.function.values[value as usize]
    }

    /// Returns the start of a lane's column.
    fn column(&self, value: ValueId, lane: u8) -> usize {
        (self.code.columns[value as usize] + usize::from(lane)) * self.code.threads
    }

    fn get(&self, value: ValueId, lane: u8, thread: u32) -> u64 {
        self.scratch.columns[self.column(value, lane) + thread as usize]
    }

    /// Sets one lane of a value to the result of `f`, for each of these threads.
    fn fill(
        &mut self,
        (value, lane): (ValueId, u8),
        threads: &[u32],
        f: impl Fn(&Self, u32) -> u64,
    ) {
        let column = self.column(value, lane);
        for thread in threads {
            let bits = f(self, *thread);
            self.scratch.columns[column + *thread as usize] = bits;
        }
    }

    /// Executes a block for these threads. Removes those that leave it before its end.
    fn block(&mut self, body: &Block, threads: &mut Vec<u32>) {
        for stmt in body {
            if threads.is_empty() {
                return;
            }
            match stmt {
                Stmt::Let { value, op } => self.define(*value, op, threads),
                Stmt::Store { to, at, value } => {
                    for thread in &*threads {
                        self.store((*to, *at), *value, *thread);
                    }
                }
                Stmt::AtomicAdd { to, at, value } => {
                    for thread in &*threads {
                        self.atomic_add((*to, *at), *value, *thread);
                    }
                }
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    for (block, taken) in [(then, 1), (otherwise, 0)] {
                        let mut active = self.take_list();
                        let takes = |thread: &&u32| self.get(*condition, 0, **thread) == taken;
                        active.extend(threads.iter().filter(takes));
                        if !active.is_empty() && !block.is_empty() {
                            self.block(block, &mut active);
                        }
                        self.scratch.spare.push(active);
                    }
                    threads.retain(|thread| self.goes_on(thread));
                }
                Stmt::For {
                    index,
                    start,
                    end,
                    step,
                    body,
                    ..
                } => self.for_loop([*index, *start, *end, *step], body, threads),
                Stmt::Loop { body } => {
                    let mut active = self.take_list();
                    active.extend(&*threads);
                    while !active.is_empty() {
                        self.iteration(body, &mut active);
                    }
                    self.scratch.spare.push(active);
                    self.leave_loop(threads);
                }
                Stmt::Break => self.leave(Path::Loop, threads),
                Stmt::Continue => self.leave(Path::Iteration, threads),
                Stmt::Return => self.leave(Path::Nowhere, threads),
                // Each statement runs for all threads before the next one begins, so no thread has to wait.
                Stmt::Barrier => {}
                Stmt::Line(line) => self.line = *line,
            }
        }
    }

    fn goes_on(&self, thread: &u32) -> bool {
        self.scratch.paths[*thread as usize] == Path::Next
    }

    /// Makes threads leave their block.
    fn leave(&mut self, path: Path, threads: &mut Vec<u32>) {
        for thread in threads.drain(..) {
            self.scratch.paths[thread as usize] = path;
        }
    }

    /// Executes an iteration of a loop. Removes the threads that leave the loop.
    fn iteration(&mut self, body: &Block, active: &mut Vec<u32>) {
        let mut inside = self.take_list();
        inside.extend(&*active);
        self.block(body, &mut inside);
        self.scratch.spare.push(inside);
        active.retain(|thread| {
            let path = &mut self.scratch.paths[*thread as usize];
            if *path == Path::Iteration {
                *path = Path::Next;
            }
            *path == Path::Next
        });
    }

    /// Lets the threads that entered a loop go on behind it, except for those that have returned.
    fn leave_loop(&mut self, threads: &mut Vec<u32>) {
        threads.retain(|thread| {
            let path = &mut self.scratch.paths[*thread as usize];
            if *path == Path::Loop {
                *path = Path::Next;
            }
            *path == Path::Next
        });
    }

    fn for_loop(
        &mut self,
        [index, start, end, step]: [ValueId; 4],
        body: &Block,
        threads: &mut Vec<u32>,
    ) {
        let mut active = self.take_list();
        active.extend(
            threads
                .iter()
                .filter(|thread| self.get(step, 0, **thread) as i64 >= 1),
        );
        self.fill((index, 0), &active, |m, thread| m.get(start, 0, thread));
        loop {
            active.retain(|thread| {
                (self.get(index, 0, *thread) as i64) < self.get(end, 0, *thread) as i64
            });
            if active.is_empty() {
                break;
            }
            self.iteration(body, &mut active);
            // Saturating: a sum beyond `i64::MAX` ends the loop.
            let next = |m: &Self, thread| {
                let [index, step] = [index, step].map(|value| m.get(value, 0, thread) as i64);
                index.saturating_add(step) as u64
            };
            self.fill((index, 0), &active, next);
        }
        self.scratch.spare.push(active);
        self.leave_loop(threads);
    }

    /// Returns where an access of a thread finds its elements: the place of the first one. Panics if the access is out of
    /// bounds or misaligned.
    fn place(&self, (memory, at): (Memory, Option<ValueId>), lanes: u8, thread: u32) -> Place {
        let Code {
            function,
            shared,
            locals,
            threads,
            ..
        } = self.code;
        let at = at.map_or(0, |at| self.get(at, 0, thread) as i64);
        let site = || format!("kernel `{}`{}", function.name, function.place(self.line));
        match memory {
            Memory::Param(param) => {
                let param = usize::from(param);
                let (name, dtype) = (&function.params[param].name, function.params[param].dtype);
                // SAFETY: accesses are atomics of whole elements, and the verifier refuses stores to read-only buffers.
                let (pointer, bytes) = unsafe { self.arguments.raw::<u8>(param) };
                let index = checked_index(name, at, lanes, bytes / dtype.size(), true, site);
                Place::Buffer(Buffer { pointer, dtype }, index)
            }
            Memory::Shared(array) => {
                let array = usize::from(array);
                let (name, len) = (&function.shared[array].name, function.shared[array].len);
                let index = checked_index(name, at, lanes, len as usize, true, site);
                Place::Array {
                    first: shared[array] + index,
                    step: 1,
                }
            }
            Memory::Local(array) => {
                let array = usize::from(array);
                let (name, len) = (&function.locals[array].name, function.locals[array].len);
                let index = checked_index(name, at, lanes, len as usize, false, site);
                Place::Array {
                    first: locals[array] + index * threads + thread as usize,
                    step: *threads,
                }
            }
        }
    }

    /// Reads an element of an access.
    fn element(&self, place: Place, lane: usize) -> u64 {
        match place {
            // SAFETY: the index is within the buffer; buffers are aligned (checked at launch) and live during it.
            Place::Buffer(buffer, first) => unsafe { buffer.load(first + lane) },
            Place::Array { first, step } => self.scratch.arrays[first + lane * step],
        }
    }

    fn set_element(&mut self, place: Place, lane: usize, bits: u64) {
        match place {
            // SAFETY: as in `element`; the verifier refuses stores to read-only buffers.
            Place::Buffer(buffer, first) => unsafe { buffer.store(first + lane, bits) },
            Place::Array { first, step } => self.scratch.arrays[first + lane * step] = bits,
        }
    }

    fn store(&mut self, to: (Memory, Option<ValueId>), value: ValueId, thread: u32) {
        let lanes = self.type_of(value).lanes;
        let place = self.place(to, lanes, thread);
        for lane in 0..lanes {
            let bits = self.get(value, lane, thread);
            self.set_element(place, usize::from(lane), bits);
        }
    }

    fn atomic_add(&mut self, (to, at): (Memory, ValueId), value: ValueId, thread: u32) {
        let dtype = self.type_of(value).dtype;
        let sum = scalar::binary(BinaryOp::Add, dtype).expect(CHECKED);
        let place = self.place((to, Some(at)), 1, thread);
        let more = self.get(value, 0, thread);
        match place {
            // SAFETY: as in `set_element`; the verifier allows atomic additions only to elements of 4 and 8 bytes.
            Place::Buffer(buffer, index) => unsafe {
                buffer.update(index, |bits| sum(bits, more));
            },
            // All threads of a cube run on one thread of the host, so this needs no atomic operation.
            Place::Array { .. } => {
                let bits = self.element(place, 0);
                self.set_element(place, 0, sum(bits, more));
            }
        }
    }

    fn define(&mut self, value: ValueId, op: &Op, threads: &[u32]) {
        match op {
            Op::Load(memory, at) => self.load(value, (*memory, *at), threads),
            Op::Reduce(scope, op, a) => {
                let by = scalar::combines(*op);
                let f = by.and_then(|by| scalar::binary(by, self.type_of(*a).dtype));
                self.reduce(value, *scope, *a, f.expect(CHECKED));
            }
            op => {
                for lane in 0..self.type_of(value).lanes {
                    self.compute((value, lane), op, threads);
                }
            }
        }
    }

    fn load(&mut self, value: ValueId, from: (Memory, Option<ValueId>), threads: &[u32]) {
        let lanes = self.type_of(value).lanes;
        for thread in threads {
            let place = self.place(from, lanes, *thread);
            for lane in 0..lanes {
                let bits = self.element(place, usize::from(lane));
                let column = self.column(value, lane);
                self.scratch.columns[column + *thread as usize] = bits;
            }
        }
    }

    /// Combines the values of all threads, or of each row of threads. The verifier ensures that all threads are active.
    fn reduce(&mut self, value: ValueId, scope: Scope, a: ValueId, f: scalar::Binary) {
        let threads = self.code.threads;
        let group = match scope {
            Scope::Cube => threads,
            Scope::Row => self.code.function.threads[0] as usize,
        };
        let (from, to) = (self.column(a, 0), self.column(value, 0));
        for first in (0..threads).step_by(group) {
            let values = &self.scratch.columns[from + first..from + first + group];
            let combined = values.iter().copied().reduce(f).unwrap_or_default();
            self.scratch.columns[to + first..to + first + group].fill(combined);
        }
    }

    /// Computes one lane of an operation on values.
    fn compute(&mut self, to: (ValueId, u8), op: &Op, threads: &[u32]) {
        let (value, lane) = to;
        let dtype = self.type_of(value).dtype;
        match op {
            Op::Const(bits) => self.fill(to, threads, |_, _| *bits),
            Op::Scalar(index) => {
                let word = scalar::of_word(dtype, self.arguments.scalar_bits(usize::from(*index)));
                self.fill(to, threads, |_, _| word);
            }
            Op::Position(position, axis) => {
                self.fill(to, threads, |m, thread| {
                    m.position(*position, *axis, thread)
                });
            }
            Op::Lane(a, from) => self.map(to, [(*a, *from)], threads, |[a]| a),
            Op::Splat(a) => self.map(to, [(*a, 0)], threads, |[a]| a),
            Op::Pack(lanes) => self.map(to, [(lanes[usize::from(lane)], 0)], threads, |[a]| a),
            Op::Bits(a) => self.map(to, [(*a, lane)], threads, |[a]| a),
            Op::Unary(op, a) => {
                let f = scalar::unary(*op, dtype).expect(CHECKED);
                self.map(to, [(*a, lane)], threads, |[a]| f(a));
            }
            Op::Cast(a) => {
                let f = scalar::cast(self.type_of(*a).dtype, dtype);
                self.map(to, [(*a, lane)], threads, |[a]| f(a));
            }
            Op::Binary(op, a, b) => {
                let f = scalar::binary(*op, dtype).expect(CHECKED);
                self.map(to, [(*a, lane), (*b, lane)], threads, |[a, b]| f(a, b));
            }
            Op::Compare(op, a, b) => {
                let f = scalar::compare(*op, self.type_of(*a).dtype);
                self.map(to, [(*a, lane), (*b, lane)], threads, |[a, b]| f(a, b));
            }
            Op::Random(seed, counter) => {
                let of = [(*seed, lane), (*counter, lane)];
                self.map(to, of, threads, |[a, b]| scalar::random(a, b));
            }
            Op::Select(condition, a, b) => {
                let of = [*condition, *a, *b].map(|value| (value, lane));
                self.map(to, of, threads, |[c, a, b]| scalar::select(c, a, b));
            }
            Op::Fma(a, b, c) => {
                let f = scalar::fma(dtype).expect(CHECKED);
                let of = [*a, *b, *c].map(|value| (value, lane));
                self.map(to, of, threads, |[a, b, c]| f(a, b, c));
            }
            other => panic!("the interpreter does not support `{other:?}`"),
        }
    }

    /// Sets one lane of a value to the result of `f` on lanes of others, for each of these threads.
    fn map<const N: usize>(
        &mut self,
        to: (ValueId, u8),
        of: [(ValueId, u8); N],
        threads: &[u32],
        f: impl Fn([u64; N]) -> u64,
    ) {
        let columns = of.map(|(value, lane)| self.column(value, lane));
        self.fill(to, threads, |m, thread| {
            f(columns.map(|column| m.scratch.columns[column + thread as usize]))
        });
    }

    fn position(&self, position: Position, axis: Axis, thread: u32) -> u64 {
        let [x, y, _] = self.code.function.threads;
        let at = match axis {
            Axis::X => 0,
            Axis::Y => 1,
            Axis::Z => 2,
        };
        let found = match position {
            Position::Thread => [thread % x, thread / x % y, thread / x / y][at],
            Position::Threads => self.code.function.threads[at],
            Position::Cube => [self.cube.x(), self.cube.y(), self.cube.z()][at],
            Position::Cubes => self.cube.counts()[at],
        };
        found.into()
    }
}
