//! Runs cubes: the chunks of one or several one by one, and the steps of each.
//!
//! | module | contents |
//! | --- | --- |
//! | `active` | which threads are active: masks and ranges |
//! | `cubes` | cubes side by side |
//! | `branches`, `control` | branches and loops |
//! | `values` | scalars and columns |
//! | `ramps` | affine values: comparisons, and runs of threads at equal distances |
//! | `access`, `loads`, `stores` | accesses: their bounds, loads, stores and atomic operations |
//! | `elements`, `copies` | the loops of accesses |
//! | `say` | what threads print, and failed assertions |
//! | `products` | sums of products |
//! | `together` | reductions and shuffles |

mod access;
mod active;
mod branches;
mod control;
mod copies;
mod cubes;
mod element;
mod elements;
mod loads;
mod products;
mod ramps;
mod say;
mod stores;
mod together;
mod values;

use std::cell::Cell;

use millstream_ir::scalar;
use millstream_ir::ssa::{Axis, Position};
use millstream_protocol::{Cube, Lines, NativeArgs};

use crate::code::{Affine, Code, Operand, Path, Place, Step, slot, varies};
use crate::scratch::{Param, Scratch};
use active::Active;

/// A chunk that is running, or one of its cubes.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    code: &'a Code,
    /// The first cube of the chunk.
    cube: &'a Cube,
    /// Where threads print.
    lines: Option<&'a Lines>,
    /// The places of scalars, columns and direct loads.
    table: *mut *mut u8,
    params: &'a [Param],
    paths: *mut u8,
    spare: *mut u8,
    bools: *mut u8,
    /// A mask of the same threads in each cube, and which threads these are.
    rectangle: *mut u8,
    in_rectangle: &'a Cell<[usize; 2]>,
    /// Room for a wide access of each thread.
    staging: *mut u8,
    shared: *mut u8,
    locals: *mut u8,
    /// The index of the first thread in the cube, and the number of threads.
    first: usize,
    threads: usize,
    /// The number of cubes, and of the threads of each that the chunk has.
    cubes: usize,
    span: usize,
    /// The index of the first cube in the chunk, and of its first thread.
    at: usize,
    lane: usize,
}

/// Returns the index of an axis' logarithm of element sizes.
fn log2(size: usize) -> usize {
    size.trailing_zeros() as usize
}

/// Runs some cubes, at most as many as the code has side by side, from this one on.
pub(crate) fn run(
    code: &Code,
    scratch: &mut Scratch,
    cube: &Cube,
    cubes: usize,
    arguments: &NativeArgs<'_>,
) {
    debug_assert!(
        cubes <= code.cubes,
        "scalars that vary have no more elements"
    );
    scratch.prepare(code);
    scratch.bind(code, arguments);
    let set = |scratch: &mut Scratch, place: Place, at: usize, bits: u64| {
        // SAFETY: the place of a scalar, of eight bytes for each cube if it varies.
        unsafe { scratch.table[slot(place)].cast::<u64>().add(at).write(bits) };
    };
    for (place, index) in &code.words {
        let dtype = code.function.scalars[usize::from(*index)].dtype;
        let bits = arguments.scalar_bits((*index).into());
        set(scratch, *place, 0, scalar::of_word(dtype, bits));
    }
    for (place, position, axis) in &code.positions {
        for at in 0..if varies(*place) { cubes } else { 1 } {
            let cube = Cube::new(cube.index() + at as u64, cube.counts());
            let bits = position_of(&cube, *position, *axis).into();
            set(scratch, *place, at, bits);
        }
    }
    let start = scratch.start();
    // SAFETY: the regions lie in the arena.
    let at = |offset: usize| unsafe { start.add(offset) };
    let [paths, spare, bools, rectangle, staging, shared, locals] = [
        scratch.paths,
        scratch.spare,
        scratch.bools,
        scratch.rectangle,
        scratch.staging,
        scratch.shared,
        scratch.locals,
    ]
    .map(at);
    // The content of shared arrays is undefined at the start; clearing them makes runs repeatable.
    if code.shared_bytes > 0 {
        // SAFETY: the region of shared arrays has that many bytes.
        unsafe { shared.write_bytes(0, code.shared_bytes * cubes) };
    }
    let all = code.threads * cubes;
    for first in (0..all).step_by(code.chunk) {
        let threads = code.chunk.min(all - first);
        for zero in &code.zeros {
            scratch.clear(*zero, threads, cubes);
        }
        // SAFETY: the regions have that many bytes.
        unsafe {
            if code.local_bytes > 0 {
                locals.write_bytes(0, code.local_bytes * code.chunk);
            }
            if code.leaves {
                paths.write_bytes(Path::Next as u8, threads);
            }
        }
        let machine = Machine {
            code,
            cube,
            lines: arguments.lines(),
            table: scratch.table.as_mut_ptr(),
            params: &scratch.params,
            paths,
            spare,
            bools,
            rectangle,
            in_rectangle: &Cell::new([0; 2]),
            staging,
            shared,
            locals,
            first,
            threads,
            cubes,
            span: threads / cubes,
            at: 0,
            lane: 0,
        };
        let (prologue, steps) = code.steps.split_at(code.prologue);
        if !scratch.has_constants {
            let threads = code.threads * code.cubes;
            let all = Machine {
                threads,
                cubes: code.cubes,
                ..machine
            };
            // There is a prologue only if chunks are whole cubes.
            if !prologue.is_empty() {
                all.block(prologue, Active::all(threads));
            }
            scratch.has_constants = true;
        }
        machine.block(steps, Active::all(threads));
    }
}

fn position_of(cube: &Cube, position: Position, axis: Axis) -> u32 {
    match (position, axis) {
        (Position::Cubes, axis) => cube.counts()[axis as usize],
        // Without a division.
        (_, Axis::X) if cube.index() < u64::from(cube.counts()[0]) => cube.index() as u32,
        (_, Axis::X) => cube.x(),
        (_, Axis::Y) => cube.y(),
        (_, Axis::Z) => cube.z(),
    }
}

impl Machine<'_> {
    /// Returns the address of a thread's element, or of a scalar.
    #[inline]
    fn pointer(&self, operand: Operand, thread: usize) -> *mut u8 {
        // SAFETY: the table has all places.
        let start = unsafe { *self.table.add(slot(operand.place)) };
        let scalars = usize::from(operand.varies()) * self.at;
        start.wrapping_add((self.lane + thread) * operand.size as usize + 8 * scalars)
    }

    #[inline]
    fn get(&self, scalar: Place) -> u64 {
        // SAFETY: a scalar has eight bytes, which were initialized.
        unsafe {
            self.pointer(Operand::scalar(scalar), 0)
                .cast::<u64>()
                .read()
        }
    }

    #[inline]
    fn set(&self, scalar: Place, bits: u64) {
        // SAFETY: a scalar has eight bytes.
        unsafe {
            self.pointer(Operand::scalar(scalar), 0)
                .cast::<u64>()
                .write(bits);
        }
    }

    /// Returns the bits of a thread's element, or of a scalar.
    fn bits(&self, operand: Operand, thread: usize) -> u64 {
        if operand.is_scalar() && self.cubes > 1 {
            return self.get_of(operand.place, thread / self.span);
        }
        let place = self.pointer(operand, thread);
        // SAFETY: the element exists, and is initialized.
        unsafe { elements::read(place, operand.size as usize) }
    }

    /// Executes steps for these threads. Returns whether some of them have left the block.
    fn block(&self, steps: &[Step], mut active: Active) -> bool {
        let mut left = false;
        for step in steps {
            let gone = match step {
                Step::Scalar { to, f, of, masked } => {
                    self.scalar(*to, *f, *of, *masked, active);
                    continue;
                }
                Step::Map { run, to, of } => {
                    self.map(*run, *to, *of, active);
                    continue;
                }
                Step::If {
                    condition,
                    then,
                    otherwise,
                    mask,
                    after,
                } => {
                    if !self.branch(condition, [then, otherwise], *mask, active) {
                        continue;
                    }
                    *after
                }
                Step::Repeat {
                    turns,
                    body,
                    mask,
                    after,
                } => {
                    if !self.repeat(turns, body, *mask, active) {
                        continue;
                    }
                    *after
                }
                Step::Leave(path) => {
                    self.leave(*path, active);
                    return true;
                }
                other => {
                    self.step(other, active);
                    continue;
                }
            };
            left = true;
            match gone.and_then(|after| self.remaining(active, after)) {
                Some(remaining) => active = remaining,
                None => return true,
            }
        }
        left
    }

    /// Executes a step that is no control flow.
    fn step(&self, step: &Step, active: Active) {
        match step {
            Step::Each { f, to, of } => {
                let differs = of.iter().any(|of| of.varies());
                self.each_if(differs, active, |one, active| {
                    one.each(*f, *to, *of, active);
                });
            }
            Step::MulAdd(it) => self.mul_add(it, active),
            Step::Ramp { to, value } => self.ramp(*to, *value, active),
            Step::Tested { to, test } => self.write_tested(*to, *test, active),
            Step::Set {
                to,
                value,
                masked,
                swaps,
            } => {
                let is_part = active.mask.is_none() && !self.is_solid(active.first, active.end);
                let differs = value.varies() || (*masked && is_part);
                self.each_if(differs, active, |one, active| {
                    one.copy(*to, *value, [*masked, *swaps && !differs], active);
                });
            }
            Step::Load { access, to, direct } => self.load(access, to, *direct, active),
            Step::Store { access, value } => self.store(access, value, active),
            Step::Atomic {
                access,
                op,
                operands,
                to,
                dtype,
            } => self.each_cube(active, |one, active| {
                one.atomic(access, (*op, *dtype), *operands, *to, active);
            }),
            Step::Say(said) => self.say(said, active),
            Step::Reduce {
                subgroup,
                run,
                size,
                to,
                of,
            } => self.each_if(subgroup.is_none(), active, |one, _| {
                one.reduce(*subgroup, *run, *size, [*to, *of]);
            }),
            Step::Shuffle {
                from,
                width,
                to,
                of,
                by,
            } => self.each_if(by.varies(), active, |one, _| {
                one.shuffle(*from, *width as usize, *to, [*of, *by]);
            }),
            _ => unreachable!("`block` executes control flow"),
        }
    }

    /// Calls a function for each cube if they differ, otherwise for all at once.
    #[inline]
    fn each_if(&self, differs: bool, active: Active, f: impl FnMut(&Self, Active)) {
        let mut f = f;
        match differs {
            true => self.each_cube(active, f),
            false => f(self, active),
        }
    }

    /// Returns a position of a thread of the chunk.
    fn position(&self, thread: usize) -> [usize; 3] {
        let [x, y, _] = self.code.shape.map(|axis| axis as usize);
        let index = self.first + thread;
        if index < x {
            // Without a division.
            return [index, 0, 0];
        }
        [index % x, index / x % y, index / x / y]
    }

    /// Returns an affine value of a thread.
    fn affine(&self, value: Affine, thread: usize) -> i64 {
        let position = self.position(thread).map(|along| along as u64);
        let terms = position.iter().zip(value.strides);
        let terms = terms.map(|(position, stride)| position.wrapping_mul(self.get(stride)));
        terms.fold(self.get(value.base), u64::wrapping_add) as i64
    }
}
