//! What operations compute, of integers and of floats.

use std::cmp::Ordering;

use crate::ptx::instruction::{Binary, Comparison, Ternary, TestFloat, Type, Unary};
use crate::ptx::integer::{self, clamped, integer, trim};
use crate::ptx::number::{
    Format, Mode, Operation, compute, convert as narrowed, of_integer, settled, tidy, to_integer,
    whole,
};

/// Of each half of a word.
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
    // Nearer than the hardware is where it only comes near.
    let near = |function: fn(f64) -> f64| {
        settled(
            format,
            mode,
            tidy(format, format.of(function(format.wide(a)))),
        )
    };
    match op {
        Unary::Abs => settled(format, mode, format.absolute(tidy(format, a))),
        Unary::Neg => settled(format, mode, tidy(format, format.negated(a))),
        Unary::Sqrt => compute(Operation::Sqrt, format, mode, [a, 0, 0]),
        Unary::Rcp => compute(Operation::Div, format, mode, [format.one(), a, 0]),
        Unary::Rsqrt => near(|a| 1.0 / a.sqrt()),
        Unary::Ex2 => near(f64::exp2),
        Unary::Lg2 => near(f64::log2),
        Unary::Sin => near(f64::sin),
        Unary::Cos => near(f64::cos),
        Unary::Tanh => near(f64::tanh),
        // Refused when they are decoded.
        Unary::Not
        | Unary::LogicNot
        | Unary::Popc
        | Unary::Clz
        | Unary::Reverse
        | Unary::HighestBit(_) => a,
    }
}

/// None where it is a division of integers by 0, whose result is undefined.
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
            // What is no number keeps its sign.
            let b = if format.is_nan(b) {
                b
            } else {
                format.negated(b)
            };
            return compute(Operation::Add, format, mode, [a, b, 0]);
        }
        Binary::Div => Operation::Div,
        Binary::Min { nan } => return extreme(format, mode, nan, a, b, Ordering::Less),
        Binary::Max { nan } => return extreme(format, mode, nan, a, b, Ordering::Greater),
        Binary::CopySign => return format.with_sign_of(b, a),
        _ => Operation::Mul,
    };
    compute(operation, format, mode, [a, b, 0])
}

/// The less or the greater; `-0` is less than `0`. What is no number is none of them, or, with `nan`, is the answer.
fn extreme(format: Format, mode: Mode, nan: bool, a: u64, b: u64, wanted: Ordering) -> u64 {
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
    let order = format.wide(a).total_cmp(&format.wide(b));
    if order == wanted { a } else { b }
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

/// What is negative is 0.
fn relu(format: Format, bits: u64) -> u64 {
    match format.is_negative(bits) && !format.is_nan(bits) {
        true => 0,
        false => bits,
    }
}

pub(super) fn compare(how: Comparison, ty: Type, flush: bool, a: u64, b: u64) -> bool {
    let order = match ty {
        Type::Float(format) => {
            let wide = |bits| format.wide(if flush { format.flushed(bits) } else { bits });
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

pub(super) fn convert(to: Type, from: Type, mode: Mode, negative_is_0: bool, a: u64) -> u64 {
    let small = |format: Format, bits| match mode.flush && format == Format::F32 {
        true => format.flushed(bits),
        false => bits,
    };
    match (from, to) {
        (Type::Float(of), Type::Float(format)) => {
            let a = small(of, a);
            let bits = match mode.whole {
                true => whole(of, mode.rounding, a),
                false => a,
            };
            let bits = small(format, narrowed(format, of, mode.rounding, bits));
            let bits = settled(
                format,
                Mode {
                    flush: false,
                    ..mode
                },
                bits,
            );
            match negative_is_0 {
                true => relu(format, bits),
                false => bits,
            }
        }
        // What is too large is the greatest, and no number is 0.
        (Type::Float(of), _) => clamped(to, to_integer(of, mode.rounding, small(of, a))),
        (_, Type::Float(format)) => {
            let bits = of_integer(format, mode.rounding, integer(from, a));
            settled(format, mode, bits)
        }
        _ if mode.saturate => clamped(to, integer(from, a)),
        _ => trim(to, integer(from, a) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::number::Rounding;

    const F32: Type = Type::Float(Format::F32);
    const F16: Format = Format::F16;

    fn single(value: f32) -> u64 {
        u64::from(value.to_bits())
    }

    fn rounding(rounding: Rounding) -> Mode {
        Mode {
            rounding,
            ..Mode::default()
        }
    }

    #[test]
    fn numbers_that_are_none_compare_as_nothing_but_unequal() {
        let (nan, one) = (single(f32::NAN), single(1.0));
        assert!(!compare(Comparison::NotEqual, F32, false, nan, one));
        assert!(compare(Comparison::NotEqualOrNan, F32, false, nan, one));
        assert!(compare(Comparison::OneNan, F32, false, nan, one));
        assert!(!compare(Comparison::BothNumbers, F32, false, nan, one));
        let minus = u64::from(u32::MAX);
        assert!(compare(Comparison::Less, Type::Signed(4), false, minus, 0));
        assert!(!compare(
            Comparison::Less,
            Type::Unsigned(4),
            false,
            minus,
            0
        ));
        assert!(compare(Comparison::Equal, F32, true, 1, single(-0.0)));
    }

    #[test]
    fn conversions_round_as_said_and_stop_at_the_ends() {
        let of = |value: f32, how| {
            convert(Type::Signed(4), F32, rounding(how), false, single(value)) as u32 as i32
        };
        assert_eq!(of(2.5, Rounding::Nearest), 2);
        assert_eq!(of(-2.5, Rounding::Zero), -2);
        assert_eq!(of(-2.5, Rounding::Down), -3);
        assert_eq!(of(1e20, Rounding::Zero), i32::MAX);
        assert_eq!(of(f32::NAN, Rounding::Zero), 0);
        assert_eq!(of(f32::NEG_INFINITY, Rounding::Zero), i32::MIN);
        let plain = Mode::default();
        let widened = convert(Type::Signed(8), Type::Signed(4), plain, false, 0xFFFF_FFFF);
        assert_eq!(widened, u64::MAX);
        let narrow = Mode {
            saturate: true,
            ..plain
        };
        assert_eq!(
            convert(Type::Unsigned(1), Type::Signed(4), narrow, false, 300),
            255
        );
        assert_eq!(
            convert(Type::Signed(1), Type::Signed(4), plain, false, 300),
            44
        );
        // 2^24 + 1 lies between two floats.
        let up = convert(
            F32,
            Type::Unsigned(4),
            rounding(Rounding::Up),
            false,
            (1 << 24) + 1,
        );
        assert_eq!(up, single(16_777_218.0));
    }

    /// Each rounding of sums, products and quotients lies where the exact value says.
    #[test]
    fn roundings_enclose_what_they_round() {
        let values = [
            1.0_f32,
            1.0e-8,
            3.0,
            -7.3e12,
            1.1754945e-38,
            1.4e-45,
            3.4e38,
            -0.1,
        ];
        for (a, b) in values.iter().flat_map(|a| values.map(|b| (*a, b))) {
            for op in [Binary::Add, Binary::MulLow, Binary::Div] {
                let of = |how| {
                    let bits = binary(op, F32, rounding(how), single(a), single(b));
                    f32::from_bits(bits.unwrap() as u32)
                };
                let (down, near, up) =
                    (of(Rounding::Down), of(Rounding::Nearest), of(Rounding::Up));
                assert!(
                    down <= near && near <= up,
                    "{a} {op:?} {b}: {down} {near} {up}"
                );
                let apart = up.to_bits().abs_diff(down.to_bits());
                let zeros = down == 0.0 && up == 0.0;
                assert!(apart <= 1 || zeros, "{a} {op:?} {b}: {down} {up}");
                let zero = of(Rounding::Zero);
                assert_eq!(zero.abs(), down.abs().min(up.abs()), "{a} {op:?} {b}");
                let exact = match op {
                    Binary::MulLow => f64::from(a) * f64::from(b),
                    _ => continue,
                };
                assert!(f64::from(down) <= exact && exact <= f64::from(up));
            }
        }
    }

    /// The careful way gives the bits of the processor's own.
    #[test]
    fn doubles_made_carefully_are_rounded_to_the_same_singles() {
        let mut dice = 1_u64;
        let mut roll = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (dice >> 32) as u32
        };
        for _ in 0..20_000 {
            let [a, b, c] = [roll(), roll(), roll()].map(f32::from_bits);
            let [wide_a, wide_b] = [a, b].map(|value| f64::from(value).to_bits());
            if a.is_nan() || b.is_nan() || c.is_nan() {
                continue;
            }
            // A product of singles is exact as a double: rounding that is rounding once.
            let product = compute(
                Operation::Mul,
                Format::F64,
                Mode::default(),
                [wide_a, wide_b, 0],
            );
            let once = narrowed(Format::F32, Format::F64, Rounding::Nearest, product);
            assert_eq!(once, tidy(Format::F32, single(a * b)), "{a} * {b}");
            // Towards 0, and the rest of it.
            let bits = compute(
                Operation::Fma,
                Format::F32,
                rounding(Rounding::Zero),
                [single(a), single(b), single(c)],
            );
            let zero = f32::from_bits(bits as u32);
            let near = a.mul_add(b, c);
            assert!(zero.is_nan() == near.is_nan(), "{a} * {b} + {c}");
            if !near.is_nan() && near.is_finite() {
                assert!(
                    zero.abs() <= near.abs() && near.to_bits() - zero.to_bits() <= 1,
                    "{a} * {b} + {c}"
                );
            }
            let root = compute(
                Operation::Sqrt,
                Format::F32,
                rounding(Rounding::Down),
                [single(a.abs()), 0, 0],
            );
            let (root, near) = (f32::from_bits(root as u32), a.abs().sqrt());
            assert!(
                root <= near && near.to_bits() - root.to_bits() <= 1,
                "sqrt {a}"
            );
        }
    }

    #[test]
    fn what_is_subnormal_is_flushed_where_asked() {
        let flush = Mode {
            flush: true,
            ..Mode::default()
        };
        let tiny = single(1e-40);
        assert_eq!(binary(Binary::Add, F32, flush, tiny, tiny), Some(0));
        assert_eq!(
            binary(Binary::MulLow, F32, flush, single(1e-30), single(-1e-10)),
            Some(single(-0.0))
        );
        assert_ne!(
            binary(Binary::Add, F32, Mode::default(), tiny, tiny),
            Some(0)
        );
        let saturate = Mode {
            saturate: true,
            ..Mode::default()
        };
        assert_eq!(
            binary(Binary::Add, F32, saturate, single(3.0), single(1.0)),
            Some(single(1.0))
        );
        assert_eq!(
            binary(Binary::Sub, F32, saturate, single(3.0), single(4.0)),
            Some(0)
        );
        let nan = single(f32::NAN);
        assert_eq!(binary(Binary::Add, F32, saturate, nan, tiny), Some(0));
        assert_eq!(
            binary(Binary::Add, F32, Mode::default(), nan, tiny),
            Some(0x7FFF_FFFF)
        );
    }

    #[test]
    fn the_less_and_the_greater_know_signs_of_zero_and_what_is_no_number() {
        let of = |op, a, b| binary(op, F32, Mode::default(), a, b).unwrap();
        let (nan, one) = (single(f32::NAN), single(1.0));
        assert_eq!(
            of(Binary::Min { nan: false }, single(0.0), single(-0.0)),
            single(-0.0)
        );
        assert_eq!(of(Binary::Max { nan: false }, single(-0.0), single(0.0)), 0);
        assert_eq!(of(Binary::Min { nan: false }, nan, one), one);
        assert_eq!(of(Binary::Max { nan: true }, one, nan), 0x7FFF_FFFF);
    }

    /// By the table of IEEE 754's half floats.
    #[test]
    fn halves_are_rounded_to_their_eleven_bits() {
        let half =
            |value: f32| convert(Type::Float(F16), F32, Mode::default(), false, single(value));
        assert_eq!(half(1.0), 0x3C00);
        assert_eq!(half(65_504.0), 0x7BFF);
        assert_eq!(half(65_520.0), 0x7C00);
        assert_eq!(half(2049.0), half(2048.0));
        assert_eq!(half(2051.0), half(2052.0));
        assert_eq!(half(5.960_464_5e-8), 1);
        assert_eq!(half(-0.0), 0x8000);
        assert_eq!(half(f32::NAN), 0x7FFF);
        let brain = |value: f32| {
            convert(
                Type::Float(Format::Bf16),
                F32,
                Mode::default(),
                false,
                single(value),
            )
        };
        assert_eq!((brain(1.0), brain(-2.5)), (0x3F80, 0xC020));
        // All of them come back.
        for bits in 0..1_u64 << 16 {
            for format in [F16, Format::Bf16] {
                let wide = convert(F32, Type::Float(format), Mode::default(), false, bits);
                let back = convert(Type::Float(format), F32, Mode::default(), false, wide);
                assert_eq!(back, tidy(format, bits), "{bits:#x} of {format:?}");
            }
        }
        let pair = |low: f32, high: f32| half(low) | half(high) << 16;
        let sum = binary(
            Binary::Add,
            Type::Pair(F16),
            Mode::default(),
            pair(1.5, -2.0),
            pair(0.25, 8.0),
        );
        assert_eq!(sum, Some(pair(1.75, 6.0)));
        let fused = ternary(
            Ternary::FmaRelu,
            Type::Pair(F16),
            Mode::default(),
            pair(1.0, -3.0),
            pair(2.0, 2.0),
            pair(1.0, 1.0),
        );
        assert_eq!(fused, pair(3.0, 0.0));
    }
}
