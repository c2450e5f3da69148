//! Tests of the computations against the rules of PTX and IEEE 754.

use super::*;
use crate::number::Rounding;

const S32: Type = Type::Signed(4);
const B32: Type = Type::Bits(4);
const U32: Type = Type::Unsigned(4);
const U64: Type = Type::Unsigned(8);
const F32: Type = Type::Float(Format::F32);

fn bits(value: i32) -> u64 {
    u64::from(value as u32)
}

fn single(value: f32) -> u64 {
    u64::from(value.to_bits())
}

fn rounding(rounding: Rounding) -> Mode {
    Mode {
        rounding,
        ..Mode::default()
    }
}

/// Computes an instruction of the table with a mode.
fn with(mode: Mode, name: &str, ty: Type, given: &[u64]) -> u64 {
    let row = ROWS.iter().find(|row| row.name == name).unwrap();
    assert_eq!(row.operands.len(), given.len());
    let mut operands = [0; 4];
    operands[..given.len()].copy_from_slice(given);
    let plain = Context::plain(ty);
    (row.function)(&Context { mode, ..plain }, operands)
}

fn of(name: &str, ty: Type, given: &[u64]) -> u64 {
    with(Mode::default(), name, ty, given)
}

fn converted(to: Type, from: Type, mode: Mode, a: u64) -> u64 {
    let plain = Context::plain(from);
    convert(&Context { to, mode, ..plain }, [a, 0, 0, 0])
}

/// Words of integers, and bytes and bits as the tables of the PTX manual have them.
#[test]
fn integers_wrap_within_their_width() {
    let most = u64::MAX;
    for (name, ty, given, expected) in [
        ("add", S32, &[bits(i32::MAX), 1][..], bits(i32::MIN)),
        ("mul.hi", S32, &[bits(-1), bits(3)], bits(-1)),
        ("mul.hi", U32, &[bits(-1), 3], 2),
        ("mul.hi", U64, &[most, most], most - 1),
        ("mul.wide", S32, &[bits(-2), 3], -6_i64 as u64),
        ("shr", S32, &[bits(-8), 1], bits(-4)),
        ("shr", U32, &[bits(-8), 40], 0),
        ("shl", U32, &[1, 32], 0),
        ("div", S32, &[bits(-7), 2], bits(-3)),
        ("rem", S32, &[bits(-7), 2], bits(-1)),
        ("mad.wide", S32, &[bits(-2), 3, 10], 4),
        ("clz", U32, &[1], 31),
        ("not", Type::Predicate, &[1], 0),
        ("bfi", U32, &[0xFF, 0, 28, 8], 0xF000_0000),
        ("bfi", U32, &[0, 0xFFFF_FFFF, 4, 8], 0xFFFF_F00F),
        (
            "prmt",
            U32,
            &[0x3322_1100, 0x7766_5544, 0x7410],
            0x7744_1100,
        ),
        ("prmt", U32, &[0x80, 0, 0x9998], 0x0000_00FF),
        ("shf.l.wrap", B32, &[0x8000_0001, 7, 33], 15),
        ("shf.l.clamp", B32, &[0x8000_0001, 7, 40], 0x8000_0001),
        ("shf.r.wrap", B32, &[0x10, 7, 4], 0x7000_0001),
        ("shf.r.clamp", B32, &[0x10, 7, 40], 7),
    ] {
        assert_eq!(of(name, ty, given), expected, "{name} {given:x?}");
    }
}

#[test]
fn extended_precision_propagates_the_carry() {
    let add = |a, b, carry| add_carrying(U32, [a, b, 0], carry);
    assert_eq!(add(0xFFFF_FFFF, 0, 1), (0, 1));
    assert_eq!(add(1, 2, 1), (4, 0));
    assert_eq!(subtract_carrying(U32, [0, 1, 0], 0), (0xFFFF_FFFF, 1));
    assert_eq!(subtract_carrying(U32, [5, 1, 0], 1), (3, 0));
    let most = u64::MAX;
    assert_eq!(high_carrying(U64, [most, most, 2], 0), (0, 1));
}

#[test]
fn nan_is_unordered_and_unequal() {
    let holds = |orders, ty, a, b| {
        let plain = Context::plain(ty);
        compare(&Context { orders, ..plain }, [a, b, 0, 0]) == 1
    };
    let (nan, one) = (single(f32::NAN), single(1.0));
    assert!(!holds(LESS | GREATER, F32, nan, one));
    assert!(holds(LESS | GREATER | UNORDERED, F32, nan, one));
    let minus = u64::from(u32::MAX);
    assert!(holds(LESS, S32, minus, 0));
    assert!(!holds(LESS, U32, minus, 0));
}

#[test]
fn conversions_round_by_their_mode_and_saturate() {
    let of = |value: f32, how| converted(S32, F32, rounding(how), single(value)) as u32 as i32;
    assert_eq!(of(2.5, Rounding::Nearest), 2);
    assert_eq!(of(-2.5, Rounding::Zero), -2);
    assert_eq!(of(-2.5, Rounding::Down), -3);
    assert_eq!(of(1e20, Rounding::Zero), i32::MAX);
    assert_eq!(of(f32::NAN, Rounding::Zero), 0);
    assert_eq!(of(f32::NEG_INFINITY, Rounding::Zero), i32::MIN);
    let plain = Mode::default();
    let widened = converted(Type::Signed(8), S32, plain, 0xFFFF_FFFF);
    assert_eq!(widened, u64::MAX);
    assert_eq!(converted(Type::Signed(1), S32, plain, 300), 44);
    // 2^24 + 1 lies between two floats.
    let up = converted(F32, U32, rounding(Rounding::Up), (1 << 24) + 1);
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
        let given = [roll(), roll(), roll()];
        let [a, b, c] = given;
        let near = a.mul_add(b, c);
        if !near.is_finite() || given.iter().any(|value| value.is_nan()) {
            continue;
        }
        let of = |how| f32::from_bits(with(rounding(how), "fma", F32, &given.map(single)) as u32);
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
    let add = |mode, a, b| with(mode, "add", F32, &[a, b]);
    assert_eq!(add(flush, tiny, tiny), 0);
    assert_ne!(add(Mode::default(), tiny, tiny), 0);
    let saturate = Mode {
        saturate: true,
        ..Mode::default()
    };
    assert_eq!(add(saturate, single(3.0), single(1.0)), single(1.0));
    assert_eq!(add(saturate, single(3.0), single(-4.0)), 0);
    let nan = single(f32::NAN);
    assert_eq!(add(saturate, nan, tiny), 0);
    assert_eq!(add(Mode::default(), nan, tiny), 0x7FFF_FFFF);
}

#[test]
fn min_and_max_respect_signed_zeros_and_nan() {
    let (nan, one) = (single(f32::NAN), single(1.0));
    let (zero, minus) = (single(0.0), single(-0.0));
    assert_eq!(of("min", F32, &[zero, minus]), minus);
    assert_eq!(of("max", F32, &[minus, zero]), 0);
    assert_eq!(of("min", F32, &[nan, one]), one);
    assert_eq!(of("max", F32, &[nan, nan]), 0x7FFF_FFFF);
}
