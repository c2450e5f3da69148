//! Evaluates operations on integers and floats.

use std::cmp::Ordering;

use crate::instruction::{Binary, Comparison, Ternary, Type, Unary};
use crate::integer::{self, clamped, integer, trim};
use crate::number::{
    Format, Mode, Operation, canonical_nan, compute, convert as narrowed, flush_and_saturate,
    from_integer, to_integer, to_integral,
};

pub(super) fn unary(op: Unary, ty: Type, mode: Mode, a: u64) -> u64 {
    match ty {
        Type::Float(format) => float_unary(op, format, mode, a),
        _ => integer::unary(op, ty, a),
    }
}

fn float_unary(op: Unary, format: Format, mode: Mode, a: u64) -> u64 {
    let a = if mode.flush { format.flushed(a) } else { a };
    match op {
        Unary::Abs => flush_and_saturate(format, mode, format.absolute(canonical_nan(format, a))),
        Unary::Neg => flush_and_saturate(format, mode, canonical_nan(format, format.negated(a))),
        Unary::Sqrt => compute(Operation::Sqrt, format, mode, [a, 0, 0]),
        Unary::Rcp => compute(Operation::Div, format, mode, [format.one(), a, 0]),
        // More precise than the approximation of the hardware.
        Unary::Ex2 => {
            let bits = format.of_f64(format.to_f64(a).exp2());
            flush_and_saturate(format, mode, canonical_nan(format, bits))
        }
        // The decoder refuses these.
        Unary::Not | Unary::Clz => a,
    }
}

/// Evaluates a binary operation. Returns `None` for an integer division by 0, whose result is undefined.
#[inline]
pub(super) fn binary(op: Binary, ty: Type, mode: Mode, a: u64, b: u64) -> Option<u64> {
    match ty {
        Type::Float(format) => Some(float_binary(op, format, mode, a, b)),
        _ => integer::binary(op, ty, a, b),
    }
}

fn float_binary(op: Binary, format: Format, mode: Mode, a: u64, b: u64) -> u64 {
    let operation = match op {
        Binary::Add => return compute(Operation::Add, format, mode, [a, b, 0]),
        Binary::Sub => {
            // A NaN keeps its sign.
            let b = if format.is_nan(b) {
                b
            } else {
                format.negated(b)
            };
            return compute(Operation::Add, format, mode, [a, b, 0]);
        }
        Binary::Div => Operation::Div,
        Binary::Min => return min_or_max(format, a, b, Ordering::Less),
        Binary::Max => return min_or_max(format, a, b, Ordering::Greater),
        Binary::CopySign => return format.with_sign_of(b, a),
        _ => Operation::Mul,
    };
    compute(operation, format, mode, [a, b, 0])
}

/// Returns the minimum or maximum; `-0` is less than `0`. A NaN operand is ignored.
fn min_or_max(format: Format, a: u64, b: u64, preferred: Ordering) -> u64 {
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) => return format.nan(),
        (true, false) => return b,
        (false, true) => return a,
        (false, false) => {}
    }
    let order = format.to_f64(a).total_cmp(&format.to_f64(b));
    if order == preferred { a } else { b }
}

pub(super) fn ternary(op: Ternary, ty: Type, mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    match ty {
        Type::Float(format) => compute(Operation::Fma, format, mode, [a, b, c]),
        _ => integer::ternary(op, ty, a, b, c),
    }
}

pub(super) fn compare(how: Comparison, ty: Type, a: u64, b: u64) -> bool {
    let order = match ty {
        Type::Float(format) => format.to_f64(a).partial_cmp(&format.to_f64(b)),
        _ => Some(integer(ty, a).cmp(&integer(ty, b))),
    };
    let found = match order {
        Some(Ordering::Less) => Comparison::LESS,
        Some(Ordering::Equal) => Comparison::EQUAL,
        Some(Ordering::Greater) => Comparison::GREATER,
        None => Comparison::UNORDERED,
    };
    how.0 & found != 0
}

pub(super) fn convert(to: Type, from: Type, mode: Mode, a: u64) -> u64 {
    match (from, to) {
        (Type::Float(of), Type::Float(format)) => {
            let bits = match mode.integral {
                true => to_integral(of, mode.rounding, a),
                false => a,
            };
            flush_and_saturate(format, mode, narrowed(format, of, mode.rounding, bits))
        }
        // Values out of range saturate, and NaN is 0.
        (Type::Float(of), _) => clamped(to, to_integer(of, mode.rounding, a)),
        (_, Type::Float(format)) => from_integer(format, mode.rounding, integer(from, a)),
        _ => trim(to, integer(from, a) as u64),
    }
}

#[cfg(test)]
mod tests;
