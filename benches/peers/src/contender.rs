//! What a runtime must offer to be measured.
//!
//! The measurements in [`measures`](crate::measures) are written once over [`Contender`], so that
//! both sides run the same loops. A measurement that cannot go on panics: its process is its own,
//! and the run reports the cell as failed.

use crate::noop::Mark;

/// One side: a client of an opened device. Used on the thread that opened or cloned it.
pub(crate) trait Contender: Sized + Send + 'static {
    /// Device memory that a caller holds.
    type Buffer: Send;

    /// Launches that a caller can be ahead of the device.
    const QUEUE: u64;

    /// Opens the device. Called once in a process.
    fn open() -> Self;

    /// A client for another thread, with a stream of its own.
    fn for_another_thread(&self) -> Self;

    /// Memory with undefined contents.
    fn empty(&self, bytes: usize) -> Self::Buffer;

    /// Memory that holds `bytes`.
    fn create(&self, bytes: &[u8]) -> Self::Buffer;

    /// Launches a kernel without arguments.
    fn launch(&self);

    /// Launches a kernel over one buffer.
    fn launch_one(&self, buffer: &Self::Buffer);

    /// Launches a kernel over three buffers.
    fn launch_three(&self, buffers: &[Self::Buffer; 3]);

    /// Launches a kernel over three buffers, with eight 64-bit words of scalars.
    fn launch_three_and_scalars(&self, buffers: &[Self::Buffer; 3]);

    /// Launches a kernel without arguments that the no-op device takes as a marker.
    fn launch_mark(&self, mark: Mark);

    /// What a caller does who wants the launches so far to start now. May wait.
    fn flush(&self);

    /// Waits until everything launched so far has run.
    fn sync(&self);

    /// Reads a buffer back.
    fn read(&self, buffer: &Self::Buffer) -> Vec<u8>;

    /// Bytes of the process's heap that stand for device memory.
    fn device_bytes(&self) -> u64;
}
