//! Sums of all elements up to each.
//!
//! The elements lie in tiles of [`TILE`]. One launch computes the sum of each tile; these sums are scanned in turn; a last
//! launch scans each tile and adds what the tiles before it have. So each element is read twice and written once.

use super::{CUBE, ITEMS, TILE, single};
use crate::{Element, Error, Handle, Number, Stream, kernel};

/// What a scan adds of an element: the element, or 1 if `FLAGS` and it is not 0.
#[kernel]
fn addend<T: Number, U: Number, const FLAGS: bool>(element: T) -> U {
    if FLAGS {
        (element != 0 as T) as U
    } else {
        element as U
    }
}

/// The place of an element of a tile in shared memory: a gap after each 32, so that neither threads with adjacent elements
/// nor threads with 8 each wait for the same bank.
#[kernel]
pub(super) fn padded(at: usize) -> usize {
    at + at / 32
}

#[kernel(cube = 256)]
fn scan_sums<T: Number, U: Number, const FLAGS: bool>(x: &[T], #[whole] sums: &mut [U]) {
    let part = shared::<U, 256>();
    let (mine, start) = (thread_in_cube(), cube() * TILE);
    let mut sum = 0 as U;
    for item in 0..ITEMS {
        let at = start + item * CUBE + mine;
        if at < x.len() {
            sum += addend::<T, U, FLAGS>(x[at]);
        }
    }
    part[mine] = sum;
    let mut half = CUBE / 2;
    while half > 0 {
        barrier();
        if mine < half {
            part[mine] += part[mine + half];
        }
        half /= 2;
    }
    if mine == 0 {
        sums[cube()] = part[0];
    }
}

#[kernel(cube = 256)]
pub(super) fn scan_tiles<T: Number, U: Number, const FLAGS: bool, const INCLUSIVE: bool>(
    x: &[T],
    offsets: &[U],
    #[whole] y: &mut [U],
) {
    let (tile, sums) = (shared::<U, 2112>(), shared::<U, 256>());
    let (mine, start) = (thread_in_cube(), cube() * TILE);
    for item in 0..ITEMS {
        let at = item * CUBE + mine;
        let mut value = 0 as U;
        if start + at < x.len() {
            value = addend::<T, U, FLAGS>(x[start + at]);
        }
        tile[padded(at)] = value;
    }
    barrier();
    let mut sum = 0 as U;
    for item in 0..ITEMS {
        sum += tile[padded(mine * ITEMS + item)];
    }
    // Hillis and Steele.
    sums[mine] = sum;
    let mut distance = 1;
    while distance < CUBE {
        barrier();
        let mut other = 0 as U;
        if mine >= distance {
            other = sums[mine - distance];
        }
        barrier();
        sums[mine] += other;
        distance *= 2;
    }
    barrier();
    let mut before = offsets[cube()];
    if mine > 0 {
        before += sums[mine - 1];
    }
    for item in 0..ITEMS {
        let at = padded(mine * ITEMS + item);
        let value = tile[at];
        if INCLUSIVE {
            tile[at] = before + value;
        } else {
            tile[at] = before;
        }
        before += value;
    }
    barrier();
    for item in 0..ITEMS {
        let at = item * CUBE + mine;
        if start + at < y.len() {
            y[start + at] = tile[padded(at)];
        }
    }
}

/// Returns the sums of what [`addend`] has of the elements up to each.
pub(super) fn scanned<T, U, const FLAGS: bool, const INCLUSIVE: bool>(
    stream: &Stream,
    x: &Handle<T>,
) -> Result<Handle<U>, Error>
where
    T: Number + Element,
    U: Number + Element,
{
    let tiles = x.len().div_ceil(TILE);
    let mut y = stream.empty(x.len())?;
    let offsets = match tiles {
        0 => return Ok(y),
        1 => single(stream, U::default())?,
        _ => {
            let mut sums = stream.empty(tiles)?;
            scan_sums::<T, U, FLAGS>(x, &mut sums).launch(stream, tiles * CUBE)?;
            scanned::<U, U, false, false>(stream, &sums)?
        }
    };
    scan_tiles::<T, U, FLAGS, INCLUSIVE>(x, &offsets, &mut y).launch(stream, tiles * CUBE)?;
    Ok(y)
}

/// Returns the sums of the elements up to each, with it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = stream.create(&[1, 2, 3, 4])?;
/// let sums = millstream::kernels::scan(&stream, &x)?;
/// assert_eq!(stream.read(&sums).wait()?, [1, 3, 6, 10]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Stream::empty`] and [`Stream::launch`].
pub fn scan<T: Number + Element>(stream: &Stream, x: &Handle<T>) -> Result<Handle<T>, Error> {
    scanned::<T, T, false, true>(stream, x)
}

/// Returns the sums of the elements before each.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = stream.create(&[1, 2, 3, 4])?;
/// let sums = millstream::kernels::scan_exclusive(&stream, &x)?;
/// assert_eq!(stream.read(&sums).wait()?, [0, 1, 3, 6]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Stream::empty`] and [`Stream::launch`].
pub fn scan_exclusive<T: Number + Element>(
    stream: &Stream,
    x: &Handle<T>,
) -> Result<Handle<T>, Error> {
    scanned::<T, T, false, false>(stream, x)
}
