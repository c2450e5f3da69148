//! The GPU sources of the self-test's kernels `add`, `mix` and `set`. The soak (`tests/swarm`) uses them, too.

use millstream::{Kernel, Source};

/// Adds CUDA C, the PTX compiled from it for machines without a compiler, and SPIR-V to the kernel of this name.
pub(crate) fn with_gpu_sources(kernel: Kernel) -> Kernel {
    let kernel = with_ptx(kernel.source(Source::CudaC(include_str!("program.cu").into())));
    let spirv: &[u8] = match &**kernel.name() {
        "add" => include_bytes!("kernels/add.spv"),
        "mix" => include_bytes!("kernels/mix.spv"),
        "set" => include_bytes!("kernels/set.spv"),
        _ => return kernel,
    };
    let (words, _) = spirv.as_chunks::<4>();
    kernel.spirv(
        words
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect::<Vec<u32>>(),
    )
}

/// Adds the PTX alone.
pub(crate) fn with_ptx(kernel: Kernel) -> Kernel {
    kernel.source(Source::Ptx(include_str!("program.ptx").into()))
}
