//! Sums, products and extremes of all lanes.
//!
//! Each lane of a *block* has its own partial result, in a register. There are as many as the loops over tiles keep
//! side by side, in the same order and combined in the same halves. So the result of a fold depends neither on which
//! of the two computes it, nor on the width of vectors. The loop leaves [`FEW`](crate::kernels::reduce::FEW) partial
//! results; the interpreter combines these, sums of `f32` in `f64`.

use iced_x86::{MemoryOperand, Register};
use millstream_ir::ReduceOp;

use super::assembler::{Assembler, END, Operand, Vector};
use super::codes::{ADD, MAX, MIN, MUL, STORE_FEW, UPPER_HALF, UPPER_QUARTER};

/// Returns the fold of no elements.
fn neutral(op: ReduceOp) -> f32 {
    match op {
        ReduceOp::Prod => 1.0,
        ReduceOp::Min => f32::INFINITY,
        ReduceOp::Max => f32::NEG_INFINITY,
        _ => 0.0,
    }
}

impl Assembler<'_> {
    /// Initializes the partial results of all folds. `in_block`: the vectors of a block.
    pub(super) fn begin_folds(&mut self, in_block: usize) {
        let folds = self.recipe.folds.iter();
        self.partials = folds
            .map(|(op, ..)| {
                (0..in_block)
                    .map(|_| self.filled_with(neutral(*op)))
                    .collect()
            })
            .collect();
    }

    /// Folds the existing lanes of a vector.
    pub(super) fn fold(&mut self, fold: usize, op: ReduceOp, of: Vector) {
        let partial = self.partials[fold][self.vector_of_block];
        if !self.is_tail {
            return self.combine(op, partial, of);
        }
        let lanes = self.filled_with(neutral(op));
        self.blend(lanes, self.last_lanes(), lanes, of);
        self.combine(op, partial, lanes);
        self.give(lanes);
    }

    /// `d = d op b`.
    fn combine(&mut self, op: ReduceOp, d: Vector, b: Vector) {
        match op {
            ReduceOp::Sum => self.three(ADD, d, d, b),
            ReduceOp::Prod => self.three(MUL, d, d, b),
            ReduceOp::Min => self.extreme(MIN, d, b),
            ReduceOp::Max => self.extreme(MAX, d, b),
            _ => self.refuse(),
        }
    }

    /// Combines the partial results of each fold to [`FEW`](crate::kernels::reduce::FEW) elements, and stores them.
    pub(super) fn end_folds(&mut self) {
        let half = self.take();
        for (fold, (op, _, slot)) in self.recipe.folds.iter().enumerate() {
            let partials = self.partials[fold].clone();
            let mut count = partials.len();
            while count > 1 {
                count /= 2;
                for vector in 0..count {
                    self.combine(*op, partials[vector], partials[vector + count]);
                }
            }
            // From here on the higher lanes are ignored.
            let partial = partials[0];
            let narrow = |register: Vector| Operand::Register(Register::YMM0 + u32::from(register));
            let few = |register: Vector| Operand::Register(Register::XMM0 + u32::from(register));
            if self.is_512 {
                let upper = [narrow(half), partial.into(), Operand::Immediate(1)];
                self.emit(UPPER_HALF, &upper);
                self.combine(*op, partial, half);
            }
            let upper = [few(half), narrow(partial), Operand::Immediate(1)];
            self.emit(UPPER_QUARTER, &upper);
            self.combine(*op, partial, half);
            self.address(END, *slot);
            let to = Operand::Memory(MemoryOperand::with_base(END));
            self.emit(STORE_FEW, &[to, few(partial)]);
        }
        self.give(half);
    }
}
