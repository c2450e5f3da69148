//! The columns of a separable convolution, in tiles through shared memory, as the CUDA samples have it.

use millstream::prelude::*;

use crate::{Checked, near, uniform};

const RADIUS: usize = 3;
const DOWN: usize = 8;
const ACROSS: usize = 16;
/// The lines of a tile, with those above and below that its first and last results need.
const LINES: usize = DOWN + 2 * RADIUS;

/// One axis of a separable convolution; beyond the image are zeros.
#[kernel(cube = [8, 16])]
pub fn convolve_columns(height: usize, width: usize, x: &[f32], weights: &[f32], y: &mut [f32]) {
    let tile = shared::<f32, { LINES * ACROSS }>();
    let [row, column] = position();
    let [down, across] = position_in_cube();
    for line in (down..LINES).step_by(DOWN) {
        // Wraps above the image, and is then no row.
        let from = row - down + line - RADIUS;
        tile[line * ACROSS + across] = if from < height && column < width {
            x[from * width + column]
        } else {
            0.0
        };
    }
    barrier();
    if row < height && column < width {
        let mut sum = 0.0;
        for tap in 0..2 * RADIUS + 1 {
            sum += tile[(down + tap) * ACROSS + across] * weights[tap];
        }
        y[row * width + column] = sum;
    }
}

/// The same in ordinary Rust.
fn expected(height: usize, width: usize, x: &[f32], weights: &[f32]) -> Vec<f32> {
    let of = |i: usize| {
        let row = i / width + 1;
        let taps = weights.iter().enumerate().filter_map(|(tap, weight)| {
            let from = (row + tap).checked_sub(RADIUS + 1)?;
            (from < height).then(|| f64::from(x[from * width + i % width]) * f64::from(*weight))
        });
        taps.sum::<f64>() as f32
    };
    (0..height * width).map(of).collect()
}

/// Compares `convolve_columns` with plain Rust.
///
/// # Errors
/// They differ.
pub fn columns_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    for [height, width] in [[1, 1], [DOWN, ACROSS], [2, 17], [37, 21]] {
        let (mut x, weights) = (uniform(1, height * width), uniform(2, 2 * RADIUS + 1));
        if height > 30 {
            (x[5], x[width * 12 + 3], x[width * 30]) = (f32::INFINITY, f32::NAN, -f32::INFINITY);
        }
        let expected = expected(height, width, &x, &weights);
        let (x, weights) = (stream.create(&x)?, stream.create(&weights)?);
        let mut y = stream.create(&vec![0.0; height * width])?;
        convolve_columns(height, width, &x, &weights, &mut y).launch(&stream, [height, width])?;
        near("y", &stream.read(&y).wait()?, &expected, 1e-5)?;
    }
    Ok(())
}
