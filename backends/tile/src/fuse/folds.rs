//! Sums, products and extremes of all lanes. Each lane of a register has its own partial result until the end; then halves are
//! put together until few are left, which whoever runs the loop makes one, as exactly as it likes.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use millstream_ir::ReduceOp;

use super::Recipe;
use super::assembler::{Assembler, END, Full, LAST_LANES, Source, Vector};
use super::masks::Mask;

/// What a fold of nothing is.
fn neutral(op: ReduceOp) -> f32 {
    match op {
        ReduceOp::Prod => 1.0,
        ReduceOp::Min => f32::INFINITY,
        ReduceOp::Max => f32::NEG_INFINITY,
        _ => 0.0,
    }
}

impl Assembler {
    pub(super) fn begin_folds(&mut self, recipe: &Recipe) -> Result<(), Full> {
        for (op, ..) in &recipe.folds {
            let partial = self.filled_with(neutral(*op))?;
            self.partial.push(partial);
        }
        Ok(())
    }

    /// Adds the lanes of a vector to what a fold has.
    pub(super) fn fold(&mut self, fold: usize, op: ReduceOp, of: Vector) -> Result<(), Full> {
        let partial = self.partial[fold];
        if !self.is_tail {
            return self.both(op, partial, of);
        }
        // Of the last vector some lanes are nothing.
        let held = self.filled_with(neutral(op))?;
        let there = match self.is_512 {
            true => Mask::Last,
            false => Mask::Vector(LAST_LANES),
        };
        self.blend(held, there, held, Source::Vector(of))?;
        self.both(op, partial, held)?;
        self.give(held);
        Ok(())
    }

    /// `d = d op b`.
    fn both(&mut self, op: ReduceOp, d: Vector, b: Vector) -> Result<(), Full> {
        match op {
            ReduceOp::Sum => self.plus(d, d, Source::Vector(b)),
            ReduceOp::Prod => self.times(d, d, Source::Vector(b)),
            ReduceOp::Min => self.extreme_of(false, d, b),
            ReduceOp::Max => self.extreme_of(true, d, b),
            _ => Err(Full),
        }
    }

    /// Makes all lanes [`super::PARTIALS`] ones, and writes them.
    pub(super) fn end_folds(&mut self, recipe: &Recipe) -> Result<(), Full> {
        for (fold, (op, _, slot)) in recipe.folds.iter().enumerate() {
            let partial = self.partial[fold];
            let half = self.take()?;
            let narrow = |register: Vector| Register::YMM0 + u32::from(register);
            let few = |register: Vector| Register::XMM0 + u32::from(register);
            // Whatever is in the higher lanes is not looked at any more.
            if self.is_512 {
                let code = Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8;
                let (to, from) = (narrow(half), self.vector(partial));
                self.push(Instruction::with3(code, to, from, 1_u32)?);
                self.both(*op, partial, half)?;
            }
            let code = match self.is_512 {
                true => Code::EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8,
                false => Code::VEX_Vextractf128_xmmm128_ymm_imm8,
            };
            self.push(Instruction::with3(code, few(half), narrow(partial), 1_u32)?);
            self.both(*op, partial, half)?;
            self.give(half);
            self.address(END, *slot)?;
            let code = match self.is_512 {
                true => Code::EVEX_Vmovups_xmmm128_k1z_xmm,
                false => Code::VEX_Vmovups_xmmm128_xmm,
            };
            let to = MemoryOperand::with_base(END);
            self.push(Instruction::with2(code, to, few(partial))?);
        }
        Ok(())
    }
}
