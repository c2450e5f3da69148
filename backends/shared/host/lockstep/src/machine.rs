//! Executes one cube, statement by statement, for all active threads.

use millstream_ir::scalar;
use millstream_ir::ssa::{Axis, Block, Function, Memory, Op, Position, Scope, Stmt, Type, ValueId};
use millstream_protocol::kernel::{Cube, NativeArgs};

use crate::memory::{Buffer, checked_index};

/// A checked function, and the places of its values.
pub(crate) struct Code {
    function: Function,
    threads: usize,
    /// The index of the first column of each value. A value has one column per lane.
    columns: Vec<usize>,
    columns_len: usize,
    /// The index of the first element of each shared array.
    shared: Vec<usize>,
    shared_len: usize,
    /// The index of the first element of each local array.
    locals: Vec<usize>,
    locals_len: usize,
}

/// Lays ranges of these lengths one after the other. Returns the start of each range, and the end of the last one.
fn starts(lens: impl Iterator<Item = usize>) -> (Vec<usize>, usize) {
    let mut end = 0;
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
        let (columns, columns_len) = starts(lanes);
        let len = |array: &millstream_ir::ssa::Array| array.len as usize;
        let (shared, shared_len) = starts(function.shared.iter().map(len));
        let (locals, locals_len) = starts(function.locals.iter().map(len));
        Self {
            threads: function.threads.iter().product::<u32>() as usize,
            columns,
            columns_len,
            shared,
            shared_len,
            locals,
            locals_len,
            function,
        }
    }
}

/// The memory of a cube, reused by the next one.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Bits of the values: for each lane of each value, a column with all threads.
    columns: Vec<u64>,
    shared: Vec<u64>,
    /// For each element, a column with all threads.
    locals: Vec<u64>,
    /// Unused lists of threads, kept so that blocks allocate none.
    spare: Vec<Vec<u32>>,
}

/// A cube that is running.
pub(crate) struct Machine<'a> {
    code: &'a Code,
    scratch: &'a mut Scratch,
    cube: &'a Cube,
    arguments: &'a NativeArgs<'a>,
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
        scratch.shared.clear();
        scratch.shared.resize(code.shared_len, 0);
        scratch.locals.clear();
        scratch.locals.resize(code.locals_len * code.threads, 0);
        Self {
            code,
            scratch,
            cube,
            arguments,
        }
    }

    pub(crate) fn run(mut self) {
        let mut all = self.take_list();
        all.extend(0..self.code.threads as u32);
        let code = self.code;
        self.block(&code.function.body, &all);
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

    fn block(&mut self, body: &Block, threads: &[u32]) {
        for stmt in body {
            match stmt {
                Stmt::Let { value, op } => self.define(*value, op, threads),
                Stmt::Store { to, at, value } => {
                    for thread in threads {
                        self.store((*to, *at), *value, *thread);
                    }
                }
                Stmt::AtomicAdd { to, at, value } => {
                    for thread in threads {
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
                            self.block(block, &active);
                        }
                        self.scratch.spare.push(active);
                    }
                }
                Stmt::For {
                    index,
                    start,
                    end,
                    step,
                    body,
                    ..
                } => self.for_loop([*index, *start, *end, *step], body, threads),
                // Each statement runs for all threads before the next one begins, so no thread has to wait.
                Stmt::Barrier => {}
                other => panic!("the interpreter does not support `{other:?}`"),
            }
        }
    }

    fn for_loop(&mut self, [index, start, end, step]: [ValueId; 4], body: &Block, threads: &[u32]) {
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
            self.block(body, &active);
            // Saturating: a sum beyond `i64::MAX` ends the loop.
            let next = |m: &Self, thread| {
                let [index, step] = [index, step].map(|value| m.get(value, 0, thread) as i64);
                index.saturating_add(step) as u64
            };
            self.fill((index, 0), &active, next);
        }
        self.scratch.spare.push(active);
    }

    fn buffer(&self, index: u16) -> Buffer {
        let index = usize::from(index);
        let dtype = self.code.function.params[index].dtype;
        // SAFETY: accesses are atomics of whole elements, and the verifier refuses stores to read-only buffers.
        let (pointer, bytes) = unsafe { self.arguments.raw::<u8>(index) };
        let len = bytes / dtype.size();
        Buffer {
            pointer,
            len,
            dtype,
        }
    }

    /// Returns the index of the first element that a thread accesses. Panics if the access is out of bounds or
    /// misaligned.
    fn element_index(
        &self,
        (memory, at): (Memory, Option<ValueId>),
        lanes: u8,
        thread: u32,
    ) -> usize {
        let function = &self.code.function;
        let index = at.map_or(0, |at| self.get(at, 0, thread) as i64);
        let (name, len) = match memory {
            Memory::Param(param) => (
                &function.params[usize::from(param)].name,
                self.buffer(param).len,
            ),
            Memory::Shared(array) => {
                let array = &function.shared[usize::from(array)];
                (&array.name, array.len as usize)
            }
            Memory::Local(array) => {
                let array = &function.locals[usize::from(array)];
                (&array.name, array.len as usize)
            }
        };
        checked_index(name, index, lanes, len, !matches!(memory, Memory::Local(_)))
    }

    /// Reads the element at a checked index.
    fn element(&self, memory: Memory, index: usize, thread: u32) -> u64 {
        match memory {
            // SAFETY: the index is within the buffer; buffers are aligned (checked at launch) and live during it.
            Memory::Param(param) => unsafe { self.buffer(param).load(index) },
            Memory::Shared(array) => {
                self.scratch.shared[self.code.shared[usize::from(array)] + index]
            }
            Memory::Local(array) => {
                let element = self.code.locals[usize::from(array)] + index;
                self.scratch.locals[element * self.code.threads + thread as usize]
            }
        }
    }

    fn set_element(&mut self, memory: Memory, index: usize, thread: u32, bits: u64) {
        match memory {
            // SAFETY: as in `element`; the verifier refuses stores to read-only buffers.
            Memory::Param(param) => unsafe { self.buffer(param).store(index, bits) },
            Memory::Shared(array) => {
                self.scratch.shared[self.code.shared[usize::from(array)] + index] = bits;
            }
            Memory::Local(array) => {
                let element = self.code.locals[usize::from(array)] + index;
                self.scratch.locals[element * self.code.threads + thread as usize] = bits;
            }
        }
    }

    fn store(&mut self, to: (Memory, Option<ValueId>), value: ValueId, thread: u32) {
        let lanes = self.type_of(value).lanes;
        let index = self.element_index(to, lanes, thread);
        for lane in 0..lanes {
            let bits = self.get(value, lane, thread);
            self.set_element(to.0, index + usize::from(lane), thread, bits);
        }
    }

    fn atomic_add(&mut self, (to, at): (Memory, ValueId), value: ValueId, thread: u32) {
        let dtype = self.type_of(value).dtype;
        let Some(sum) = scalar::binary(millstream_ir::BinaryOp::Add, dtype) else {
            return;
        };
        let index = self.element_index((to, Some(at)), 1, thread);
        let more = self.get(value, 0, thread);
        match to {
            // SAFETY: as in `set_element`; the verifier allows atomic additions only to elements of 4 and 8 bytes.
            Memory::Param(param) => unsafe {
                self.buffer(param).update(index, |bits| sum(bits, more));
            },
            // All threads of a cube run on one thread of the host, so this needs no atomic operation.
            _ => {
                let bits = self.element(to, index, thread);
                self.set_element(to, index, thread, sum(bits, more));
            }
        }
    }

    fn define(&mut self, value: ValueId, op: &Op, threads: &[u32]) {
        match op {
            Op::Load(memory, at) => self.load(value, (*memory, *at), threads),
            Op::Reduce(scope, op, a) => {
                let by = scalar::combines(*op);
                if let Some(f) = by.and_then(|by| scalar::binary(by, self.type_of(*a).dtype)) {
                    self.reduce(value, *scope, *a, f);
                }
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
            let index = self.element_index(from, lanes, *thread);
            for lane in 0..lanes {
                let bits = self.element(from.0, index + usize::from(lane), *thread);
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
        let lane = to.1;
        let ty = self.type_of(to.0);
        match op {
            Op::Const(bits) => self.fill(to, threads, |_, _| *bits),
            Op::Scalar(index) => {
                let word = scalar::of_word(ty.dtype, self.arguments.scalar(usize::from(*index)));
                self.fill(to, threads, |_, _| word);
            }
            Op::Position(position, axis) => {
                self.fill(to, threads, |m, thread| {
                    m.position(*position, *axis, thread)
                });
            }
            Op::Lane(a, from) => self.fill(to, threads, |m, thread| m.get(*a, *from, thread)),
            Op::Splat(a) => self.fill(to, threads, |m, thread| m.get(*a, 0, thread)),
            Op::Pack(lanes) => {
                let a = lanes[usize::from(lane)];
                self.fill(to, threads, |m, thread| m.get(a, 0, thread));
            }
            Op::Bits(a) => self.fill(to, threads, |m, thread| m.get(*a, lane, thread)),
            Op::Unary(op, a) => {
                if let Some(f) = scalar::unary(*op, ty.dtype) {
                    self.map_unary(to, *a, f, threads);
                }
            }
            Op::Binary(op, a, b) => {
                if let Some(f) = scalar::binary(*op, ty.dtype) {
                    self.map_binary(to, (*a, *b), f, threads);
                }
            }
            Op::Compare(op, a, b) => {
                let f = scalar::compare(*op, self.type_of(*a).dtype);
                self.map_binary(to, (*a, *b), f, threads);
            }
            Op::Select(condition, a, b) => self.fill(to, threads, |m, thread| {
                let taken = m.get(*condition, lane, thread) != 0;
                m.get(if taken { *a } else { *b }, lane, thread)
            }),
            Op::Cast(a) => {
                let f = scalar::cast(self.type_of(*a).dtype, ty.dtype);
                self.map_unary(to, *a, f, threads);
            }
            Op::Fma(a, b, c) => {
                if let Some(f) = scalar::fma(ty.dtype) {
                    self.fill(to, threads, |m, thread| {
                        let [a, b, c] = [*a, *b, *c].map(|value| m.get(value, lane, thread));
                        f(a, b, c)
                    });
                }
            }
            Op::Random(seed, counter) => {
                self.map_binary(to, (*seed, *counter), scalar::random, threads);
            }
            other => panic!("the interpreter does not support `{other:?}`"),
        }
    }

    fn map_unary(&mut self, to: (ValueId, u8), a: ValueId, f: scalar::Unary, threads: &[u32]) {
        let a = self.column(a, to.1);
        self.fill(to, threads, |m, thread| {
            f(m.scratch.columns[a + thread as usize])
        });
    }

    fn map_binary(
        &mut self,
        to: (ValueId, u8),
        (a, b): (ValueId, ValueId),
        f: scalar::Binary,
        threads: &[u32],
    ) {
        let [a, b] = [a, b].map(|value| self.column(value, to.1));
        self.fill(to, threads, |m, thread| {
            let [a, b] = [a, b].map(|column| m.scratch.columns[column + thread as usize]);
            f(a, b)
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
