//! The instructions of each node.
//!
//! With 512 bits, a mask is a register with a bit per lane; otherwise it is a vector with all bits of a lane, or none.

use iced_x86::Register;
use millstream_ir::{BinaryOp, UnaryOp};

use super::assembler::{Assembler, Operand, Vector};
use super::codes::{ADD, AND, BLEND, COMPARE, DIV, MAX, MIN, MUL, ROUND, SQRT, SUB, Wide, XOR};
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
