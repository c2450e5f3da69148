//! How often each value occurs: in shared memory of cubes, on the CPU in an array of each thread, and if there are too many
//! bins for either by threads alone.

use super::{CUBE, check_countable};
use crate::{Element, Error, Handle, Int, Stream};

/// The most bins that a cube counts in shared memory: 8 KiB.
const SHARED_BINS: usize = 2048;
/// The most cubes: a little more than the largest GPUs run at once.
const CUBES_MAX: usize = 2048;
/// The fewest elements of a thread before there are more cubes: enough that adding up the bins of the cubes takes a small
/// part of the time.
const ELEMENTS_MIN: usize = 64;
/// The bins that a thread of the CPU counts in an array.
const LOCAL_BINS: usize = 256;
/// The elements that a thread of the CPU counts: enough to make the addition of the bins cheap.
const CHUNK: usize = 1 << 15;

/// The kernels, by the names that timelines have.
mod tasks {
    use super::CHUNK;
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

    /// Each thread counts a chunk in an array of its own, and adds its bins to those of all.
    #[kernel]
    pub(super) fn histogram_chunks<T: Int>(x: &[T], bins: &[Atomic<u32>]) {
        let mut own = [0_u32; 256];
        let (start, n) = (thread() * CHUNK, bins.len());
        for i in start..(start + CHUNK).min(x.len()) {
            let bin = x[i] as usize;
            if bin < n {
                own[bin] += 1;
            }
        }
        for bin in 0..n {
            if own[bin] > 0 {
                bins[bin].fetch_add(own[bin]);
            }
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
    let is_cpu = stream.client().properties().backend == "cpu";
    if bins == 0 {
        return Ok(counts);
    }
    if is_cpu && bins <= LOCAL_BINS {
        tasks::histogram_chunks(x, &counts).launch(stream, x.len().div_ceil(CHUNK))?;
    } else if !is_cpu && bins <= SHARED_BINS {
        let cubes = x.len().div_ceil(CUBE * ELEMENTS_MIN).min(CUBES_MAX);
        tasks::histogram(x, &counts).launch(stream, cubes * CUBE)?;
    } else {
        tasks::histogram_each(x, &counts).launch(stream, x.len())?;
    }
    Ok(counts)
}
