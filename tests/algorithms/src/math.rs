//! Functions of numbers, compared with Rust's: on random and on hard operands, by threads alone and by cubes.
//!
//! With `MILLSTREAM_MEASURE=1` the greatest differences are printed.

#![allow(
    clippy::suboptimal_flops,
    reason = "the operations are those that Rust's functions are documented with"
)]

use millstream::prelude::*;
use millstream::{bf16, f16};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::{Checked, equal};

/// The results of a thread.
const RESULTS: usize = 34;
const INTEGER_RESULTS: usize = 27;

/// All functions of a float.
#[kernel]
pub fn functions_of_a_float<T: Float>(x: T, y: T, n: i32) -> [T; RESULTS] {
    let (zero, one) = (0 as T, 1 as T);
    let (sine, cosine) = x.sin_cos();
    [
        x.round(),
        x.trunc(),
        x.fract(),
        x.signum(),
        x.copysign(y),
        x.recip(),
        x.to_degrees(),
        x.to_radians(),
        x.rem_euclid(y),
        if x.is_finite() { one } else { zero },
        if x.is_infinite() { one } else { zero },
        if x.is_sign_negative() { one } else { zero },
        if x.is_sign_positive() { one } else { zero },
        x.powi(n),
        x.powi(3),
        x.powi(-2),
        x.hypot(y),
        x.tan(),
        x.atan(),
        x.atan2(y),
        x.asin(),
        x.acos(),
        x.sinh(),
        x.cosh(),
        x.exp2(),
        x.log2(),
        x.log10(),
        x.log(y),
        sine,
        cosine,
        x.exp(),
        x.ln(),
        x.tanh(),
        x.powf(y),
    ]
}

/// By threads alone.
#[kernel]
pub fn of_floats<T: Float>(x: &[T], y: &[T], n: &[i32], results: &mut [T]) {
    let i = thread();
    let all = functions_of_a_float(x[i], y[i], n[i]);
    for k in 0..RESULTS {
        results[i * RESULTS + k] = all[k];
    }
}

/// By cubes, which the CPU runs as a program.
#[kernel(cube = 64)]
pub fn of_floats_by_cubes<T: Float>(x: &[T], y: &[T], n: &[i32], results: &mut [T]) {
    let i = thread();
    if i < x.len() {
        let all = functions_of_a_float(x[i], y[i], n[i]);
        for k in 0..RESULTS {
            results[i * RESULTS + k] = all[k];
        }
    }
}

/// What Rust computes in `f64`, or in the type itself for functions of which all bits are known.
struct Expected<T> {
    name: &'static str,
    /// The greatest difference in units in the last place.
    units: u64,
    of: fn(T, T, i32) -> T,
}

/// A float of a kernel, as the checks need it.
trait Checks: Float + millstream::Element {
    /// The functions, in the order of the kernel's results.
    fn all() -> [Expected<Self>; RESULTS];
    fn of_f64(value: f64) -> Self;
    /// The bits in the order of the numbers.
    fn order(self) -> i64;
    fn is_nan(self) -> bool;
}

macro_rules! checks {
    ($($t:ident $word:ident: $own:ident, [$($units:literal),*];)*) => {$(
        impl Checks for $t {
            fn all() -> [Expected<Self>; RESULTS] {
                type Own = $own;
                let mut units = [$($units),*].into_iter();
                macro_rules! own {
                    ($name:literal, |$x:ident, $y:ident, $n:ident| $of:expr) => {
                        Expected { name: $name, units: 0, of: |x, y, n| {
                            let ($x, $y, $n) = (Own::from(x), Own::from(y), std::hint::black_box(n));
                            let _ = (&$x, &$y, $n);
                            let value: Own = $of;
                            checks!(@ value, $own as $t)
                        }}
                    };
                }
                macro_rules! wide {
                    ($name:literal, |$x:ident, $y:ident| $of:expr) => {
                        Expected { name: $name, units: units.next().expect("each has its units"), of: |x, y, _| {
                            let ($x, $y) = (f64::from(x), f64::from(y));
                            let _ = (&$x, &$y);
                            $t::of_f64($of)
                        }}
                    };
                }
                let of_bool = |holds: bool| if holds { 1.0 } else { 0.0 };
                let _: fn(bool) -> f64 = of_bool;
                [
                    own!("round", |x, y, n| x.round()),
                    own!("trunc", |x, y, n| x.trunc()),
                    own!("fract", |x, y, n| x.fract()),
                    own!("signum", |x, y, n| x.signum()),
                    own!("copysign", |x, y, n| x.copysign(y)),
                    own!("recip", |x, y, n| x.recip()),
                    own!("to_degrees", |x, y, n| x.to_degrees()),
                    own!("to_radians", |x, y, n| x.to_radians()),
                    own!("rem_euclid", |x, y, n| x.rem_euclid(y)),
                    own!("is_finite", |x, y, n| Own::from(u8::from(x.is_finite()))),
                    own!("is_infinite", |x, y, n| Own::from(u8::from(x.is_infinite()))),
                    own!("is_sign_negative", |x, y, n| Own::from(u8::from(x.is_sign_negative()))),
                    own!("is_sign_positive", |x, y, n| Own::from(u8::from(x.is_sign_positive()))),
                    own!("powi", |x, y, n| x.powi(n)),
                    own!("powi(3)", |x, y, n| x * (x * x)),
                    own!("powi(-2)", |x, y, n| 1.0 / (x * x)),
                    wide!("hypot", |x, y| x.hypot(y)),
                    wide!("tan", |x, y| x.tan()),
                    wide!("atan", |x, y| x.atan()),
                    wide!("atan2", |x, y| x.atan2(y)),
                    wide!("asin", |x, y| x.asin()),
                    wide!("acos", |x, y| x.acos()),
                    wide!("sinh", |x, y| x.sinh()),
                    wide!("cosh", |x, y| x.cosh()),
                    wide!("exp2", |x, y| x.exp2()),
                    wide!("log2", |x, y| x.log2()),
                    wide!("log10", |x, y| x.log10()),
                    wide!("log", |x, y| x.log(y)),
                    wide!("sin", |x, y| x.sin()),
                    wide!("cos", |x, y| x.cos()),
                    wide!("exp", |x, y| x.exp()),
                    wide!("ln", |x, y| x.ln()),
                    wide!("tanh", |x, y| x.tanh()),
                    wide!("powf", |x, y| x.powf(y)),
                ]
            }

            fn of_f64(value: f64) -> Self {
                checks!(@ value, $t)
            }

            fn order(self) -> i64 {
                let bits = self.to_bits();
                let magnitude = (bits & ($word::MAX >> 1)) as i64;
                if bits > $word::MAX >> 1 { -magnitude } else { magnitude }
            }

            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }
    )*};
    (@ $value:ident, f64 as f64) => { $value };
    (@ $value:ident, f32 as f32) => { $value };
    (@ $value:ident, f32 as $t:ident) => { $t::from_f32($value) };
    (@ $value:ident, f64) => { $value };
    (@ $value:ident, f32) => { $value as f32 };
    (@ $value:ident, $t:ident) => { $t::from_f64($value) };
}

// hypot, tan, atan, atan2, asin, acos, sinh, cosh, exp2, log2, log10, log, sin, cos, exp, ln, tanh, powf.
checks! {
    f32 u32: f32, [2, 5, 2, 3, 2, 2, 4, 4, 3, 3, 3, 5, 2, 2, 2, 2, 2, 2];
    f64 u64: f64, [2, 5, 2, 3, 2, 2, 4, 4, 3, 3, 3, 5, 2, 2, 2, 2, 3, 2];
    f16 u16: f32, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    bf16 u16: f32, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
}

/// Returns how many numbers of the type lie between two, of which zeros are one. NaN is equal to itself alone.
fn distance<T: Checks>(a: T, b: T) -> u64 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) => a.order().abs_diff(b.order()),
        _ => u64::MAX,
    }
}

/// Numbers that functions are often wrong for.
const HARD: &[f64] = &[
    0.0,
    f64::NAN,
    f64::INFINITY,
    f64::MAX,
    f64::MIN_POSITIVE,
    5e-324,
    1e-310,
    f32::MAX as f64,
    f32::MIN_POSITIVE as f64,
    1e-40,
    1.4e-45,
    6e-8,
    65504.0,
    0.5,
    0.499_999_999_999_999_94,
    0.499_999_97,
    1.0,
    1.5,
    2.5,
    0.999_999_94,
    1.000_000_1,
    4_503_599_627_370_495.5,
    8_388_607.5,
    8_388_609.0,
    9_007_199_254_740_993.0,
    0.414_213_56,
    2.414_213_6,
    0.66,
    20.0,
    88.7,
    89.4,
    127.5,
    128.0,
    149.5,
    709.8,
    710.4,
    1023.5,
    1074.5,
    10.0,
    1000.0,
    std::f64::consts::FRAC_1_SQRT_2,
    std::f64::consts::PI,
    std::f64::consts::FRAC_PI_2,
    std::f64::consts::FRAC_PI_4,
    22.0,
    1e10,
    1e22,
];

/// Returns operands: each hard number with each other's neighbour, and random ones of all sizes and of usual ones.
fn operands<T: Checks>(random: usize) -> (Vec<T>, Vec<T>, Vec<i32>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let hard: Vec<f64> = HARD.iter().flat_map(|it| [*it, -it]).collect();
    let mut pairs: Vec<(T, T)> = Vec::new();
    for (at, x) in hard.iter().enumerate() {
        for apart in 0..9 {
            let y = hard[(at + apart * 11) % hard.len()];
            pairs.push((T::of_f64(*x), T::of_f64(y)));
        }
    }
    for at in 0..random {
        let scale = [1.0, 2.0, 20.0, 200.0, 2000.0][at % 5];
        let [a, b, c, d] = std::array::from_fn(|_| rng.next_u64());
        let usual = |bits: u64| {
            let part = (bits >> 11) as f64 / (1_u64 << 53) as f64;
            T::of_f64((part * 2.0 - 1.0) * scale)
        };
        pairs.push((usual(a), usual(b)));
        pairs.push((T::of_bits(c), T::of_bits(d)));
    }
    let powers = [0, 1, 2, 3, 4, 5, 7, 10, 31, 100, 12345, i32::MAX];
    let n = (0..pairs.len()).map(|at| powers[at % 12] * if at % 5 < 2 { -1 } else { 1 });
    let n = n
        .map(|it| if it == -i32::MAX { i32::MIN } else { it })
        .collect();
    let (x, y) = pairs.into_iter().unzip();
    (x, y, n)
}

fn check_floats<T: Checks>(device: &Device, random: usize) -> Checked {
    let stream = device.new_stream();
    let (x, y, n) = operands::<T>(random);
    let (of, len) = (std::any::type_name::<T>(), x.len());
    let measures = std::env::var_os("MILLSTREAM_MEASURE").is_some();
    for by_cubes in [false, true] {
        let handles = (stream.create(&x)?, stream.create(&y)?, stream.create(&n)?);
        let (first, second, powers) = &handles;
        let mut results = stream.create(&vec![T::default(); len * RESULTS])?;
        match by_cubes {
            true => of_floats_by_cubes(first, second, powers, &mut results).launch(&stream, len)?,
            false => of_floats(first, second, powers, &mut results).launch(&stream, len)?,
        }
        let results = stream.read(&results).wait()?;
        for (nth, expected) in T::all().iter().enumerate() {
            let mut most = 0;
            for at in 0..len {
                let (x, y, n) = (x[at], y[at], n[at]);
                let (given, expected_value) = (results[at * RESULTS + nth], (expected.of)(x, y, n));
                let apart = distance(given, expected_value);
                // Signs of zeros are those of Rust, except that the loops of the CPU have 0 as the tanh of -0.
                let sign = |it: T| it.bits() >> (8 * size_of::<T>() - 1);
                let is_same_sign = given.is_nan()
                    || sign(given) == sign(expected_value)
                    || expected.name == "tanh";
                if apart > expected.units && !measures || !is_same_sign {
                    let name = expected.name;
                    return Err(format!(
                        "{name} of {x:?} and {y:?} as {of} is {given:?}, {apart} units from {expected_value:?} (power {n})"
                    ).into());
                }
                most = most.max(apart);
            }
            if measures {
                println!("{of} {} by cubes: {by_cubes}: {most} units", expected.name);
            }
        }
    }
    Ok(())
}

/// Compares functions of floats with Rust's.
///
/// # Errors
/// They differ by more than their units.
pub fn floats_match(device: &Device) -> Checked {
    let given = std::env::var("MILLSTREAM_RANDOM").ok();
    let random = given.and_then(|it| it.parse().ok()).unwrap_or(400);
    check_floats::<f32>(device, random)?;
    check_floats::<f64>(device, random)?;
    check_floats::<f16>(device, random / 4)?;
    check_floats::<bf16>(device, random / 4)
}

/// All functions of an integer.
#[kernel]
pub fn functions_of_an_integer<T: Int>(x: T, y: T, n: u32) -> [T; INTEGER_RESULTS] {
    [
        x.count_ones() as T,
        x.count_zeros() as T,
        x.leading_zeros() as T,
        x.trailing_zeros() as T,
        x.reverse_bits(),
        x.rotate_left(n),
        x.rotate_right(n),
        x.pow(n),
        x.pow(5),
        x.abs_diff(y) as T,
        x.saturating_add(y),
        x.saturating_sub(y),
        x.rem_euclid(y),
        x.rotate_left(3),
        x.pow(0),
        x.div_ceil(y),
        x.div_euclid(y),
        x.next_multiple_of(y),
        x.is_power_of_two() as T,
        x.next_power_of_two(),
        x.ilog2() as T,
        x.unsigned_abs() as T,
        x.is_positive() as T,
        x.is_negative() as T,
        x.leading_ones() as T,
        x.trailing_ones() as T,
        x.wrapping_neg(),
    ]
}

/// By threads alone.
#[kernel]
pub fn of_integers<T: Int>(x: &[T], y: &[T], n: &[u32], results: &mut [T]) {
    let i = thread();
    let all = functions_of_an_integer(x[i], y[i], n[i]);
    for k in 0..INTEGER_RESULTS {
        results[i * INTEGER_RESULTS + k] = all[k];
    }
}

/// By cubes, which the CPU runs as a program.
#[kernel(cube = 64)]
pub fn of_integers_by_cubes<T: Int>(x: &[T], y: &[T], n: &[u32], results: &mut [T]) {
    let i = thread();
    if i < x.len() {
        let all = functions_of_an_integer(x[i], y[i], n[i]);
        for k in 0..INTEGER_RESULTS {
            results[i * INTEGER_RESULTS + k] = all[k];
        }
    }
}

/// Returns the quotient rounded up and that of Euclid, and the next multiple.
fn divided([x, y]: [i128; 2]) -> [i128; 3] {
    if y == 0 {
        return [0, 0, x];
    }
    let is_above = x % y != 0 && (x % y > 0) == (y > 0);
    let rest = x.rem_euclid(y);
    let up = if y > 0 { y - rest } else { -rest };
    [
        x / y + i128::from(is_above),
        x.div_euclid(y),
        if rest == 0 { x } else { x + up },
    ]
}

/// Compares functions of integers with Rust's.
///
/// # Errors
/// They differ.
pub fn integers_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    macro_rules! types {
        ($($t:ident of $unsigned:ident),*) => {$(
            let hard = [0, 1, 2, 3, $t::MAX, $t::MIN, $t::MAX - 1, $t::MIN + 1, $t::MAX / 2, 0x55, 64];
            let mut pairs: Vec<($t, $t)> = hard.iter().flat_map(|x| hard.map(|y| (*x, y))).collect();
            pairs.extend((0..100).map(|at| {
                let (x, y) = (rng.next_u64() as $t, rng.next_u64() as $t);
                (x >> (at % $t::BITS), y >> (at / 7 % $t::BITS))
            }));
            let n: Vec<u32> = (0..pairs.len() as u32).map(|at| at * at % 71).collect();
            let mut expected = vec![0; pairs.len() * INTEGER_RESULTS];
            for (at, (x, y)) in pairs.iter().copied().enumerate() {
                let rest = match y {
                    0 => 0,
                    y => x.wrapping_rem_euclid(y),
                };
                let (bits, wide) = (x as $unsigned, [i128::from(x), i128::from(y)]);
                let highest = bits.checked_ilog2().unwrap_or(u32::MAX);
                let [ceil, euclid, multiple] = divided(wide);
                let all = [
                    x.count_ones() as $t, x.count_zeros() as $t, x.leading_zeros() as $t, x.trailing_zeros() as $t,
                    x.reverse_bits(), x.rotate_left(n[at]), x.rotate_right(n[at]), x.wrapping_pow(n[at]),
                    x.wrapping_pow(5), x.abs_diff(y) as $t, x.saturating_add(y), x.saturating_sub(y), rest,
                    x.rotate_left(3), 1,
                    ceil as $t, euclid as $t, multiple as $t, $t::from(bits.is_power_of_two()),
                    bits.checked_next_power_of_two().unwrap_or(0) as $t, highest as $t, x.abs_diff(0) as $t,
                    $t::from(wide[0] > 0), $t::from(wide[0] < 0), x.leading_ones() as $t, x.trailing_ones() as $t,
                    x.wrapping_neg(),
                ];
                expected[at * INTEGER_RESULTS..][..all.len()].copy_from_slice(&all);
            }
            let (x, y): (Vec<$t>, Vec<$t>) = pairs.iter().copied().unzip();
            let (x, y, n) = (stream.create(&x)?, stream.create(&y)?, stream.create(&n)?);
            for by_cubes in [false, true] {
                let mut results = stream.create(&vec![0 as $t; expected.len()])?;
                match by_cubes {
                    true => of_integers_by_cubes(&x, &y, &n, &mut results).launch(&stream, pairs.len())?,
                    false => of_integers(&x, &y, &n, &mut results).launch(&stream, pairs.len())?,
                }
                equal(stringify!($t), &stream.read(&results).wait()?, &expected)?;
            }
        )*};
    }
    types!(i8 of u8, u8 of u8, i16 of u16, u16 of u16, i32 of u32, u32 of u32, i64 of u64, u64 of u64);
    Ok(())
}
