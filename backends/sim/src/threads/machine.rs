//! Runs the threads of a launch: each for itself, up to the next statement at which the threads of its cube meet.

use std::sync::Arc;

use millstream_host::Arguments;
use millstream_ir::scalar;
use millstream_ir::ssa::{
    AtomicOp, Axis, Memory, PARTS_BEYOND, Position, Scope, Shuffle, Text, ValueId, reduced,
};
use millstream_protocol::{Cube, Lines};

use super::code::{Code, Compute, Place, Step};
use super::memory::Buffer;
use super::mistake::{AccessKind, KernelMistake, ThreadAccess};
use super::races::{Access, Races};
use crate::random::{Random, shuffled};

/// The result of a part of a launch.
type Ran<T> = Result<T, Box<KernelMistake>>;

/// A launch of a function.
pub(crate) struct Launch<'a> {
    pub(crate) code: &'a Code,
    pub(crate) arguments: Arguments<'a>,
    pub(crate) cubes: u64,
    /// Chooses the orders of cubes and threads, and the content of shared arrays.
    pub(crate) seed: u64,
    /// Whether to look for races.
    pub(crate) checks: bool,
}

/// Runs a launch.
///
/// # Errors
/// The first mistake, which ends the launch.
///
/// # Safety
/// The views are those of a launch that was checked against the kernel of the function. Their memory is live and
/// initialized, and nothing else accesses it meanwhile.
pub(crate) unsafe fn run(launch: &Launch<'_>) -> Ran<()> {
    let function = &launch.code.function;
    let views = launch.arguments.views.iter().zip(&function.params);
    let buffers: Vec<_> = views
        .map(|(view, param)| Buffer::new(*view, param.dtype))
        .collect();
    let lens = || function.shared.iter().map(|array| array.len as usize);
    let mut random = Random::new(launch.seed);
    let mut machine = Machine {
        code: launch.code,
        scalars: launch.arguments.scalars,
        lines: launch.arguments.lines,
        cube: Cube::new(0, launch.arguments.counts),
        races: launch.checks.then(|| Races::new(&buffers, lens())),
        buffers,
        shared: lens().map(|len| vec![0; len]).collect(),
    };
    let locals = function.locals.iter();
    let locals: Vec<Vec<u64>> = locals.map(|array| vec![0; array.len as usize]).collect();
    let thread = |index| Thread {
        index,
        at: 0,
        values: vec![0; launch.code.values_len],
        locals: locals.clone(),
    };
    let mut threads: Vec<Thread> = (0..launch.code.threads()).map(thread).collect();
    for cube in shuffled(launch.cubes, launch.seed) {
        machine.begin(cube, &mut random, &mut threads);
        loop {
            for index in shuffled(threads.len() as u64, random.next()) {
                machine.advance(&mut threads[index as usize])?;
            }
            if !machine.meet(&mut threads)? {
                break;
            }
        }
    }
    Ok(())
}

/// A thread of the cube.
struct Thread {
    /// Its index in the cube.
    index: u32,
    /// Its next step. It has ended if there is none.
    at: usize,
    /// The bits of the lanes of values. Written before they are read, so those of the last cube may remain.
    values: Vec<u64>,
    /// The elements of locals, which start as zeros.
    locals: Vec<Vec<u64>>,
}

/// A cube that runs, and the memory that its threads share.
struct Machine<'a> {
    code: &'a Code,
    scalars: &'a [u64],
    /// Where threads print.
    lines: Option<&'a Lines>,
    cube: Cube,
    buffers: Vec<Buffer>,
    shared: Vec<Vec<u64>>,
    races: Option<Races>,
}

impl Machine<'_> {
    /// Starts the threads of a cube.
    fn begin(&mut self, cube: u64, random: &mut Random, threads: &mut [Thread]) {
        self.cube = Cube::new(cube, self.cube.counts());
        for (elements, array) in self.shared.iter_mut().zip(&self.code.function.shared) {
            elements.fill(scalar::of_word(array.dtype, random.next()));
        }
        for thread in threads {
            thread.at = 0;
            thread.locals.iter_mut().for_each(|local| local.fill(0));
        }
        if let Some(races) = &mut self.races {
            races.cube(cube);
        }
    }

    /// Lets the threads, each of which waits or has ended, meet. Returns `false` if all have ended.
    fn meet(&mut self, threads: &mut [Thread]) -> Ran<bool> {
        if let Some(races) = &self.races
            && let Some((array, index, access)) = races.unset()
        {
            return Err(Box::new(KernelMistake::Unset {
                memory: self.code.function.shared[array].name.as_str().into(),
                index,
                load: self.site(races, AccessKind::Load, access),
            }));
        }
        let at = threads[0].at;
        if let Some(other) = threads.iter().find(|thread| thread.at != at) {
            let place = |thread: &Thread| (thread.index, self.code.line(thread.at));
            return Err(Box::new(KernelMistake::Diverged {
                cube: self.cube.index(),
                threads: [place(&threads[0]), place(other)],
            }));
        }
        match self.code.steps.get(at) {
            Some(Step::Barrier) => {
                if let Some(races) = &mut self.races {
                    races.barrier();
                }
            }
            Some(Step::Reduce {
                value,
                scope,
                f,
                of,
            }) => self.reduce(threads, (*value, *of), *scope, *f),
            Some(Step::Shuffle {
                value,
                from,
                width,
                of,
                by,
            }) => self.shuffle(threads, (*value, *of, *by), *from, *width),
            _ => return Ok(false),
        }
        threads.iter_mut().for_each(|thread| thread.at += 1);
        Ok(true)
    }

    /// Combines the values of all threads, or of each subgroup.
    fn reduce(
        &self,
        threads: &mut [Thread],
        (value, of): (ValueId, ValueId),
        scope: Scope,
        f: scalar::Binary,
    ) {
        let width = match scope {
            Scope::Cube => threads.len(),
            Scope::Subgroup(width) => width as usize,
        };
        for group in threads.chunks_mut(width) {
            let values = group.iter().map(|thread| self.get(thread, of, 0));
            let combined = match scope {
                Scope::Cube => values.reduce(f).unwrap_or_default(),
                Scope::Subgroup(_) => reduced(&mut values.collect::<Vec<_>>(), f),
            };
            for thread in group {
                self.set(thread, value, 0, combined);
            }
        }
    }

    /// Gives each thread the value of another one of its subgroup.
    fn shuffle(
        &self,
        threads: &mut [Thread],
        (value, of, by): (ValueId, ValueId, ValueId),
        from: Shuffle,
        width: u32,
    ) {
        for group in threads.chunks_mut(width as usize) {
            let values: Vec<_> = group.iter().map(|thread| self.get(thread, of, 0)).collect();
            for (place, thread) in (0..width).zip(group) {
                let source = from.source(place, self.get(thread, by, 0), width);
                self.set(thread, value, 0, values[source as usize]);
            }
        }
    }

    fn get(&self, thread: &Thread, value: ValueId, lane: u8) -> u64 {
        thread.values[self.code.values[value as usize] + usize::from(lane)]
    }

    fn set(&self, thread: &mut Thread, value: ValueId, lane: u8, bits: u64) {
        thread.values[self.code.values[value as usize] + usize::from(lane)] = bits;
    }

    /// Runs a thread until it waits or ends.
    fn advance(&mut self, thread: &mut Thread) -> Ran<()> {
        let code = self.code;
        while let Some(step) = code.steps.get(thread.at) {
            let mut next = thread.at + 1;
            match step {
                Step::Barrier | Step::Reduce { .. } | Step::Shuffle { .. } => return Ok(()),
                Step::Let { value, by } => {
                    for lane in 0..code.type_of(*value).lanes {
                        let bits = self.compute(thread, by, lane);
                        self.set(thread, *value, lane, bits);
                    }
                }
                Step::Load { value, from } => {
                    let lanes = code.type_of(*value).lanes;
                    let first = self.locate(thread, AccessKind::Load, *from, lanes)?;
                    for lane in 0..lanes {
                        let bits = self.load(thread, from.0, first + usize::from(lane));
                        self.set(thread, *value, lane, bits);
                    }
                }
                Step::Store { to, value } => {
                    let lanes = code.type_of(*value).lanes;
                    let first = self.locate(thread, AccessKind::Store, *to, lanes)?;
                    for lane in 0..lanes {
                        let bits = self.get(thread, *value, lane);
                        self.store(thread, to.0, first + usize::from(lane), bits);
                    }
                }
                Step::Atomic { value, op, on } => self.atomic(thread, *value, *op, *on)?,
                Step::Say {
                    fails,
                    text,
                    values,
                } => self.say(thread, *fails, text, values)?,
                Step::Jump(to) => next = *to,
                Step::Unless { condition, to } => {
                    if self.get(thread, *condition, 0) == 0 {
                        next = *to;
                    }
                }
                Step::UnlessBelow {
                    index,
                    end,
                    step,
                    to,
                } => {
                    let [index, end, step] =
                        [index, end, step].map(|value| self.get(thread, *value, 0) as i64);
                    if index >= end || step < 1 {
                        next = *to;
                    }
                }
                Step::Next { index, step, to } => {
                    let [from, by] = [index, step].map(|value| self.get(thread, *value, 0) as i64);
                    // Saturating: a sum beyond `i64::MAX` ends the loop.
                    self.set(thread, *index, 0, from.saturating_add(by) as u64);
                    next = *to;
                }
            }
            thread.at = next;
        }
        Ok(())
    }

    /// A thread prints, or fails.
    fn say(&self, thread: &Thread, fails: bool, text: &Text, values: &[ValueId]) -> Ran<()> {
        let (function, cube) = (&self.code.function, self.cube);
        let position =
            function.position_of(thread.index, [cube.x(), cube.y(), cube.z()], cube.counts());
        let text = || {
            text.with(|index| {
                let value = values[index];
                let dtype = self.code.type_of(value).dtype;
                (dtype, self.get(thread, value, 0))
            })
        };
        let line = self.code.line(thread.at);
        if fails {
            let text = text().into();
            return Err(Box::new(KernelMistake::Assertion {
                text,
                thread: position,
                line,
            }));
        }
        if let Some(lines) = self.lines {
            lines.say(position, line.map_or(0, |line| line.line), text);
        }
        Ok(())
    }

    fn atomic(&mut self, thread: &mut Thread, value: ValueId, op: AtomicOp, on: Place) -> Ran<()> {
        let kind = match op {
            AtomicOp::Load => AccessKind::AtomicLoad,
            _ => AccessKind::Atomic,
        };
        let index = self.locate(thread, kind, on, 1)?;
        let mut operands = op.operands().map(|operand| self.get(thread, operand, 0));
        let operands = std::array::from_fn(|_| operands.next().unwrap_or_default());
        let before = self.load(thread, on.0, index);
        if op != AtomicOp::Load {
            let bits = op.function(self.code.type_of(value).dtype)(before, operands);
            self.store(thread, on.0, index, bits);
        }
        self.set(thread, value, 0, before);
        Ok(())
    }

    fn compute(&self, thread: &Thread, by: &Compute, lane: u8) -> u64 {
        let get = |value: ValueId| self.get(thread, value, lane);
        match by {
            Compute::Const(bits) => *bits,
            Compute::Scalar(index) => {
                let dtype = self.code.function.scalars[usize::from(*index)].dtype;
                scalar::of_word(dtype, self.scalars[usize::from(*index)])
            }
            Compute::Position(position, axis) => self.position(thread, *position, *axis),
            Compute::Lane(a, lane) => self.get(thread, *a, *lane),
            Compute::Splat(a) => self.get(thread, *a, 0),
            Compute::Pack(lanes) => self.get(thread, lanes[usize::from(lane)], 0),
            Compute::Unary(f, a) => f(get(*a)),
            Compute::Binary(f, [a, b]) => f(get(*a), get(*b)),
            Compute::Ternary(f, [a, b, c]) => f(get(*a), get(*b), get(*c)),
        }
    }

    fn position(&self, thread: &Thread, position: Position, axis: Axis) -> u64 {
        let [x, y, z] = self.code.function.threads;
        let (thread, cube) = (thread.index, self.cube);
        let all = match position {
            Position::Thread => [thread % x, thread / x % y, thread / x / y],
            Position::Threads => [x, y, z],
            Position::Cube => [cube.x(), cube.y(), cube.z()],
            Position::Cubes => cube.counts(),
        };
        u64::from(match axis {
            Axis::X => all[0],
            Axis::Y => all[1],
            Axis::Z => all[2],
        })
    }

    /// Returns the index of the first element of an access, and checks the access: bounds, alignment, and races.
    fn locate(
        &mut self,
        thread: &Thread,
        kind: AccessKind,
        (memory, at): Place,
        lanes: u8,
    ) -> Ran<usize> {
        let index = at.map_or(0, |at| self.get(thread, at, 0) as i64);
        let first = usize::try_from(index).unwrap_or(usize::MAX);
        let len = self.len(memory);
        let line = || self.code.line(thread.at);
        if first.saturating_add(lanes.into()) > len {
            let each = match PARTS_BEYOND.contains(&index) {
                true => 1,
                false => self.code.function.each(memory),
            };
            return Err(Box::new(KernelMistake::OutOfBounds {
                memory: self.name(memory),
                index: index.div_euclid(each.into()),
                lanes,
                len: len / each as usize,
                line: line(),
            }));
        }
        if !matches!(memory, Memory::Local(_)) && !first.is_multiple_of(lanes.into()) {
            return Err(Box::new(KernelMistake::Misaligned {
                memory: self.name(memory),
                index,
                lanes,
                line: line(),
            }));
        }
        for index in first..first + usize::from(lanes) {
            self.check_race(thread, kind, memory, index)?;
        }
        Ok(first)
    }

    /// Checks that no earlier access to an element races with this one.
    fn check_race(
        &mut self,
        thread: &Thread,
        kind: AccessKind,
        memory: Memory,
        index: usize,
    ) -> Ran<()> {
        let Some(races) = &mut self.races else {
            return Ok(());
        };
        let access = races.now(thread.index, thread.at);
        let found = match memory {
            Memory::Param(param) => {
                let param = usize::from(param);
                races.buffer((param, self.buffers[param]), index, kind, access)
            }
            Memory::Shared(array) => races.shared(array.into(), index, kind, access),
            Memory::Local(_) | Memory::Table(_) => None,
        };
        let Some(earlier) = found else {
            return Ok(());
        };
        let Some(races) = &self.races else {
            return Ok(());
        };
        Err(Box::new(KernelMistake::Race {
            first: self.site(races, earlier.0, earlier.1),
            second: self.site(races, kind, access),
            memory: self.name(memory),
            index: index / self.code.function.each(memory) as usize,
        }))
    }

    fn site(&self, races: &Races, kind: AccessKind, access: Access) -> ThreadAccess {
        ThreadAccess {
            cube: races.cube_of(access),
            thread: access.thread,
            kind,
            line: self.code.line(access.step as usize),
            statement: access.step as usize,
        }
    }

    fn name(&self, memory: Memory) -> Arc<str> {
        let found = self.code.function.memory(memory);
        found.map_or("", |(name, _)| name).into()
    }

    /// Returns the number of elements.
    fn len(&self, memory: Memory) -> usize {
        let function = &self.code.function;
        match memory {
            Memory::Param(param) => self.buffers[usize::from(param)].len,
            Memory::Shared(array) => function.shared[usize::from(array)].len as usize,
            Memory::Local(array) => function.locals[usize::from(array)].len as usize,
            Memory::Table(table) => function.tables[usize::from(table)].bits.len(),
        }
    }

    /// Returns the bits of an element that [`Machine::locate`] has found.
    fn load(&self, thread: &Thread, memory: Memory, index: usize) -> u64 {
        match memory {
            // SAFETY: the buffer has the element; `run` has the other promises.
            Memory::Param(param) => unsafe { self.buffers[usize::from(param)].load(index) },
            Memory::Shared(array) => self.shared[usize::from(array)][index],
            Memory::Local(array) => thread.locals[usize::from(array)][index],
            Memory::Table(table) => self.code.function.tables[usize::from(table)].bits[index],
        }
    }

    /// Writes an element that [`Machine::locate`] has found.
    fn store(&mut self, thread: &mut Thread, memory: Memory, index: usize, bits: u64) {
        match memory {
            // SAFETY: as in `load`; the verifier refuses stores to buffers that are only read.
            Memory::Param(param) => unsafe { self.buffers[usize::from(param)].store(index, bits) },
            Memory::Shared(array) => self.shared[usize::from(array)][index] = bits,
            Memory::Local(array) => thread.locals[usize::from(array)][index] = bits,
            Memory::Table(_) => unreachable!("the verifier refuses stores to tables"),
        }
    }
}
