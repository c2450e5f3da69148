//! Elements that depend on no others.

use super::check_length;
use crate::{Element, Error, Handle, Number, Stream, kernel};

#[kernel]
fn iota_each<T: Number>(first: T, step: T, #[whole] y: &mut [T]) {
    let i = thread();
    y[i] = first + i as T * step;
}

#[kernel]
fn cast_each<T: Number, U: Number>(x: &[T], #[whole] y: &mut [U]) {
    let i = thread();
    y[i] = x[i] as U;
}

#[kernel]
fn scale_add_each<T: Number>(a: T, x: &[T], y: &mut [T]) {
    let i = thread();
    y[i] += a * x[i];
}

/// Returns `len` numbers with the same distance: `first`, `first + step`, `first + 2 * step`, ..
///
/// [`Stream::fill`] sets all elements to one value.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = millstream::kernels::iota(&stream, 10, 5, 4)?;
/// assert_eq!(stream.read(&x).wait()?, [10, 15, 20, 25]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Stream::empty`] and [`Stream::launch`].
pub fn iota<T: Number + Element>(
    stream: &Stream,
    first: T,
    step: T,
    len: usize,
) -> Result<Handle<T>, Error> {
    let mut y = stream.empty(len)?;
    iota_each(first, step, &mut y).launch_each(stream)?;
    Ok(y)
}

/// Returns the elements as another type of numbers, cast as by Rust's `as`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = stream.create(&[-1.0, 2.9, 300.0])?;
/// let bytes = millstream::kernels::cast::<f64, u8>(&stream, &x)?;
/// assert_eq!(stream.read(&bytes).wait()?, [0, 2, 255]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Stream::empty`] and [`Stream::launch`].
pub fn cast<T: Number + Element, U: Number + Element>(
    stream: &Stream,
    x: &Handle<T>,
) -> Result<Handle<U>, Error> {
    let mut y = stream.empty(x.len())?;
    cast_each(x, &mut y).launch_each(stream)?;
    Ok(y)
}

/// Adds `a * x` to `y`, element by element.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let (x, mut y) = (stream.create(&[1, 2, 3])?, stream.create(&[10, 10, 10])?);
/// millstream::kernels::scale_add(&stream, 2, &x, &mut y)?;
/// assert_eq!(stream.read(&y).wait()?, [12, 14, 16]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if the lengths differ or the buffers overlap, and those of [`Stream::launch`].
pub fn scale_add<T: Number + Element>(
    stream: &Stream,
    a: T,
    x: &Handle<T>,
    y: &mut Handle<T>,
) -> Result<(), Error> {
    check_length("scale_add", "x", x.len(), y.len())?;
    scale_add_each(a, x, y).launch_each(stream)
}
