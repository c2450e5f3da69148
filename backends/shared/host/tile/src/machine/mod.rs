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
use crate::tiles::Tiles;

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
    pub(crate) tiles: Tiles,
    /// The lanes of a retained value for one step, times the number of steps.
    pub(crate) retained_lanes: usize,
    /// Whether stores bypass the caches, because they exceed them.
    pub(crate) streams: bool,
    /// Whether the launch is a single transposition, done block by block.
    pub(crate) transposes_only: bool,
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
            plan.unit as usize * job.tiles.lanes + plan.registers as usize * REGISTER_GAP;
        let retained = plan.retained as usize * job.retained_lanes;
        let Buffers {
            memory,
            slots,
            strides,
        } = scratch.reserve(scalars + registers + retained, plan.slots.len());
        let at = |bytes: usize| memory.wrapping_add(bytes);
        for (to, slot) in slots.iter_mut().zip(&plan.slots) {
            *to = match *slot {
                Slot::Scalar(index) => at(index as usize * 8),
                Slot::Register { unit, index } => {
                    at(scalars + unit as usize * job.tiles.lanes + index as usize * REGISTER_GAP)
                }
                Slot::Retained { unit, .. } => {
                    at(scalars + registers + unit as usize * job.retained_lanes)
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
            for (word, scalar, size) in &job.plan.words {
                let (to, bits) = (scalars.add(*scalar as usize), job.words[usize::from(*word)]);
                match size {
                    1 => to.cast::<u8>().write(bits as u8),
                    2 => to.cast::<u16>().write(bits as u16),
                    4 => to.cast::<u32>().write(bits as u32),
                    _ => to.write(bits),
                }
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
                Instruction::Fused(fused) => unsafe { fused.run(self.slots, n, self.job.streams) },
            }
        }
    }

    /// Runs a range of rows, or of tiles of them.
    ///
    /// # Safety
    /// They exist, and no other thread runs them.
    pub(crate) unsafe fn run(&mut self, pieces: Range<usize>) {
        // SAFETY: the caller's promises.
        unsafe {
            match self.job.plan.template {
                Template::Flat => pieces.for_each(|tile| self.flat(tile)),
                Template::Row => {
                    let has_constant_strides =
                        pieces.len() > 1 && self.rows_have_constant_strides();
                    let first = pieces.start;
                    for row in pieces {
                        let is_placed = has_constant_strides && row > first;
                        if is_placed {
                            self.advance();
                        }
                        self.row(row, is_placed);
                    }
                }
                Template::Column => {
                    let has_constant_strides = self.steps_have_constant_strides();
                    pieces.for_each(|tile| self.column(tile, has_constant_strides));
                }
            }
        }
        #[cfg(all(feature = "machine-code", target_arch = "x86_64"))]
        if self.job.streams {
            crate::fuse::fence();
        }
    }

    #[inline]
    unsafe fn flat(&mut self, tile: usize) {
        let job = self.job;
        let (start, n) = match job.tiles.block {
            None => job.tiles.tile(&job.launch.outer, tile),
            Some(block) => {
                let (start, [rows, columns]) = job.tiles.block(&job.launch.outer, block, tile);
                (self.block.lens[0], self.block.lens[1]) = (rows, columns);
                self.block.total = rows * columns;
                (start, self.block.total)
            }
        };
        // SAFETY: the caller's promises.
        unsafe {
            if self.job.transposes_only {
                return self.transpose_block(start, n);
            }
            for pass in &job.plan.passes {
                let at = At::new((start, n), (0, 1));
                self.place_targets(Scope::Inner, at);
                self.place_inputs(&pass.inputs, at);
                self.execute(&pass.body, n);
                self.write_back(Scope::Inner, at);
            }
        }
    }

    /// Runs one row. If `is_placed`, every slot is in its place already.
    unsafe fn row(&mut self, row: usize, is_placed: bool) {
        let job = self.job;
        let whole = At::new((row, 1), (0, 1));
        // SAFETY: the caller's promises.
        unsafe {
            if !is_placed {
                self.place_inputs(&job.plan.row_inputs, whole);
            }
            self.execute(&job.plan.row_values, 1);
            let last = job.plan.passes.len() - 1;
            for (index, pass) in job.plan.passes.iter().enumerate() {
                self.execute(&pass.begin, 1);
                let mut count = if job.launch.inner.total == 0 {
                    0
                } else {
                    job.tiles.count
                };
                if let Some(fold) = self.long_fold(pass) {
                    self.fold_long_row(&fold, row);
                    count = 0;
                }
                for tile in 0..count {
                    let (start, n) = job.tiles.tile(&job.launch.inner, tile);
                    if is_placed {
                        self.execute(&pass.body, n);
                        continue;
                    }
                    self.at_step(start, start);
                    let at = At::new((row, 1), (start, n));
                    if index == last {
                        self.place_targets(Scope::Inner, at);
                    }
                    self.place_inputs(&pass.inputs, at);
                    self.place_prefetches(&pass.prefetches, row, tile);
                    self.execute(&pass.body, n);
                    if index == last {
                        self.write_back(Scope::Inner, at);
                    }
                }
                self.execute(&pass.end, 1);
            }
            if is_placed {
                self.execute(&job.plan.row_stores, 1);
                return;
            }
            self.place_targets(Scope::Outer, whole);
            self.execute(&job.plan.row_stores, 1);
            self.write_back(Scope::Outer, whole);
        }
    }

    unsafe fn column(&mut self, tile: usize, has_constant_strides: bool) {
        let job = self.job;
        let (start, n) = job.tiles.tile(&job.launch.outer, tile);
        let whole = At::new((start, n), (0, 1));
        // SAFETY: the caller's promises.
        unsafe {
            self.place_inputs(&job.plan.row_inputs, whole);
            self.execute(&job.plan.row_values, n);
            let last = job.plan.passes.len() - 1;
            for (index, pass) in job.plan.passes.iter().enumerate() {
                self.execute(&pass.begin, n);
                for step in 0..job.launch.inner.total {
                    if has_constant_strides && step > 0 {
                        if let Some(fold) = &pass.direct_fold {
                            self.fold_steps(fold, n);
                            break;
                        }
                        self.advance_to(step);
                        self.execute(&pass.body, n);
                        continue;
                    }
                    self.at_step(step, step * job.tiles.lanes);
                    let at = At::new((start, n), (step, 1));
                    if index == last {
                        self.place_targets(Scope::Inner, at);
                    }
                    self.place_inputs(&pass.inputs, at);
                    self.execute(&pass.body, n);
                    if index == last {
                        self.write_back(Scope::Inner, at);
                    }
                }
                self.execute(&pass.end, n);
            }
            self.place_targets(Scope::Outer, whole);
            self.execute(&job.plan.row_stores, n);
            self.write_back(Scope::Outer, whole);
        }
    }
}
