//! Weighted sums of neighbours.

use super::{check_length, elements};
use crate::{Element, Error, Handle, Number, Stream, kernel};

/// What lies beyond the edges of an image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Edge {
    /// Zeros.
    Zero,
    /// The nearest element of the image.
    Nearest,
    /// The image again, as on a torus.
    Wrap,
}

const ZERO: u32 = 0;
const NEAREST: u32 = 1;
const WRAP: u32 = 2;

/// The place along an axis that another one stands for; `len` if it stands for none.
#[kernel]
fn place<const EDGE: u32>(at: isize, len: usize) -> usize {
    let n = len as isize;
    if EDGE == NEAREST {
        at.max(0).min(n - 1) as usize
    } else if EDGE == WRAP {
        ((at % n + n) % n) as usize
    } else if at >= 0 && at < n {
        at as usize
    } else {
        len
    }
}

#[kernel]
fn convolve_each<T: Number, const EDGE: u32>(
    rows: usize,
    columns: usize,
    window_rows: usize,
    window_columns: usize,
    x: &[T],
    weights: &[T],
    #[whole] y: &mut [T],
) {
    let [row, column] = position();
    let (top, left) = (
        row as isize - window_rows as isize / 2,
        column as isize - window_columns as isize / 2,
    );
    let mut sum = 0 as T;
    for down in 0..window_rows {
        let from = place::<EDGE>(top + down as isize, rows);
        if from < rows {
            for across in 0..window_columns {
                let at = place::<EDGE>(left + across as isize, columns);
                if at < columns {
                    sum += weights[down * window_columns + across] * x[from * columns + at];
                }
            }
        }
    }
    y[thread()] = sum;
}

/// Returns the weighted sums of the neighbours of each element of an image. The weights lie around the element: the one at
/// `[window_rows / 2, window_columns / 2]` is its own. They are not mirrored. A blur that has a weight for each row and one
/// for each column takes less time as two calls.
///
/// ```
/// use millstream::kernels::{Edge, convolve};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let (x, weights) = (stream.create(&[1, 2, 3, 4])?, stream.create(&[100, 10, 1])?);
/// let y = convolve(&stream, [1, 4], &x, [1, 3], &weights, Edge::Zero)?;
/// assert_eq!(stream.read(&y).wait()?, [12, 123, 234, 340]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if the lengths are not those of the shapes, and those of [`Stream::empty`] and [`Stream::launch`].
pub fn convolve<T: Number + Element>(
    stream: &Stream,
    [rows, columns]: [usize; 2],
    x: &Handle<T>,
    [window_rows, window_columns]: [usize; 2],
    weights: &Handle<T>,
    edge: Edge,
) -> Result<Handle<T>, Error> {
    let all = elements("convolve", &[rows, columns])?;
    let window = elements("convolve", &[window_rows, window_columns])?;
    check_length("convolve", "x", x.len(), all)?;
    check_length("convolve", "weights", weights.len(), window)?;
    let mut y = stream.empty(all)?;
    macro_rules! with {
        ($edge:ident) => {
            convolve_each::<T, $edge>(
                rows,
                columns,
                window_rows,
                window_columns,
                x,
                weights,
                &mut y,
            )
            .launch(stream, [rows, columns])?
        };
    }
    match edge {
        Edge::Zero => with!(ZERO),
        Edge::Nearest => with!(NEAREST),
        Edge::Wrap => with!(WRAP),
    }
    Ok(y)
}
