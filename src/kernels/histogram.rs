//! How often each value occurs.

use super::{CUBE, check_countable};
use crate::{Element, Error, Handle, Int, Stream};

/// The most bins that a cube counts in shared memory: 8 KiB.
const SHARED_BINS: usize = 2048;
/// The most cubes: a little more than the largest GPUs run at once.
const CUBES_MAX: usize = 2048;
/// The elements that each thread has at least, before there are more cubes: so many that the addition of the bins of cubes
/// takes a small part of the time.
const ELEMENTS_MIN: usize = 64;

/// The kernels, by the names that timelines have.
mod tasks {
    use crate::kernels::CUBE;
    use crate::{Int, kernel};

    /// Each cube counts in shared memory, and adds its bins to those of all.
    #[kernel(cube = 256)]
    pub(super) fn histogram<T: Int>(x: &[T], bins: &[Atomic<u32>]) {
        let own = shared::<u32, 2048>();
        let (mine, n, stride) = (thread_in_cube(), bins.len(), threads());
        let mut bin = mine;
        while bin < n {
            own[bin] = 0;
            bin += CUBE;
        }
        barrier();
        let mut i = thread();
        while i < x.len() {
            let bin = x[i] as usize;
            if bin < n {
                own[bin].fetch_add(1);
            }
            i += stride;
        }
        barrier();
        bin = mine;
        while bin < n {
            if own[bin] > 0 {
                bins[bin].fetch_add(own[bin]);
            }
            bin += CUBE;
        }
    }

    #[kernel]
    pub(super) fn histogram_each<T: Int>(x: &[T], bins: &[Atomic<u32>]) {
        let bin = x[thread()] as usize;
        if bin < bins.len() {
            bins[bin].fetch_add(1);
        }
    }
}

/// Returns how often each number from 0 up to `bins` occurs. Other numbers are not counted.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = millstream::open_any()?;
/// # let stream = device.new_stream();
/// let x = stream.create(&[1_u8, 3, 1, 200, 0])?;
/// let counts = millstream::kernels::histogram(&stream, &x, 4)?;
/// assert_eq!(stream.read(&counts).wait()?, [1, 2, 0, 1]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Argument`] if there are more than 2^32 - 1 numbers, and those of [`Stream::empty`] and [`Stream::launch`].
pub fn histogram<T: Int + Element>(
    stream: &Stream,
    x: &Handle<T>,
    bins: usize,
) -> Result<Handle<u32>, Error> {
    check_countable("histogram", x.len())?;
    let counts = stream.empty(bins)?;
    stream.fill(&counts, 0)?;
    if bins > SHARED_BINS {
        tasks::histogram_each(x, &counts).launch(stream, x.len())?;
    } else if bins > 0 {
        let cubes = x.len().div_ceil(CUBE * ELEMENTS_MIN).min(CUBES_MAX);
        tasks::histogram(x, &counts).launch(stream, cubes * CUBE)?;
    }
    Ok(counts)
}
