//! Sums, products and extremes of all lanes.
//!
//! Each lane of a *block* has its own partial result. There are as many as the loops over tiles keep side by side, in
//! the same order and combined in the same halves. So the result of a fold depends neither on which of the two
//! computes it, nor on the width of vectors. The loop leaves [`FEW`](crate::kernels::reduce::FEW) partial results;
//! the interpreter combines these, sums of `f32` in `f64`.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use millstream_ir::ReduceOp;

use super::arithmetic::{ADD, MUL};
use super::assembler::{Assembler, CannotEncode, END, FOLD, LAST_LANES, Partials, Source, Vector};
use super::{Recipe, SIDE_BY_SIDE};

/// Bytes of a block. A position in a block is one byte, so it wraps around automatically.
pub(super) const BLOCK_BYTES: i32 = 4 * SIDE_BY_SIDE as i32;
const _: () = assert!(BLOCK_BYTES == 256);

/// With more folds the frame would exceed what the stack may grow at once.
pub(super) const FOLDS_MAX: usize = 8;

/// Returns the fold of no elements.
fn neutral(op: ReduceOp) -> f32 {
    match op {
        ReduceOp::Prod => 1.0,
        ReduceOp::Min => f32::INFINITY,
        ReduceOp::Max => f32::NEG_INFINITY,
        _ => 0.0,
    }
}

impl Assembler {
    /// Returns the number of vectors of a block.
    fn in_block(&self) -> usize {
        usize::from(SIDE_BY_SIDE) / self.width() as usize
    }

    /// Initializes the blocks, and starts at their first lanes.
    pub(super) fn begin_folds(&mut self, recipe: &Recipe) -> Result<(), CannotEncode> {
        for (fold, (op, ..)) in recipe.folds.iter().enumerate() {
            let nothing = self.filled_with(neutral(*op))?;
            for vector in 0..self.in_block() {
                self.store(self.partial_at(fold, vector), nothing)?;
            }
            self.give(nothing);
        }
        let (to, from) = (Register::R15D, Register::R15D);
        self.push(Instruction::with2(Code::Xor_r32_rm32, to, from)?);
        Ok(())
    }

    /// Allocates registers for all partial results.
    pub(super) fn fill_partials(&mut self, recipe: &Recipe) -> Result<(), CannotEncode> {
        for (op, ..) in &recipe.folds {
            for _ in 0..self.in_block() {
                let partial = self.filled_with(neutral(*op))?;
                self.partial.push(partial);
            }
        }
        Ok(())
    }

    /// Stores those registers to the blocks.
    pub(super) fn spill_partials(&mut self, recipe: &Recipe) -> Result<(), CannotEncode> {
        let in_block = self.in_block();
        for fold in 0..recipe.folds.len() {
            for vector in 0..in_block {
                let partial = self.partial[fold * in_block + vector];
                self.store(self.partial_at(fold, vector), partial)?;
            }
        }
        Ok(())
    }

    /// Folds the lanes of a vector.
    pub(super) fn fold(
        &mut self,
        fold: usize,
        op: ReduceOp,
        of: Vector,
    ) -> Result<(), CannotEncode> {
        if let Partials::Registers(vector) = self.partials {
            let partial = self.partial[fold * self.in_block() + vector];
            return self.combine(op, partial, of);
        }
        let partial = self.take()?;
        let displ = i64::from(BLOCK_BYTES) * fold as i64;
        let here = MemoryOperand::new(Register::RSP, FOLD, 1, displ, 1, false, Register::None);
        self.load(partial, here)?;
        self.combine(op, partial, of)?;
        // The last vector stores only the lanes that exist.
        if self.is_tail {
            self.store_last(here, partial)?;
        } else {
            self.store(here, partial)?;
        }
        self.give(partial);
        Ok(())
    }

    /// `d = d op b`.
    fn combine(&mut self, op: ReduceOp, d: Vector, b: Vector) -> Result<(), CannotEncode> {
        match op {
            ReduceOp::Sum => self.three(ADD, d, d, Source::Vector(b)),
            ReduceOp::Prod => self.three(MUL, d, d, Source::Vector(b)),
            ReduceOp::Min => self.extreme_of(false, d, b),
            ReduceOp::Max => self.extreme_of(true, d, b),
            _ => Err(CannotEncode),
        }
    }

    /// Combines each block to [`FEW`](crate::kernels::reduce::FEW) elements, and stores them.
    pub(super) fn end_folds(&mut self, recipe: &Recipe) -> Result<(), CannotEncode> {
        // The values of the loop are not needed any more.
        self.free = (0..LAST_LANES).rev().collect();
        for (fold, (op, _, slot)) in recipe.folds.iter().enumerate() {
            let half = self.take()?;
            let mut count = self.in_block() / 2;
            let mut halves = Vec::new();
            for vector in 0..count {
                let partial = self.take()?;
                self.load(partial, self.partial_at(fold, vector))?;
                self.load(half, self.partial_at(fold, vector + count))?;
                self.combine(*op, partial, half)?;
                halves.push(partial);
            }
            while count > 1 {
                count /= 2;
                for vector in 0..count {
                    self.combine(*op, halves[vector], halves[vector + count])?;
                }
            }
            let partial = halves[0];
            // From here on the higher lanes are ignored.
            let narrow = |register: Vector| Register::YMM0 + u32::from(register);
            let few = |register: Vector| Register::XMM0 + u32::from(register);
            if self.is_512 {
                let code = Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8;
                let (to, from) = (narrow(half), self.vector(partial));
                self.push(Instruction::with3(code, to, from, 1_u32)?);
                self.combine(*op, partial, half)?;
            }
            let code = Code::VEX_Vextractf128_xmmm128_ymm_imm8;
            self.push(Instruction::with3(code, few(half), narrow(partial), 1_u32)?);
            self.combine(*op, partial, half)?;
            self.address(END, *slot)?;
            let (code, to) = (Code::VEX_Vmovups_xmmm128_xmm, MemoryOperand::with_base(END));
            self.push(Instruction::with2(code, to, few(partial))?);
            self.give(half);
            halves.into_iter().for_each(|register| self.give(register));
        }
        Ok(())
    }

    /// Returns the place of a vector of a block.
    fn partial_at(&self, fold: usize, vector: usize) -> MemoryOperand {
        let at = BLOCK_BYTES as usize * fold + 4 * self.width() as usize * vector;
        MemoryOperand::with_base_displ(Register::RSP, at as i64)
    }
}
