//! Threads of a cube that work together, as the CUDA samples have them.

use millstream::prelude::*;

use crate::{Checked, equal, near, uniform};

const TILE: usize = 16;

/// A tile of the matrix at a time, through shared memory.
#[kernel(cube = 256)]
pub fn transpose(rows: usize, columns: usize, x: &[f32], y: &mut [f32]) {
    let tile = shared::<f32, 272>();
    let (across, down) = (thread_in_cube() % TILE, thread_in_cube() / TILE);
    let tiles = (columns + TILE - 1) / TILE;
    let (tile_row, tile_column) = (cube() / tiles, cube() % tiles);
    let (row, column) = (tile_row * TILE + down, tile_column * TILE + across);
    if row < rows && column < columns {
        tile[down * 17 + across] = x[row * columns + column];
    }
    barrier();
    let (row, column) = (tile_column * TILE + down, tile_row * TILE + across);
    if row < columns && column < rows {
        y[row * rows + column] = tile[across * 17 + down];
    }
}

/// Compares `transpose` with plain Rust.
///
/// # Errors
/// They differ.
pub fn transpose_matches(device: &Device) -> Checked {
    let (stream, rows, columns) = (device.new_stream(), 45, 70);
    let x = uniform(1, rows * columns);
    let expected: Vec<f32> = (0..rows * columns)
        .map(|i| x[i % rows * columns + i / rows])
        .collect();
    let (x, mut y) = (
        stream.create(&x)?,
        stream.create(&vec![0.0; rows * columns])?,
    );
    let cubes = rows.div_ceil(TILE) * columns.div_ceil(TILE);
    transpose(rows, columns, &x, &mut y).launch(&stream, cubes * 256)?;
    equal("y", &stream.read(&y).wait()?, &expected)
}

/// The sum of each cube's part.
#[kernel(cube = 128)]
pub fn partial_sums(x: &[f32], sums: &mut [f32]) {
    let partial = shared::<f32, 128>();
    let mine = thread_in_cube();
    let mut sum = 0.0;
    let mut i = thread();
    while i < x.len() {
        sum += x[i];
        i += cubes() * threads_in_cube();
    }
    partial[mine] = sum;
    let mut half = threads_in_cube() / 2;
    while half > 0 {
        barrier();
        if mine < half {
            partial[mine] += partial[mine + half];
        }
        half /= 2;
    }
    if mine == 0 {
        sums[cube()] = partial[0];
    }
}

/// The same with the reduction that cubes have.
#[kernel(cube = 128)]
pub fn sums_of_cubes(x: &[f32], sums: &mut [f32]) {
    let i = thread();
    let mut value = 0.0;
    if i < x.len() {
        value = x[i];
    }
    let sum = cube_sum(value);
    if thread_in_cube() == 0 {
        sums[cube()] = sum;
    }
}

/// Compares `reduction` with plain Rust.
///
/// # Errors
/// They differ.
pub fn reduction_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    for len in [1, 1000, 5000] {
        let x = uniform(1, len);
        let total: f32 = x.iter().map(|x| f64::from(*x)).sum::<f64>() as f32;
        let x = stream.create(&x)?;
        let mut sums = stream.create(&[0.0; 4])?;
        partial_sums(&x, &mut sums).launch(&stream, 4 * 128)?;
        near(
            "sum",
            &[stream.read(&sums).wait()?.iter().sum()],
            &[total],
            1e-4,
        )?;
        let mut sums = stream.create(&vec![0.0; len.div_ceil(128)])?;
        sums_of_cubes(&x, &mut sums).launch(&stream, len)?;
        near(
            "sum of cubes",
            &[stream.read(&sums).wait()?.iter().sum()],
            &[total],
            1e-4,
        )?;
    }
    Ok(())
}

/// The inclusive sums of each cube's part: Hillis and Steele.
#[kernel(cube = 64)]
pub fn scan(x: &[u32], sums: &mut [u32]) {
    let part = shared::<u32, 64>();
    let (i, mine) = (thread(), thread_in_cube());
    part[mine] = 0;
    if i < x.len() {
        part[mine] = x[i];
    }
    let mut distance = 1;
    while distance < threads_in_cube() {
        barrier();
        let mut other = 0;
        if mine >= distance {
            other = part[mine - distance];
        }
        barrier();
        part[mine] += other;
        distance *= 2;
    }
    if i < sums.len() {
        sums[i] = part[mine];
    }
}

/// Compares `scan` with plain Rust.
///
/// # Errors
/// They differ.
pub fn scan_matches(device: &Device) -> Checked {
    let (stream, len) = (device.new_stream(), 200);
    let x: Vec<u32> = uniform(1, len)
        .iter()
        .map(|part| (part * 100.0) as u32)
        .collect();
    let sums = x.chunks(64).flat_map(|part| {
        part.iter().scan(0, |sum, x| {
            *sum += x;
            Some(*sum)
        })
    });
    let expected: Vec<u32> = sums.collect();
    let (x, mut sums) = (stream.create(&x)?, stream.create(&vec![0; len])?);
    scan(&x, &mut sums).launch(&stream, len)?;
    equal("sums", &stream.read(&sums).wait()?, &expected)
}

/// A histogram of bytes: of each cube in shared memory, then of all.
#[kernel(cube = 256)]
pub fn histogram(data: &[u8], bins: &[Atomic<u32>]) {
    let own = shared::<u32, 256>();
    let mine = thread_in_cube();
    own[mine] = 0;
    barrier();
    let mut i = thread();
    while i < data.len() {
        own[data[i]].fetch_add(1);
        i += cubes() * threads_in_cube();
    }
    barrier();
    bins[mine].fetch_add(own[mine]);
}

/// A histogram by threads alone.
#[kernel]
pub fn histogram_alone(data: &[u8], bins: &[Atomic<u32>]) {
    bins[data[thread()]].fetch_add(1);
}

/// Compares `histogram` with plain Rust.
///
/// # Errors
/// They differ.
pub fn histogram_matches(device: &Device) -> Checked {
    let (stream, len) = (device.new_stream(), 3000);
    let data: Vec<u8> = uniform(1, len)
        .iter()
        .map(|part| (part * part * 256.0) as u8)
        .collect();
    let mut expected = vec![0_u32; 256];
    data.iter()
        .for_each(|byte| expected[usize::from(*byte)] += 1);
    let data = stream.create(&data)?;
    let bins = stream.create(&[0_u32; 256])?;
    histogram(&data, &bins).launch(&stream, 1024)?;
    equal("bins", &stream.read(&bins).wait()?, &expected)?;
    let bins = stream.create(&[0_u32; 256])?;
    histogram_alone(&data, &bins).launch(&stream, len)?;
    equal("bins of threads", &stream.read(&bins).wait()?, &expected)
}

/// A product of square matrices in tiles.
#[kernel(cube = 256)]
pub fn product(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    let (left, right) = (shared::<f32, 256>(), shared::<f32, 256>());
    let (across, down) = (thread_in_cube() % TILE, thread_in_cube() / TILE);
    let tiles = (n + TILE - 1) / TILE;
    let (row, column) = (cube() / tiles * TILE + down, cube() % tiles * TILE + across);
    let mut sum = 0.0;
    for tile in 0..tiles {
        let at = tile * TILE;
        let mut x = 0.0;
        if row < n && at + across < n {
            x = a[row * n + at + across];
        }
        left[down * TILE + across] = x;
        let mut y = 0.0;
        if at + down < n && column < n {
            y = b[(at + down) * n + column];
        }
        right[down * TILE + across] = y;
        barrier();
        for k in 0..TILE {
            sum += left[down * TILE + k] * right[k * TILE + across];
        }
        barrier();
    }
    if row < n && column < n {
        c[row * n + column] = sum;
    }
}

/// Compares `product` with plain Rust.
///
/// # Errors
/// They differ.
pub fn product_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    for n in [1, 16, 21] {
        let (a, b) = (uniform(1, n * n), uniform(2, n * n));
        let expected: Vec<f32> = (0..n * n)
            .map(|i| {
                (0..n)
                    .map(|k| f64::from(a[i / n * n + k]) * f64::from(b[k * n + i % n]))
                    .sum::<f64>() as f32
            })
            .collect();
        let (a, b, mut c) = (
            stream.create(&a)?,
            stream.create(&b)?,
            stream.create(&vec![0.0; n * n])?,
        );
        let cubes = n.div_ceil(TILE) * n.div_ceil(TILE);
        product(n, &a, &b, &mut c).launch(&stream, cubes * 256)?;
        near("c", &stream.read(&c).wait()?, &expected, 1e-4)?;
    }
    Ok(())
}

/// One step of a bitonic sort: threads exchange pairs that no other thread has. `distance` is a power of two.
#[kernel]
pub fn bitonic(run: usize, distance: usize, keys: &mut [u32]) {
    let i = thread();
    let low = 2 * i - (i & (distance - 1));
    let high = low + distance;
    let (a, b) = (keys[low], keys[high]);
    let rises = low & run == 0;
    if (a > b) == rises {
        keys[low] = b;
        keys[high] = a;
    }
}

/// Compares `bitonic` with plain Rust.
///
/// # Errors
/// They differ.
pub fn bitonic_matches(device: &Device) -> Checked {
    let (stream, len) = (device.new_stream(), 512);
    let keys: Vec<u32> = uniform(1, len)
        .iter()
        .map(|part| (part * 1e6) as u32)
        .collect();
    let mut expected = keys.clone();
    expected.sort_unstable();
    let mut keys = stream.create(&keys)?;
    let mut run = 2;
    while run <= len {
        let mut distance = run / 2;
        while distance > 0 {
            bitonic(run, distance, &mut keys).launch(&stream, len / 2)?;
            distance /= 2;
        }
        run *= 2;
    }
    equal("keys", &stream.read(&keys).wait()?, &expected)
}
