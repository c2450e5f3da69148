//! Halves as their bits: exact on every device, whatever it does with subnormals and roundings of halves.

use millstream_ir::ssa::Val;
use millstream_ir::{CompareOp, DType, UnaryOp};

use super::math::Math;

/// The bits of `f32` that an `f16` lacks.
const LOST_F16: i64 = 13;
/// The difference of the biases of `f32` and `f16`.
const BIAS_F16: i64 = 127 - 15;

impl<'k> Math<'k> {
    /// Returns a half as `f32`, from its bits.
    pub(super) fn widen(self, half: DType, bits: Val<'k>) -> Val<'k> {
        let bits = bits.cast(DType::U32);
        if half == DType::Bf16 {
            return self.of_bits(self.shift_left(bits, 16));
        }
        let sign = self.shift_left(bits & 0x8000, 16);
        let magnitude = self.shift_left(bits & 0x7fff, LOST_F16);
        let normal = magnitude + (BIAS_F16 << 23);
        let special = normal + (BIAS_F16 << 23);
        // A subnormal as the difference of two normal numbers.
        let offset = (BIAS_F16 + 1) << 23;
        let small = self.of_bits(magnitude + offset) - self.of_bits(self.whole(offset));
        let is_small = magnitude.lt(1 << 23);
        let is_special = magnitude.compare(CompareOp::Ge, 0x1f << 23);
        let found = is_special.select(special, is_small.select(self.bits(small), normal));
        self.of_bits(found | sign)
    }

    /// Returns the bits of a number as a half, rounded once: first to `f32`, to odd, and then to the half.
    pub(super) fn narrow(self, from: DType, half: DType, a: Val<'k>) -> Val<'k> {
        let odd = match from {
            DType::F32 => a,
            _ => self.odd(from, a),
        };
        let bits = self.bits(odd);
        match half {
            DType::Bf16 => self.to_bf16(bits),
            _ => self.to_f16(bits),
        }
    }

    fn to_bf16(self, bits: Val<'k>) -> Val<'k> {
        let high = self.shift_right(bits, 16);
        let near = self.shift_right(bits + (high & 1) + 0x7fff, 16);
        let is_nan = self
            .magnitude(bits)
            .compare(CompareOp::Gt, self.infinity_bits());
        is_nan.select(high | 0x40, near).cast(DType::U16)
    }

    fn to_f16(self, bits: Val<'k>) -> Val<'k> {
        let sign = self.shift_right(self.sign(bits), 16);
        let magnitude = self.magnitude(bits);
        let rebiased = magnitude - (BIAS_F16 << 23);
        let odd = self.shift_right(rebiased, LOST_F16) & 1;
        // A carry moves to the exponent, up to infinity.
        let normal = self.shift_right(rebiased + odd + 0xfff, LOST_F16);

        // Below 2^-14: a sum with 1/2 has the subnormal in its low bits, rounded.
        let small = self.of_bits(magnitude) + self.number(0.5);
        let small = self.bits(small) - self.bits(self.number(0.5));
        let found = magnitude.lt((BIAS_F16 + 1) << 23).select(small, normal);
        // From 2^16 on.
        let is_infinite = magnitude.compare(CompareOp::Ge, (BIAS_F16 + 31) << 23);
        let found = is_infinite.select(self.whole(0x7c00), found);
        let is_nan = magnitude.compare(CompareOp::Gt, self.infinity_bits());
        let found = is_nan.select(self.whole(0x7e00), found);
        (found | sign).cast(DType::U16)
    }

    /// Returns a number of 32 or 64 bits as `f32`, rounded to odd: the neighbour whose last bit is set, unless it is exact.
    /// The device may round to either neighbour.
    fn odd(self, from: DType, a: Val<'k>) -> Val<'k> {
        let near = a.cast(DType::F32);
        let back = near.cast(from);
        let is_exact = back.eq(a) | a.compare(CompareOp::Ne, a);
        let magnitude = |value: Val<'k>| match from {
            DType::F64 => value.bits(DType::U64) & i64::MAX,
            DType::I64 => value.unary(UnaryOp::Abs).bits(DType::U64),
            DType::I32 => value.unary(UnaryOp::Abs).bits(DType::U32),
            _ => value,
        };
        let is_beyond = magnitude(a).lt(magnitude(back));
        let bits = self.bits(near);
        let odd = is_beyond.select(bits - 1, bits) | 1;
        is_exact.select(near, self.of_bits(odd))
    }
}
