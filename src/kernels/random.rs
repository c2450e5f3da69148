//! Random numbers: Philox, with 4 words of 32 bits and 10 rounds (Salmon and others, 2011).
//!
//! Each number is a function of the seed and its place, so it does not depend on the device or the number of threads.

use crate::{Error, Handle, Stream, kernel};

/// The numbers that one thread computes.
const WORDS: usize = 4;

/// The words of one counter.
#[kernel]
fn philox(seed: u64, counter: u64) -> (u32, u32, u32, u32) {
    let (mut a, mut b, mut c, mut d) = (counter as u32, (counter >> 32) as u32, 0, 0);
    let (mut low, mut high) = (seed as u32, (seed >> 32) as u32);
    for _ in 0..10 {
        let (left, right) = (a as u64 * 0xd251_1f53, c as u64 * 0xcd9e_8d57);
        (a, b, c, d) = (
            (right >> 32) as u32 ^ b ^ low,
            right as u32,
            (left >> 32) as u32 ^ d ^ high,
            left as u32,
        );
        low += 0x9e37_79b9;
        high += 0xbb67_ae85;
    }
    (a, b, c, d)
}

/// A word as a number from 0 up to 1, with 24 bits.
#[kernel]
fn unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

#[kernel]
fn random_words(seed: u64, y: &mut [u32]) {
    let i = thread();
    let words = philox(seed, i as u64);
    let words = [words.0, words.1, words.2, words.3];
    for word in 0..WORDS {
        if i * WORDS + word < y.len() {
            y[i * WORDS + word] = words[word];
        }
    }
}

#[kernel]
fn random_units(seed: u64, y: &mut [f32]) {
    let i = thread();
    let words = philox(seed, i as u64);
    let words = [words.0, words.1, words.2, words.3];
    for word in 0..WORDS {
        if i * WORDS + word < y.len() {
            y[i * WORDS + word] = unit(words[word]);
        }
    }
}

/// Box and Muller: two numbers of two words.
#[kernel]
fn random_normals(seed: u64, y: &mut [f32]) {
    let i = thread();
    let words = philox(seed, i as u64);
    let words = [words.0, words.1, words.2, words.3];
    for pair in 0..2 {
        // Never 0.
        let radius = (-2.0 * (1.0 - unit(words[2 * pair])).ln()).sqrt();
        let angle = std::f32::consts::TAU * unit(words[2 * pair + 1]);
        let at = i * WORDS + 2 * pair;
        if at < y.len() {
            y[at] = radius * angle.cos();
        }
        if at + 1 < y.len() {
            y[at + 1] = radius * angle.sin();
        }
    }
}

/// Returns `len` random words. The same seed gives the same ones, on all devices; a longer buffer begins with those of a
/// shorter one.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let words = millstream::kernels::random_bits(&stream, 0, 4)?;
/// assert_eq!(stream.read(&words).wait()?, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Stream::empty`] and [`Stream::launch`].
pub fn random_bits(stream: &Stream, seed: u64, len: usize) -> Result<Handle<u32>, Error> {
    let mut y = stream.empty(len)?;
    random_words(seed, &mut y).launch(stream, len.div_ceil(WORDS))?;
    Ok(y)
}

/// Returns `len` random numbers from 0 up to 1, without 1: multiples of 2^-24. The same seed gives the same ones, on all
/// devices.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = millstream::kernels::uniform(&stream, 42, 10_000)?;
/// let mean = stream.read(&x).wait()?.iter().sum::<f32>() / 10_000.0;
/// assert!((mean - 0.5).abs() < 0.02);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Stream::empty`] and [`Stream::launch`].
pub fn uniform(stream: &Stream, seed: u64, len: usize) -> Result<Handle<f32>, Error> {
    let mut y = stream.empty(len)?;
    random_units(seed, &mut y).launch(stream, len.div_ceil(WORDS))?;
    Ok(y)
}

/// Returns `len` random numbers of the normal distribution with mean 0 and deviation 1. The same seed gives the same ones on
/// a device; `ln`, `cos` and `sin` may differ by 2 units in the last place between devices.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = millstream::kernels::normal(&stream, 42, 10_000)?;
/// let squares: f32 = stream.read(&x).wait()?.iter().map(|x| x * x).sum();
/// assert!((squares / 10_000.0 - 1.0).abs() < 0.05);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Stream::empty`] and [`Stream::launch`].
pub fn normal(stream: &Stream, seed: u64, len: usize) -> Result<Handle<f32>, Error> {
    let mut y = stream.empty(len)?;
    random_normals(seed, &mut y).launch(stream, len.div_ceil(WORDS))?;
    Ok(y)
}
