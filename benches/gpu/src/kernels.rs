//! What is launched: the same kernels for both sides.

use millstream::{ComputeClient, Kernel, KernelHandle, Source};

use crate::error::BenchError;
use crate::raw::THREADS;

/// All of them.
pub(crate) const PTX: &str = include_str!("kernels.ptx");

/// Words that a kernel's buffer has: one for each thread.
pub(crate) const WORDS: usize = THREADS as usize;

/// Words that `touch` is given by value.
pub(crate) const SCALARS: u32 = 8;

fn of(client: &ComputeClient, kernel: Kernel) -> Result<KernelHandle, BenchError> {
    let kernel = kernel.threads([THREADS, 1, 1]);
    Ok(client.kernel(kernel.source(Source::Ptx(PTX.into())))?)
}

/// Does nothing, of nothing.
pub(crate) fn empty(client: &ComputeClient) -> Result<KernelHandle, BenchError> {
    of(client, Kernel::new("empty"))
}

/// Does nothing, of three buffers and eight words.
pub(crate) fn touch(client: &ComputeClient) -> Result<KernelHandle, BenchError> {
    let buffers = Kernel::new("touch")
        .updates::<u32>("a")
        .updates::<u32>("b")
        .updates::<u32>("c");
    let words = (0..SCALARS).fold(buffers, |kernel, place| {
        kernel.scalar::<u32>(format!("word_{place}"))
    });
    of(client, words)
}

/// Adds one to each word of a buffer.
pub(crate) fn bump(client: &ComputeClient) -> Result<KernelHandle, BenchError> {
    of(client, Kernel::new("bump").updates::<u32>("values"))
}

/// Takes a while.
pub(crate) fn spin(client: &ComputeClient) -> Result<KernelHandle, BenchError> {
    let kernel = Kernel::new("spin").writes::<u32>("out");
    of(client, kernel.scalar::<u32>("turns"))
}
