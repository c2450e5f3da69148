//! Floats of every width, rounded as asked: computed exactly, and rounded once.
//!
//! The processor's own floats do the common cases, which are the same bits: single and double, to the nearest. The
//! rest is done by `rustc_apfloat`, the compiler's own arithmetic; it has no square root, which is here.

use std::cmp::Ordering;

use rustc_apfloat::ieee::{BFloat, Double, Half, IeeeFloat, Quad, Semantics, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

pub(super) use crate::format::Format;

/// Where a result goes that is between two floats, or a float that is to be whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    Nearest,
    /// To the nearest, and what is half way away from 0.
    NearestAway,
    Zero,
    Down,
    Up,
}

impl From<Rounding> for Round {
    fn from(rounding: Rounding) -> Self {
        match rounding {
            Rounding::Nearest => Self::NearestTiesToEven,
            Rounding::NearestAway => Self::NearestTiesToAway,
            Rounding::Zero => Self::TowardZero,
            Rounding::Down => Self::TowardNegative,
            Rounding::Up => Self::TowardPositive,
        }
    }
}

/// Tensor floats, the upper 19 bits of a single.
struct TensorFloat;

impl Semantics for TensorFloat {
    const BITS: usize = 19;
    const EXP_BITS: usize = 8;
}

/// Evaluates an expression with `$float` as the type of a format's floats.
macro_rules! with_type {
    ($format:expr, $float:ident => $value:expr) => {
        match $format {
            Format::F16 => {
                type $float = Half;
                $value
            }
            Format::Bf16 => {
                type $float = BFloat;
                $value
            }
            Format::Tf32 => {
                type $float = IeeeFloat<TensorFloat>;
                $value
            }
            Format::F32 => {
                type $float = Single;
                $value
            }
            Format::F64 => {
                type $float = Double;
                $value
            }
        }
    };
}

fn from_bits<F: Float>(format: Format, bits: u64) -> F {
    F::from_bits(u128::from(bits >> format.unused_bits()))
}

fn to_bits<F: Float>(format: Format, value: F) -> u64 {
    (value.to_bits() as u64) << format.unused_bits()
}

/// How an operation treats floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mode {
    pub(super) rounding: Rounding,
    /// `.ftz`: what is subnormal is 0, before and after.
    pub(super) flush: bool,
    /// `.sat`: from 0 to 1, and what is no number is 0; of integers, within bounds.
    pub(super) saturate: bool,
    /// A conversion to a whole number of the same kind of float.
    pub(super) whole: bool,
}

impl Default for Mode {
    fn default() -> Self {
        Self {
            rounding: Rounding::Nearest,
            flush: false,
            saturate: false,
            whole: false,
        }
    }
}

/// An operation of floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Add,
    Mul,
    Div,
    Fma,
    Sqrt,
}

/// Exactly what the operation is, rounded once.
pub(super) fn compute(operation: Operation, format: Format, mode: Mode, values: [u64; 3]) -> u64 {
    let values = match mode.flush {
        true => values.map(|bits| format.flushed(bits)),
        false => values,
    };
    let bits = match (format, mode.rounding) {
        (Format::F32, Rounding::Nearest) => {
            let [a, b, c] = values.map(|bits| f32::from_bits(bits as u32));
            u64::from(
                match operation {
                    Operation::Add => a + b,
                    Operation::Mul => a * b,
                    Operation::Div => a / b,
                    Operation::Fma => a.mul_add(b, c),
                    Operation::Sqrt => a.sqrt(),
                }
                .to_bits(),
            )
        }
        (Format::F64, Rounding::Nearest) => {
            let [a, b, c] = values.map(f64::from_bits);
            match operation {
                Operation::Add => a + b,
                Operation::Mul => a * b,
                Operation::Div => a / b,
                Operation::Fma => a.mul_add(b, c),
                Operation::Sqrt => a.sqrt(),
            }
            .to_bits()
        }
        _ => carefully(operation, format, mode.rounding, values),
    };
    finished(format, mode, bits, values)
}

/// A result as it is stored: what is no number in the one form that it has, the rest as the mode says.
fn finished(format: Format, mode: Mode, bits: u64, values: [u64; 3]) -> u64 {
    if format.is_nan(bits) {
        if mode.saturate {
            return 0;
        }
        // Doubles hand on what they were given.
        let given = values.into_iter().find(|bits| format.is_nan(*bits));
        return match (format, given) {
            (Format::F64, Some(given)) => given | 1 << 51,
            _ => format.nan(),
        };
    }
    settled(format, mode, bits)
}

/// Flushed and saturated.
pub(super) fn settled(format: Format, mode: Mode, bits: u64) -> u64 {
    let bits = if mode.flush {
        format.flushed(bits)
    } else {
        bits
    };
    match mode.saturate {
        true if format.is_nan(bits) || format.is_negative(bits) => 0,
        true => bits.min(format.one()),
        false => bits,
    }
}

impl Format {
    /// As a double: exactly, since none is wider.
    pub(super) fn wide(self, bits: u64) -> f64 {
        match self {
            Format::F32 | Format::Tf32 => f64::from(f32::from_bits(bits as u32)),
            Format::F64 => f64::from_bits(bits),
            _ => f64::from_bits(convert(Format::F64, self, Rounding::Nearest, bits)),
        }
    }

    /// Of a double, to the nearest.
    pub(super) fn of(self, value: f64) -> u64 {
        match self {
            Format::F32 => tidy(self, u64::from((value as f32).to_bits())),
            _ => convert(self, Format::F64, Rounding::Nearest, value.to_bits()),
        }
    }
}

/// In the one form that what is no number has.
pub(super) fn tidy(format: Format, bits: u64) -> u64 {
    match format.is_nan(bits) {
        true => format.nan(),
        false => bits,
    }
}

fn carefully(operation: Operation, format: Format, rounding: Rounding, values: [u64; 3]) -> u64 {
    if operation == Operation::Sqrt {
        return root(format, rounding, values[0]);
    }
    with_type!(format, F => {
        let [a, b, c] = values.map(|bits| from_bits::<F>(format, bits));
        let round = rounding.into();
        let result = match operation {
            Operation::Add => a.add_r(b, round),
            Operation::Mul => a.mul_r(b, round),
            Operation::Div => a.div_r(b, round),
            Operation::Fma | Operation::Sqrt => a.mul_add_r(b, c, round),
        };
        to_bits(format, result.value)
    })
}

/// The square root. That of a format with at most 25 bits, as a double, is exact or lies strictly between two floats
/// of the format and no half way: a double has more than twice as many, and rounding it once more is rounding once.
fn root(format: Format, rounding: Rounding, bits: u64) -> u64 {
    let value = format.wide(bits);
    let near = value.sqrt();
    if format != Format::F64 || !near.is_finite() {
        return convert(format, Format::F64, rounding, near.to_bits());
    }
    // The square of a double is exact with 113 bits.
    let [value, root] = [value, near].map(|value| -> Quad {
        let value = Double::from_bits(u128::from(value.to_bits()));
        value.convert(&mut false).value
    });
    let root = match ((root * root).value.partial_cmp(&value), rounding) {
        (Some(Ordering::Less), Rounding::Up) => near.next_up(),
        (Some(Ordering::Greater), Rounding::Down | Rounding::Zero) => near.next_down(),
        _ => near,
    };
    root.to_bits()
}

/// From one kind of float to another.
pub(super) fn convert(to: Format, from: Format, rounding: Rounding, bits: u64) -> u64 {
    if from.is_nan(bits) {
        return to.nan();
    }
    // Exactly, since no format is wider.
    let wide: Double = with_type!(from, F => from_bits::<F>(from, bits).convert(&mut false).value);
    with_type!(to, F => {
        let value: F = wide.convert_r(rounding.into(), &mut false).value;
        to_bits(to, value)
    })
}

/// Rounded to a whole number.
fn rounded(rounding: Rounding, value: f64) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// As a whole number of the same kind.
pub(super) fn whole(format: Format, rounding: Rounding, bits: u64) -> u64 {
    match format.is_nan(bits) {
        true => format.nan(),
        false => format.of(rounded(rounding, format.wide(bits))),
    }
}

/// As an integer; what is no number is 0, what is too large is larger than any.
pub(super) fn to_integer(format: Format, rounding: Rounding, bits: u64) -> i128 {
    rounded(rounding, format.wide(bits)) as i128
}

/// Of an integer.
pub(super) fn of_integer(format: Format, rounding: Rounding, value: i128) -> u64 {
    with_type!(format, F => to_bits(format, F::from_i128_r(value, rounding.into()).value))
}
