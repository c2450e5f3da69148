//! Runs pieces of a launch: places slots, and executes the instructions.

mod constant_strides;
mod placement;
mod runs;

use std::ops::Range;

use millstream_ir::Nest;
use millstream_protocol::NativeView;

use crate::kernels::place::Indexed;
use crate::launch::{Launch, offset, resolve};
use crate::plan::{Instruction, Plan, Scope, Template};
use crate::scratch::{Buffers, Scratch};
use crate::slot::Slot;
use crate::space::Axes;

/// Bytes between registers, besides their lanes. Without them, tiles whose length is a power of two would compete for
/// the same cache lines.
const REGISTER_GAP: usize = 192;

/// What the pieces of a launch share.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) nest: &'a Nest,
    pub(crate) plan: &'a Plan,
    pub(crate) launch: &'a Launch,
    pub(crate) views: &'a [NativeView],
    pub(crate) words: &'a [u64],
    /// The part of its indices that a scatter stores for.
    pub(crate) places: Part,
}

/// A range of equal parts of something.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) of: u64,
}

impl Part {
    pub(crate) const ALL: Self = Self {
        first: 0,
        end: 1,
        of: 1,
    };

    /// Returns the indices below `len` that belong to the part.
    fn indices(self, len: i64) -> Range<i64> {
        let at = |part: u64| (i128::from(len) * i128::from(part) / i128::from(self.of)) as i64;
        at(self.first)..at(self.end)
    }
}

// SAFETY: views and paths are used as the launch allows, by pieces that touch different bytes.
unsafe impl Sync for Job<'_> {}

/// The elements of a step: the first outer and the first inner index, each with the number of indices.
#[derive(Clone, Copy)]
struct At {
    outer: (usize, usize),
    inner: (usize, usize),
}

impl At {
    #[inline(always)]
    fn new(outer: (usize, usize), inner: (usize, usize)) -> Self {
        Self { outer, inner }
    }
}

/// One thread's execution of some pieces of a launch.
pub(crate) struct Machine<'a> {
    job: Job<'a>,
    slots: &'a mut [*mut u8],
    /// The distance of each slot to its place in the next row or step, if it is constant.
    strides: &'a mut [isize],
    scalars: *const u64,
    retained: *mut u8,
    /// The axes of the tile, if tiles are blocks.
    block: Axes,
    /// The lane that the slots of retained values point to.
    retained_lane: usize,
}

impl<'a> Machine<'a> {
    /// Places every slot in the thread's memory, and computes the values that are the same for the whole launch.
    ///
    /// # Safety
    /// The job's launch was prepared from its views and words; the memory behind them stays as [`crate::Code::run`]
    /// requires.
    pub(crate) unsafe fn new(job: Job<'a>, scratch: &'a mut Scratch) -> Self {
        let plan = job.plan;
        let scalars = (plan.scalars.len() * 8).next_multiple_of(64);
        let registers =
            plan.unit as usize * job.launch.tiles.lanes + plan.registers as usize * REGISTER_GAP;
        let retained = plan.retained as usize * job.launch.retained_lanes;
        let Buffers {
            memory,
            slots,
            strides,
        } = scratch.reserve(scalars + registers + retained, plan.slots.len());
        let at = |bytes: usize| memory.wrapping_add(bytes);
        for (to, slot) in slots.iter_mut().zip(&plan.slots) {
            *to = match *slot {
                Slot::Scalar(index) => at(index as usize * 8),
                Slot::Register { unit, index } => at(scalars
                    + unit as usize * job.launch.tiles.lanes
                    + index as usize * REGISTER_GAP),
                Slot::Retained { unit, .. } => {
                    at(scalars + registers + unit as usize * job.launch.retained_lanes)
                }
                Slot::Placed => std::ptr::null_mut(),
            };
        }
        let retained = at(scalars + registers);
        let mut machine = Self {
            job,
            slots,
            strides,
            scalars: memory.cast(),
            retained,
            block: Axes {
                rank: 2,
                ..Axes::NONE
            },
            retained_lane: 0,
        };
        // SAFETY: the scratch memory has room for the scalars; the caller's promises.
        unsafe {
            machine.fill_scalars(memory);
            machine.place_inputs(&plan.launch_inputs, At::new((0, 1), (0, 0)));
            machine.execute(&plan.launch_values, 1);
        }
        machine
    }

    /// Writes constants, words, and the parameters of gathers and scatters.
    unsafe fn fill_scalars(&mut self, memory: *mut u8) {
        let job = self.job;
        // SAFETY: `new` reserved the memory; each scalar has eight bytes, and an indexed axis has four of them.
        unsafe {
            let scalars = memory.cast::<u64>();
            scalars.copy_from_nonoverlapping(job.plan.scalars.as_ptr(), job.plan.scalars.len());
            for (word, scalar) in &job.plan.words {
                let to = scalars.add(*scalar as usize);
                to.write(job.words[usize::from(*word)]);
            }
            for indexed in &job.plan.indexed {
                let access = &job.nest.accesses[usize::from(indexed.access)];
                let binding = usize::from(access.buffer);
                let offset = offset(access, job.words) as isize;
                let size = job.nest.buffers[binding].dtype.size() as isize;
                let len = job.words[usize::from(indexed.len)] as i64;
                let all = if indexed.writes {
                    job.places
                } else {
                    Part::ALL
                };
                let indices = all.indices(len);
                let to = scalars.add(indexed.scalar as usize).cast::<Indexed>();
                to.write(Indexed {
                    base: job.views[binding]
                        .pointer
                        .wrapping_offset(offset.wrapping_mul(size)),
                    stride: resolve(indexed.stride, job.words) as isize,
                    first: indices.start,
                    end: indices.end,
                });
            }
        }
    }

    /// Executes instructions over this many lanes.
    #[inline(always)]
    unsafe fn execute(&self, code: &[Instruction], n: usize) {
        for instruction in code {
            match instruction {
                Instruction::Loop(instruction) => {
                    let at = |slot: u16| {
                        debug_assert!(usize::from(slot) < self.slots.len());
                        // SAFETY: a plan has as many slots as it names.
                        unsafe { *self.slots.get_unchecked(usize::from(slot)) }
                    };
                    let (d, a, b, c) = (
                        at(instruction.d),
                        at(instruction.a),
                        at(instruction.b),
                        at(instruction.c),
                    );
                    let n = instruction.fixed.map_or(n, usize::from);
                    // SAFETY: the plan gives every instruction slots of its type with room for the lanes of a tile,
                    // of which the first overlaps no other; placed slots stay within their bindings.
                    unsafe { (instruction.run)(d, a, b, c, n) };
                }
                // SAFETY: as above.
                #[cfg(all(feature = "machine-code", target_arch = "x86_64"))]
                Instruction::Fused(fused) => unsafe {
                    fused.run(self.slots, n, self.job.launch.streams);
                },
            }
        }
    }

    /// Runs a range of rows, or of tiles of them.
    ///
    /// # Safety
    /// They exist, and no other thread runs them.
    pub(crate) unsafe fn run(&mut self, pieces: Range<usize>) {
        let advances = match self.job.plan.template {
            Template::Row => {
                let advances = pieces.len() > 1 && self.rows_have_constant_strides();
                advances.then_some(Scope::Outer)
            }
            Template::Column => {
                let advances =
                    self.job.launch.inner.total > 1 && self.steps_have_constant_strides();
                advances.then_some(Scope::Inner)
            }
        };
        let first = pieces.start;
        for piece in pieces {
            let is_placed = advances == Some(Scope::Outer) && piece > first;
            if is_placed {
                self.advance();
            }
            // SAFETY: the caller's promises.
            unsafe { self.piece(piece, is_placed, advances == Some(Scope::Inner)) };
        }
        #[cfg(all(feature = "machine-code", target_arch = "x86_64"))]
        if self.job.launch.streams {
            crate::fuse::fence();
        }
    }

    /// Returns the outer indices of a piece: the first, and their number.
    #[inline]
    fn outer(&mut self, piece: usize) -> (usize, usize) {
        let launch = self.job.launch;
        let tiles = &launch.tiles;
        match (self.job.plan.template, tiles.block) {
            (Template::Row, _) => (piece, 1),
            (_, None) => tiles.tile(&launch.outer, piece),
            (_, Some(block)) => {
                let (start, [rows, columns]) = tiles.block(&launch.outer, block, piece);
                (self.block.lens[0], self.block.lens[1]) = (rows, columns);
                self.block.total = rows * columns;
                (start, self.block.total)
            }
        }
    }

    /// Runs one row, or one tile of rows. If `is_placed`, every slot is in its place already. If `steps_advance`, slots
    /// advance from step to step by constant strides.
    unsafe fn piece(&mut self, piece: usize, is_placed: bool, steps_advance: bool) {
        let Job { plan, launch, .. } = self.job;
        let tiles = &launch.tiles;
        let is_row = plan.template == Template::Row;
        let (start, n) = self.outer(piece);
        if launch.transposes_only {
            // SAFETY: the caller's promises.
            return unsafe { self.transpose_block(start, n) };
        }
        let whole = At::new((start, n), (0, 1));
        let steps = match is_row && launch.inner.total > 0 {
            true => tiles.count,
            false => launch.inner.total,
        };
        let last = plan.passes.len() - 1;
        // SAFETY: the caller's promises.
        unsafe {
            if !is_placed {
                self.place_inputs(&plan.row_inputs, whole);
            }
            self.execute(&plan.row_values, n);
            for (index, pass) in plan.passes.iter().enumerate() {
                self.execute(&pass.begin, n);
                let mut steps = 0..steps;
                if is_row && let Some(fold) = self.long_fold(pass) {
                    self.fold_long_row(&fold, piece);
                    steps.end = 0;
                }
                for step in steps {
                    let (inner, lanes) = match is_row {
                        true => {
                            let tile = tiles.tile(&launch.inner, step);
                            (tile, tile.1)
                        }
                        false => ((step, 1), n),
                    };
                    if is_placed {
                        self.execute(&pass.body, lanes);
                        continue;
                    }
                    if steps_advance && step > 0 {
                        if let Some(fold) = &pass.direct_fold {
                            self.fold_steps(fold, n);
                            break;
                        }
                        self.advance_to(step);
                        self.execute(&pass.body, n);
                        continue;
                    }
                    let lane = if is_row { inner.0 } else { step * tiles.lanes };
                    self.at_step(inner.0, lane);
                    let at = At::new((start, n), inner);
                    if index == last {
                        self.place_targets(Scope::Inner, at);
                    }
                    self.place_inputs(&pass.inputs, at);
                    self.place_prefetches(&pass.prefetches, piece, step);
                    self.execute(&pass.body, lanes);
                    if index == last {
                        self.write_back(Scope::Inner, at);
                    }
                }
                self.execute(&pass.end, n);
            }
            if is_placed {
                self.execute(&plan.row_stores, n);
            } else if !plan.row_stores.is_empty() {
                self.place_targets(Scope::Outer, whole);
                self.execute(&plan.row_stores, n);
                self.write_back(Scope::Outer, whole);
            }
        }
    }
}
