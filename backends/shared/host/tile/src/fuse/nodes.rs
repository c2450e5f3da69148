//! The instructions of each node.
//!
//! With 512 bits, a mask is a register with a bit per lane; otherwise it is a vector with all bits of a lane, or none.

use iced_x86::{MemoryOperand, Register};
use millstream_ir::{BinaryOp, ReduceOp, UnaryOp};

use super::assembler::{Assembler, END, Operand, Vector};
use super::functions::{
    ADD, AND, BLEND, COMPARE, DIV, MAX, MIN, MUL, ROUND, SQRT, STORE_FEW, SUB, UPPER_HALF,
    UPPER_QUARTER, Wide, XOR,
};
use super::{Node, NodeId};

/// How [`ROUND`] rounds, without raising an exception.
const DOWN: u8 = 0b1001;
const UP: u8 = 0b1010;

/// All bits of an `f32` but the sign, and the sign.
pub(super) const MAGNITUDE: u32 = 0x7fff_ffff;
pub(super) const SIGN: u32 = 0x8000_0000;

/// The predicates of comparisons: whether a value is NaN, and less, which is false for NaN.
const UNORDERED: u8 = 3;
pub(super) const LESS: u8 = 0x11;

/// For masks that last a few instructions.
const MASK: Register = Register::K2;

impl Assembler<'_> {
    /// Computes a node whose operands exist, in a new register.
    pub(super) fn node(&mut self, node: Node) -> Vector {
        let d = match node {
            Node::Unary(op, a) => self.unary(op, a),
            Node::Binary(op, a, b) => self.binary(op, a, b),
            _ => return 0,
        };
        node.operands().for_each(|id| self.release_use(id));
        for register in std::mem::take(&mut self.temporary) {
            self.give(register);
        }
        d
    }

    fn unary(&mut self, op: UnaryOp, a: NodeId) -> Vector {
        let x = self.in_register(a);
        match op {
            UnaryOp::Exp => return self.exp(x),
            UnaryOp::Tanh => return self.tanh(x),
            _ => {}
        }
        let d = self.take();
        match op {
            UnaryOp::Neg => {
                let sign = self.constant(SIGN);
                self.three(XOR, d, x, sign);
            }
            UnaryOp::Abs => {
                let magnitude = self.constant(MAGNITUDE);
                self.three(AND, d, x, magnitude);
            }
            UnaryOp::Sqrt => self.emit(SQRT, &[d.into(), x.into()]),
            UnaryOp::Floor => self.three(ROUND, d, x, Operand::Immediate(DOWN)),
            UnaryOp::Ceil => self.three(ROUND, d, x, Operand::Immediate(UP)),
            _ => self.refuse(),
        }
        d
    }

    fn binary(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> Vector {
        // Only the last operand may be a constant in memory.
        let is_constant = matches!(self.source(a), Operand::Pool(_));
        let (a, b, wide) = match op {
            BinaryOp::Add if is_constant => (b, a, ADD),
            BinaryOp::Mul if is_constant => (b, a, MUL),
            BinaryOp::Add => (a, b, ADD),
            BinaryOp::Mul => (a, b, MUL),
            BinaryOp::Sub => (a, b, SUB),
            BinaryOp::Div => (a, b, DIV),
            // The instruction returns its last operand if either is NaN.
            BinaryOp::Min => (b, a, MIN),
            BinaryOp::Max => (b, a, MAX),
            _ => {
                self.refuse();
                return self.take();
            }
        };
        let x = self.in_register(a);
        let (y, d) = (self.source(b), self.take());
        self.three(wide, d, x, y);
        if matches!(op, BinaryOp::Min | BinaryOp::Max) && !self.is_number(self.source(a)) {
            self.propagate_nan(d, x);
        }
        d
    }

    /// Makes `d` the smaller (`MIN`) or the greater (`MAX`) of `d` and `b`, or NaN if one is NaN.
    pub(super) fn extreme(&mut self, wide: Wide, d: Vector, b: Vector) {
        self.three(wide, d, b, d);
        self.propagate_nan(d, b);
    }

    /// `d = b` where `b` is NaN.
    fn propagate_nan(&mut self, d: Vector, b: Vector) {
        let is_nan = self.mask(b, UNORDERED, b);
        self.blend(d, is_nan, d, b);
        self.give_mask(is_nan);
    }

    /// Returns a mask of the lanes where the comparison is true.
    pub(super) fn mask(&mut self, a: Vector, how: u8, b: impl Into<Operand>) -> Operand {
        let (d, mask) = match self.is_512 {
            true => (Operand::Register(MASK), Operand::Lanes(MASK)),
            false => {
                let d = Operand::Vector(self.take());
                (d, d)
            }
        };
        self.emit(COMPARE, &[d, a.into(), b.into(), Operand::Immediate(how)]);
        mask
    }

    pub(super) fn give_mask(&mut self, mask: Operand) {
        if let Operand::Vector(register) = mask {
            self.give(register);
        }
    }

    /// `d = a`, except `d = b` where the mask is set.
    pub(super) fn blend(&mut self, d: Vector, mask: Operand, a: Vector, b: impl Into<Operand>) {
        self.emit(BLEND, &[d.into(), a.into(), b.into(), mask]);
    }
}

// Sums, products and extremes of all lanes.
//
// Each lane of a *block* has its own partial result, in a register. There are as many as the loops over tiles keep
// side by side, in the same order and combined in the same halves. So the result of a fold depends neither on which
// of the two computes it, nor on the width of vectors. The loop leaves `FEW` partial
// results; the interpreter combines these, sums of `f32` in `f64`.

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
