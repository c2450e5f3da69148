//! Operations on one or two values, comparisons, and reinterpreted bits.

use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};
use spirv::{GlslStd450Op, Op, Word};

use crate::LowerError;
use crate::body::{Body, Lane};
use crate::routines::Routine;

/// Returns `true` for signed integers.
pub(crate) fn is_signed(dtype: DType) -> bool {
    matches!(dtype, DType::I64 | DType::I32 | DType::I16 | DType::I8)
}

/// Returns all bits of a type.
pub(crate) fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - 8 * dtype.size())
}

impl Body<'_> {
    pub(crate) fn unary(&mut self, op: UnaryOp, dtype: DType, a: Word) -> Result<Word, LowerError> {
        if !self.is_plain() && Routine::has_unary(op) {
            return Ok(self.call(Routine::Unary(op, dtype), &[a]));
        }
        let float = dtype.is_float();
        let emit = &mut self.unit.emit;
        Ok(match op {
            UnaryOp::Neg if float => emit.exact(Op::FNegate, dtype, &[a]),
            UnaryOp::Neg => emit.value(Op::SNegate, dtype, &[a]),
            UnaryOp::Abs if float => emit.glsl(GlslStd450Op::FAbs, dtype, &[a]),
            UnaryOp::Abs if !is_signed(dtype) => a,
            // `SAbs` of the instruction set is undefined for the least value of some widths.
            UnaryOp::Abs => {
                let zero = self.constant(dtype, 0).id;
                let negative = self.compare(CompareOp::Lt, dtype, a, zero)?;
                let negated = self.op(Op::SNegate, dtype, &[a]);
                self.op(Op::Select, dtype, &[negative, negated, a])
            }
            UnaryOp::Not if dtype == DType::Bool => emit.value(Op::LogicalNot, dtype, &[a]),
            UnaryOp::Not => emit.value(Op::Not, dtype, &[a]),
            UnaryOp::Sqrt => emit.glsl(GlslStd450Op::Sqrt, dtype, &[a]),
            UnaryOp::Floor => emit.glsl(GlslStd450Op::Floor, dtype, &[a]),
            UnaryOp::Ceil => emit.glsl(GlslStd450Op::Ceil, dtype, &[a]),
            other => return Err(self.unsupported(other.to_string())),
        })
    }

    pub(crate) fn binary(
        &mut self,
        op: BinaryOp,
        dtype: DType,
        a: Lane,
        b: Lane,
    ) -> Result<Word, LowerError> {
        let float = dtype.is_float();
        if float && !self.is_plain() && Routine::has_binary(op) {
            return Ok(self.call(Routine::Binary(op, dtype), &[a.id, b.id]));
        }
        let bool = dtype == DType::Bool;
        let instruction = match op {
            BinaryOp::Add if float => Op::FAdd,
            BinaryOp::Sub if float => Op::FSub,
            BinaryOp::Mul if float => Op::FMul,
            BinaryOp::Div if float => Op::FDiv,
            BinaryOp::Add => Op::IAdd,
            BinaryOp::Sub => Op::ISub,
            BinaryOp::Mul => Op::IMul,
            BinaryOp::And | BinaryOp::Min if bool => Op::LogicalAnd,
            BinaryOp::Or | BinaryOp::Max if bool => Op::LogicalOr,
            BinaryOp::Xor if bool => Op::LogicalNotEqual,
            BinaryOp::And => Op::BitwiseAnd,
            BinaryOp::Or => Op::BitwiseOr,
            BinaryOp::Xor => Op::BitwiseXor,
            BinaryOp::Div | BinaryOp::Rem if !float => return self.quotient(op, dtype, a, b),
            BinaryOp::Min | BinaryOp::Max => return self.best(op, dtype, a.id, b.id),
            BinaryOp::Shl | BinaryOp::Shr => return self.shift(op, dtype, a, b),
            other => return Err(self.unsupported(other.to_string())),
        };
        let operands = [a.id, b.id];
        Ok(match float {
            true => self.unit.emit.exact(instruction, dtype, &operands),
            false => self.op(instruction, dtype, &operands),
        })
    }

    /// Lowers a quotient or remainder of integers. The instruction is undefined for a divisor of 0, and for the least
    /// value and -1; both are divided by 1 instead.
    fn quotient(
        &mut self,
        op: BinaryOp,
        dtype: DType,
        a: Lane,
        b: Lane,
    ) -> Result<Word, LowerError> {
        let signed = is_signed(dtype);
        let divide = op == BinaryOp::Div;
        let instruction = match (divide, signed) {
            (true, true) => Op::SDiv,
            (true, false) => Op::UDiv,
            (false, true) => Op::SRem,
            (false, false) => Op::UMod,
        };
        if b.bits
            .is_some_and(|bits| bits != 0 && !(signed && bits == mask(dtype)))
        {
            return Ok(self.op(instruction, dtype, &[a.id, b.id]));
        }
        let [zero, one, minus_one] = [0, 1, mask(dtype)].map(|bits| self.constant(dtype, bits).id);
        let is_zero = self.compare(CompareOp::Eq, dtype, b.id, zero)?;
        let (mut replaced, mut instead) = (is_zero, zero);
        if signed {
            let negates = self.compare(CompareOp::Eq, dtype, b.id, minus_one)?;
            replaced = self.op(Op::LogicalOr, DType::Bool, &[is_zero, negates]);
            if divide {
                let negated = self.op(Op::SNegate, dtype, &[a.id]);
                instead = self.op(Op::Select, dtype, &[is_zero, zero, negated]);
            }
        }
        let divisor = self.op(Op::Select, dtype, &[replaced, one, b.id]);
        let usual = self.op(instruction, dtype, &[a.id, divisor]);
        Ok(self.op(Op::Select, dtype, &[replaced, instead, usual]))
    }

    /// Lowers a minimum or maximum, which is NaN if either operand is.
    fn best(&mut self, op: BinaryOp, dtype: DType, a: Word, b: Word) -> Result<Word, LowerError> {
        let by = match op {
            BinaryOp::Min => CompareOp::Lt,
            _ => CompareOp::Gt,
        };
        let mut first = self.compare(by, dtype, a, b)?;
        if dtype.is_float() {
            let is_nan = self.compare(CompareOp::Ne, dtype, a, a)?;
            first = self.op(Op::LogicalOr, DType::Bool, &[first, is_nan]);
        }
        Ok(self.op(Op::Select, dtype, &[first, a, b]))
    }

    /// Lowers a shift. The instruction is undefined for a shift by all bits or more; as an unsigned number, a negative
    /// shift is large.
    fn shift(&mut self, op: BinaryOp, dtype: DType, a: Lane, b: Lane) -> Result<Word, LowerError> {
        let bits = 8 * dtype.size() as u64;
        let signed = is_signed(dtype);
        let instruction = match (op, signed) {
            (BinaryOp::Shl, _) => Op::ShiftLeftLogical,
            (_, true) => Op::ShiftRightArithmetic,
            _ => Op::ShiftRightLogical,
        };
        if b.bits.is_some_and(|by| by < bits) {
            return Ok(self.op(instruction, dtype, &[a.id, b.id]));
        }
        let [zero, last, limit] = [0, bits - 1, bits].map(|bits| self.constant(dtype, bits).id);
        let fits = self.op(Op::ULessThan, DType::Bool, &[b.id, limit]);
        let by = self.op(Op::Select, dtype, &[fits, b.id, last]);
        let shifted = self.op(instruction, dtype, &[a.id, by]);
        // The sign bits remain of an arithmetic shift by all bits but one.
        let keeps_sign = op == BinaryOp::Shr && signed;
        Ok(match keeps_sign {
            true => shifted,
            false => self.op(Op::Select, dtype, &[fits, shifted, zero]),
        })
    }

    pub(crate) fn compare(
        &mut self,
        op: CompareOp,
        dtype: DType,
        a: Word,
        b: Word,
    ) -> Result<Word, LowerError> {
        if matches!(dtype, DType::F16 | DType::Bf16) {
            let [a, b] = [a, b].map(|a| self.cast(dtype, DType::F32, a));
            return self.compare(op, DType::F32, a, b);
        }
        let (float, signed) = (dtype.is_float(), is_signed(dtype));
        let pick = |[of_floats, of_signed, of_unsigned]: [Op; 3]| match (float, signed) {
            (true, _) => of_floats,
            (_, true) => of_signed,
            _ => of_unsigned,
        };
        // False is less than true.
        let not = |body: &mut Self, a| body.op(Op::LogicalNot, DType::Bool, &[a]);
        let instruction = match (op, dtype) {
            (CompareOp::Eq, DType::Bool) => Op::LogicalEqual,
            (CompareOp::Ne, DType::Bool) => Op::LogicalNotEqual,
            (CompareOp::Lt, DType::Bool) => {
                let not = not(self, a);
                return Ok(self.op(Op::LogicalAnd, DType::Bool, &[not, b]));
            }
            (CompareOp::Le, DType::Bool) => {
                let not = not(self, a);
                return Ok(self.op(Op::LogicalOr, DType::Bool, &[not, b]));
            }
            (CompareOp::Gt, DType::Bool) => return self.compare(CompareOp::Lt, dtype, b, a),
            (CompareOp::Ge, DType::Bool) => return self.compare(CompareOp::Le, dtype, b, a),
            (CompareOp::Eq, _) => pick([Op::FOrdEqual, Op::IEqual, Op::IEqual]),
            (CompareOp::Ne, _) => pick([Op::FUnordNotEqual, Op::INotEqual, Op::INotEqual]),
            (CompareOp::Lt, _) => pick([Op::FOrdLessThan, Op::SLessThan, Op::ULessThan]),
            (CompareOp::Le, _) => {
                use Op::{FOrdLessThanEqual, SLessThanEqual, ULessThanEqual};
                pick([FOrdLessThanEqual, SLessThanEqual, ULessThanEqual])
            }
            (CompareOp::Gt, _) => pick([Op::FOrdGreaterThan, Op::SGreaterThan, Op::UGreaterThan]),
            (CompareOp::Ge, _) => {
                use Op::{FOrdGreaterThanEqual, SGreaterThanEqual, UGreaterThanEqual};
                pick([FOrdGreaterThanEqual, SGreaterThanEqual, UGreaterThanEqual])
            }
            (other, _) => return Err(self.unsupported(other.to_string())),
        };
        Ok(self.op(instruction, DType::Bool, &[a, b]))
    }

    /// Returns the same bits as another type of the same size, not `bool`.
    pub(crate) fn reinterpret(&mut self, from: DType, to: DType, a: Word) -> Word {
        // Integers have no sign, and halves are their bits.
        let [from, to] = [from, to].map(|dtype| self.unit.emit.of(dtype));
        match from == to {
            true => a,
            false => self.unit.emit.op(Op::Bitcast, to, &[a]),
        }
    }
}
