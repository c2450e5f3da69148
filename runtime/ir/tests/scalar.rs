//! The reference of operations, compared with independent definitions: unbounded integers, neighbouring floats, series.
#![allow(clippy::unwrap_used, reason = "tests unwrap values that they expect")]

use half::{bf16, f16};
use millstream_ir::scalar::{self, Number};
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};
use millstream_ir_text::naive;
use proptest::prelude::*;

const WHOLE: [DType; 8] = [
    DType::I64,
    DType::U64,
    DType::I32,
    DType::U32,
    DType::I16,
    DType::U16,
    DType::I8,
    DType::U8,
];

/// Returns the result of an operation on unbounded integers.
fn unbounded(op: BinaryOp, a: i128, b: i128, bits: i128) -> i128 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div => a.checked_div(b).unwrap_or(0),
        BinaryOp::Rem => a.checked_rem(b).unwrap_or(0),
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Shl if (0..bits).contains(&b) => a << b,
        BinaryOp::Shl => 0,
        BinaryOp::Shr if (0..bits).contains(&b) => a >> b,
        BinaryOp::Shr => a >> 127,
        other => panic!("{other} of integers"),
    }
}

/// Random bits, and some ends of types and small numbers.
fn word() -> impl Strategy<Value = u64> {
    let ends = prop::sample::select(vec![7_u32, 8, 15, 16, 31, 32, 63]);
    prop_oneof![
        any::<u64>(),
        (-70_i64..70).prop_map(|small| small as u64),
        (ends, -2_i64..2).prop_map(|(end, by)| (1_u64 << end).wrapping_add(by as u64)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn integer_operations_are_unbounded_ones_truncated_to_the_type(a in word(), b in word()) {
        for dtype in WHOLE {
            let [a, b] = [a, b].map(|word| scalar::of_word(dtype, word));
            let [x, y] = [a, b].map(|bits| Number::of(dtype, bits).whole());
            let cut = |whole: i128| scalar::of_word(dtype, whole as u64);
            for op in &BinaryOp::ALL {
                let Some(of) = scalar::binary(*op, dtype) else { continue };
                let want = cut(unbounded(*op, x, y, 8 * dtype.size() as i128));
                prop_assert_eq!(of(a, b), want, "{} {} {} of {}", x, op, y, dtype);
            }
            let unary = |op| scalar::unary(op, dtype).unwrap()(a);
            prop_assert_eq!(unary(UnaryOp::Neg), cut(-x));
            prop_assert_eq!(unary(UnaryOp::Abs), cut(x.abs()));
            prop_assert_eq!(unary(UnaryOp::Not), cut(!x));
            for (op, want) in [(CompareOp::Eq, x == y), (CompareOp::Ne, x != y), (CompareOp::Lt, x < y),
                (CompareOp::Le, x <= y), (CompareOp::Gt, x > y), (CompareOp::Ge, x >= y)] {
                prop_assert_eq!(scalar::compare(op, dtype)(a, b), u64::from(want));
            }
            for to in WHOLE {
                prop_assert_eq!(scalar::cast(dtype, to)(a), scalar::of_word(to, x as u64));
            }
        }
    }

    /// Numbers of few bits, many of them halfway between two halves, and their neighbours in 64 bits.
    #[test]
    fn cast_to_a_half_rounds_once_to_nearest_even(
        few in 0_u64..1 << 13, exponent in -40_i32..60, by in -1_i64..2, negative: bool,
    ) {
        let float = few as f64 * 2_f64.powi(exponent);
        let float = f64::from_bits(float.to_bits().saturating_add_signed(by));
        let whole = i64::saturating_add((few << (exponent.unsigned_abs() % 40)) as i64, by);
        let sign = if negative { -1 } else { 1 };
        let numbers = [
            (DType::F64, Number::Float(float * f64::from(sign))),
            (DType::F32, Number::Float(f64::from(float as f32) * f64::from(sign))),
            (DType::I64, Number::Whole(i128::from(whole * i64::from(sign)))),
        ];
        for (from, exact) in numbers {
            for to in [DType::F16, DType::Bf16] {
                let found = scalar::cast(from, to)(exact.bits(from));
                prop_assert!(is_nearest(exact, to, found), "{:?} as {} is {:#x}", exact, to, found);
            }
        }
    }

    #[test]
    fn cast_of_any_bits_returns_the_nearest_float(bits in any::<u64>()) {
        for from in DType::ALL {
            let bits = scalar::of_word(from, bits);
            let exact = Number::of(from, bits);
            for to in [DType::F16, DType::Bf16] {
                let found = scalar::cast(from, to)(bits);
                prop_assert!(is_nearest(exact, to, found), "{:?} as {} is {:#x}", exact, to, found);
            }
        }
        let wide = f64::from_bits(bits);
        let narrow = f32::from_bits(scalar::cast(DType::F64, DType::F32)(bits) as u32);
        prop_assert!(narrow.to_bits() == (wide as f32).to_bits() || wide.is_nan() && narrow.is_nan());
    }
}

/// Returns `true` if no neighbour is nearer, and ties are even.
fn is_nearest(exact: Number, to: DType, found: u64) -> bool {
    let place = |bits: u64| match to {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        _ => bf16::from_bits(bits as u16).to_f64(),
    };
    let x = exact.float();
    if x.is_nan() {
        return place(found).is_nan();
    }
    let (magnitude, infinity) = (found & 0x7fff, place_of_infinity(to));
    if found >> 15 != u64::from(x.is_sign_negative()) || magnitude > infinity {
        return false;
    }
    // The place of infinity, if exponents continued.
    let line = |bits: u64| match bits == infinity {
        true => 2.0 * place(infinity - 1) - place(infinity - 2),
        false => place(bits),
    };
    let x = x.abs();
    let away = |bits: u64| (line(bits) - x).abs();
    let beats = |other: u64| {
        let (mine, theirs) = (away(magnitude), away(other));
        mine < theirs || (mine == theirs && magnitude.is_multiple_of(2))
    };
    let is_beyond = magnitude == infinity && x >= line(infinity);
    is_beyond
        || (magnitude == 0 || beats(magnitude - 1))
            && (magnitude == infinity || beats(magnitude + 1))
}

fn place_of_infinity(dtype: DType) -> u64 {
    match dtype {
        DType::F16 => 0x7c00,
        _ => 0x7f80,
    }
}

#[test]
fn operation_has_a_function_exactly_if_it_supports_the_type() {
    for dtype in DType::ALL {
        for op in &UnaryOp::ALL {
            let there = scalar::unary(*op, dtype).is_some();
            assert_eq!(there, op.takes(dtype), "{op} of {dtype}");
        }
        for op in &BinaryOp::ALL {
            let there = scalar::binary(*op, dtype).is_some();
            assert_eq!(there, op.takes(dtype), "{op} of {dtype}");
        }
    }
}

/// Within the domain the result is a number, outside it is NaN.
#[test]
fn functions_are_numbers_exactly_in_their_domain() {
    for op in UnaryOp::ALL.iter().filter(|op| op.takes(DType::F64)) {
        let of = scalar::unary(*op, DType::F64).unwrap();
        let of = |x: f64| f64::from_bits(of(x.to_bits()));
        let [least, most] = op.domain();
        for step in -400..=400 {
            let x = f64::from(step) / 16.0;
            let is_within = (least..=most).contains(&x);
            assert_eq!(!of(x).is_nan(), is_within, "{op} {x}");
        }
        assert!(of(f64::NAN).is_nan(), "{op}");
    }
}

/// Functions of `f32` are those of `f64`, rounded once.
#[test]
fn f32_functions_are_f64_functions_rounded_once() {
    for op in UnaryOp::ALL.iter().filter(|op| op.takes(DType::F32)) {
        let [single, twice] = [DType::F32, DType::F64].map(|it| scalar::unary(*op, it).unwrap());
        for bits in (0..u32::MAX).step_by(40_013) {
            let x = f32::from_bits(bits);
            let found = f32::from_bits(single(bits.into()) as u32);
            let want = f64::from_bits(twice(f64::from(x).to_bits())) as f32;
            let same = found.to_bits() == want.to_bits() || (found.is_nan() && want.is_nan());
            assert!(same, "{op} {x:e} is {found:e}, not {want:e}");
        }
    }
}

/// Computes the error function by its series near zero and its continued fraction elsewhere.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a < 3.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let fraction = (1..200)
        .rev()
        .fold(0.0, |f, n| f64::from(n) / 2.0 / (a + f));
    let rest = (-a * a).exp() / ((a + fraction) * std::f64::consts::PI.sqrt());
    x.signum() * (1.0 - rest)
}

#[test]
fn error_function_agrees_with_its_series() {
    let of = scalar::unary(UnaryOp::Erf, DType::F64).unwrap();
    for step in -700..700 {
        let x = f64::from(step) / 100.0;
        let found = f64::from_bits(of(x.to_bits()));
        assert!((found - erf(x)).abs() < 1e-13, "erf {x} is {found}");
    }
}

#[test]
fn functions_have_their_known_values() {
    for op in UnaryOp::ALL.iter().filter(|op| op.takes(DType::F64)) {
        let [x, want] = op.known().unwrap();
        let found = scalar::unary(*op, DType::F64).unwrap()(x.to_bits());
        let found = f64::from_bits(found);
        assert!((found - want).abs() <= 2e-16, "{op} {x} is {found}");
    }
    let known = [
        (BinaryOp::Add, 0.5, 2.5, 3.0),
        (BinaryOp::Sub, 0.5, 2.5, -2.0),
        (BinaryOp::Mul, 0.5, 2.5, 1.25),
        (BinaryOp::Div, 5.0, -2.0, -2.5),
        (BinaryOp::Rem, -5.5, 2.0, -1.5),
        (BinaryOp::Min, 0.5, -2.5, -2.5),
        (BinaryOp::Max, 0.5, -2.5, 0.5),
        (BinaryOp::Pow, 2.5, 2.0, 6.25),
    ];
    for dtype in [DType::F64, DType::F32] {
        for (op, x, y, want) in known {
            let [a, b] = [x, y].map(|x| Number::Float(x).bits(dtype));
            let of = scalar::binary(op, dtype).unwrap();
            assert_eq!(Number::of(dtype, of(a, b)), Number::Float(want), "{op}");
            let nan = Number::Float(f64::NAN).bits(dtype);
            for (a, b) in [(a, nan), (nan, b), (nan, nan)] {
                assert!(Number::of(dtype, of(a, b)).is_nan(), "{op} of NaN");
            }
        }
        let fma = scalar::fma(dtype).unwrap();
        let [a, b, c] = [1.5, -2.0, 0.25].map(|x| Number::Float(x).bits(dtype));
        assert_eq!(Number::of(dtype, fma(a, b, c)), Number::Float(-2.75));
    }
}

#[test]
fn only_ne_is_true_of_nan() {
    for dtype in DType::ALL.into_iter().filter(|it| it.is_float()) {
        let [nan, one] = [f64::NAN, 1.0].map(|x| Number::Float(x).bits(dtype));
        for op in &CompareOp::ALL {
            let of = scalar::compare(*op, dtype);
            for (a, b) in [(nan, nan), (nan, one), (one, nan)] {
                assert_eq!(of(a, b) == 1, *op == CompareOp::Ne, "{op}");
            }
            let is_one = matches!(op, CompareOp::Eq | CompareOp::Le | CompareOp::Ge);
            assert_eq!(of(one, one) == 1, is_one, "{op}");
        }
    }
}

#[test]
fn cast_of_floats_to_integers_truncates_and_saturates() {
    for dtype in WHOLE {
        let bits = 8 * dtype.size() as u32;
        let is_signed = matches!(dtype, DType::I64 | DType::I32 | DType::I16 | DType::I8);
        let (least, most) = match is_signed {
            true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
            false => (0, (1_i128 << bits) - 1),
        };
        let cast = |x: f64| Number::of(dtype, Number::Float(x).bits(dtype)).whole();
        assert_eq!([cast(1e30), cast(f64::INFINITY)], [most; 2], "{dtype}");
        assert_eq!(
            [cast(-1e30), cast(f64::NEG_INFINITY)],
            [least; 2],
            "{dtype}"
        );
        assert_eq!(cast(f64::NAN), 0);
        assert_eq!([cast(2.9), cast(-2.9)], [2, least.max(-2)]);
    }
    for (x, want) in [(0.0, 0), (-0.0, 0), (0.25, 1), (f64::NAN, 1)] {
        assert_eq!(Number::Float(x).bits(DType::Bool), want);
    }
}

#[test]
fn reductions_have_their_neutral_elements_and_results() {
    let of = |op: ReduceOp, dtype: DType, values: &[f64]| {
        let bits = values.iter().map(|x| Number::Float(*x).bits(dtype));
        Number::of(op.output(dtype), naive::reduce(op, dtype, bits))
    };
    type Row = (ReduceOp, &'static [f64], f64);
    let rows: [Row; 10] = [
        (ReduceOp::Sum, &[], 0.0),
        (ReduceOp::Prod, &[], 1.0),
        (ReduceOp::ArgMin, &[], 0.0),
        (ReduceOp::ArgMax, &[], 0.0),
        (ReduceOp::Sum, &[2.0, 3.0, 4.0], 9.0),
        (ReduceOp::Prod, &[2.0, 3.0, 4.0], 24.0),
        (ReduceOp::Min, &[3.0, 2.0, 2.0, 4.0], 2.0),
        (ReduceOp::Max, &[3.0, 4.0, 4.0, 2.0], 4.0),
        (ReduceOp::ArgMin, &[3.0, 2.0, 2.0, 4.0], 1.0),
        (ReduceOp::ArgMax, &[3.0, 4.0, 4.0, 2.0], 1.0),
    ];
    for dtype in DType::ALL {
        for (op, values, want) in rows
            .iter()
            .filter(|row| row.0.takes(dtype) && dtype != DType::Bool)
        {
            assert_eq!(of(*op, dtype, values).float(), *want, "{op} of {dtype}");
        }
        if ReduceOp::Min.takes(dtype) {
            let ends = [f64::INFINITY, f64::NEG_INFINITY]
                .map(|x| Number::of(dtype, Number::Float(x).bits(dtype)));
            let ends = if dtype == DType::Bool {
                [1, 0].map(Number::Whole)
            } else {
                ends
            };
            assert_eq!(
                [ReduceOp::Min, ReduceOp::Max].map(|op| of(op, dtype, &[])),
                ends
            );
        }
    }
    // The first NaN wins; an intermediate sum exceeds the precision of `f32`.
    let nan = [1.0, f64::NAN, 0.0, f64::NAN];
    assert_eq!(of(ReduceOp::ArgMin, DType::F32, &nan), Number::Whole(1));
    assert_eq!(of(ReduceOp::ArgMax, DType::F32, &nan), Number::Whole(1));
    assert!(of(ReduceOp::Max, DType::F32, &nan).is_nan());
    let far = [16_777_216.0, 1.0, 1.0, -16_777_216.0];
    assert_eq!(of(ReduceOp::Sum, DType::F32, &far), Number::Float(2.0));
    assert_eq!(
        of(ReduceOp::Sum, DType::U8, &[200.0, 100.0]),
        Number::Whole(44)
    );
}

#[test]
fn dot_product_is_wide_for_floats_and_wraps_for_integers() {
    let of = |dtype, pairs: [(f64, f64); 3]| {
        let bits = |x: f64| Number::Float(x).bits(dtype);
        let pairs = pairs.into_iter().map(|(a, b)| (bits(a), bits(b)));
        Number::of(dtype, naive::dot(dtype, pairs))
    };
    let far = [(4096.0, 4096.0), (1.0, 1.0), (-4096.0, 4096.0)];
    assert_eq!(of(DType::F32, far), Number::Float(1.0));
    assert_eq!(
        of(DType::U8, [(20.0, 20.0), (3.0, 1.0), (0.0, 9.0)]),
        Number::Whole(147)
    );
}

/// The one known answer of the authors whose counter fits.
#[test]
fn philox_gives_the_known_answer() {
    assert_eq!(scalar::random(0, 0), 0x6627_e8d5);
}

#[test]
fn stored_element_is_loaded_again_with_the_same_bits() {
    for dtype in DType::ALL {
        let mut bytes = [0xee; 9];
        let bits = Number::Whole(1).bits(dtype);
        scalar::store(dtype, bits, &mut bytes);
        assert_eq!(scalar::load(dtype, &bytes), bits);
        assert_eq!(bytes[dtype.size()], 0xee);
    }
    assert_eq!(scalar::load(DType::Bool, &[7]), 1);
    assert_eq!([scalar::select(1, 5, 6), scalar::select(0, 5, 6)], [5, 6]);
}
