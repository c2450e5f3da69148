//! Kernels in SPIR-V: glslang's output for the GLSL in `kernels`. Except for [`large`] they have descriptors, so that
//! the validation layer sees their accesses.

use millstream::Kernel;
use millstream::vulkan::VulkanLaunch;

/// Splits a file into words.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    let word = |word: &[u8]| u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    words.map(word).collect()
}

macro_rules! descriptors {
    ($kernel:expr, $name:literal) => {
        $kernel
            .spirv(words(include_bytes!(concat!(
                "../../kernels/descriptors/",
                $name,
                ".spv"
            ))))
            .with(VulkanLaunch::default().descriptors(true))
    };
}

/// `dst[..n] = value`.
pub fn set() -> Kernel {
    let kernel = Kernel::new("set").writes::<u32>("dst");
    let kernel = kernel.scalar::<u32>("value").scalar::<u32>("n");
    descriptors!(kernel, "set")
}

/// `dst[i] = dst[i] * 31 + src[i]` for `i < n`.
pub fn mix() -> Kernel {
    let kernel = Kernel::new("mix").reads::<u32>("src").updates::<u32>("dst");
    descriptors!(kernel.scalar::<u32>("n"), "mix")
}

/// `values[i] += 1` for `i < n`.
pub fn add_one() -> Kernel {
    let kernel = Kernel::new("add_one").updates::<u32>("values");
    descriptors!(kernel.scalar::<u32>("n"), "add_one")
}

/// The sum of the first elements of 11 buffers, of 30 scalars and of 7 words of metadata. Its parameters exceed the push
/// constants.
pub fn large() -> Kernel {
    let kernel = (0..11).fold(Kernel::new("large"), |kernel, index| {
        kernel.reads::<u32>(format!("in{index}"))
    });
    let kernel = (0..30).fold(kernel.writes::<u64>("out"), |kernel, index| {
        kernel.scalar::<u64>(format!("s{index}"))
    });
    kernel
        .spirv(words(include_bytes!("../../kernels/addresses/large.spv")))
        .with(VulkanLaunch::default().metadata_words(7))
}
