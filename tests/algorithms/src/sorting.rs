//! Sorting and compaction: counts of each cube, their sums, and stores to the places that these give.

use millstream::Error;
use millstream::prelude::*;

use crate::{Checked, equal, uniform};

/// The threads of a cube.
const CUBE: usize = 64;
/// The values of the four bits that a pass of the sort looks at.
const DIGITS: usize = 16;

/// The sums of all numbers before each, and the sum of all behind the last. One cube, which goes along.
#[kernel(cube = 64)]
pub fn exclusive_sums(x: &[u32], sums: &mut [u32]) {
    let part = shared::<u32, CUBE>();
    let mine = thread_in_cube();
    let mut before = 0;
    for at in (0..x.len()).step_by(CUBE) {
        let i = at + mine;
        let own = if i < x.len() { x[i] } else { 0 };
        part[mine] = own;
        barrier();
        let mut distance = 1;
        while distance < CUBE {
            let other = if mine >= distance {
                part[mine - distance]
            } else {
                0
            };
            barrier();
            part[mine] += other;
            barrier();
            distance *= 2;
        }
        if i < x.len() {
            sums[i] = before + part[mine] - own;
        }
        before += part[CUBE - 1];
        barrier();
    }
    if mine == 0 {
        sums[x.len()] = before;
    }
}

/// How often each cube has each digit: all counts of the first digit, then those of the second.
#[kernel(cube = 64)]
pub fn count_digits(shift: u32, keys: &[u32], counts: &mut [u32]) {
    let own = shared::<u32, DIGITS>();
    let (i, mine) = (thread(), thread_in_cube());
    if mine < DIGITS {
        own[mine] = 0;
    }
    barrier();
    if i < keys.len() {
        own[(keys[i] >> shift) % 16].fetch_add(1);
    }
    barrier();
    if mine < DIGITS {
        counts[mine * cubes() + cube()] = own[mine];
    }
}

/// Stores each key behind all of smaller digits, and behind those of its digit that came before.
#[kernel(cube = 64)]
pub fn scatter_digits(shift: u32, keys: &[u32], starts: &[u32], sorted: &mut [u32]) {
    let digits = shared::<u32, CUBE>();
    let (i, mine) = (thread(), thread_in_cube());
    let key = if i < keys.len() { keys[i] } else { 0 };
    let digit = (key >> shift) % 16;
    digits[mine] = digit;
    barrier();
    if i < keys.len() {
        let mut place = starts[digit as usize * cubes() + cube()];
        for other in 0..mine {
            if digits[other] == digit {
                place += 1;
            }
        }
        sorted[place] = key;
    }
}

/// Sorts keys by their digits, the lowest first.
fn radix_sort(stream: &Stream, keys: &[u32]) -> Result<Vec<u32>, Error> {
    let cubes = keys.len().div_ceil(CUBE);
    let (mut from, mut to) = (stream.create(keys)?, stream.create(keys)?);
    let mut counts = stream.create(&vec![0; DIGITS * cubes])?;
    let mut starts = stream.create(&vec![0; DIGITS * cubes + 1])?;
    for shift in (0..u32::BITS).step_by(4) {
        count_digits(shift, &from, &mut counts).launch(stream, keys.len())?;
        exclusive_sums(&counts, &mut starts).launch(stream, CUBE)?;
        scatter_digits(shift, &from, &starts, &mut to).launch(stream, keys.len())?;
        (from, to) = (to, from);
    }
    stream.read(&from).wait()
}

/// Returns a float as an integer of the same order.
#[kernel]
pub fn ordered(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits >> 31 == 1 {
        !bits
    } else {
        bits | 0x8000_0000
    }
}

/// Floats as keys.
#[kernel]
pub fn keys_of(x: &[f32], #[whole] keys: &mut [u32]) {
    let i = thread();
    keys[i] = ordered(x[i]);
}

/// Compares `radix_sort` with plain Rust.
///
/// # Errors
/// They differ.
pub fn radix_sort_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    for len in [0, 1, 64, 300] {
        let keys = uniform(1, len).into_iter();
        let mut keys: Vec<u32> = keys.map(|it| (it * 4e9) as u32).collect();
        if len == 300 {
            keys[..5].copy_from_slice(&[u32::MAX, 0, u32::MAX, 1 << 31, 0]);
        }
        let sorted = radix_sort(&stream, &keys)?;
        keys.sort_unstable();
        equal("sorted", &sorted, &keys)?;
    }
    let hard = [
        0.0,
        f32::NAN,
        -0.0,
        f32::INFINITY,
        -1e-40,
        f32::MIN,
        -f32::INFINITY,
        -f32::NAN,
        1.5,
    ];
    let (x, mut keys) = (stream.create(&hard)?, stream.empty(hard.len())?);
    keys_of(&x, &mut keys).launch_each(&stream)?;
    let sorted = radix_sort(&stream, &stream.read(&keys).wait()?)?;
    let mut expected = hard;
    expected.sort_unstable_by(f32::total_cmp);
    equal("sorted floats", &sorted, &expected.map(ordered))
}

/// How many numbers of each cube are above a limit.
#[kernel(cube = 64)]
pub fn count_above(limit: f32, x: &[f32], counts: &mut [u32]) {
    let i = thread();
    let count = cube_sum((i < x.len() && x[i] > limit) as u32);
    if thread_in_cube() == 0 {
        counts[cube()] = count;
    }
}

/// Stores the numbers above a limit, in their order.
#[kernel(cube = 64)]
pub fn scatter_above(limit: f32, x: &[f32], starts: &[u32], kept: &mut [f32]) {
    let flags = shared::<u32, CUBE>();
    let (i, mine) = (thread(), thread_in_cube());
    let keeps = i < x.len() && x[i] > limit;
    flags[mine] = keeps as u32;
    barrier();
    if keeps {
        let mut place = starts[cube()];
        for other in 0..mine {
            place += flags[other];
        }
        kept[place] = x[i];
    }
}

/// Compares the compaction with plain Rust.
///
/// # Errors
/// They differ.
pub fn compaction_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    for (len, limit) in [
        (0, 0.5),
        (1, 0.5),
        (1, -1.0),
        (64, 0.9),
        (700, 0.5),
        (300, 2.0),
    ] {
        let mut x = uniform(len as u64, len);
        if len > 500 {
            (x[3], x[4], x[5]) = (f32::NAN, f32::INFINITY, -f32::INFINITY);
        }
        let expected: Vec<f32> = x.iter().copied().filter(|it| *it > limit).collect();
        let cubes = len.div_ceil(CUBE);
        let (x, mut kept) = (stream.create(&x)?, stream.create(&vec![0.0; len])?);
        let mut counts = stream.create(&vec![0; cubes])?;
        let mut starts = stream.create(&vec![0; cubes + 1])?;
        count_above(limit, &x, &mut counts).launch(&stream, len)?;
        exclusive_sums(&counts, &mut starts).launch(&stream, CUBE)?;
        scatter_above(limit, &x, &starts, &mut kept).launch(&stream, len)?;
        let count = stream.read(&starts).wait()?[cubes] as usize;
        equal("kept", &stream.read(&kept).wait()?[..count], &expected)?;
    }
    Ok(())
}
