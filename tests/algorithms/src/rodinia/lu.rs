//! LU decomposition in blocks, without pivots: the diagonal block, those right of it and below it, and all the others.

use millstream::prelude::*;

use crate::{Checked, near, uniform};

/// The rows and columns of a block.
const BLOCK: usize = 16;
const ALL: usize = BLOCK * BLOCK;

/// Returns an element, beyond the matrix one of the identity.
#[kernel]
pub fn element(n: usize, row: usize, column: usize, a: &[f32]) -> f32 {
    if row < n && column < n {
        a[row * n + column]
    } else if row == column {
        1.0
    } else {
        0.0
    }
}

/// Decomposes the diagonal block that begins at `at`.
#[kernel(cube = 16)]
pub fn diagonal(n: usize, at: usize, a: &mut [f32]) {
    let block = shared::<f32, ALL>();
    let mine = thread_in_cube();
    for row in 0..BLOCK {
        block[row * BLOCK + mine] = element(n, at + row, at + mine, a);
    }
    for pivot in 0..BLOCK - 1 {
        barrier();
        if mine > pivot {
            let mut lower = block[mine * BLOCK + pivot];
            for k in 0..pivot {
                lower -= block[mine * BLOCK + k] * block[k * BLOCK + pivot];
            }
            block[mine * BLOCK + pivot] = lower / block[pivot * BLOCK + pivot];
        }
        barrier();
        if mine > pivot {
            let row = (pivot + 1) * BLOCK;
            let mut upper = block[row + mine];
            for k in 0..pivot + 1 {
                upper -= block[row + k] * block[k * BLOCK + mine];
            }
            block[row + mine] = upper;
        }
    }
    barrier();
    for row in 0..BLOCK {
        if at + row < n && at + mine < n {
            a[(at + row) * n + at + mine] = block[row * BLOCK + mine];
        }
    }
}

/// Decomposes the blocks right of the diagonal one and below it. Of a cube's threads, half have a column each of the
/// block on the right, and the others a row each of the one below.
#[kernel(cube = 32)]
pub fn perimeter(n: usize, at: usize, a: &mut [f32]) {
    let (block, right, below) = (
        shared::<f32, ALL>(),
        shared::<f32, ALL>(),
        shared::<f32, ALL>(),
    );
    let (mine, part) = (thread_in_cube() % BLOCK, thread_in_cube() / BLOCK);
    let far = at + (cube() + 1) * BLOCK;
    for row in (part..BLOCK).step_by(2) {
        block[row * BLOCK + mine] = element(n, at + row, at + mine, a);
        right[row * BLOCK + mine] = element(n, at + row, far + mine, a);
        below[row * BLOCK + mine] = element(n, far + row, at + mine, a);
    }
    barrier();
    for k in 0..BLOCK {
        if part == 0 {
            let mut upper = right[k * BLOCK + mine];
            for j in 0..k {
                upper -= block[k * BLOCK + j] * right[j * BLOCK + mine];
            }
            right[k * BLOCK + mine] = upper;
        } else {
            let mut lower = below[mine * BLOCK + k];
            for j in 0..k {
                lower -= below[mine * BLOCK + j] * block[j * BLOCK + k];
            }
            below[mine * BLOCK + k] = lower / block[k * BLOCK + k];
        }
    }
    barrier();
    for row in (part..BLOCK).step_by(2) {
        if far + mine < n {
            a[(at + row) * n + far + mine] = right[row * BLOCK + mine];
        }
        if far + row < n {
            a[(far + row) * n + at + mine] = below[row * BLOCK + mine];
        }
    }
}

/// Subtracts from the blocks behind the perimeter the product of the one in their row and the one in their column.
#[kernel(cube = [16, 16])]
pub fn inside(n: usize, at: usize, a: &mut [f32]) {
    let (left, above) = (shared::<f32, ALL>(), shared::<f32, ALL>());
    let [down, across] = position_in_cube();
    let [row, column] = position();
    let (row, column) = (at + BLOCK + row, at + BLOCK + column);
    left[down * BLOCK + across] = element(n, row, at + across, a);
    above[down * BLOCK + across] = element(n, at + down, column, a);
    barrier();
    let mut sum = 0.0;
    for k in 0..BLOCK {
        sum += left[down * BLOCK + k] * above[k * BLOCK + across];
    }
    if row < n && column < n {
        a[row * n + column] -= sum;
    }
}

/// Decomposes a matrix: the upper triangle, and the lower one without its diagonal of ones.
fn decompose(stream: &Stream, n: usize, a: &mut Handle<f32>) -> Result<(), millstream::Error> {
    for at in (0..n).step_by(BLOCK) {
        diagonal(n, at, a).launch(stream, BLOCK)?;
        let rest = (n - at).div_ceil(BLOCK) - 1;
        if rest > 0 {
            perimeter(n, at, a).launch(stream, rest * 32)?;
            inside(n, at, a).launch(stream, [rest * BLOCK; 2])?;
        }
    }
    Ok(())
}

/// The same in ordinary Rust.
fn expected(n: usize, a: &[f32]) -> Vec<f32> {
    let mut a: Vec<f64> = a.iter().map(|it| f64::from(*it)).collect();
    for pivot in 0..n {
        for row in pivot + 1..n {
            a[row * n + pivot] /= a[pivot * n + pivot];
            for column in pivot + 1..n {
                a[row * n + column] -= a[row * n + pivot] * a[pivot * n + column];
            }
        }
    }
    a.iter().map(|it| *it as f32).collect()
}

/// Compares the decomposition with plain Rust.
///
/// # Errors
/// They differ.
pub fn lu_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    for n in [0, 1, 2, 16, 40] {
        // Without pivots, the diagonal must be the greatest part of each row.
        let diagonal = |i: usize| {
            if i.is_multiple_of(n + 1) {
                n as f32
            } else {
                0.0
            }
        };
        let a = uniform(1, n * n).into_iter().enumerate();
        let mut a: Vec<f32> = a.map(|(i, it)| it - 0.5 + diagonal(i)).collect();
        if n == 2 {
            a = vec![0.0, 1.0, 1.0, 1.0];
        }
        let expected = expected(n, &a);
        let mut a = stream.create(&a)?;
        decompose(&stream, n, &mut a)?;
        near("a", &stream.read(&a).wait()?, &expected, 1e-5)?;
    }
    Ok(())
}
