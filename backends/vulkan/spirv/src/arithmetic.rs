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
        let of = emit.of(dtype);
        Ok(match op {
            UnaryOp::Neg if float => emit.exact(Op::FNegate, of, &[a]),
            UnaryOp::Neg => emit.op(Op::SNegate, of, &[a]),
            UnaryOp::Abs if float => emit.glsl(GlslStd450Op::FAbs, of, &[a]),
            UnaryOp::Abs if !is_signed(dtype) => a,
            // `SAbs` of the instruction set is undefined for the least value of some widths.
            UnaryOp::Abs => {
                let zero = self.constant(dtype, 0).id;
                let negative = self.compare(CompareOp::Lt, dtype, a, zero)?;
                let emit = &mut self.unit.emit;
                let negated = emit.op(Op::SNegate, of, &[a]);
                emit.op(Op::Select, of, &[negative, negated, a])
            }
            UnaryOp::Not if dtype == DType::Bool => emit.op(Op::LogicalNot, of, &[a]),
            UnaryOp::Not => emit.op(Op::Not, of, &[a]),
            UnaryOp::Sqrt => emit.glsl(GlslStd450Op::Sqrt, of, &[a]),
            UnaryOp::Floor => emit.glsl(GlslStd450Op::Floor, of, &[a]),
            UnaryOp::Ceil => emit.glsl(GlslStd450Op::Ceil, of, &[a]),
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
        let of = self.unit.emit.of(dtype);
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
        let emit = &mut self.unit.emit;
        Ok(match float {
            true => emit.exact(instruction, of, &operands),
            false => emit.op(instruction, of, &operands),
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
        let of = self.unit.emit.of(dtype);
        let instruction = match (divide, signed) {
            (true, true) => Op::SDiv,
            (true, false) => Op::UDiv,
            (false, true) => Op::SRem,
            (false, false) => Op::UMod,
        };
        if b.bits
            .is_some_and(|bits| bits != 0 && !(signed && bits == mask(dtype)))
        {
            return Ok(self.unit.emit.op(instruction, of, &[a.id, b.id]));
        }
        let [zero, one, minus_one] = [0, 1, mask(dtype)].map(|bits| self.constant(dtype, bits).id);
        let is_zero = self.compare(CompareOp::Eq, dtype, b.id, zero)?;
        let (mut replaced, mut instead) = (is_zero, zero);
        if signed {
            let negates = self.compare(CompareOp::Eq, dtype, b.id, minus_one)?;
            let emit = &mut self.unit.emit;
            let bool = emit.bool();
            replaced = emit.op(Op::LogicalOr, bool, &[is_zero, negates]);
            if divide {
                let negated = emit.op(Op::SNegate, of, &[a.id]);
                instead = emit.op(Op::Select, of, &[is_zero, zero, negated]);
            }
        }
        let emit = &mut self.unit.emit;
        let divisor = emit.op(Op::Select, of, &[replaced, one, b.id]);
        let usual = emit.op(instruction, of, &[a.id, divisor]);
        Ok(emit.op(Op::Select, of, &[replaced, instead, usual]))
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
            let bool = self.unit.emit.bool();
            first = self.unit.emit.op(Op::LogicalOr, bool, &[first, is_nan]);
        }
        let of = self.unit.emit.of(dtype);
        Ok(self.unit.emit.op(Op::Select, of, &[first, a, b]))
    }

    /// Lowers a shift. The instruction is undefined for a shift by all bits or more; as an unsigned number, a negative
    /// shift is large.
    fn shift(&mut self, op: BinaryOp, dtype: DType, a: Lane, b: Lane) -> Result<Word, LowerError> {
        let bits = 8 * dtype.size() as u64;
        let signed = is_signed(dtype);
        let of = self.unit.emit.of(dtype);
        let instruction = match (op, signed) {
            (BinaryOp::Shl, _) => Op::ShiftLeftLogical,
            (_, true) => Op::ShiftRightArithmetic,
            _ => Op::ShiftRightLogical,
        };
        if b.bits.is_some_and(|by| by < bits) {
            return Ok(self.unit.emit.op(instruction, of, &[a.id, b.id]));
        }
        let [zero, last, limit] = [0, bits - 1, bits].map(|bits| self.constant(dtype, bits).id);
        let emit = &mut self.unit.emit;
        let bool = emit.bool();
        let fits = emit.op(Op::ULessThan, bool, &[b.id, limit]);
        let by = emit.op(Op::Select, of, &[fits, b.id, last]);
        let shifted = emit.op(instruction, of, &[a.id, by]);
        // The sign bits remain of an arithmetic shift by all bits but one.
        let keeps_sign = op == BinaryOp::Shr && signed;
        Ok(match keeps_sign {
            true => shifted,
            false => emit.op(Op::Select, of, &[fits, shifted, zero]),
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
        if dtype == DType::Bool {
            return self.compare_bools(op, a, b);
        }
        let (float, signed) = (dtype.is_float(), is_signed(dtype));
        let pick = |of_floats, of_signed, of_unsigned| match (float, signed) {
            (true, _) => of_floats,
            (_, true) => of_signed,
            _ => of_unsigned,
        };
        let instruction = match op {
            CompareOp::Eq => pick(Op::FOrdEqual, Op::IEqual, Op::IEqual),
            CompareOp::Ne => pick(Op::FUnordNotEqual, Op::INotEqual, Op::INotEqual),
            CompareOp::Lt => pick(Op::FOrdLessThan, Op::SLessThan, Op::ULessThan),
            CompareOp::Le => pick(
                Op::FOrdLessThanEqual,
                Op::SLessThanEqual,
                Op::ULessThanEqual,
            ),
            CompareOp::Gt => pick(Op::FOrdGreaterThan, Op::SGreaterThan, Op::UGreaterThan),
            CompareOp::Ge => pick(
                Op::FOrdGreaterThanEqual,
                Op::SGreaterThanEqual,
                Op::UGreaterThanEqual,
            ),
            other => return Err(self.unsupported(other.to_string())),
        };
        let bool = self.unit.emit.bool();
        Ok(self.unit.emit.op(instruction, bool, &[a, b]))
    }

    /// Compares bools: false is less than true.
    fn compare_bools(&mut self, op: CompareOp, a: Word, b: Word) -> Result<Word, LowerError> {
        let emit = &mut self.unit.emit;
        let bool = emit.bool();
        let mut less = |a, b| {
            let not = emit.op(Op::LogicalNot, bool, &[a]);
            emit.op(Op::LogicalAnd, bool, &[not, b])
        };
        Ok(match op {
            CompareOp::Eq => emit.op(Op::LogicalEqual, bool, &[a, b]),
            CompareOp::Ne => emit.op(Op::LogicalNotEqual, bool, &[a, b]),
            CompareOp::Lt => less(a, b),
            CompareOp::Gt => less(b, a),
            CompareOp::Le => {
                let greater = less(b, a);
                emit.op(Op::LogicalNot, bool, &[greater])
            }
            CompareOp::Ge => {
                let less = less(a, b);
                emit.op(Op::LogicalNot, bool, &[less])
            }
            other => return Err(self.unsupported(other.to_string())),
        })
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
