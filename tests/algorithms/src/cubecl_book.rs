//! The examples of the CubeCL book: GELU, sums of rows by a cube each, and a product by cubes; for any float.

use std::fmt::Debug;

use millstream::prelude::*;
use millstream::{Element, f16};

use crate::{Checked, equal, near, uniform};

/// GELU of each number.
#[kernel]
pub fn gelu<F: Float>(x: &[F], #[whole] y: &mut [F]) {
    let i = thread();
    let half_root = (0.5 as F).sqrt();
    y[i] = x[i] * ((x[i] * half_root).erf() + 1 as F) / 2 as F;
}

/// The error function in ordinary Rust, by its series.
fn erf(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 4.5 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let terms = (0..120).scan(x, |term, n| {
        let sum = *term / f64::from(2 * n + 1);
        *term *= -x * x / f64::from(n + 1);
        Some(sum)
    });
    terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
}

/// Compares `gelu` with plain Rust.
///
/// # Errors
/// They differ.
pub fn gelu_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    let mut x: Vec<f32> = uniform(1, 500).iter().map(|it| it * 12.0 - 6.0).collect();
    x.extend([
        0.0,
        -0.0,
        1e-40,
        f32::MAX,
        f32::INFINITY,
        -f32::INFINITY,
        f32::NAN,
    ]);
    let expected = |x: f64| x * (erf(x * 0.5_f64.sqrt()) + 1.0) / 2.0;
    let expected_of =
        |x: &[f32]| -> Vec<f32> { x.iter().map(|it| expected((*it).into()) as f32).collect() };

    for len in [0, 1, x.len()] {
        let (x_of, mut y) = (stream.create(&x[..len])?, stream.empty(len)?);
        gelu(&x_of, &mut y).launch_each(&stream)?;
        near(
            "f32",
            &stream.read(&y).wait()?,
            &expected_of(&x[..len]),
            1e-6,
        )?;
    }
    let wide: Vec<f64> = x.iter().map(|it| (*it).into()).collect();
    let (x_of, mut y) = (stream.create(&wide)?, stream.empty(wide.len())?);
    gelu(&x_of, &mut y).launch_each(&stream)?;
    let y: Vec<f32> = stream
        .read(&y)
        .wait()?
        .iter()
        .map(|it| *it as f32)
        .collect();
    near("f64", &y, &expected_of(&x), 1e-6)?;

    let halves: Vec<f16> = x.iter().map(|it| f16::from_f32(*it)).collect();
    let (x_of, mut y) = (stream.create(&halves)?, stream.empty(halves.len())?);
    gelu(&x_of, &mut y).launch_each(&stream)?;
    let wide = |halves: &[f16]| -> Vec<f32> { halves.iter().map(|it| it.to_f32()).collect() };
    near(
        "f16",
        &wide(&stream.read(&y).wait()?),
        &expected_of(&wide(&halves)),
        3e-3,
    )
}

/// The sum of each row. Each cube has a row.
#[kernel(cube = 64)]
pub fn row_sums<T: Number>(columns: usize, x: &[T], sums: &mut [T]) {
    let partial = shared::<T, 64>();
    let (row, mine) = (cube(), thread_in_cube());
    let mut sum = 0 as T;
    for column in (mine..columns).step_by(threads_in_cube()) {
        sum += x[row * columns + column];
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
        sums[row] = partial[0];
    }
}

/// The sums of rows on a device.
fn sums_of<T>(
    stream: &Stream,
    [rows, columns]: [usize; 2],
    x: &[T],
) -> Result<Vec<T>, millstream::Error>
where
    T: Number + Element,
{
    let (x, mut sums) = (stream.create(x)?, stream.create(&vec![T::default(); rows])?);
    row_sums(columns, &x, &mut sums).launch(stream, rows * 64)?;
    stream.read(&sums).wait()
}

/// Compares `row_sums` with plain Rust.
///
/// # Errors
/// They differ.
pub fn row_sums_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    for [rows, columns] in [[0, 5], [1, 1], [3, 0], [5, 64], [3, 333]] {
        let x = uniform(1, rows * columns);
        let whole: Vec<i32> = x.iter().map(|it| (it * 4e9) as i64 as i32).collect();
        let of_row = |row: usize| row * columns..(row + 1) * columns;
        let sum = |row| {
            whole[of_row(row)]
                .iter()
                .fold(0, |sum: i32, it| sum.wrapping_add(*it))
        };
        let expected: Vec<i32> = (0..rows).map(sum).collect();
        equal(
            "sums of integers",
            &sums_of(&stream, [rows, columns], &whole)?,
            &expected,
        )?;
        let expected: Vec<f32> = (0..rows).map(|row| x[of_row(row)].iter().sum()).collect();
        near(
            "sums",
            &sums_of(&stream, [rows, columns], &x)?,
            &expected,
            1e-5,
        )?;
    }
    Ok(())
}

/// The product of an `m` by `k` and a `k` by `n` matrix. A cube has 16 by 16 elements of it, and each thread four.
#[kernel(cube = [4, 16])]
pub fn product<F: Float>(m: usize, k: usize, n: usize, a: &[F], b: &[F], c: &mut [F]) {
    let (left, right) = (shared::<F, 256>(), shared::<F, 256>());
    let [cube_row, cube_column] = cube_position();
    let [down, across] = position_in_cube();
    let (top, column) = (cube_row * 16, cube_column * 16 + across);
    let mut sums = [0 as F; 4];
    for at in (0..k).step_by(16) {
        for line in (down..16).step_by(4) {
            let (row, here) = (top + line, line * 16 + across);
            left[here] = if row < m && at + across < k {
                a[row * k + at + across]
            } else {
                0 as F
            };
            right[here] = if at + line < k && column < n {
                b[(at + line) * n + column]
            } else {
                0 as F
            };
        }
        barrier();
        for j in 0..16 {
            let factor = right[j * 16 + across];
            for part in 0..4 {
                sums[part] += left[(4 * part + down) * 16 + j] * factor;
            }
        }
        barrier();
    }
    for part in 0..4 {
        let row = top + 4 * part + down;
        if row < m && column < n {
            c[row * n + column] = sums[part];
        }
    }
}

/// Compares `product` with plain Rust.
///
/// # Errors
/// They differ.
pub fn product_matches(device: &Device) -> Checked {
    fn checked<F>(
        stream: &Stream,
        size: [usize; 3],
        of: fn(f32) -> F,
        wide: fn(F) -> f32,
    ) -> Checked
    where
        F: Float + Element + Debug,
    {
        let [m, k, n] = size;
        let part = |seed, len| -> Vec<f32> {
            uniform(seed, len)
                .into_iter()
                .map(|it| wide(of(it)))
                .collect()
        };
        let (a, b) = (part(1, m * k), part(2, k * n));
        let element =
            |i: usize| -> f32 { (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum() };
        let expected: Vec<f32> = (0..m * n).map(element).collect();
        let [a, b] = [a, b].map(|it| stream.create(&it.into_iter().map(of).collect::<Vec<F>>()));
        let mut c = stream.create(&vec![of(-1.0); m * n])?;
        product(m, k, n, &a?, &b?, &mut c)
            .launch(stream, [m.div_ceil(16) * 4, n.div_ceil(16) * 16])?;
        let c: Vec<f32> = stream.read(&c).wait()?.into_iter().map(wide).collect();
        near("c", &c, &expected, 2e-2)
    }
    let stream = device.new_stream();
    for size in [[1, 1, 1], [2, 0, 3], [17, 20, 19]] {
        checked(&stream, size, |it| it, |it| it)?;
    }
    checked(&stream, [4, 5, 6], f16::from_f32, f16::to_f32)
}
