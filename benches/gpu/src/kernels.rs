//! The kernels that both sides launch.

use millstream::{ComputeClient, Kernel, KernelHandle, Source};

use crate::error::BenchError;
use crate::raw::THREADS;

/// The PTX of all kernels.
pub(crate) const PTX: &str = include_str!("kernels.ptx");

/// The number of words of a kernel's buffer: one for each thread.
pub(crate) const WORDS: usize = THREADS as usize;

/// The number of words that `touch` takes by value.
pub(crate) const SCALARS: u32 = 8;

fn prepare(client: &ComputeClient, kernel: Kernel) -> Result<KernelHandle, BenchError> {
    let kernel = kernel.threads([THREADS, 1, 1]);
    Ok(client.kernel(kernel.source(Source::Ptx(PTX.into())))?)
}

/// A kernel without arguments that does nothing.
pub(crate) fn empty(client: &ComputeClient) -> Result<KernelHandle, BenchError> {
    prepare(client, Kernel::new("empty"))
}

/// A kernel with three buffers and eight words that does nothing.
pub(crate) fn touch(client: &ComputeClient) -> Result<KernelHandle, BenchError> {
    let buffers = Kernel::new("touch")
        .updates::<u32>("a")
        .updates::<u32>("b")
        .updates::<u32>("c");
    let words = (0..SCALARS).fold(buffers, |kernel, place| {
        kernel.scalar::<u32>(format!("word_{place}"))
    });
    prepare(client, words)
}

/// A kernel that adds one to each word of a buffer.
pub(crate) fn bump(client: &ComputeClient) -> Result<KernelHandle, BenchError> {
    prepare(client, Kernel::new("bump").updates::<u32>("values"))
}

/// A kernel that runs a loop with the given number of iterations.
pub(crate) fn spin(client: &ComputeClient) -> Result<KernelHandle, BenchError> {
    let kernel = Kernel::new("spin").writes::<u32>("out");
    prepare(client, kernel.scalar::<u32>("iterations"))
}
