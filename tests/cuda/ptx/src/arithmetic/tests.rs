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
    let not_equal = Comparison::LESS | Comparison::GREATER;
    assert!(!compare(Comparison(not_equal), F32, nan, one));
    let or_nan = not_equal | Comparison::UNORDERED;
    assert!(compare(Comparison(or_nan), F32, nan, one));
    let (minus, less) = (u64::from(u32::MAX), Comparison(Comparison::LESS));
    assert!(compare(less, Type::Signed(4), minus, 0));
    assert!(!compare(less, Type::Unsigned(4), minus, 0));
}

#[test]
fn conversions_round_by_their_mode_and_saturate() {
    let of =
        |value: f32, how| convert(Type::Signed(4), F32, rounding(how), single(value)) as u32 as i32;
    assert_eq!(of(2.5, Rounding::Nearest), 2);
    assert_eq!(of(-2.5, Rounding::Zero), -2);
    assert_eq!(of(-2.5, Rounding::Down), -3);
    assert_eq!(of(1e20, Rounding::Zero), i32::MAX);
    assert_eq!(of(f32::NAN, Rounding::Zero), 0);
    assert_eq!(of(f32::NEG_INFINITY, Rounding::Zero), i32::MIN);
    let plain = Mode::default();
    let widened = convert(Type::Signed(8), Type::Signed(4), plain, 0xFFFF_FFFF);
    assert_eq!(widened, u64::MAX);
    assert_eq!(convert(Type::Signed(1), Type::Signed(4), plain, 300), 44);
    // 2^24 + 1 lies between two floats.
    let up = convert(
        F32,
        Type::Unsigned(4),
        rounding(Rounding::Up),
        (1 << 24) + 1,
    );
    assert_eq!(up, single(16_777_218.0));
}

/// A fused multiply-add that is rounded down or to zero is next to the nearest one. The interpreter has soft floats for
/// these two, and the processor's for the nearest.
#[test]
fn directed_roundings_are_next_to_the_nearest_float() {
    let mut dice = 1_u64;
    let mut roll = || {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f32::from_bits((dice >> 32) as u32)
    };
    for _ in 0..20_000 {
        let [a, b, c] = [roll(), roll(), roll()];
        let near = a.mul_add(b, c);
        if !near.is_finite() || [a, b, c].iter().any(|value| value.is_nan()) {
            continue;
        }
        let of = |how| {
            let values = [a, b, c].map(single);
            f32::from_bits(compute(Operation::Fma, Format::F32, rounding(how), values) as u32)
        };
        let (zero, down) = (of(Rounding::Zero), of(Rounding::Down));
        assert!(zero.abs() <= near.abs() && down <= near, "{a} * {b} + {c}");
        for directed in [zero, down] {
            let apart = near.to_bits().abs_diff(directed.to_bits());
            assert!(apart <= 1, "{a} * {b} + {c}: {directed} and {near}");
        }
    }
}

#[test]
fn subnormals_are_flushed_only_with_ftz() {
    let flush = Mode {
        flush: true,
        ..Mode::default()
    };
    let tiny = single(1e-40);
    let add = |mode, a, b| binary(Binary::Add, F32, mode, a, b);
    assert_eq!(add(flush, tiny, tiny), Some(0));
    assert_ne!(add(Mode::default(), tiny, tiny), Some(0));
    let saturate = Mode {
        saturate: true,
        ..Mode::default()
    };
    assert_eq!(add(saturate, single(3.0), single(1.0)), Some(single(1.0)));
    assert_eq!(add(saturate, single(3.0), single(-4.0)), Some(0));
    let nan = single(f32::NAN);
    assert_eq!(add(saturate, nan, tiny), Some(0));
    assert_eq!(add(Mode::default(), nan, tiny), Some(0x7FFF_FFFF));
}

#[test]
fn min_and_max_respect_signed_zeros_and_nan() {
    let of = |op, a, b| binary(op, F32, Mode::default(), a, b).unwrap();
    let (nan, one) = (single(f32::NAN), single(1.0));
    assert_eq!(of(Binary::Min, single(0.0), single(-0.0)), single(-0.0));
    assert_eq!(of(Binary::Max, single(-0.0), single(0.0)), 0);
    assert_eq!(of(Binary::Min, nan, one), one);
    assert_eq!(of(Binary::Max, nan, nan), 0x7FFF_FFFF);
}

/// From the table of half floats in IEEE 754.
#[test]
fn halves_are_rounded_to_eleven_bits() {
    let half = |value: f32| convert(Type::Float(F16), F32, Mode::default(), single(value));
    assert_eq!(half(1.0), 0x3C00);
    assert_eq!(half(65_504.0), 0x7BFF);
    assert_eq!(half(65_520.0), 0x7C00);
    assert_eq!(half(2049.0), half(2048.0));
    assert_eq!(half(2051.0), half(2052.0));
    assert_eq!(half(5.960_464_5e-8), 1);
    assert_eq!(half(-0.0), 0x8000);
    assert_eq!(half(f32::NAN), 0x7FFF);
    // Every half survives the conversion to a wider format and back.
    for bits in 0..1_u64 << 16 {
        for format in [F16, Format::Bf16] {
            let wide = convert(F32, Type::Float(format), Mode::default(), bits);
            let back = convert(Type::Float(format), F32, Mode::default(), wide);
            assert_eq!(back, canonical_nan(format, bits), "{bits:#x} of {format:?}");
        }
    }
}
