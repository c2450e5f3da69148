//! Evaluates operations on integers and floats.

use std::cmp::Ordering;

use crate::instruction::{Binary, Comparison, Ternary, TestFloat, Type, Unary};
use crate::integer::{self, clamped, integer, trim};
use crate::number::{
    Format, Mode, Operation, canonical_nan, compute, convert as narrowed, flush_and_saturate,
    from_integer, to_integer, to_integral,
};

/// Applies a function to each half of the words.
fn halves(values: [u64; 3], of: impl Fn([u64; 3]) -> u64) -> u64 {
    of(values.map(|bits| bits & 0xFFFF)) | of(values.map(|bits| bits >> 16 & 0xFFFF)) << 16
}

pub(super) fn unary(op: Unary, ty: Type, mode: Mode, a: u64) -> u64 {
    match ty {
        Type::Float(format) => float_unary(op, format, mode, a),
        Type::Pair(format) => halves([a, 0, 0], |[a, ..]| float_unary(op, format, mode, a)),
        _ => integer::unary(op, ty, a),
    }
}

fn float_unary(op: Unary, format: Format, mode: Mode, a: u64) -> u64 {
    let a = if mode.flush { format.flushed(a) } else { a };
    // More precise than the approximations of the hardware.
    let approximate = |function: fn(f64) -> f64| {
        flush_and_saturate(
            format,
            mode,
            canonical_nan(format, format.of_f64(function(format.to_f64(a)))),
        )
    };
    match op {
        Unary::Abs => flush_and_saturate(format, mode, format.absolute(canonical_nan(format, a))),
        Unary::Neg => flush_and_saturate(format, mode, canonical_nan(format, format.negated(a))),
        Unary::Sqrt => compute(Operation::Sqrt, format, mode, [a, 0, 0]),
        Unary::Rcp => compute(Operation::Div, format, mode, [format.one(), a, 0]),
        Unary::Rsqrt => approximate(|a| 1.0 / a.sqrt()),
        Unary::Ex2 => approximate(f64::exp2),
        Unary::Lg2 => approximate(f64::log2),
        Unary::Sin => approximate(f64::sin),
        Unary::Cos => approximate(f64::cos),
        Unary::Tanh => approximate(f64::tanh),
        // The decoder refuses these.
        Unary::Not
        | Unary::LogicNot
        | Unary::Popc
        | Unary::Clz
        | Unary::Reverse
        | Unary::HighestBit(_) => a,
    }
}

/// Evaluates a binary operation. Returns `None` for an integer division by 0, whose result is undefined.
#[inline]
pub(super) fn binary(op: Binary, ty: Type, mode: Mode, a: u64, b: u64) -> Option<u64> {
    Some(match ty {
        Type::Float(format) => float_binary(op, format, mode, a, b),
        Type::Pair(format) => halves([a, b, 0], |[a, b, _]| float_binary(op, format, mode, a, b)),
        Type::IntegerPair { signed } => {
            let half = if signed {
                Type::Signed(2)
            } else {
                Type::Unsigned(2)
            };
            let of = |[a, b, _]: [u64; 3]| integer::binary(op, half, false, a, b).unwrap_or(0);
            halves([a, b, 0], of)
        }
        _ => return integer::binary(op, ty, mode.saturate, a, b),
    })
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
        Binary::Min { nan } => return min_or_max(format, mode, nan, a, b, Ordering::Less),
        Binary::Max { nan } => return min_or_max(format, mode, nan, a, b, Ordering::Greater),
        Binary::CopySign => return format.with_sign_of(b, a),
        _ => Operation::Mul,
    };
    compute(operation, format, mode, [a, b, 0])
}

/// Returns the minimum or maximum; `-0` is less than `0`. A NaN operand is ignored, or with `nan` gives NaN.
fn min_or_max(format: Format, mode: Mode, nan: bool, a: u64, b: u64, preferred: Ordering) -> u64 {
    let flushed = |bits| {
        if mode.flush {
            format.flushed(bits)
        } else {
            bits
        }
    };
    let (a, b) = (flushed(a), flushed(b));
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) => return format.nan(),
        (true, false) | (false, true) if nan => return format.nan(),
        (true, false) => return b,
        (false, true) => return a,
        _ => {}
    }
    let order = format.to_f64(a).total_cmp(&format.to_f64(b));
    if order == preferred { a } else { b }
}

pub(super) fn ternary(op: Ternary, ty: Type, mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let fused = |format, values| {
        let bits = compute(Operation::Fma, format, mode, values);
        match op {
            Ternary::FmaRelu => relu(format, bits),
            _ => bits,
        }
    };
    match ty {
        Type::Float(format) => fused(format, [a, b, c]),
        Type::Pair(format) => halves([a, b, c], |values| fused(format, values)),
        _ => integer::ternary(op, ty, a, b, c),
    }
}

/// Replaces a negative value by 0.
fn relu(format: Format, bits: u64) -> u64 {
    match format.is_negative(bits) && !format.is_nan(bits) {
        true => 0,
        false => bits,
    }
}

pub(super) fn compare(how: Comparison, ty: Type, flush: bool, a: u64, b: u64) -> bool {
    let order = match ty {
        Type::Float(format) => {
            let wide = |bits| format.to_f64(if flush { format.flushed(bits) } else { bits });
            wide(a).partial_cmp(&wide(b))
        }
        _ => Some(integer(ty, a).cmp(&integer(ty, b))),
    };
    let Some(order) = order else {
        return matches!(
            how,
            Comparison::EqualOrNan
                | Comparison::NotEqualOrNan
                | Comparison::LessOrNan
                | Comparison::LessOrEqualOrNan
                | Comparison::GreaterOrNan
                | Comparison::GreaterOrEqualOrNan
                | Comparison::OneNan
        );
    };
    match how {
        Comparison::Equal | Comparison::EqualOrNan => order.is_eq(),
        Comparison::NotEqual | Comparison::NotEqualOrNan => order.is_ne(),
        Comparison::Less | Comparison::LessOrNan => order.is_lt(),
        Comparison::LessOrEqual | Comparison::LessOrEqualOrNan => order.is_le(),
        Comparison::Greater | Comparison::GreaterOrNan => order.is_gt(),
        Comparison::GreaterOrEqual | Comparison::GreaterOrEqualOrNan => order.is_ge(),
        Comparison::BothNumbers => true,
        Comparison::OneNan => false,
    }
}

pub(super) fn test(how: TestFloat, ty: Type, bits: u64) -> bool {
    let Type::Float(format) = ty else {
        return false;
    };
    let (nan, infinite) = (format.is_nan(bits), format.is_infinite(bits));
    let subnormal = format.is_subnormal(bits);
    match how {
        TestFloat::Finite => !nan && !infinite,
        TestFloat::Infinite => infinite,
        TestFloat::Number => !nan,
        TestFloat::NotANumber => nan,
        TestFloat::Normal => !nan && !infinite && !subnormal && !format.is_zero(bits),
        TestFloat::Subnormal => subnormal,
    }
}

pub(super) fn convert(to: Type, from: Type, mode: Mode, relu_result: bool, a: u64) -> u64 {
    let small = |format: Format, bits| match mode.flush && format == Format::F32 {
        true => format.flushed(bits),
        false => bits,
    };
    match (from, to) {
        (Type::Float(of), Type::Float(format)) => {
            let a = small(of, a);
            let bits = match mode.integral {
                true => to_integral(of, mode.rounding, a),
                false => a,
            };
            let bits = small(format, narrowed(format, of, mode.rounding, bits));
            let bits = flush_and_saturate(
                format,
                Mode {
                    flush: false,
                    ..mode
                },
                bits,
            );
            match relu_result {
                true => relu(format, bits),
                false => bits,
            }
        }
        // Values out of range saturate, and NaN is 0.
        (Type::Float(of), _) => clamped(to, to_integer(of, mode.rounding, small(of, a))),
        (_, Type::Float(format)) => {
            let bits = from_integer(format, mode.rounding, integer(from, a));
            flush_and_saturate(format, mode, bits)
        }
        _ if mode.saturate => clamped(to, integer(from, a)),
        _ => trim(to, integer(from, a) as u64),
    }
}

#[cfg(test)]
mod tests;
