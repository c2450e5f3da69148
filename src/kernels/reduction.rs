//! One element of many: sums, least and greatest elements, inner products.
//!
//! Two launches: the threads of up to [`CUBES_MAX`] cubes go through the elements with a stride, and each cube leaves one
//! value; then one cube does the same with these values. Which elements a thread has depends on their number alone, and so
//! do the bits of a sum of floats.

use millstream_protocol::{ArgumentError, ArgumentErrorKind};

use super::{CUBE, check_length, single};
use crate::{Element, Error, Handle, Number, Stream, kernel};

/// The most cubes of the first launch: a little more than the largest GPUs run at once.
const CUBES_MAX: usize = 2048;
/// The elements that each thread has at least, before there are more cubes.
const ELEMENTS_MIN: usize = 16;

const SUM: u32 = 0;
const DOT: u32 = 1;
const MIN: u32 = 2;
const MAX: u32 = 3;

#[kernel]
fn combine<T: Number, const OP: u32>(a: T, b: T) -> T {
    if OP == MIN {
        a.min(b)
    } else if OP == MAX {
        a.max(b)
    } else {
        a + b
    }
}

/// The value of each cube's elements. `y` is the other factor of an inner product.
#[kernel(cube = 256)]
pub(super) fn reduce<T: Number, const OP: u32>(x: &[T], y: &[T], #[whole] values: &mut [T]) {
    let part = shared::<T, 256>();
    let (mine, stride) = (thread_in_cube(), threads());
    let mut value = 0 as T;
    if OP == MIN || OP == MAX {
        value = x[0];
    }
    let mut i = thread();
    while i < x.len() {
        if OP == DOT {
            value += x[i] * y[i];
        } else {
            value = combine::<T, OP>(value, x[i]);
        }
        i += stride;
    }
    part[mine] = value;
    let mut half = CUBE / 2;
    while half > 0 {
        barrier();
        if mine < half {
            part[mine] = combine::<T, OP>(part[mine], part[mine + half]);
        }
        half /= 2;
    }
    if mine == 0 {
        values[cube()] = part[0];
    }
}

/// Reduces `x` to one element. `AGAIN` reduces what the cubes leave.
fn reduced<T: Number + Element, const OP: u32, const AGAIN: u32>(
    stream: &Stream,
    x: &Handle<T>,
    y: &Handle<T>,
) -> Result<Handle<T>, Error> {
    let cubes = x.len().div_ceil(CUBE * ELEMENTS_MIN).min(CUBES_MAX);
    let mut values = stream.empty(cubes)?;
    reduce::<T, OP>(x, y, &mut values).launch(stream, cubes * CUBE)?;
    if cubes == 1 {
        return Ok(values);
    }
    let mut value = stream.empty(1)?;
    reduce::<T, AGAIN>(&values, &values, &mut value).launch(stream, CUBE)?;
    Ok(value)
}

/// Returns the sum of all elements, 0 of none.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = stream.create(&[1.5; 1000])?;
/// let sum = millstream::kernels::sum(&stream, &x)?;
/// assert_eq!(stream.read(&sum).wait()?, [1500.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Stream::empty`] and [`Stream::launch`].
pub fn sum<T: Number + Element>(stream: &Stream, x: &Handle<T>) -> Result<Handle<T>, Error> {
    match x.is_empty() {
        true => single(stream, T::default()),
        false => reduced::<T, SUM, SUM>(stream, x, x),
    }
}

/// Returns the sum of the products of elements, 0 of none.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let (x, y) = (stream.create(&[1, 2, 3])?, stream.create(&[4, 5, 6])?);
/// let product = millstream::kernels::dot(&stream, &x, &y)?;
/// assert_eq!(stream.read(&product).wait()?, [32]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if the lengths differ, and those of [`Stream::empty`] and [`Stream::launch`].
pub fn dot<T: Number + Element>(
    stream: &Stream,
    x: &Handle<T>,
    y: &Handle<T>,
) -> Result<Handle<T>, Error> {
    check_length("dot", "y", y.len(), x.len())?;
    match x.is_empty() {
        true => single(stream, T::default()),
        false => reduced::<T, DOT, SUM>(stream, x, y),
    }
}

/// Returns the least element, NaN if one is.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = stream.create(&[3, -7, 5])?;
/// let least = millstream::kernels::min(&stream, &x)?;
/// assert_eq!(stream.read(&least).wait()?, [-7]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if there are no elements, and those of [`Stream::empty`] and [`Stream::launch`].
pub fn min<T: Number + Element>(stream: &Stream, x: &Handle<T>) -> Result<Handle<T>, Error> {
    check_some("min", x)?;
    reduced::<T, MIN, MIN>(stream, x, x)
}

/// Returns the greatest element, NaN if one is.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = stream.create(&[3, -7, 5])?;
/// let greatest = millstream::kernels::max(&stream, &x)?;
/// assert_eq!(stream.read(&greatest).wait()?, [5]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if there are no elements, and those of [`Stream::empty`] and [`Stream::launch`].
pub fn max<T: Number + Element>(stream: &Stream, x: &Handle<T>) -> Result<Handle<T>, Error> {
    check_some("max", x)?;
    reduced::<T, MAX, MAX>(stream, x, x)
}

fn check_some<T: Element>(task: &str, x: &Handle<T>) -> Result<(), Error> {
    if !x.is_empty() {
        return Ok(());
    }
    let message = "`x` has no elements, expected at least 1";
    let error = ArgumentError::new(ArgumentErrorKind::Length, message);
    Err(error.of(task).into())
}
