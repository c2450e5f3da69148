//! Operations on one or two values, comparisons, and reinterpreted bits.

use millstream_ir::scalar::{self, Number};
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};
use spirv::{GlslStd450Op, Op, Word};

use crate::LowerError;
use crate::body::Body;
use crate::routines::Routine;

impl Body<'_> {
    /// Returns `true` if an operation is to be the plain instruction, and not a call of its routine: within this routine, and
    /// of quotients and roots of floats within all.
    fn is_plain(&self, routine: Routine) -> bool {
        let may_be_inexact = match routine {
            Routine::Unary(op, _) => op == UnaryOp::Sqrt,
            Routine::Binary(op, dtype) => op == BinaryOp::Div && dtype.is_float(),
            _ => false,
        };
        let call = self.call.as_ref();
        call.is_some_and(|call| call.routine == routine || may_be_inexact)
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, dtype: DType, a: Word) -> Result<Word, LowerError> {
        let routine = Routine::of_unary(op, dtype);
        if let Some(routine) = routine.filter(|routine| !self.is_plain(*routine)) {
            return Ok(self.call(routine, dtype, &[a]));
        }
        let float = dtype.is_float();
        let emit = &mut self.unit.emit;
        Ok(match op {
            UnaryOp::Neg if float => emit.exact(Op::FNegate, dtype, &[a]),
            UnaryOp::Neg => emit.value(Op::SNegate, dtype, &[a]),
            UnaryOp::Abs if float => emit.glsl(GlslStd450Op::FAbs, dtype, &[a]),
            // Of an unsigned number.
            UnaryOp::Abs => a,
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
        a: Word,
        b: Word,
    ) -> Result<Word, LowerError> {
        let (float, bool, signed) = (dtype.is_float(), dtype == DType::Bool, dtype.is_signed());
        // Whether the instruction is defined for a constant.
        let is_defined = self.bits_of(b).is_some_and(|b| match op {
            // All bits are -1.
            BinaryOp::Div | BinaryOp::Rem if !float => {
                b != 0 && b != scalar::of_word(dtype, u64::MAX)
            }
            BinaryOp::Shl | BinaryOp::Shr => b < 8 * dtype.size() as u64,
            _ => false,
        });
        let routine = Routine::of_binary(op, dtype).filter(|_| !is_defined);
        if let Some(routine) = routine.filter(|routine| !self.is_plain(*routine)) {
            return Ok(self.call(routine, dtype, &[a, b]));
        }
        let instruction = match op {
            BinaryOp::Add if float => Op::FAdd,
            BinaryOp::Sub if float => Op::FSub,
            BinaryOp::Mul if float => Op::FMul,
            BinaryOp::Div if float => Op::FDiv,
            BinaryOp::Add => Op::IAdd,
            BinaryOp::Sub => Op::ISub,
            BinaryOp::Mul => Op::IMul,
            BinaryOp::Div if signed => Op::SDiv,
            BinaryOp::Div => Op::UDiv,
            BinaryOp::Rem if signed => Op::SRem,
            BinaryOp::Rem => Op::UMod,
            BinaryOp::And | BinaryOp::Min if bool => Op::LogicalAnd,
            BinaryOp::Or | BinaryOp::Max if bool => Op::LogicalOr,
            BinaryOp::Xor if bool => Op::LogicalNotEqual,
            BinaryOp::And => Op::BitwiseAnd,
            BinaryOp::Or => Op::BitwiseOr,
            BinaryOp::Xor => Op::BitwiseXor,
            BinaryOp::Shl => Op::ShiftLeftLogical,
            BinaryOp::Shr if signed => Op::ShiftRightArithmetic,
            BinaryOp::Shr => Op::ShiftRightLogical,
            other => return Err(self.unsupported(other.to_string())),
        };
        let contracts = match instruction {
            Op::FMul => self.function.contract,
            Op::FAdd | Op::FSub => [a, b].iter().any(|a| self.products.contains(a)),
            _ => false,
        };
        if float && !contracts {
            return Ok(self.unit.emit.exact(instruction, dtype, &[a, b]));
        }
        let id = self.op(instruction, dtype, &[a, b]);
        if instruction == Op::FMul {
            self.products.insert(id);
        }
        Ok(id)
    }

    pub(crate) fn compare(
        &mut self,
        op: CompareOp,
        dtype: DType,
        a: Word,
        b: Word,
    ) -> Result<Word, LowerError> {
        // False is less than true.
        let compared = match (dtype, op) {
            (DType::F16 | DType::Bf16, _) => DType::F32,
            (DType::Bool, CompareOp::Eq | CompareOp::Ne) => dtype,
            (DType::Bool, _) => DType::U32,
            _ => dtype,
        };
        let [a, b] = [a, b].map(|a| self.cast(dtype, compared, a));
        let (op, a, b) = match op {
            CompareOp::Gt => (CompareOp::Lt, b, a),
            CompareOp::Ge => (CompareOp::Le, b, a),
            op => (op, a, b),
        };
        let of_kinds = match op {
            CompareOp::Eq if dtype == DType::Bool => [Op::LogicalEqual; 3],
            CompareOp::Ne if dtype == DType::Bool => [Op::LogicalNotEqual; 3],
            CompareOp::Eq => [Op::FOrdEqual, Op::IEqual, Op::IEqual],
            CompareOp::Ne => [Op::FUnordNotEqual, Op::INotEqual, Op::INotEqual],
            CompareOp::Lt => [Op::FOrdLessThan, Op::SLessThan, Op::ULessThan],
            CompareOp::Le => {
                use Op::{FOrdLessThanEqual, SLessThanEqual, ULessThanEqual};
                [FOrdLessThanEqual, SLessThanEqual, ULessThanEqual]
            }
            other => return Err(self.unsupported(other.to_string())),
        };
        let [of_floats, of_signed, of_unsigned] = of_kinds;
        let instruction = match compared {
            _ if compared.is_float() => of_floats,
            _ if compared.is_signed() => of_signed,
            _ => of_unsigned,
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

    // Casts between types: floats to integers truncate and saturate, NaN becomes 0; integers keep their low bits; halves
    // are converted by their bits, and rounded once.

    pub(crate) fn cast(&mut self, from: DType, to: DType, a: Word) -> Word {
        if from == to {
            return a;
        }
        match (from, to) {
            (DType::F16 | DType::Bf16, _) => {
                let wide = self.call(Routine::Widen(from), DType::F32, &[a]);
                self.cast(DType::F32, to, wide)
            }
            (DType::Bool, _) => self.of_bool(to, a),
            (_, DType::Bool) => self.is_not_zero(from, a),
            // Represented exactly in `f32`.
            (DType::I8 | DType::U8 | DType::I16 | DType::U16, DType::F16 | DType::Bf16) => {
                let wide = self.cast(from, DType::F32, a);
                self.cast(DType::F32, to, wide)
            }
            (_, DType::F16 | DType::Bf16) => self.call(Routine::Narrow(from, to), to, &[a]),
            _ if from.is_float() && to.is_float() => self.op(Op::FConvert, to, &[a]),
            _ if from.is_float() => self.truncated(from, to, a),
            _ if to.is_float() && from.is_signed() => self.op(Op::ConvertSToF, to, &[a]),
            _ if to.is_float() => self.op(Op::ConvertUToF, to, &[a]),
            _ if from.size() == to.size() => a,
            _ if from.is_signed() => self.op(Op::SConvert, to, &[a]),
            _ => self.op(Op::UConvert, to, &[a]),
        }
    }

    fn of_bool(&mut self, to: DType, a: Word) -> Word {
        let [one, zero] = [1, 0].map(|number| Number::Whole(number).bits(to));
        let [one, zero] = [one, zero].map(|bits| self.unit.emit.constant(to, bits));
        self.op(Op::Select, to, &[a, one, zero])
    }

    fn is_not_zero(&mut self, from: DType, a: Word) -> Word {
        let zero = self.unit.emit.constant(from, 0);
        let op = match from.is_float() {
            true => Op::FUnordNotEqual,
            false => Op::INotEqual,
        };
        self.op(op, DType::Bool, &[a, zero])
    }

    /// Truncates a float and saturates: by a routine, since the instruction is undefined beyond the range of the integer.
    fn truncated(&mut self, from: DType, to: DType, a: Word) -> Word {
        let routine = Routine::Truncate(from, to);
        if self
            .call
            .as_ref()
            .is_none_or(|call| call.routine != routine)
        {
            return self.call(routine, to, &[a]);
        }
        // 8 and 16 bits through 32 bits, which every device converts.
        let (op, wide) = match (to.is_signed(), to.size()) {
            (true, 8) => (Op::ConvertFToS, DType::I64),
            (false, 8) => (Op::ConvertFToU, DType::U64),
            (true, _) => (Op::ConvertFToS, DType::I32),
            (false, _) => (Op::ConvertFToU, DType::U32),
        };
        let made = self.op(op, wide, &[a]);
        self.cast(wide, to, made)
    }
}
