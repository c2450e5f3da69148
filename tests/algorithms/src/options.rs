//! Options priced by random paths, as the CUDA samples have them.

use std::f32::consts::TAU;

use millstream::prelude::*;

use crate::{Checked, equal, near};

/// Four random words.
pub type Words = (u32, u32, u32, u32);

/// The high and the low word of a product.
#[kernel]
pub fn wide_product(a: u32, b: u32) -> (u32, u32) {
    let product = a as u64 * b as u64;
    ((product >> 32) as u32, product as u32)
}

/// The random words of a counter: Philox 4x32 with ten rounds, by Salmon and others, 2011.
#[kernel]
pub fn philox(counter: Words, key: (u32, u32)) -> Words {
    let (mut words, mut key) = (counter, key);
    for _ in 0..10 {
        let (high, low) = wide_product(0xD251_1F53, words.0);
        let (other_high, other_low) = wide_product(0xCD9E_8D57, words.2);
        words = (
            other_high ^ words.1 ^ key.0,
            other_low,
            high ^ words.3 ^ key.1,
            low,
        );
        key = (key.0 + 0x9E37_79B9, key.1 + 0xBB67_AE85);
    }
    words
}

/// Two numbers of the normal distribution from two random words: Box and Muller.
#[kernel]
pub fn normals(a: u32, b: u32) -> (f32, f32) {
    let part = 1.0 / 4_294_967_296.0;
    let radius = (-2.0 * ((a as f32 + 0.5) * part).ln()).sqrt();
    let angle = TAU * (b as f32 * part);
    (radius * angle.cos(), radius * angle.sin())
}

/// What a call is worth at the end of a path.
#[kernel]
pub fn payoff(price: f32, strike: f32, drift: f32, spread: f32, normal: f32) -> f32 {
    (price * (drift + spread * normal).exp() - strike).max(0.0)
}

/// European calls: the mean over four times `draws` paths. Each cube has an option.
#[kernel(cube = 64)]
pub fn price_calls(
    rate: f32,
    volatility: f32,
    draws: usize,
    seed: u32,
    prices: &[f32],
    strikes: &[f32],
    years: &[f32],
    calls: &mut [f32],
) {
    let option = cube();
    let (price, strike, time) = (prices[option], strikes[option], years[option]);
    let drift = (rate - 0.5 * volatility * volatility) * time;
    let spread = volatility * time.sqrt();
    let mut sum = 0.0;
    for draw in (thread_in_cube()..draws).step_by(threads_in_cube()) {
        let words = philox((draw as u32, option as u32, 0, 0), (seed, 0));
        let (a, b) = normals(words.0, words.1);
        let (c, d) = normals(words.2, words.3);
        sum += payoff(price, strike, drift, spread, a)
            + payoff(price, strike, drift, spread, b)
            + payoff(price, strike, drift, spread, c)
            + payoff(price, strike, drift, spread, d);
    }
    let sum = cube_sum(sum);
    if thread_in_cube() == 0 {
        calls[option] = (-rate * time).exp() * sum / (4 * draws) as f32;
    }
}

/// Philox in ordinary Rust.
fn random(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    (0..10_u32).fold(counter, |[a, b, c, d], round| {
        let of = |index: usize, step: u32| key[index].wrapping_add(step.wrapping_mul(round));
        let [first, second] =
            [(0xD251_1F53_u64, a), (0xCD9E_8D57, c)].map(|(by, it)| by * u64::from(it));
        let high = |product: u64| (product >> 32) as u32;
        [
            high(second) ^ b ^ of(0, 0x9E37_79B9),
            second as u32,
            high(first) ^ d ^ of(1, 0xBB67_AE85),
            first as u32,
        ]
    })
}

/// The price of a call by random paths in ordinary Rust.
fn expected(draws: usize, option: u32, [price, strike, time]: [f32; 3]) -> f32 {
    let [price, strike, time] = [price, strike, time].map(f64::from);
    let payoff = |normal: f64| {
        let end = price * ((0.02 - 0.5 * 0.09) * time + 0.3 * time.sqrt() * normal).exp();
        (end - strike).max(0.0)
    };
    let unit = |word: u32, shift: f64| (f64::from(word) + shift) / 4_294_967_296.0;
    let pair = |a: u32, b: u32| {
        let radius = (-2.0 * unit(a, 0.5).ln()).sqrt();
        let angle = f64::from(TAU) * unit(b, 0.0);
        payoff(radius * angle.cos()) + payoff(radius * angle.sin())
    };
    let draw = |draw| {
        let [a, b, c, d] = random([draw, option, 0, 0], [7, 0]);
        pair(a, b) + pair(c, d)
    };
    let sum: f64 = (0..draws as u32).map(draw).sum();
    ((-0.02 * time).exp() * sum / (4 * draws) as f64) as f32
}

/// Compares `price_calls` with plain Rust, and the random words with those that the authors publish.
///
/// # Errors
/// They differ.
pub fn monte_carlo_matches(device: &Device) -> Checked {
    let published: [(Words, (u32, u32), Words); 3] = [
        (
            (0, 0, 0, 0),
            (0, 0),
            (0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8),
        ),
        (
            (u32::MAX, u32::MAX, u32::MAX, u32::MAX),
            (u32::MAX, u32::MAX),
            (0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd),
        ),
        (
            (0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344),
            (0xa409_3822, 0x299f_31d0),
            (0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1),
        ),
    ];
    for (counter, key, words) in published {
        equal("words", &[philox(counter, key)], &[words])?;
    }
    let stream = device.new_stream();
    // A price, a strike and a time: also of a call that is always or never worth something, and one that ends at once.
    let options = [
        [10.0, 9.0, 1.0],
        [20.0, 25.0, 4.0],
        [15.0, 0.0, 2.0],
        [5.0, f32::INFINITY, 1.0],
        [7.0, 3.0, 0.0],
    ];
    for draws in [1, 130] {
        let expected: Vec<f32> = (0..)
            .zip(options)
            .map(|(i, it)| expected(draws, i, it))
            .collect();
        let [prices, strikes, years] =
            [0, 1, 2].map(|part| stream.create(&options.map(|it| it[part])));
        let mut calls = stream.create(&[0.0; 5])?;
        price_calls(
            0.02, 0.3, draws, 7, &prices?, &strikes?, &years?, &mut calls,
        )
        .launch(&stream, options.len() * 64)?;
        near("calls", &stream.read(&calls).wait()?, &expected, 1e-4)?;
    }
    Ok(())
}
