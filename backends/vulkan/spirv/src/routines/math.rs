//! A small language for routines on floats of one format: constants, polynomials, and the parts of a float.

use millstream_ir::DType;
use millstream_ir::scalar::Number;
use millstream_ir::ssa::{Builder, Val};

/// Floats of one format, in a function under construction.
#[derive(Clone, Copy)]
pub(super) struct Math<'k> {
    pub(super) k: &'k Builder,
    /// The type of the floats.
    pub(super) float: DType,
}

/// The significand of a float as an integer with its leading bit, and the exponent with the bias, which is below 1 for
/// subnormals.
#[derive(Clone, Copy)]
pub(super) struct Parts<'k> {
    /// Unsigned.
    pub(super) significand: Val<'k>,
    /// Signed.
    pub(super) exponent: Val<'k>,
}

impl<'k> Math<'k> {
    pub(super) fn is_f64(self) -> bool {
        self.float == DType::F64
    }

    /// Returns the unsigned integer of the size of a float.
    pub(super) fn unsigned(self) -> DType {
        self.float.unsigned()
    }

    /// Returns the signed integer of the size of a float.
    pub(super) fn signed(self) -> DType {
        if self.is_f64() {
            DType::I64
        } else {
            DType::I32
        }
    }

    /// Returns the bits of the significand behind the leading one.
    pub(super) fn digits(self) -> i64 {
        if self.is_f64() { 52 } else { 23 }
    }

    pub(super) fn bias(self) -> i64 {
        if self.is_f64() { 1023 } else { 127 }
    }

    /// Returns the bits of positive infinity.
    pub(super) fn infinity_bits(self) -> i64 {
        (2 * self.bias() + 1) << self.digits()
    }

    /// Returns a float.
    pub(super) fn number(self, value: f64) -> Val<'k> {
        let bits = Number::Float(value).bits(self.float);
        self.k.bits(self.float, bits)
    }

    /// Returns an unsigned integer of the size of a float.
    pub(super) fn whole(self, value: i64) -> Val<'k> {
        let bits = Number::Whole(value.into()).bits(self.unsigned());
        self.k.bits(self.unsigned(), bits)
    }

    /// Returns the polynomial with these coefficients, the highest first.
    pub(super) fn polynomial(self, coefficients: &[f64], x: Val<'k>) -> Val<'k> {
        let mut terms = coefficients.iter().map(|term| self.number(*term));
        let first = terms.next().unwrap_or_else(|| self.number(0.0));
        terms.fold(first, |sum, term| sum * x + term)
    }

    /// Returns the bits of a float, unsigned.
    pub(super) fn bits(self, a: Val<'k>) -> Val<'k> {
        a.bits(self.unsigned())
    }

    /// Returns the float with these bits.
    pub(super) fn of_bits(self, a: Val<'k>) -> Val<'k> {
        a.bits(self.float)
    }

    /// Returns the bits without the sign.
    pub(super) fn magnitude(self, bits: Val<'k>) -> Val<'k> {
        let sign = 1_i64 << (self.digits() + if self.is_f64() { 11 } else { 8 });
        bits & self.whole(!sign)
    }

    /// Returns the sign bit alone.
    pub(super) fn sign(self, bits: Val<'k>) -> Val<'k> {
        bits ^ self.magnitude(bits)
    }

    /// Returns the first float with the sign of the second.
    pub(super) fn with_sign(self, a: Val<'k>, of: Val<'k>) -> Val<'k> {
        let (a, sign) = (self.magnitude(self.bits(a)), self.sign(self.bits(of)));
        self.of_bits(a | sign)
    }

    pub(super) fn abs(self, a: Val<'k>) -> Val<'k> {
        self.of_bits(self.magnitude(self.bits(a)))
    }

    /// Returns 2 to the power of a signed integer with the bias added, within the range of normal floats.
    pub(super) fn power_of_two(self, biased: Val<'k>) -> Val<'k> {
        let bits = self.shift_left(biased.bits(self.unsigned()), self.digits());
        self.of_bits(bits)
    }

    pub(super) fn shift_left(self, a: Val<'k>, by: i64) -> Val<'k> {
        a.binary(millstream_ir::BinaryOp::Shl, by)
    }

    pub(super) fn shift_right(self, a: Val<'k>, by: i64) -> Val<'k> {
        a.binary(millstream_ir::BinaryOp::Shr, by)
    }

    /// Rounds to an integer of at most half the digits, ties to even. Returns it as a float and as a signed integer.
    pub(super) fn rounded(self, a: Val<'k>) -> (Val<'k>, Val<'k>) {
        // 1.5 * 2^digits: the sum has the integer in its low bits.
        let magic = 1.5 * 2_f64.powi(self.digits() as i32);
        let sum = a + magic;
        let whole = self.bits(sum) - self.bits(self.number(magic));
        (sum - magic, whole.bits(self.signed()))
    }

    /// Returns the parts of a positive finite number, from the bits of its magnitude. Subnormals are normalized by a
    /// conversion, because a device may flush them to zero.
    pub(super) fn parts(self, magnitude: Val<'k>) -> Parts<'k> {
        let digits = self.digits();
        let leading = 1_i64 << digits;
        let converted = self.bits(magnitude.cast(self.float));
        let is_normal = magnitude.compare(millstream_ir::CompareOp::Ge, leading);
        let bits = is_normal.select(magnitude, converted);
        let significand = (bits & (leading - 1)) | leading;
        let exponent = self.shift_right(bits, digits).bits(self.signed());
        // The integer of a subnormal counts units of 2^(1 - bias - digits).
        let least = exponent + (1 - self.bias() - digits);
        let exponent = is_normal.select(exponent, least);
        Parts {
            significand,
            exponent,
        }
    }

    /// Returns a float in 1..2 with these digits behind the leading one.
    pub(super) fn fraction(self, significand: Val<'k>) -> Val<'k> {
        let digits = significand & ((1_i64 << self.digits()) - 1);
        self.of_bits(digits | (self.bias() << self.digits()))
    }

    /// Returns the significand of a float that is about 1..2.
    pub(super) fn significand(self, fraction: Val<'k>) -> Val<'k> {
        self.bits(fraction) - ((self.bias() - 1) << self.digits())
    }
}
