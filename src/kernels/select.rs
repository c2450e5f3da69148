//! Elements that are kept, or that lie elsewhere.

use super::scan::scanned;
use super::{check_countable, check_length, single};
use crate::{Element, Error, Handle, Int, Number, Stream, kernel};

#[kernel]
fn compact_each<T: Number>(x: &[T], keep: &[u8], ends: &[u32], kept: &mut [T]) {
    let i = thread();
    if keep[i] != 0 {
        kept[ends[i] - 1] = x[i];
    }
}

#[kernel]
fn gather_each<T: Number, I: Int>(x: &[T], indices: &[I], #[whole] y: &mut [T]) {
    let i = thread();
    y[i] = x[indices[i]];
}

#[kernel]
fn scatter_each<T: Number, I: Int>(x: &[T], indices: &[I], y: &mut [T]) {
    let i = thread();
    y[indices[i]] = x[i];
}

/// Returns the elements whose number in `keep` is not 0, in their order, and how many there are. The first buffer has as many
/// elements as `x`; what lies behind the kept ones is undefined.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let (x, keep) = (stream.create(&[10, 20, 30, 40])?, stream.create(&[0, 1, 0, 1])?);
/// let (kept, count) = millstream::kernels::compact(&stream, &x, &keep)?;
/// let count = stream.read(&count).wait()?[0] as usize;
/// assert_eq!(stream.read(&kept.slice(..count)?).wait()?, [20, 40]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if the lengths differ or there are more than 2^32 - 1 elements, and those of [`Stream::empty`] and
/// [`Stream::launch`].
pub fn compact<T: Number + Element>(
    stream: &Stream,
    x: &Handle<T>,
    keep: &Handle<u8>,
) -> Result<(Handle<T>, Handle<u32>), Error> {
    check_countable("compact", x.len())?;
    check_length("compact", "keep", keep.len(), x.len())?;
    let mut kept = stream.empty(x.len())?;
    if x.is_empty() {
        return Ok((kept, single(stream, 0)?));
    }
    let ends = scanned::<u8, u32, true, true>(stream, keep)?;
    compact_each(x, keep, &ends, &mut kept).launch(stream, x.len())?;
    Ok((kept, ends.slice(x.len() - 1..)?))
}

/// Returns the elements of `x` at these indices: `y[i] = x[indices[i]]`. An index out of bounds is one of the kernel: it
/// fails the task on the CPU and the simulator, and gives 0 on a GPU.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let (x, indices) = (stream.create(&[10, 20, 30])?, stream.create(&[2_u32, 0, 2, 1])?);
/// let y = millstream::kernels::gather(&stream, &x, &indices)?;
/// assert_eq!(stream.read(&y).wait()?, [30, 10, 30, 20]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Stream::empty`] and [`Stream::launch`].
pub fn gather<T: Number + Element, I: Int + Element>(
    stream: &Stream,
    x: &Handle<T>,
    indices: &Handle<I>,
) -> Result<Handle<T>, Error> {
    let mut y = stream.empty(indices.len())?;
    gather_each(x, indices, &mut y).launch_each(stream)?;
    Ok(y)
}

/// Stores the elements of `x` in `y` at these indices: `y[indices[i]] = x[i]`. If an index occurs several times, one of its
/// elements is stored, and the simulator reports a race. An index out of bounds fails the task on the CPU and the simulator;
/// a GPU leaves the element out.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let (x, indices) = (stream.create(&[10, 20])?, stream.create(&[3_u32, 1])?);
/// let mut y = stream.create(&[0; 4])?;
/// millstream::kernels::scatter(&stream, &x, &indices, &mut y)?;
/// assert_eq!(stream.read(&y).wait()?, [0, 20, 0, 10]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if `x` and `indices` have different lengths, and those of [`Stream::launch`].
pub fn scatter<T: Number + Element, I: Int + Element>(
    stream: &Stream,
    x: &Handle<T>,
    indices: &Handle<I>,
    y: &mut Handle<T>,
) -> Result<(), Error> {
    check_length("scatter", "indices", indices.len(), x.len())?;
    scatter_each(x, indices, y).launch(stream, x.len())
}
