//! Matrices in row-major order.

use super::{check_length, elements};
use crate::{Element, Error, Handle, Number, Stream, kernel};

/// The rows and columns of a tile that a cube transposes.
const SIDE: usize = 32;
/// The rows of threads of such a cube.
const ROWS: usize = 8;

/// A tile at a time, through shared memory, so that threads with adjacent elements load and store adjacent memory. The
/// tile's rows have a gap, so that a column lies in different banks.
#[kernel(cube = [8, 32])]
fn transpose_tiles<T: Number>(rows: usize, columns: usize, x: &[T], #[whole] y: &mut [T]) {
    let tile = shared::<T, 1056>();
    let [down, across] = position_in_cube();
    let [tile_row, tile_column] = cube_position();
    let (top, left) = (tile_row * SIDE, tile_column * SIDE);
    for step in 0..4 {
        let row = down + step * ROWS;
        if top + row < rows && left + across < columns {
            tile[row * 33 + across] = x[(top + row) * columns + left + across];
        }
    }
    barrier();
    for step in 0..4 {
        let column = down + step * ROWS;
        if left + column < columns && top + across < rows {
            y[(left + column) * rows + top + across] = tile[across * 33 + column];
        }
    }
}

/// Returns a matrix of `rows` and `columns` with its rows as columns.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = stream.create(&[1, 2, 3, 4, 5, 6])?;
/// let y = millstream::kernels::transpose(&stream, [2, 3], &x)?;
/// assert_eq!(stream.read(&y).wait()?, [1, 4, 2, 5, 3, 6]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if `x` does not have `rows * columns` elements, and those of [`Stream::empty`] and
/// [`Stream::launch`].
pub fn transpose<T: Number + Element>(
    stream: &Stream,
    [rows, columns]: [usize; 2],
    x: &Handle<T>,
) -> Result<Handle<T>, Error> {
    let all = elements("transpose", &[rows, columns])?;
    check_length("transpose", "x", x.len(), all)?;
    let mut y = stream.empty(all)?;
    let threads = [rows.div_ceil(SIDE) * ROWS, columns.div_ceil(SIDE) * SIDE];
    transpose_tiles(rows, columns, x, &mut y).launch(stream, threads)?;
    Ok(y)
}

/// The rows and columns of a tile of a product.
const TILE: usize = 64;
/// The terms of a tile that are in shared memory at once.
const DEPTH: usize = 16;

/// A tile of 64 x 64 elements, of which each of 16 x 16 threads has 4 x 4: rows and columns with a distance of 16, so that
/// threads side by side load side by side.
#[kernel(cube = [16, 16])]
pub(super) fn matmul_tiles<T: Number>(
    rows: usize,
    terms: usize,
    columns: usize,
    a: &[T],
    b: &[T],
    #[whole] c: &mut [T],
) {
    // The left tile is transposed, with a gap after each term.
    let (left, right) = (shared::<T, 1040>(), shared::<T, 1024>());
    let [down, across] = position_in_cube();
    let [tile_row, tile_column] = cube_position();
    let (top, start) = (tile_row * TILE, tile_column * TILE);
    let mine = down * 16 + across;
    let mut sums = [0 as T; 16];
    let mut first = 0;
    while first < terms {
        for step in 0..4 {
            let (row, term) = (down + step * 16, first + across);
            let mut value = 0 as T;
            if top + row < rows && term < terms {
                value = a[(top + row) * terms + term];
            }
            left[across * 65 + row] = value;
            let (term, column) = (mine / TILE + step * 4, mine % TILE);
            let mut value = 0 as T;
            if first + term < terms && start + column < columns {
                value = b[(first + term) * columns + start + column];
            }
            right[term * TILE + column] = value;
        }
        barrier();
        for term in 0..DEPTH {
            let mut row = [0 as T; 4];
            for j in 0..4 {
                row[j] = right[term * TILE + across + j * 16];
            }
            for i in 0..4 {
                let value = left[term * 65 + down + i * 16];
                for j in 0..4 {
                    sums[i * 4 + j] += value * row[j];
                }
            }
        }
        barrier();
        first += DEPTH;
    }
    for i in 0..4 {
        for j in 0..4 {
            let (row, column) = (top + down + i * 16, start + across + j * 16);
            if row < rows && column < columns {
                c[row * columns + column] = sums[i * 4 + j];
            }
        }
    }
}

/// Returns the product of a matrix of `rows` and `terms` with one of `terms` and `columns`. Each sum begins with the first
/// term.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let (a, b) = (stream.create(&[1, 2, 3, 4])?, stream.create(&[10, 1])?);
/// let c = millstream::kernels::matmul(&stream, [2, 2, 1], &a, &b)?;
/// assert_eq!(stream.read(&c).wait()?, [12, 34]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if the lengths are not `rows * terms` and `terms * columns`, and those of [`Stream::empty`] and
/// [`Stream::launch`].
pub fn matmul<T: Number + Element>(
    stream: &Stream,
    [rows, terms, columns]: [usize; 3],
    a: &Handle<T>,
    b: &Handle<T>,
) -> Result<Handle<T>, Error> {
    check_length("matmul", "a", a.len(), elements("matmul", &[rows, terms])?)?;
    check_length(
        "matmul",
        "b",
        b.len(),
        elements("matmul", &[terms, columns])?,
    )?;
    let mut c = stream.empty(elements("matmul", &[rows, columns])?)?;
    let threads = [rows, columns].map(|len| len.div_ceil(TILE) * 16);
    matmul_tiles(rows, terms, columns, a, b, &mut c).launch(stream, threads)?;
    Ok(c)
}
