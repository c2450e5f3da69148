//! Threads that work alone: each computes its own elements.

use millstream::prelude::*;

use crate::{Checked, equal, near, uniform};

/// A kernel.
#[kernel]
pub fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
    let i = thread();
    if i < y.len() {
        y[i] += a * x[i];
    }
}

/// Compares `saxpy` with plain Rust.
///
/// # Errors
/// They differ.
pub fn saxpy_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    for len in [0, 1, 255, 1000, 4096] {
        let (x, y) = (uniform(1, len), uniform(2, len));
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| y + 3.0 * x).collect();
        let (x, mut y) = (stream.create(&x)?, stream.create(&y)?);
        saxpy(3.0, &x, &mut y).launch(&stream, len)?;
        equal("y", &stream.read(&y).wait()?, &expected)?;
    }
    Ok(())
}

/// The normal distribution: Abramowitz and Stegun, 26.2.17.
#[kernel]
pub fn normal(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = t
        * (0.319_381_53
            + t * (-0.356_563_78 + t * (1.781_477_9 + t * (-1.821_255_9 + t * 1.330_274_4))));
    let tail = 0.398_942_3 * (-0.5 * x * x).exp() * series;
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// European options: the formula of Black and Scholes, as the CUDA samples have it.
#[kernel]
pub fn black_scholes(
    rate: f32,
    volatility: f32,
    prices: &[f32],
    strikes: &[f32],
    years: &[f32],
    #[whole] calls: &mut [f32],
    #[whole] puts: &mut [f32],
) {
    let i = thread();
    let (price, strike, time) = (prices[i], strikes[i], years[i]);
    let root = time.sqrt();
    let d1 = ((price / strike).ln() + (rate + 0.5 * volatility * volatility) * time)
        / (volatility * root);
    let d2 = d1 - volatility * root;
    let discount = (-rate * time).exp();
    calls[i] = price * normal(d1) - strike * discount * normal(d2);
    puts[i] = strike * discount * (1.0 - normal(d2)) - price * (1.0 - normal(d1));
}

/// Compares `black_scholes` with plain Rust.
///
/// # Errors
/// They differ.
pub fn black_scholes_matches(device: &Device) -> Checked {
    let (stream, len) = (device.new_stream(), 3000);
    let scaled = |seed, low: f32, high: f32| -> Vec<f32> {
        uniform(seed, len)
            .iter()
            .map(|part| low + part * (high - low))
            .collect()
    };
    let (prices, strikes, years) = (
        scaled(1, 5.0, 30.0),
        scaled(2, 1.0, 100.0),
        scaled(3, 0.25, 10.0),
    );
    let mut expected = (Vec::new(), Vec::new());
    for i in 0..len {
        let (s, x, t) = (
            f64::from(prices[i]),
            f64::from(strikes[i]),
            f64::from(years[i]),
        );
        let d1 = ((s / x).ln() + (0.02 + 0.5 * 0.09) * t) / (0.3 * t.sqrt());
        let d2 = d1 - 0.3 * t.sqrt();
        let (n1, n2) = (f64::from(normal(d1 as f32)), f64::from(normal(d2 as f32)));
        let discount = (-0.02 * t).exp();
        expected.0.push((s * n1 - x * discount * n2) as f32);
        expected
            .1
            .push((x * discount * (1.0 - n2) - s * (1.0 - n1)) as f32);
    }
    let (mut calls, mut puts) = (stream.empty(len)?, stream.empty(len)?);
    let [prices, strikes, years] = [prices, strikes, years].map(|it| stream.create(&it));
    black_scholes(
        0.02, 0.3, &prices?, &strikes?, &years?, &mut calls, &mut puts,
    )
    .launch(&stream, len)?;
    near("calls", &stream.read(&calls).wait()?, &expected.0, 1e-4)?;
    near("puts", &stream.read(&puts).wait()?, &expected.1, 1e-4)
}

/// The number of steps until a point escapes.
#[kernel]
pub fn escape(x: f32, y: f32, most: u32) -> u32 {
    let (mut a, mut b) = (0.0, 0.0);
    for step in 0..most {
        let next = a * a - b * b + x;
        b = 2.0 * a * b + y;
        a = next;
        if a * a + b * b > 4.0 {
            return step;
        }
    }
    most
}

/// A kernel.
#[kernel]
pub fn mandelbrot(width: u32, height: u32, most: u32, #[whole] steps: &mut [u32]) {
    let i = thread() as u32;
    let (column, row) = (i % width, i / width);
    let x = column as f32 / width as f32 * 3.0 - 2.0;
    let y = row as f32 / height as f32 * 2.0 - 1.0;
    steps[thread()] = escape(x, y, most);
}

/// Compares `mandelbrot` with plain Rust.
///
/// # Errors
/// They differ.
pub fn mandelbrot_matches(device: &Device) -> Checked {
    let (stream, width, height) = (device.new_stream(), 60_u32, 41_u32);
    let len = (width * height) as usize;
    let expected: Vec<u32> = (0..width * height)
        .map(|i| {
            let (column, row) = (i % width, i / width);
            let x = column as f32 / width as f32 * 3.0 - 2.0;
            let y = row as f32 / height as f32 * 2.0 - 1.0;
            let (mut a, mut b) = (0.0_f32, 0.0_f32);
            (0..100)
                .find(|_| {
                    (a, b) = (a * a - b * b + x, 2.0 * a * b + y);
                    a * a + b * b > 4.0
                })
                .unwrap_or(100)
        })
        .collect();
    let mut steps = stream.empty(len)?;
    mandelbrot(width, height, 100, &mut steps).launch(&stream, len)?;
    let given = stream.read(&steps).wait()?;
    // A compiler of a GPU may fuse a product and a sum, which moves the edge of the set by a bit.
    let different = given.iter().zip(&expected).filter(|(a, b)| a != b).count();
    match different * 100 > len {
        true => equal("steps", &given, &expected),
        false => Ok(()),
    }
}

/// The gravity of all bodies on each: three coordinates of `len` bodies, one after the other.
#[kernel]
pub fn n_body(dt: f32, positions: &[f32], velocities: &mut [f32]) {
    let (i, n) = (thread(), positions.len() / 3);
    let (x, y, z) = (positions[i], positions[n + i], positions[2 * n + i]);
    let mut force = (0.0, 0.0, 0.0);
    for j in 0..n {
        let (dx, dy, dz) = (
            positions[j] - x,
            positions[n + j] - y,
            positions[2 * n + j] - z,
        );
        let squared = dx * dx + dy * dy + dz * dz + 0.01;
        let inverse = 1.0 / squared.sqrt();
        let cubed = inverse * inverse * inverse;
        force = (
            force.0 + dx * cubed,
            force.1 + dy * cubed,
            force.2 + dz * cubed,
        );
    }
    velocities[i] += dt * force.0;
    velocities[n + i] += dt * force.1;
    velocities[2 * n + i] += dt * force.2;
}

/// Compares `n_body` with plain Rust.
///
/// # Errors
/// They differ.
pub fn n_body_matches(device: &Device) -> Checked {
    let (stream, n) = (device.new_stream(), 100);
    let (positions, velocities) = (uniform(1, 3 * n), uniform(2, 3 * n));
    let mut expected = velocities.clone();
    for i in 0..n {
        let mut force = [0.0_f64; 3];
        for j in 0..n {
            let d: [f64; 3] = std::array::from_fn(|axis| {
                f64::from(positions[axis * n + j]) - f64::from(positions[axis * n + i])
            });
            let squared: f64 = d.iter().map(|d| d * d).sum::<f64>() + 0.01;
            (0..3).for_each(|axis| force[axis] += d[axis] * squared.powf(-1.5));
        }
        (0..3).for_each(|axis| expected[axis * n + i] += (0.001 * force[axis]) as f32);
    }
    let (positions, mut velocities) = (stream.create(&positions)?, stream.create(&velocities)?);
    n_body(0.001, &positions, &mut velocities).launch(&stream, n)?;
    near(
        "velocities",
        &stream.read(&velocities).wait()?,
        &expected,
        1e-4,
    )
}

/// One axis of a separable convolution; beyond the image are zeros.
#[kernel]
pub fn convolve_rows(width: usize, x: &[f32], weights: &[f32], #[whole] y: &mut [f32]) {
    let i = thread();
    let (row, column) = (i / width, i % width);
    let radius = weights.len() / 2;
    let mut sum = 0.0;
    for tap in 0..weights.len() {
        // Wraps below zero, and is then no column.
        let at = column + tap - radius;
        if at < width {
            sum += x[row * width + at] * weights[tap];
        }
    }
    y[i] = sum;
}

/// Compares `convolution` with plain Rust.
///
/// # Errors
/// They differ.
pub fn convolution_matches(device: &Device) -> Checked {
    let (stream, width, height) = (device.new_stream(), 37, 11);
    let (x, weights) = (uniform(1, width * height), uniform(2, 7));
    let expected: Vec<f32> = (0..width * height)
        .map(|i| {
            let (row, column) = (i / width, (i % width) as isize);
            let taps = (0..7).filter_map(|tap: usize| {
                let at = column + tap as isize - 3;
                (0..width as isize)
                    .contains(&at)
                    .then(|| x[row * width + at as usize] * weights[tap])
            });
            taps.sum()
        })
        .collect();
    let (x, weights, mut y) = (
        stream.create(&x)?,
        stream.create(&weights)?,
        stream.empty(x.len())?,
    );
    convolve_rows(width, &x, &weights, &mut y).launch(&stream, width * height)?;
    near("y", &stream.read(&y).wait()?, &expected, 1e-5)
}
