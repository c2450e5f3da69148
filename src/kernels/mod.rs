//! Kernels that many programs need, for all devices.
//!
//! | function | result |
//! | --- | --- |
//! | [`sum`], [`min`], [`max`], [`dot`] | one element |
//! | [`scan`], [`scan_exclusive`] | the sums of all elements up to each |
//! | [`sort`], [`sort_order`] | sorted keys; the order that sorts them |
//! | [`histogram`] | how often each value occurs |
//! | [`compact`] | the elements that a mask keeps |
//! | [`gather`], [`scatter`] | elements from, or to, the places that indices name |
//! | [`iota`], [`cast`], [`scale_add`] | 0, 1, 2, ..; another type; `y += a * x` |
//! | [`transpose`], [`matmul`], [`convolve`] | of matrices in row-major order |
//! | [`random_bits`], [`uniform`], [`normal`] | random numbers of a seed |
//!
//! ```
//! use millstream::{kernels, open_any};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = open_any()?;
//! let stream = device.new_stream();
//! let mut numbers = kernels::random_bits(&stream, 7, 100_000)?;
//! kernels::sort(&stream, &mut numbers)?;
//! let largest = kernels::max(&stream, &numbers)?;
//! let (numbers, largest) = (stream.read(&numbers), stream.read(&largest));
//! assert_eq!(numbers.wait()?.last(), largest.wait()?.first());
//! # Ok(())
//! # }
//! ```
//!
//! # What a call does
//!
//! It adds tasks to the stream and returns. Results stay on the device, also those of one element: read them when the host
//! needs them. A call compiles its kernels the first time on a device, and may block while there is no room for its tasks
//! or their memory.
//!
//! Buffers may have any length, also none, and may be parts of others ([`Handle::slice`]). A length of more than 2^32 - 1
//! elements is an error of the functions that count elements as `u32`: [`sort`], [`sort_order`], [`compact`],
//! [`histogram`].
//!
//! If a call returns an error after some of its tasks were added, as on a stream of [`Stream::nowait`], buffers that it
//! changes have undefined contents, except in [`sort`]; call it again.
//!
//! # Bits
//!
//! The results are the same in each run, and of integers on all devices; integers wrap. The order in which floats are added
//! depends on the lengths alone, so the bits of sums are the same on the CPU and the simulator; a GPU's compiler may fuse
//! products with sums. Halves are rounded after each addition: [`cast`] them to `f32` first.
//!
//! # What there is not
//!
//! There is no `map` that takes a function: a kernel has no closures, and `#[kernel]` turns the function itself into one.
//! [`graph`](../graph/index.html) has expressions of whole tensors, which it fuses, and products of matrices that are tuned
//! for each device.

mod convolution;
mod histogram;
mod maps;
mod matrix;
mod random;
mod reduction;
mod scan;
mod select;
mod sort;

pub use convolution::{Edge, convolve};
pub use histogram::histogram;
pub use maps::{cast, iota, scale_add};
pub use matrix::{matmul, transpose};
pub use random::{normal, random_bits, uniform};
pub use reduction::{dot, max, min, sum};
pub use scan::{scan, scan_exclusive};
pub use select::{compact, gather, scatter};
pub use sort::{sort, sort_order};

use millstream_protocol::{ArgumentError, ArgumentErrorKind};

use crate::{Error, Handle, Stream};

/// The threads of a cube of these kernels.
const CUBE: usize = 256;
/// The elements of a tile: what a cube sorts or scans at once.
const TILE: usize = 2048;
/// The elements of a tile that each thread has.
const ITEMS: usize = TILE / CUBE;

/// Returns an error unless a length is as expected.
fn check_length(task: &str, what: &str, given: usize, expected: usize) -> Result<(), Error> {
    if given == expected {
        return Ok(());
    }
    let message = format!("`{what}` has {given} elements, expected {expected}");
    let error = ArgumentError::new(ArgumentErrorKind::Length, message);
    Err(error.of(task).into())
}

/// Returns an error if there are more elements than a `u32` counts.
fn check_countable(task: &str, len: usize) -> Result<(), Error> {
    if u32::try_from(len).is_ok() {
        return Ok(());
    }
    let message = format!("expected at most {} elements, got {len}", u32::MAX);
    let error = ArgumentError::new(ArgumentErrorKind::TooLarge, message);
    Err(error.of(task).into())
}

/// Returns the product of the lengths of axes.
fn elements(task: &str, axes: &[usize]) -> Result<usize, Error> {
    let product = axes
        .iter()
        .try_fold(1_usize, |product, axis| product.checked_mul(*axis));
    product.ok_or_else(|| {
        let message = format!("axes of {axes:?} elements exceed 2^64 elements");
        let error = ArgumentError::new(ArgumentErrorKind::TooLarge, message);
        error.of(task).into()
    })
}

/// Returns a new buffer of one element.
fn single<T: crate::Element>(stream: &Stream, value: T) -> Result<Handle<T>, Error> {
    stream.create(&[value])
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use std::sync::Arc;

    use millstream_kernel::call::{Definition, program};

    use super::*;
    use crate::{Kernel, ir::Program};

    /// Compiles the kernels whose threads hold most, and prints the registers and shared memory that they use.
    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    #[allow(clippy::unwrap_used, reason = "a test")]
    fn kernels_of_the_library_do_not_spill() {
        fn check<D: Definition>(registers_max: u32) {
            let program = Program::Ssa(program::<D>().unwrap());
            let kernel = Kernel::from_program(D::NAME, Arc::new(program)).unwrap();
            let made = crate::cuda::compile_for(&kernel, "sm_90").unwrap();
            let (name, registers, shared) = (D::NAME, made.registers, made.shared_bytes);
            println!("{name:<14} {registers:>3} registers, {shared:>5} bytes shared");
            assert!(registers <= registers_max, "{name}: {registers} registers");
            assert_eq!(made.spilled_bytes, 0, "{name} spills");
        }
        check::<reduction::reduce<f32, 0>>(40);
        check::<scan::scan_tiles<f32, f32, false, true>>(64);
        check::<sort::sort_tiles<u32, 32, true>>(96);
        check::<sort::sort_tiles<u64, 64, false>>(96);
        check::<matrix::matmul_tiles<f32>>(128);
    }
}
