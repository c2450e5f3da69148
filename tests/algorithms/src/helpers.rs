//! Helper functions of kernels with a cube, kernels that other kernels call, and what a kernel may name a constant for.

use millstream::prelude::*;

use crate::{Checked, equal};

/// The sum of the values of all threads of a cube of at most 32 subgroups of `W` threads, by shared memory of the caller.
#[kernel(in_cube)]
fn sum_of_cube<const W: usize>(value: u32, parts: &mut [u32]) -> u32 {
    let (mine, sum) = (thread_in_cube(), subgroup_sum::<W>(value));
    if thread_in_subgroup::<W>() == 0 {
        parts[mine / W] = sum;
    }
    barrier();
    let mut all = 0;
    for part in 0..threads_in_cube() / W {
        all += parts[part];
    }
    // Before the caller uses the memory again.
    barrier();
    all
}

/// The value of the thread at the same place of the cube counted from its end, by memory of its own.
#[kernel(in_cube)]
fn mirrored<T: Number>(value: T) -> T {
    let values = shared::<T, 64>();
    let [plane, row, column] = position_in_cube();
    values[column + row + plane] = value;
    barrier();
    let found = values[threads_in_cube() - 1 - thread_in_cube()];
    barrier();
    found
}

/// Calls two other ones, and has no result.
#[kernel(in_cube)]
fn store_results(value: u32, parts: &mut [u32], y: &mut [u32], at: usize) {
    if cube() == 1 {
        return;
    }
    y[at] = sum_of_cube::<16>(mirrored(value), parts) + mirrored(value);
}

/// A kernel.
#[kernel(cube = 64)]
pub fn by_helpers(x: &[u32], y: &mut [u32]) {
    let parts = shared::<u32, 4>();
    let i = thread();
    store_results(x[i], parts, y, i);
    y[i] += cube_sum(mirrored(1.5_f32)) as u32;
}

/// Exchanges two elements: a kernel for one thread, and a helper function of others.
#[kernel]
pub fn exchange(x: &mut [i32], i: u32, j: u32) {
    if i == j {
        return;
    }
    let old = x[i];
    x[i] = x[j];
    x[j] = old;
}

/// Stores a number to `N` elements.
#[kernel]
pub fn fill_some<T: Number, const N: usize>(y: &mut [T], from: u32, value: T) {
    for at in 0..N as u32 {
        y[from + at] = value;
    }
}

/// Calls kernels.
#[kernel]
pub fn reverse_pairs(x: &mut [i32], y: &mut [f32]) {
    let i = thread() as u32;
    exchange(x, 2 * i, 2 * i + 1);
    fill_some::<f32, 2>(y, 2 * i, i as f32);
}

/// Calls a kernel from a cube, for a shared array.
#[kernel(cube = 8)]
pub fn reverse_eights(x: &mut [i32]) {
    let part = shared::<i32, 8>();
    let (i, mine) = (thread(), thread_in_cube() as u32);
    part[mine] = x[i];
    barrier();
    if mine < 4 {
        exchange(part, mine, 7 - mine);
    }
    barrier();
    x[i] = part[mine];
}

/// Compares `by_helpers`, `reverse_pairs` and `reverse_eights` with plain Rust, and launches what they call.
///
/// # Errors
/// They differ.
pub fn helpers_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let x: Vec<u32> = (0..192).map(|i| i * i % 1000).collect();
    let mut y = stream.create(&[7_u32; 192])?;
    by_helpers(&stream.create(&x)?, &mut y).launch(&stream, 192)?;
    let expected = x.chunks(64).enumerate().flat_map(|(cube, part)| {
        let sum: u32 = part.iter().sum();
        let stored = part.iter().rev().map(move |x| match cube {
            1 => 7,
            _ => sum + x,
        });
        stored.map(|stored| stored + 96)
    });
    let expected: Vec<u32> = expected.collect();
    equal("by_helpers", &stream.read(&y).wait()?, &expected)?;

    let (mut x, mut y) = (
        stream.create(&[0, 1, 2, 3, 4, 5])?,
        stream.create(&[0.0; 6])?,
    );
    reverse_pairs(&mut x, &mut y).launch(&stream, 3)?;
    exchange(&mut x, 0, 5).launch(&stream, 1)?;
    fill_some::<f32, 1>(&mut y, 3, 9.0).launch(&stream, 1)?;
    equal("x", &stream.read(&x).wait()?, &[4, 0, 3, 2, 5, 1])?;
    let expected = [0.0, 0.0, 1.0, 9.0, 2.0, 2.0];
    equal("y", &stream.read(&y).wait()?, &expected)?;

    let mut x = stream.create(&(0..16).collect::<Vec<i32>>())?;
    reverse_eights(&mut x).launch(&stream, 16)?;
    let expected: Vec<i32> = (0..8).rev().chain((8..16).rev()).collect();
    equal("reverse_eights", &stream.read(&x).wait()?, &expected)
}

/// Rows of a cube.
const ROWS: usize = 4;

/// A cube whose size is an expression.
#[kernel(cube = [ROWS, 2 * COLUMNS])]
pub fn by_constants<const COLUMNS: usize>(y: &mut [u32]) {
    let firsts = shared::<u32, { ROWS * COLUMNS }>();
    let [row, column] = position_in_cube();
    if column < COLUMNS {
        firsts[row * COLUMNS + column] = (row * 10 + column) as u32;
    }
    barrier();
    y[thread()] = firsts[row * COLUMNS + column / 2];
}

/// Compares `by_constants` with plain Rust.
///
/// # Errors
/// They differ.
pub fn constants_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let mut y = stream.create(&[0_u32; 24])?;
    by_constants::<3>(&mut y).launch(&stream, [4, 6])?;
    let expected: Vec<u32> = (0..24).map(|i| i / 6 * 10 + i % 6 / 2).collect();
    equal("by_constants", &stream.read(&y).wait()?, &expected)
}

/// The weights of a filter.
const WEIGHTS: [f32; 5] = [0.0625, 0.25, 0.375, 0.25, 0.0625];
/// The distances of neighbours, of which one is alone.
mod distances {
    pub(super) const ALL: [i8; 4] = [-2, -1, 1, 2];
    pub(super) const ONE: [u16; 1] = [3];
}

/// A sum by a constant array, from a helper function.
#[kernel]
fn weighted(x: &[f32], first: usize) -> f32 {
    let mut sum = 0.0;
    for k in 0..WEIGHTS.len() {
        sum += WEIGHTS[k] * x[first + k];
    }
    sum
}

/// Constant arrays: read in branches, copied and changed, with elements that differ from thread to thread.
#[kernel]
pub fn by_tables(x: &[f32], y: &mut [f32]) {
    let (i, n) = (thread(), x.len());
    if i >= 2 && i + 2 < n {
        y[i] = weighted(x, i - 2);
    } else {
        let mut weights = WEIGHTS;
        weights[1] = 2.0;
        y[i] = weights[i % 5] + WEIGHTS[1];
    }
    let step = distances::ALL[i % distances::ALL.len()];
    y[n + i] = (step as i32 + distances::ONE[0] as i32) as f32;
}

/// Compares `by_tables` with plain Rust.
///
/// # Errors
/// They differ.
pub fn tables_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let x = crate::uniform(5, 40);
    let mut y = stream.create(&[0.0; 80])?;
    by_tables(&stream.create(&x)?, &mut y).launch(&stream, 40)?;
    let filtered = (0..40).map(|i| match i {
        2..38 => (0..5).fold(0.0, |sum, k| sum + WEIGHTS[k] * x[i - 2 + k]),
        _ => 0.25 + if i % 5 == 1 { 2.0 } else { WEIGHTS[i % 5] },
    });
    let steps = (0..40).map(|i| f32::from(distances::ALL[i % 4] + 3));
    let expected: Vec<f32> = filtered.chain(steps).collect();
    crate::near("by_tables", &stream.read(&y).wait()?, &expected, 1e-6)
}
