//! Casts between types: floats to integers truncate and saturate, NaN becomes 0; integers keep their low bits; halves
//! are converted by their bits, and rounded once.

use millstream_ir::DType;
use millstream_ir::scalar::Number;
use spirv::{Op, Word};

use crate::arithmetic::is_signed;
use crate::body::Body;
use crate::routines::Routine;

impl Body<'_> {
    pub(crate) fn cast(&mut self, from: DType, to: DType, a: Word) -> Word {
        if from == to {
            return a;
        }
        match (from, to) {
            (DType::F16 | DType::Bf16, _) => {
                let wide = self.call(Routine::Widen(from), &[a]);
                self.cast(DType::F32, to, wide)
            }
            (DType::Bool, _) => self.of_bool(to, a),
            (_, DType::Bool) => self.is_not_zero(from, a),
            // Represented exactly in `f32`.
            (DType::I8 | DType::U8 | DType::I16 | DType::U16, DType::F16 | DType::Bf16) => {
                let wide = self.cast(from, DType::F32, a);
                self.cast(DType::F32, to, wide)
            }
            (_, DType::F16 | DType::Bf16) => self.call(Routine::Narrow(from, to), &[a]),
            _ if from.is_float() && to.is_float() => self.convert(Op::FConvert, to, a),
            _ if from.is_float() => self.truncated(from, to, a),
            _ if to.is_float() && is_signed(from) => self.convert(Op::ConvertSToF, to, a),
            _ if to.is_float() => self.convert(Op::ConvertUToF, to, a),
            _ if from.size() == to.size() => a,
            _ if is_signed(from) => self.convert(Op::SConvert, to, a),
            _ => self.convert(Op::UConvert, to, a),
        }
    }

    fn convert(&mut self, op: Op, to: DType, a: Word) -> Word {
        let of = self.unit.emit.of(to);
        self.unit.emit.op(op, of, &[a])
    }

    fn of_bool(&mut self, to: DType, a: Word) -> Word {
        let [one, zero] = [1, 0].map(|number| Number::Whole(number).bits(to));
        let [one, zero] = [one, zero].map(|bits| self.unit.emit.constant(to, bits));
        let of = self.unit.emit.of(to);
        self.unit.emit.op(Op::Select, of, &[a, one, zero])
    }

    fn is_not_zero(&mut self, from: DType, a: Word) -> Word {
        let zero = self.unit.emit.constant(from, 0);
        let op = match from.is_float() {
            true => Op::FUnordNotEqual,
            false => Op::INotEqual,
        };
        let bool = self.unit.emit.bool();
        self.unit.emit.op(op, bool, &[a, zero])
    }

    /// Truncates a float and saturates. The instruction is undefined beyond the range of the integer, so it only gets
    /// floats within the range: from the least integer on, below the power of two behind the greatest one.
    fn truncated(&mut self, from: DType, to: DType, a: Word) -> Word {
        let bits = 8 * to.size() as u32;
        let [least, most] =
            [f64::NEG_INFINITY, f64::INFINITY].map(|end| Number::Float(end).bits(to));
        let (start, end) = match is_signed(to) {
            true => (-(2_f64.powi(bits as i32 - 1)), 2_f64.powi(bits as i32 - 1)),
            false => (0.0, 2_f64.powi(bits as i32)),
        };
        let float = |body: &mut Self, value| {
            let bits = Number::Float(value).bits(from);
            body.unit.emit.constant(from, bits)
        };
        let (start, end, zero) = (float(self, start), float(self, end), float(self, 0.0));
        let bool = self.unit.emit.bool();
        let mut compare = |op, b| self.unit.emit.op(op, bool, &[a, b]);
        let (reaches, within) = (
            compare(Op::FOrdGreaterThanEqual, start),
            compare(Op::FOrdLessThan, end),
        );
        let (below, beyond) = (
            compare(Op::FOrdLessThan, start),
            compare(Op::FOrdGreaterThanEqual, end),
        );

        // 8 and 16 bits through 32 bits, which every device converts.
        let wide = match (is_signed(to), bits) {
            (true, 64) => DType::I64,
            (false, 64) => DType::U64,
            (true, _) => DType::I32,
            (false, _) => DType::U32,
        };
        let op = match is_signed(to) {
            true => Op::ConvertFToS,
            false => Op::ConvertFToU,
        };
        let emit = &mut self.unit.emit;
        let (float, of) = (emit.of(from), emit.of(to));
        let fits = emit.op(Op::LogicalAnd, bool, &[reaches, within]);
        let given = emit.op(Op::Select, float, &[fits, a, zero]);
        let wide_type = emit.of(wide);
        let mut made = emit.op(op, wide_type, &[given]);
        if wide.size() != to.size() {
            made = emit.op(Op::UConvert, of, &[made]);
        }
        let [least, most] = [least, most].map(|bits| emit.constant(to, bits));
        let made = emit.op(Op::Select, of, &[beyond, most, made]);
        emit.op(Op::Select, of, &[below, least, made])
    }
}
