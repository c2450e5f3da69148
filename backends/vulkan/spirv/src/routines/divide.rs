//! Quotients, remainders and square roots, rounded once for all operands, on significands as integers.
//!
//! A plain instruction gives a quotient or root of two fractions that is wrong by a few units at most. The remainder of
//! this estimate is small, so integers that wrap hold it exactly, and it tells how to correct the estimate. Because
//! everything else is integers too, subnormals are exact even if the device flushes them to zero.

use millstream_ir::ssa::Val;
use millstream_ir::{BinaryOp, CompareOp};

use super::math::Math;

impl<'k> Math<'k> {
    /// Returns the quotient.
    pub(super) fn divide(self, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        let (a, b) = (self.bits(a), self.bits(b));
        let sign = self.sign(a ^ b);
        let (a, b) = (self.magnitude(a), self.magnitude(b));
        let (over, under) = (self.parts(a), self.parts(b));
        let digits = self.digits();

        // A quotient in 1..2, of the dividend or its double.
        let is_doubled = over.significand.lt(under.significand);
        let divisor = self.fraction(under.significand);
        let estimate = self.fraction(over.significand) / divisor;
        let estimate = is_doubled.select(estimate + estimate, estimate);
        let quotient = self.significand(estimate);
        let dividend = self.shift_left(over.significand, digits);
        let dividend = is_doubled.select(dividend + dividend, dividend);
        let rest = (dividend - quotient * under.significand).bits(self.signed());

        // The rest in units of the divisor is the error of the estimate.
        let error = rest.cast(self.float) * 2_f64.powi(-digits as i32) / divisor;
        let (_, error) = self.rounded(error);
        let quotient = quotient.bits(self.signed()) + error;
        let whole = under.significand.bits(self.signed());
        let (quotient, rest) = self.nearest(quotient, rest - error * whole, whole);

        let doubled = is_doubled.cast(self.signed());
        let exponent = over.exponent - under.exponent + self.bias() - doubled;
        let found = self.composed(quotient, rest, exponent);
        self.special_quotient(a, b, found, sign)
    }

    /// Moves an estimate to the nearest integer, with the rest that belongs to it.
    fn nearest(self, found: Val<'k>, rest: Val<'k>, whole: Val<'k>) -> (Val<'k>, Val<'k>) {
        let twice = rest + rest;
        let (over, under) = (whole.lt(twice), twice.lt(-whole));
        let found = over.select(found + 1, under.select(found - 1, found));
        let rest = over.select(rest - whole, under.select(rest + whole, rest));
        (found, rest)
    }

    /// Returns the bits of `significand + rest`, scaled by the exponent and rounded once. The rest is between -1/2 and
    /// 1/2; only its sign counts.
    pub(super) fn composed(
        self,
        significand: Val<'k>,
        rest: Val<'k>,
        exponent: Val<'k>,
    ) -> Val<'k> {
        let digits = self.digits();
        let leading = 1_i64 << digits;
        let largest = 2 * self.bias() + 1;
        // Carries into the exponent, up to infinity.
        let normal = self.shift_left(exponent, digits) + (significand - leading);
        let infinite = self.k.bits(self.signed(), self.infinity_bits() as u64);

        // The digits that a subnormal has room for. With all of them lost, the result is zero.
        let lost = (-exponent + 1).max(1).min(digits + 3);
        let one = self.k.bits(self.signed(), 1);
        let unit = one.binary(BinaryOp::Shl, lost);
        let half = self.shift_right(unit, 1);
        let kept = significand.binary(BinaryOp::Shr, lost);
        let low = significand & (unit - 1);
        let is_odd = (kept & 1).eq(1);
        let is_above = rest.compare(CompareOp::Gt, 0) | (rest.eq(0) & is_odd);
        let goes_up = half.lt(low) | (low.eq(half) & is_above);
        let subnormal = goes_up.select(kept + 1, kept);

        let is_normal = exponent.compare(CompareOp::Gt, 0);
        let is_finite = exponent.lt(largest);
        let found = is_normal.select(is_finite.select(normal, infinite), subnormal);
        found.bits(self.unsigned())
    }

    fn special_quotient(self, a: Val<'k>, b: Val<'k>, found: Val<'k>, sign: Val<'k>) -> Val<'k> {
        let infinity = self.whole(self.infinity_bits());
        let nan = self.whole(self.infinity_bits() | (1 << (self.digits() - 1)));
        let zero = self.whole(0);
        let is_zero = a.eq(zero) | b.eq(infinity);
        let is_infinite = a.eq(infinity) | b.eq(zero);
        let is_nan = infinity.lt(a) | infinity.lt(b) | (is_zero & is_infinite);
        let found = is_zero.select(zero, found);
        let found = is_infinite.select(infinity, found);
        self.of_bits(is_nan.select(nan, found | sign))
    }

    /// Returns the square root.
    pub(super) fn sqrt(self, a: Val<'k>) -> Val<'k> {
        let bits = self.bits(a);
        let parts = self.parts(self.magnitude(bits));
        let digits = self.digits();
        // A root in 1..2, of a number in 1..4 with an even exponent.
        let exponent = parts.exponent - self.bias();
        let is_odd = (exponent & 1).eq(1);
        let number = self.fraction(parts.significand);
        let number = is_odd.select(number + number, number);
        let whole = self.shift_left(parts.significand, digits);
        let whole = is_odd.select(whole + whole, whole);

        let estimate = number.unary(millstream_ir::UnaryOp::Sqrt);
        let root = self.significand(estimate);
        let rest = (whole - root * root).bits(self.signed());
        let error = rest.cast(self.float) * 2_f64.powi(-digits as i32 - 1) / estimate;
        let (_, error) = self.rounded(error);
        let root = root.bits(self.signed());
        let rest = rest - error * (root + root + error);
        let root = root + error;
        // (root + 1/2)^2 is root^2 + root + 1/4: a tie is impossible.
        let (over, under) = (root.lt(rest), rest.lt(-root + 1));
        let root = over.select(root + 1, under.select(root - 1, root));

        let half = self.shift_right(exponent, 1) + (self.bias() - 1);
        let found = self.shift_left(half, digits) + root;
        let found = self.of_bits(found.bits(self.unsigned()));
        // Tests of bits, because a device that flushes subnormals takes one for zero.
        let (zero, infinity) = (self.whole(0), self.whole(self.infinity_bits()));
        let magnitude = self.magnitude(bits);
        let is_itself = magnitude.eq(zero) | bits.eq(infinity);
        // Beyond the bits of infinity are NaN and all negative numbers.
        let found = infinity.lt(bits).select(self.number(f64::NAN), found);
        is_itself.select(a, found)
    }

    /// Returns the remainder with the sign of the dividend: long division, several binary digits at a time.
    pub(super) fn remainder(self, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        let (over, under) = (self.magnitude(self.bits(a)), self.magnitude(self.bits(b)));
        let (dividend, divisor) = (self.parts(over), self.parts(under));
        let digits = self.digits();
        // A rest has `digits + 1` bits; as many more fit the integer.
        let at_once = if self.is_f64() { 11 } else { 8 };
        let rest = self
            .k
            .var("rest", dividend.significand % divisor.significand);
        let count = (dividend.exponent - divisor.exponent).cast(millstream_ir::DType::I64);
        let is_finite = over.lt(self.infinity_bits()) & under.compare(CompareOp::Gt, self.whole(0));
        self.k
            .range(0, is_finite.select(count, 0), at_once, |done| {
                let more = (count - done).min(at_once).cast(self.unsigned());
                rest.set(rest.get().binary(BinaryOp::Shl, more) % divisor.significand);
            });
        let rest = rest.get();

        // The rest counts units of the last digit of the divisor. It is representable, as a subnormal if need be.
        let converted = self.bits(rest.cast(self.float)).bits(self.signed());
        let scale = divisor.exponent - (self.bias() + digits);
        let exponent = self.shift_right(converted, digits) + scale;
        let normal = converted + self.shift_left(scale, digits);
        let up = rest.binary(
            BinaryOp::Shl,
            (divisor.exponent - 1).max(0).bits(self.unsigned()),
        );
        let both = up.binary(
            BinaryOp::Shr,
            (-divisor.exponent + 1).max(0).bits(self.unsigned()),
        );
        let is_normal =
            exponent.compare(CompareOp::Gt, 0) & rest.compare(CompareOp::Ne, self.whole(0));
        let found = is_normal.select(normal.bits(self.unsigned()), both);
        let found = over.lt(under).select(over, found);

        let infinity = self.whole(self.infinity_bits());
        let is_nan =
            over.compare(CompareOp::Ge, infinity) | under.eq(self.whole(0)) | infinity.lt(under);
        let found = self.of_bits(found | self.sign(self.bits(a)));
        is_nan.select(self.number(f64::NAN), found)
    }
}
