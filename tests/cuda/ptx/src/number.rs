//! Arithmetic of floats of every width and rounding: computed exactly, and rounded once.
//!
//! The common cases, single and double precision rounded to nearest, use the processor's floats, which give the same
//! bits. All others use `rustc_apfloat`, the compiler's soft floats.

use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

use crate::types::Format;

/// The rounding of an inexact result, or of a float to an integral value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

impl From<Rounding> for Round {
    fn from(rounding: Rounding) -> Self {
        match rounding {
            Rounding::Nearest => Self::NearestTiesToEven,
            Rounding::Zero => Self::TowardZero,
            Rounding::Down => Self::TowardNegative,
            Rounding::Up => Self::TowardPositive,
        }
    }
}

/// Evaluates an expression with `$float` as the soft float type of a format.
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

fn from_bits<F: Float>(bits: u64) -> F {
    F::from_bits(u128::from(bits))
}

fn to_bits<F: Float>(value: F) -> u64 {
    value.to_bits() as u64
}

/// The rounding and range of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mode {
    pub(super) rounding: Rounding,
    /// `.ftz`: flushes subnormal operands and results to zero.
    pub(super) flush: bool,
    /// `.sat`: clamps floats to [0, 1] with NaN as 0.
    pub(super) saturate: bool,
    /// Whether a conversion rounds to an integral value of the same format.
    pub(super) integral: bool,
}

impl Default for Mode {
    fn default() -> Self {
        Self {
            rounding: Rounding::Nearest,
            flush: false,
            saturate: false,
            integral: false,
        }
    }
}

/// A float operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Add,
    Mul,
    Div,
    Fma,
    Sqrt,
}

/// Computes an operation exactly and rounds once.
pub(super) fn compute(operation: Operation, format: Format, mode: Mode, values: [u64; 3]) -> u64 {
    let values = match mode.flush {
        true => values.map(|bits| format.flushed(bits)),
        false => values,
    };
    macro_rules! by_processor {
        ($float:ty, $bits:ty) => {{
            let [a, b, c] = values.map(|bits| <$float>::from_bits(bits as $bits));
            let result = match operation {
                Operation::Add => a + b,
                Operation::Mul => a * b,
                Operation::Div => a / b,
                Operation::Fma => a.mul_add(b, c),
                Operation::Sqrt => a.sqrt(),
            };
            u64::from(result.to_bits())
        }};
    }
    let bits = match (format, mode.rounding) {
        (Format::F32, Rounding::Nearest) => by_processor!(f32, u32),
        (Format::F64, Rounding::Nearest) => by_processor!(f64, u64),
        _ => compute_soft(operation, format, mode.rounding, values),
    };
    finish(format, mode, bits, values)
}

/// Converts a result to its stored form: makes NaN canonical, and applies the mode.
fn finish(format: Format, mode: Mode, bits: u64, values: [u64; 3]) -> u64 {
    if format.is_nan(bits) {
        if mode.saturate {
            return 0;
        }
        // Doubles propagate the NaN of an operand.
        let given = values.into_iter().find(|bits| format.is_nan(*bits));
        return match (format, given) {
            (Format::F64, Some(given)) => given | 1 << 51,
            _ => format.nan(),
        };
    }
    flush_and_saturate(format, mode, bits)
}

/// Flushes and saturates a result.
pub(super) fn flush_and_saturate(format: Format, mode: Mode, bits: u64) -> u64 {
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
    /// Converts to a double. Exact, because no format is wider.
    pub(super) fn to_f64(self, bits: u64) -> f64 {
        match self {
            Format::F32 => f64::from(f32::from_bits(bits as u32)),
            Format::F64 => f64::from_bits(bits),
            _ => f64::from_bits(convert(Format::F64, self, Rounding::Nearest, bits)),
        }
    }

    /// Converts from a double, rounding to nearest.
    pub(super) fn of_f64(self, value: f64) -> u64 {
        match self {
            Format::F32 => canonical_nan(self, u64::from((value as f32).to_bits())),
            _ => convert(self, Format::F64, Rounding::Nearest, value.to_bits()),
        }
    }
}

/// Makes a NaN canonical.
pub(super) fn canonical_nan(format: Format, bits: u64) -> u64 {
    match format.is_nan(bits) {
        true => format.nan(),
        false => bits,
    }
}

fn compute_soft(operation: Operation, format: Format, rounding: Rounding, values: [u64; 3]) -> u64 {
    with_type!(format, F => {
        let [a, b, c] = values.map(from_bits::<F>);
        let round = rounding.into();
        let result = match operation {
            Operation::Add => a.add_r(b, round),
            Operation::Mul => a.mul_r(b, round),
            Operation::Div => a.div_r(b, round),
            Operation::Fma => a.mul_add_r(b, c, round),
            // The decoder accepts square roots only to nearest.
            Operation::Sqrt => return format.of_f64(format.to_f64(values[0]).sqrt()),
        };
        to_bits(result.value)
    })
}

/// Converts between formats.
pub(super) fn convert(to: Format, from: Format, rounding: Rounding, bits: u64) -> u64 {
    if from.is_nan(bits) {
        return to.nan();
    }
    // Exact, because no format is wider.
    let wide: Double = with_type!(from, F => from_bits::<F>(bits).convert(&mut false).value);
    with_type!(to, F => {
        let value: F = wide.convert_r(rounding.into(), &mut false).value;
        to_bits(value)
    })
}

/// Rounds to an integral value.
fn round_to_integral(rounding: Rounding, value: f64) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// Rounds to an integral value of the same format.
pub(super) fn to_integral(format: Format, rounding: Rounding, bits: u64) -> u64 {
    match format.is_nan(bits) {
        true => format.nan(),
        false => format.of_f64(round_to_integral(rounding, format.to_f64(bits))),
    }
}

/// Converts to an integer. NaN is 0, and a value out of range is beyond the limits of every type.
pub(super) fn to_integer(format: Format, rounding: Rounding, bits: u64) -> i128 {
    round_to_integral(rounding, format.to_f64(bits)) as i128
}

/// Converts from an integer.
pub(super) fn from_integer(format: Format, rounding: Rounding, value: i128) -> u64 {
    with_type!(format, F => to_bits(F::from_i128_r(value, rounding.into()).value))
}
