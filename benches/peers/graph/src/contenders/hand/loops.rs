//! The loops. They are for finite numbers within the range of `exp`; this bench has no NaN and no infinity.

use crate::contenders::hand::dispatch::dispatched;
use crate::work::{EPSILON, GELU_CUBE, GELU_SCALE};

/// Numbers that are computed in the first-level cache before they are streamed out.
const TILE: usize = 2048;
/// From this number of elements on, outputs are streamed past the caches. Such an output exceeds the second-level
/// cache, and together with the inputs it would only evict data that is still needed.
const STREAMED_FROM: usize = 8 << 20;
/// The number of lanes of sums and maxima.
const LANES: usize = 64;

dispatched! {
    /// `(a * b + c).exp()`
    exp = exp_body(a: &[f32], b: &[f32], c: &[f32], out: &mut [f32])
}
dispatched! {
    /// The ten nodes of `Work::Ten`.
    ten = ten_body(a: &[f32], b: &[f32], c: &[f32], out: &mut [f32])
}
dispatched! {
    /// The tanh form of gelu.
    gelu = gelu_body(x: &[f32], out: &mut [f32])
}
dispatched! {
    /// The sum.
    sum = sum_body(x: &[f32], out: &mut [f32])
}
dispatched! {
    /// Softmax of each row.
    softmax = softmax_body(x: &[f32], columns: usize, out: &mut [f32])
}
dispatched! {
    /// Normalizes each row to mean 0 and variance 1, times a gain, plus a shift.
    norm = norm_body(x: &[f32], gain: &[f32], shift: &[f32], out: &mut [f32])
}
dispatched! {
    /// Adds a bias to each row, and replaces elements below `least` by `least`.
    bias = bias_body(rows: &mut [f32], bias: &[f32], least: f32)
}

#[inline(always)]
fn exp_body<const FMA: bool>(a: &[f32], b: &[f32], c: &[f32], out: &mut [f32]) {
    in_tiles(out, |start, out| {
        let end = start + out.len();
        let (a, b, c) = (&a[start..end], &b[start..end], &c[start..end]);
        for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
            *out = power::<FMA>(mul_add::<FMA>(*a, *b, *c));
        }
    });
}

#[inline(always)]
fn ten_body<const FMA: bool>(a: &[f32], b: &[f32], c: &[f32], out: &mut [f32]) {
    for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
        let half = mul_add::<FMA>(*a, *b, *c) * 0.5 - a;
        let held = half.max(-4.0).min(4.0);
        *out = mul_add::<FMA>(power::<FMA>(held), *b, *c) * a;
    }
}

#[inline(always)]
fn gelu_body<const FMA: bool>(x: &[f32], out: &mut [f32]) {
    in_tiles(out, |start, out| {
        let x = &x[start..start + out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            let inner = mul_add::<FMA>(GELU_CUBE * x * x, *x, *x);
            *out = x / (1.0 + power::<FMA>(-GELU_SCALE * inner));
        }
    });
}

#[inline(always)]
fn sum_body<const FMA: bool>(x: &[f32], out: &mut [f32]) {
    // `f32` lanes sum only within a tile: an `f32` sum of millions would lose its last digits.
    let tiles = x.chunks(TILE);
    let sum: f64 = tiles
        .map(|tile| f64::from(folded(tile, 0.0, |sum, x| sum + x)))
        .sum();
    out[0] = sum as f32;
}

#[inline(always)]
fn softmax_body<const FMA: bool>(x: &[f32], columns: usize, out: &mut [f32]) {
    for (row, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
        let most = folded(
            row,
            f32::NEG_INFINITY,
            |most, x| if x > most { x } else { most },
        );
        for (out, x) in out.iter_mut().zip(row) {
            *out = power::<FMA>(x - most);
        }
        let scale = 1.0 / folded(out, 0.0, |sum, x| sum + x);
        out.iter_mut().for_each(|out| *out *= scale);
    }
}

#[inline(always)]
fn norm_body<const FMA: bool>(x: &[f32], gain: &[f32], shift: &[f32], out: &mut [f32]) {
    let columns = gain.len();
    let share = 1.0 / columns as f32;
    for (row, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
        let mean = folded(row, 0.0, |sum, x| sum + x) * share;
        let squares = summed(row, |sum, x| mul_add::<FMA>(x - mean, x - mean, sum));
        let scale = 1.0 / (squares * share + EPSILON).sqrt();
        for (((out, x), gain), shift) in out.iter_mut().zip(row).zip(gain).zip(shift) {
            *out = mul_add::<FMA>((x - mean) * scale, *gain, *shift);
        }
    }
}

#[inline(always)]
fn bias_body<const FMA: bool>(rows: &mut [f32], bias: &[f32], least: f32) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (x, bias) in row.iter_mut().zip(bias) {
            let biased = *x + bias;
            *x = if biased > least { biased } else { least };
        }
    }
}

/// Folds a row in many lanes at once. The operation must be associative and commutative.
#[inline(always)]
fn folded(row: &[f32], start: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let lanes = in_lanes(row, start, &f);
    lanes.into_iter().fold(start, f)
}

/// Sums a row in many lanes at once; `f` adds an element to a lane.
#[inline(always)]
fn summed(row: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    in_lanes(row, 0.0, &f).into_iter().sum()
}

#[inline(always)]
fn in_lanes(row: &[f32], start: f32, f: &impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    let mut lanes = [start; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = f(*lane, *x);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = f(*lane, *x);
    }
    lanes
}

#[inline(always)]
fn mul_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Computes `exp` to two units in the last place: `2^n e^r` with `|r| <= ln 2 / 2`, and a polynomial for `e^r`
/// (Cephes).
#[inline(always)]
fn power<const FMA: bool>(x: f32) -> f32 {
    /// Adding it to a small number leaves the nearest integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if x > -87.0 { x } else { -87.0 };
    let x = if x < 88.0 { x } else { 88.0 };
    let rounded = mul_add::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = mul_add::<FMA>(n, -LN_2_LOW, mul_add::<FMA>(n, -LN_2_HIGH, x));
    let mut p = mul_add::<FMA>(1.987_569_1e-4, r, 1.398_2e-3);
    p = mul_add::<FMA>(p, r, 8.333_452e-3);
    p = mul_add::<FMA>(p, r, 4.166_579_6e-2);
    p = mul_add::<FMA>(p, r, 1.666_666_5e-1);
    p = mul_add::<FMA>(p, r, 5e-1);
    let e = mul_add::<FMA>(p, r * r, r) + 1.0;
    // The low bits hold the integer; with the bias of 127 it is an exponent.
    e * f32::from_bits(rounded.to_bits().wrapping_add(127) << 23)
}

/// Fills `out`. If it is large, fills one tile after the other and streams each out.
#[inline(always)]
fn in_tiles(out: &mut [f32], mut fill: impl FnMut(usize, &mut [f32])) {
    if out.len() < STREAMED_FROM {
        return fill(0, out);
    }
    let mut tile = [0.0_f32; TILE];
    for (index, out) in out.chunks_mut(TILE).enumerate() {
        let tile = &mut tile[..out.len()];
        fill(index * TILE, tile);
        stream(tile, out);
    }
    fence();
}

/// Copies past the caches, on processors that can.
#[inline(always)]
fn stream(from: &[f32], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128, _mm_loadu_ps, _mm_stream_ps};
        // SAFETY: any four numbers are a valid vector.
        let (head, body, tail) = unsafe { to.align_to_mut::<__m128>() };
        let (from_head, from) = from.split_at(head.len());
        let (from_body, from_tail) = from.split_at(4 * body.len());
        head.copy_from_slice(from_head);
        tail.copy_from_slice(from_tail);
        for (to, from) in body.iter_mut().zip(from_body.chunks_exact(4)) {
            // SAFETY: `from` has four numbers to read, and `to` is aligned.
            unsafe { _mm_stream_ps(std::ptr::from_mut(to).cast(), _mm_loadu_ps(from.as_ptr())) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

/// Orders streamed stores before later stores.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has this instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
