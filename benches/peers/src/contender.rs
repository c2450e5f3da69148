//! The interface of a runtime that is measured.
//!
//! The measurements in [`measures`](crate::measures) are written once over [`Contender`], so that
//! both sides run the same loops. A measurement that cannot continue panics: it has its own process,
//! and the run reports the cell as failed.

use crate::noop::Mark;

/// One side: a client of an open device. Used on the thread that opened or cloned it.
pub(crate) trait Contender: Sized + Send + 'static {
    /// Device memory that a caller holds.
    type Buffer: Send;

    /// The number of launches that a caller can be ahead of the device.
    const QUEUE: u64;

    /// Opens the device. Called once in a process.
    fn open() -> Self;

    /// Returns a client for another thread, with its own stream.
    fn for_another_thread(&self) -> Self;

    /// Allocates memory with undefined contents.
    fn empty(&self, bytes: usize) -> Self::Buffer;

    /// Allocates memory with the contents `bytes`.
    fn create(&self, bytes: &[u8]) -> Self::Buffer;

    /// Launches a kernel without arguments.
    fn launch(&self);

    /// Launches a kernel over one buffer.
    fn launch_one(&self, buffer: &Self::Buffer);

    /// Launches a kernel over three buffers, with eight 64-bit words of scalars.
    fn launch_three_and_scalars(&self, buffers: &[Self::Buffer; 3]);

    /// Launches a kernel without arguments that is a marker to the no-op device.
    fn launch_mark(&self, mark: Mark);

    /// Makes the launches so far start now. May block.
    fn flush(&self);

    /// Waits until everything launched so far has run.
    fn sync(&self);

    /// Reads a buffer back.
    fn read(&self, buffer: &Self::Buffer) -> Vec<u8>;

    /// Returns the number of heap bytes that represent device memory.
    fn device_bytes(&self) -> u64;
}
