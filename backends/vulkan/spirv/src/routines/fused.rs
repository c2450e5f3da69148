//! `a * b + c`, rounded once, for devices without such an instruction.

use millstream_ir::ssa::Val;
use millstream_ir::{CompareOp, DType};

use super::math::Math;

impl<'k> Math<'k> {
    /// Returns the sum and its rounding error (Knuth).
    fn two_sum(self, a: Val<'k>, b: Val<'k>) -> (Val<'k>, Val<'k>) {
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

    /// Returns the result (Boldo and Melquiond), rounded once unless an intermediate number overflows or is subnormal.
    /// If one overflows, the result is rounded twice.
    pub(super) fn fused(self, [a, b, c]: [Val<'k>; 3]) -> Val<'k> {
        let (product, product_error) = self.two_product(a, b);
        let (low, low_error) = self.two_sum(c, product_error);
        let (high, high_error) = self.two_sum(product, low);
        let found = high + self.odd_sum(high_error, low_error);
        let is_number = found.compare(CompareOp::Eq, found);
        is_number.select(found, a * b + c)
    }
}
