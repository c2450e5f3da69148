//! Comparisons and masked operations: with 512 bits, masks are registers with a bit per lane; otherwise they are
//! whole vectors.

use iced_x86::{Code, Instruction, Register};
use millstream_ir::CompareOp;

use super::NodeId;
use super::assembler::{Assembler, CannotEncode, Source, Vector};

/// The predicates of comparisons; only the second and the third are true for NaN.
const EQUAL: u32 = 0;
const UNORDERED: u32 = 3;
const NOT_EQUAL: u32 = 4;
const LESS: u32 = 0x11;
const LESS_OR_EQUAL: u32 = 0x12;
const GREATER_OR_EQUAL: u32 = 0x1d;
const GREATER: u32 = 0x1e;

/// For masks that last a few instructions.
const MASK: Register = Register::K2;

/// A mask of lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mask {
    /// In the mask register, until the next comparison.
    Bits,
    /// All bits of a lane's element, or none.
    Vector(Vector),
}

impl Assembler {
    /// `d = b` where `b` is NaN.
    pub(super) fn propagate_nan(&mut self, d: Vector, b: Vector) -> Result<(), CannotEncode> {
        let is_nan = self.mask(b, Source::Vector(b), UNORDERED)?;
        self.blend(d, is_nan, d, Source::Vector(b))?;
        self.give_mask(is_nan);
        Ok(())
    }

    /// All bits where the comparison is true, none where it is false.
    pub(super) fn compare(
        &mut self,
        op: CompareOp,
        a: NodeId,
        b: NodeId,
    ) -> Result<Vector, CannotEncode> {
        let how = match op {
            CompareOp::Eq => EQUAL,
            CompareOp::Ne => NOT_EQUAL,
            CompareOp::Lt => LESS,
            CompareOp::Le => LESS_OR_EQUAL,
            CompareOp::Gt => GREATER,
            CompareOp::Ge => GREATER_OR_EQUAL,
            _ => return Err(CannotEncode),
        };
        let operand = self.in_register(a)?;
        let other = self.source(b)?;
        let d = match self.mask(operand.register(), other, how)? {
            Mask::Vector(register) => register,
            _ => {
                let d = self.take()?;
                let code = Code::EVEX_Vpmovm2d_zmm_kr;
                let spread = Instruction::with2(code, self.vector(d), MASK)?;
                self.push(spread);
                d
            }
        };
        self.release_operand(operand, a);
        self.release_use(b);
        Ok(d)
    }

    pub(super) fn select(
        &mut self,
        condition: NodeId,
        a: NodeId,
        b: NodeId,
    ) -> Result<Vector, CannotEncode> {
        let Source::Vector(truth) = self.source(condition)? else {
            return Err(CannotEncode);
        };
        let mask = match self.is_512 {
            true => {
                let code = Code::EVEX_Vpmovd2m_kr_zmm;
                let bits = Instruction::with2(code, MASK, self.vector(truth))?;
                self.push(bits);
                Mask::Bits
            }
            false => Mask::Vector(truth),
        };
        let operand = self.in_register(b)?;
        let other = self.source(a)?;
        let d = self.take()?;
        self.blend(d, mask, operand.register(), other)?;
        self.release_operand(operand, b);
        self.release_use(a);
        self.release_use(condition);
        Ok(d)
    }

    /// Returns a mask of the lanes where `a` is less than `b`.
    pub(super) fn is_less(&mut self, a: Vector, b: Source) -> Result<Mask, CannotEncode> {
        self.mask(a, b, LESS)
    }

    fn mask(&mut self, a: Vector, b: Source, how: u32) -> Result<Mask, CannotEncode> {
        let (code, d, mask) = match self.is_512 {
            true => (
                Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
                MASK,
                Mask::Bits,
            ),
            false => {
                let d = self.take()?;
                let code = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
                (code, self.vector(d), Mask::Vector(d))
            }
        };
        let a = self.vector(a);
        let instruction = match b {
            Source::Vector(b) => Instruction::with4(code, d, a, self.vector(b), how)?,
            Source::Pool(index) => Instruction::with4(code, d, a, self.pooled(index), how)?,
        };
        self.push(instruction);
        Ok(mask)
    }

    pub(super) fn give_mask(&mut self, mask: Mask) {
        if let Mask::Vector(register) = mask {
            self.give(register);
        }
    }

    /// `d = a`, except `d = b` where the mask is set.
    pub(super) fn blend(
        &mut self,
        d: Vector,
        mask: Mask,
        a: Vector,
        b: Source,
    ) -> Result<(), CannotEncode> {
        let (d, a) = (self.vector(d), self.vector(a));
        let instruction = match mask {
            Mask::Bits => {
                let code = Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
                let mut blend = match b {
                    Source::Vector(b) => Instruction::with3(code, d, a, self.vector(b))?,
                    Source::Pool(index) => Instruction::with3(code, d, a, self.pooled(index))?,
                };
                blend.set_op_mask(MASK);
                blend
            }
            Mask::Vector(mask) => {
                let (code, mask) = (Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm, self.vector(mask));
                match b {
                    Source::Vector(b) => Instruction::with4(code, d, a, self.vector(b), mask)?,
                    Source::Pool(index) => {
                        Instruction::with4(code, d, a, self.pooled(index), mask)?
                    }
                }
            }
        };
        self.push(instruction);
        Ok(())
    }
}
