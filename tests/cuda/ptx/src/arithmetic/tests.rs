//! Tests of float arithmetic against the rules of PTX and IEEE 754.

use super::*;
use crate::number::Rounding;

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
fn nan_is_unordered_and_unequal() {
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
fn conversions_round_by_their_mode_and_saturate() {
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

/// The roundings of sums, products and quotients enclose the exact value.
#[test]
fn directed_roundings_enclose_the_exact_value() {
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
            let (down, near, up) = (of(Rounding::Down), of(Rounding::Nearest), of(Rounding::Up));
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

/// The square of a root rounded down is at most the operand, and that of a root rounded up at least.
#[test]
fn directed_roundings_enclose_the_square_root() {
    let values = [2.0, 3.0, 1e-300, 7.3e200, 1.5e-323, 0.1, 1e16 + 2.0];
    for value in values {
        let of = |how| {
            let bits = [f64::to_bits(value), 0, 0];
            f64::from_bits(compute(Operation::Sqrt, Format::F64, rounding(how), bits))
        };
        let (down, near, up) = (of(Rounding::Down), of(Rounding::Nearest), of(Rounding::Up));
        assert_eq!(down.next_up(), up, "{value} is not a square");
        assert!(near == down || near == up);
        assert_eq!(of(Rounding::Zero), down);
        // A fused multiply-add keeps the error of the product. Scaling by powers of 4 avoids underflow.
        let scale = (f64::to_bits(value) >> 52) as i32 - 1023;
        let by = 2.0_f64.powi(-(scale.max(-1000) / 2));
        let rest = |root: f64| (root * by).mul_add(root * by, -(value * by * by));
        assert!(rest(down) < 0.0 && rest(up) > 0.0, "{value}");
    }
    for how in [Rounding::Down, Rounding::Nearest, Rounding::Up] {
        let of = |format, bits| compute(Operation::Sqrt, format, rounding(how), [bits, 0, 0]);
        assert_eq!(of(Format::F64, 9.0_f64.to_bits()), 3.0_f64.to_bits());
        assert_eq!(of(Format::F32, single(-0.0)), single(-0.0));
        let none = of(Format::F32, single(-1.0));
        assert!(Format::F32.is_nan(none));
    }
    let two = |how| {
        compute(
            Operation::Sqrt,
            Format::F32,
            rounding(how),
            [single(2.0), 0, 0],
        )
    };
    assert_eq!(two(Rounding::Up), two(Rounding::Down) + 1);
}

/// The soft floats give the same bits as the processor.
#[test]
fn soft_floats_equal_the_processors_floats() {
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
        // The product of two singles is exact as a double, so rounding it rounds once.
        let product = compute(
            Operation::Mul,
            Format::F64,
            Mode::default(),
            [wide_a, wide_b, 0],
        );
        let once = narrowed(Format::F32, Format::F64, Rounding::Nearest, product);
        assert_eq!(once, canonical_nan(Format::F32, single(a * b)), "{a} * {b}");
        // Rounded towards zero.
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
fn subnormals_are_flushed_only_with_ftz() {
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
fn min_and_max_respect_signed_zeros_and_nan() {
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

/// From the table of half floats in IEEE 754.
#[test]
fn halves_are_rounded_to_eleven_bits() {
    let half = |value: f32| convert(Type::Float(F16), F32, Mode::default(), false, single(value));
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
    // Every half survives the conversion to a wider format and back.
    for bits in 0..1_u64 << 16 {
        for format in [F16, Format::Bf16] {
            let wide = convert(F32, Type::Float(format), Mode::default(), false, bits);
            let back = convert(Type::Float(format), F32, Mode::default(), false, wide);
            assert_eq!(back, canonical_nan(format, bits), "{bits:#x} of {format:?}");
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
