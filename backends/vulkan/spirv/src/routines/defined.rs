//! Operations whose instructions are undefined for some operands: the instructions get other ones.

use millstream_ir::scalar::Number;
use millstream_ir::ssa::{Builder, Val};
use millstream_ir::{BinaryOp, CompareOp, DType};

/// Returns the minimum or maximum, which is NaN if either operand is.
pub(super) fn best<'k>(by: CompareOp, a: Val<'k>, b: Val<'k>) -> Val<'k> {
    let first = a.compare(by, b);
    let first = match a.of().dtype.is_float() {
        true => first | a.compare(CompareOp::Ne, a),
        false => first,
    };
    first.select(a, b)
}

/// Returns a quotient or remainder of integers. The instruction is undefined for a divisor of 0, and for the least value
/// and -1; both are divided by 1 instead, whose remainder is theirs.
pub(super) fn quotient<'k>(op: BinaryOp, a: Val<'k>, b: Val<'k>) -> Val<'k> {
    let is_zero = b.eq(0);
    let negates = a.of().dtype.is_signed().then(|| b.eq(-1));
    let replaced = negates.map_or(is_zero, |negates| is_zero | negates);
    let found = a.binary(op, (!replaced).select(b, 1));
    if op == BinaryOp::Rem {
        return found;
    }
    let found = negates.map_or(found, |negates| negates.select(-found, found));
    (!is_zero).select(found, 0)
}

/// Returns a shift. The instruction is undefined for a shift by all bits or more; as an unsigned number, a negative shift is
/// large.
pub(super) fn shift<'k>(op: BinaryOp, a: Val<'k>, b: Val<'k>) -> Val<'k> {
    let dtype = a.of().dtype;
    let bits = 8 * dtype.size() as i64;
    let fits = b.bits(dtype.unsigned()).lt(bits);
    let shifted = a.binary(op, fits.select(b, bits - 1));
    // The sign bits remain of an arithmetic shift by all bits but one.
    match op == BinaryOp::Shr && dtype.is_signed() {
        true => shifted,
        false => fits.select(shifted, 0),
    }
}

/// Returns a float as an integer, truncated and saturated; NaN becomes 0. The instruction only gets floats within the range
/// of the integer: from the least one on, below the power of two behind the greatest one.
pub(super) fn truncated<'k>(k: &'k Builder, a: Val<'k>, to: DType) -> Val<'k> {
    let bits = 8 * to.size() as i32;
    let (start, end) = match to.is_signed() {
        true => (-(2_f64.powi(bits - 1)), 2_f64.powi(bits - 1)),
        false => (0.0, 2_f64.powi(bits)),
    };
    let is_within = a.compare(CompareOp::Ge, start) & a.lt(end);
    let found = is_within.select(a, 0.0).cast(to);
    let [least, most] =
        [f64::NEG_INFINITY, f64::INFINITY].map(|value| k.bits(to, Number::Float(value).bits(to)));
    let found = a.compare(CompareOp::Ge, end).select(most, found);
    a.lt(start).select(least, found)
}
