//! Casts between types: floats to integers truncate and saturate, NaN becomes 0; integers keep their low bits; halves
//! are converted by their bits, and rounded once.

use millstream_ir::DType;
use millstream_ir::scalar::Number;
use spirv::{Op, Word};

use crate::body::Body;
use crate::routines::Routine;

impl Body<'_> {
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
