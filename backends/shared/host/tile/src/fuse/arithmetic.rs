//! The instructions of each operation.

use iced_x86::{Code, Instruction};
use millstream_ir::{BinaryOp, UnaryOp};

use super::assembler::{Assembler, BROADCAST, CannotEncode, Source, Vector, Wide};
use super::{Node, NodeId};

/// The two codes of an instruction with three operands.
macro_rules! wide {
    ($of_512:ident, $of_256:ident) => {
        (Code::$of_512, Code::$of_256)
    };
}

pub(super) const ADD: Wide = wide!(
    EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
    VEX_Vaddps_ymm_ymm_ymmm256
);
pub(super) const SUB: Wide = wide!(
    EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
    VEX_Vsubps_ymm_ymm_ymmm256
);
pub(super) const MUL: Wide = wide!(
    EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
    VEX_Vmulps_ymm_ymm_ymmm256
);
pub(super) const DIV: Wide = wide!(
    EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
    VEX_Vdivps_ymm_ymm_ymmm256
);
/// The smaller or the greater value; the last operand if either is NaN.
pub(super) const MIN: Wide = wide!(
    EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
    VEX_Vminps_ymm_ymm_ymmm256
);
pub(super) const MAX: Wide = wide!(
    EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
    VEX_Vmaxps_ymm_ymm_ymmm256
);
const AND: Wide = wide!(
    EVEX_Vandps_zmm_k1z_zmm_zmmm512b32,
    VEX_Vandps_ymm_ymm_ymmm256
);
pub(super) const OR: Wide = wide!(EVEX_Vorps_zmm_k1z_zmm_zmmm512b32, VEX_Vorps_ymm_ymm_ymmm256);
const XOR: Wide = wide!(
    EVEX_Vxorps_zmm_k1z_zmm_zmmm512b32,
    VEX_Vxorps_ymm_ymm_ymmm256
);
/// `d = d * a + b`, and `d = a * b + d`.
pub(super) const FMA_213: Wide = wide!(
    EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
    VEX_Vfmadd213ps_ymm_ymm_ymmm256
);
pub(super) const FMA_231: Wide = wide!(
    EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
    VEX_Vfmadd231ps_ymm_ymm_ymmm256
);
const SQRT: Wide = wide!(EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, VEX_Vsqrtps_ymm_ymmm256);
const ROUND: Wide = wide!(
    EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
    VEX_Vroundps_ymm_ymmm256_imm8
);

/// How `ROUND` rounds, without raising an exception.
const DOWN: u32 = 0b1001;
const UP: u32 = 0b1010;

/// All bits of an `f32` but the sign, and the sign.
pub(super) const MAGNITUDE: u32 = 0x7fff_ffff;
pub(super) const SIGN: u32 = 0x8000_0000;

/// An operand in a register: the node's own register, or a temporary one.
pub(super) enum Operand {
    Register(Vector),
    Temporary(Vector),
}

impl Operand {
    pub(super) fn register(&self) -> Vector {
        match *self {
            Operand::Register(register) | Operand::Temporary(register) => register,
        }
    }
}

impl Assembler {
    /// Computes a node whose operands exist. Returns `None` for a node that is not computed.
    pub(super) fn node(&mut self, node: Node) -> Result<Option<Vector>, CannotEncode> {
        Ok(Some(match node {
            Node::Lanes(_) | Node::Scalar(_) | Node::Const(_) => return Ok(None),
            Node::Unary(op, a) => self.unary(op, a)?,
            Node::Binary(op, a, b) => self.binary(op, a, b)?,
            Node::Compare(op, a, b) => self.compare(op, a, b)?,
            Node::Select(condition, a, b) => self.select(condition, a, b)?,
        }))
    }

    fn unary(&mut self, op: UnaryOp, a: NodeId) -> Result<Vector, CannotEncode> {
        let operand = self.in_register(a)?;
        let x = operand.register();
        let d = match op {
            UnaryOp::Neg => {
                let sign = Source::Pool(self.constant(SIGN));
                self.fresh(XOR, x, sign)?
            }
            UnaryOp::Abs => {
                let magnitude = Source::Pool(self.constant(MAGNITUDE));
                self.fresh(AND, x, magnitude)?
            }
            UnaryOp::Sqrt => {
                let d = self.take()?;
                let code = self.wide(SQRT);
                let root = Instruction::with2(code, self.vector(d), self.vector(x))?;
                self.push(root);
                d
            }
            UnaryOp::Floor | UnaryOp::Ceil => {
                let how = if op == UnaryOp::Floor { DOWN } else { UP };
                let d = self.take()?;
                let code = self.wide(ROUND);
                let whole = Instruction::with3(code, self.vector(d), self.vector(x), how)?;
                self.push(whole);
                d
            }
            UnaryOp::Exp => self.exp(x)?,
            UnaryOp::Tanh => self.tanh(x)?,
            _ => return Err(CannotEncode),
        };
        self.release_operand(operand, a);
        Ok(d)
    }

    fn binary(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> Result<Vector, CannotEncode> {
        let is_pooled = |source| matches!(source, Source::Pool(_));
        let (a, b, wide) = match op {
            // Only the last operand may be in memory.
            BinaryOp::Add if is_pooled(self.source(a)?) => (b, a, ADD),
            BinaryOp::Mul if is_pooled(self.source(a)?) => (b, a, MUL),
            BinaryOp::Add => (a, b, ADD),
            BinaryOp::Mul => (a, b, MUL),
            BinaryOp::Sub => (a, b, SUB),
            BinaryOp::Div => (a, b, DIV),
            BinaryOp::Min => return self.extreme(MIN, a, b),
            BinaryOp::Max => return self.extreme(MAX, a, b),
            _ => return Err(CannotEncode),
        };
        let operand = self.in_register(a)?;
        let other = self.source(b)?;
        let d = self.fresh(wide, operand.register(), other)?;
        self.release_operand(operand, a);
        self.release_use(b);
        Ok(d)
    }

    /// The smaller or the greater value, or NaN if one is NaN. The instruction returns its last operand if either is
    /// NaN.
    fn extreme(&mut self, wide: Wide, a: NodeId, b: NodeId) -> Result<Vector, CannotEncode> {
        let is_number = match self.source(b)? {
            Source::Pool(index) => !f32::from_bits(self.bits_of(index)).is_nan(),
            Source::Vector(_) => false,
        };
        let operand = self.in_register(b)?;
        let (other, d) = (self.source(a)?, self.take()?);
        self.three(wide, d, operand.register(), other)?;
        if !is_number {
            self.propagate_nan(d, operand.register())?;
        }
        self.release_operand(operand, b);
        self.release_use(a);
        Ok(d)
    }

    /// Makes `d` the greater or the smaller of `d` and `b`, or NaN if one is NaN.
    pub(super) fn extreme_of(
        &mut self,
        is_greatest: bool,
        d: Vector,
        b: Vector,
    ) -> Result<(), CannotEncode> {
        let wide = if is_greatest { MAX } else { MIN };
        self.three(wide, d, b, Source::Vector(d))?;
        self.propagate_nan(d, b)
    }

    /// Returns a node in a register.
    pub(super) fn in_register(&mut self, id: NodeId) -> Result<Operand, CannotEncode> {
        match self.source(id)? {
            Source::Vector(register) => Ok(Operand::Register(register)),
            Source::Pool(index) => Ok(Operand::Temporary(self.filled(index)?)),
        }
    }

    /// Releases an operand after its node was read once.
    pub(super) fn release_operand(&mut self, operand: Operand, id: NodeId) {
        if let Operand::Temporary(register) = operand {
            self.give(register);
        }
        self.release_use(id);
    }

    /// `d = a op b`.
    pub(super) fn three(
        &mut self,
        wide: Wide,
        d: Vector,
        a: Vector,
        b: Source,
    ) -> Result<(), CannotEncode> {
        let (code, d, a) = (self.wide(wide), self.vector(d), self.vector(a));
        let instruction = match b {
            Source::Vector(b) => Instruction::with3(code, d, a, self.vector(b))?,
            Source::Pool(index) => Instruction::with3(code, d, a, self.pooled(index))?,
        };
        self.push(instruction);
        Ok(())
    }

    /// `a op b` in a new register.
    fn fresh(&mut self, wide: Wide, a: Vector, b: Source) -> Result<Vector, CannotEncode> {
        let d = self.take()?;
        self.three(wide, d, a, b)?;
        Ok(d)
    }

    pub(super) fn and(&mut self, d: Vector, a: Vector, bits: u32) -> Result<(), CannotEncode> {
        let bits = Source::Pool(self.constant(bits));
        self.three(AND, d, a, bits)
    }

    /// Loads a constant into every lane of a new register.
    pub(super) fn filled(&mut self, index: u32) -> Result<Vector, CannotEncode> {
        let d = self.take()?;
        let (to, mut from) = (self.vector(d), self.pooled(index));
        let code = match self.is_512 {
            true => {
                from.is_broadcast = false;
                self.wide(BROADCAST)
            }
            false => Code::VEX_Vmovups_ymm_ymmm256,
        };
        self.push(Instruction::with2(code, to, from)?);
        Ok(d)
    }

    /// Loads a value into every lane of a new register.
    pub(super) fn filled_with(&mut self, value: f32) -> Result<Vector, CannotEncode> {
        let index = self.constant(value.to_bits());
        self.filled(index)
    }
}
