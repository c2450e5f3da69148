//! `a * b + c`, rounded once, for devices without such an instruction.

use millstream_ir::ssa::Val;
use millstream_ir::{CompareOp, DType};

use super::math::Math;

impl<'k> Math<'k> {
    /// Returns the sum and its rounding error (Knuth).
    pub(super) fn two_sum(self, a: Val<'k>, b: Val<'k>) -> (Val<'k>, Val<'k>) {
        let sum = a + b;
        let back = sum - a;
        (sum, (a - (sum - back)) + (b - back))
    }

    /// Splits a float into two of half as many digits (Veltkamp).
    fn split(self, a: Val<'k>) -> (Val<'k>, Val<'k>) {
        let digits = (self.digits() + 2) / 2;
        let scaled = a * (2_f64.powi(digits as i32) + 1.0);
        let high = scaled - (scaled - a);
        (high, a - high)
    }

    /// Returns the product and its rounding error (Dekker).
    pub(super) fn two_product(self, a: Val<'k>, b: Val<'k>) -> (Val<'k>, Val<'k>) {
        let product = a * b;
        let ((a, a_low), (b, b_low)) = (self.split(a), self.split(b));
        let error = ((a * b - product) + a * b_low + a_low * b) + a_low * b_low;
        (product, error)
    }

    /// Returns the sum, rounded to odd: truncated, with the last bit set if that lost bits.
    fn odd_sum(self, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        let (sum, error) = self.two_sum(a, b);
        let bits = self.bits(sum);
        let is_even = (bits & self.whole(1)).eq(self.whole(0));
        let is_inexact = error.lt(0.0) | error.compare(CompareOp::Gt, 0.0);
        // The error moves an even sum to its odd neighbour.
        let same = error
            .compare(CompareOp::Gt, 0.0)
            .eq(sum.compare(CompareOp::Gt, 0.0));
        let one = self.whole(1);
        let moved = same.select(bits + one, bits - one);
        self.of_bits((is_even & is_inexact).select(moved, bits))
    }

    /// Returns the result for `f32` through `f64`, exact for all operands: the product is exact, and a sum that is
    /// rounded to odd may be rounded again.
    pub(super) fn fused_f32(self, [a, b, c]: [Val<'k>; 3]) -> Val<'k> {
        let [a, b, c] = [a, b, c].map(|value| value.cast(DType::F64));
        self.odd_sum(a * b, c).cast(DType::F32)
    }

    /// Returns the result for all operands: that of Boldo and Melquiond for operands that are scaled, so that nothing
    /// overflows, with a last rounding of integers, which scales it back.
    pub(super) fn fused(self, [a, b, c]: [Val<'k>; 3]) -> Val<'k> {
        // A summand this far below the product only decides roundings; one this far above it is the result.
        let distance_max = 3 * self.digits();
        let operands = [a, b, c].map(|a| self.bits(a));
        let magnitudes = operands.map(|bits| self.magnitude(bits));
        let [of_a, of_b, of_c] = magnitudes.map(|magnitude| self.parts(magnitude));
        let scale = of_a.exponent + of_b.exponent - 2 * self.bias();
        let distance = of_c.exponent - self.bias() - scale;
        let is_far = distance.compare(CompareOp::Gt, distance_max);
        let distance = distance.max(-distance_max).min(distance_max);
        let product = self.two_product(
            self.with_sign(self.fraction(of_a.significand), a),
            self.with_sign(self.fraction(of_b.significand), b),
        );
        let power = self.power_of_two(distance + self.bias());
        let summand = self.with_sign(self.fraction(of_c.significand) * power, c);
        let is_zero = magnitudes.map(|magnitude| magnitude.eq(self.whole(0)));
        let summand = is_zero[2].select(self.number(0.0), summand);

        let (low, low_error) = self.two_sum(summand, product.1);
        let (high, high_error) = self.two_sum(product.0, low);
        let rest = self.odd_sum(high_error, low_error);
        let sum = high + rest;
        let lost = (high - sum) + rest;
        let lost = sum.lt(0.0).select(-lost, lost);
        let [over, under] =
            [CompareOp::Gt, CompareOp::Lt].map(|op| lost.compare(op, 0.0).cast(self.signed()));
        let lost = over - under;
        let parts = self.parts(self.magnitude(self.bits(sum)));
        let significand = parts.significand.bits(self.signed());
        let found = self.composed(significand, lost, parts.exponent + scale);
        let found = self.of_bits(found | self.sign(self.bits(sum)));
        let found = sum.eq(0.0).select(self.number(0.0), found);

        let infinity = self.whole(self.infinity_bits());
        let [a_ends, b_ends, c_ends] = magnitudes.map(|magnitude| magnitude.lt(infinity));
        let is_plain = is_zero[0] | is_zero[1] | !a_ends | !b_ends;
        // Also an infinite or undefined summand, because the product might overflow.
        let found = (!c_ends | is_far & !is_zero[2]).select(c, found);
        is_plain.select(a * b + c, found)
    }
}
