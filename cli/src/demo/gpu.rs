//! The GPU kernels: CUDA C, the PTX that NVRTC compiled from it for machines without NVRTC, and the SPIR-V that glslang
//! compiled from the GLSL beside them.
//!
//! To regenerate the PTX and the SPIR-V:
//!
//! ```text
//! MILLSTREAM_WRITE_PTX=1 cargo xtask gpu --only ptx_is_the_compiler_output
//! MILLSTREAM_WRITE_SPIRV=1 cargo xtask vulkan --only spirv_is_the_compiler_output
//! ```

use millstream::{Kernel, Source};

use super::pipeline::{HALF_INK, LEVELS, LUMA, PAPER, PIXELS_PER_COUNT, RADIUS};

/// The code of a kernel.
#[derive(Clone, Copy, Default)]
struct Code {
    name: &'static str,
    cuda_c: &'static str,
    ptx: &'static str,
    spirv: &'static [u8],
}

/// The code of each kernel.
macro_rules! codes {
    ($($name:literal),*) => {
        [$(Code {
            name: $name,
            cuda_c: include_str!(concat!("kernels/", $name, ".cu")),
            ptx: include_str!(concat!("kernels/", $name, ".ptx")),
            spirv: include_bytes!(concat!("kernels/", $name, ".spv")),
        }),*]
    };
}

const CODES: [Code; 6] = codes!("luma", "blur_x", "blur_y", "sobel", "tone", "histogram");

/// Adds the GPU sources to a kernel. The backend takes the first source that it can use.
pub(super) fn sources(kernel: Kernel) -> Kernel {
    let code = code(kernel.name());
    let cuda_c = format!("{}#line 1\n{}", parameters(), code.cuda_c);
    let (words, _) = code.spirv.as_chunks::<4>();
    let words = words.iter().map(|word| u32::from_le_bytes(*word));
    let ptx = ptx(kernel.name());
    kernel
        .source(Source::CudaC(cuda_c.into()))
        .source(ptx)
        .spirv(words.collect::<Vec<u32>>())
}

fn code(name: &str) -> Code {
    let code = CODES.into_iter().find(|code| code.name == name);
    code.unwrap_or_default()
}

/// Returns the parameters of the filter as macros, for CUDA C and for GLSL.
fn parameters() -> String {
    let [red, green, blue] = LUMA;
    format!(
        "#define LUMA_RED {red:?}f\n#define LUMA_GREEN {green:?}f\n#define LUMA_BLUE {blue:?}f\n\
         #define RADIUS {RADIUS}\n#define PAPER {PAPER:?}f\n#define HALF_INK {HALF_INK:?}f\n\
         #define LEVELS {LEVELS}\n#define PIXELS_PER_COUNT {PIXELS_PER_COUNT}\n"
    )
}

/// Returns a kernel's PTX for GPUs from sm_80 on.
pub(super) fn ptx(name: &str) -> Source {
    Source::Ptx(code(name).ptx.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::pipeline::kernels;

    /// Compiles every kernel for every supported GPU, and prints the registers and shared memory that it uses.
    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn kernels_compile_for_every_gpu_without_spilling() {
        for target in ["sm_80", "sm_90", "sm_90a", "sm_100"] {
            for kernel in kernels(sources) {
                let made = millstream::cuda::compile_for(&kernel, target).unwrap();
                println!(
                    "{target:<7} {:<10} {:>3} registers, {:>4} bytes shared, {} spilled",
                    kernel.name(),
                    made.registers,
                    made.shared_bytes,
                    made.spilled_bytes
                );
                assert!(
                    (1..=64).contains(&made.registers),
                    "{} uses {} registers, expected 1 to 64",
                    kernel.name(),
                    made.registers
                );
                assert_eq!(made.spilled_bytes, 0, "{} spills", kernel.name());
            }
        }
    }

    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn ptx_is_the_compiler_output_of_the_cuda_c() {
        for kernel in kernels(sources) {
            let name = kernel.name();
            let made = millstream::cuda::ptx_for(&kernel, "compute_80").unwrap();
            if std::env::var_os("MILLSTREAM_WRITE_PTX").is_some() {
                let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo/kernels");
                std::fs::write(format!("{folder}/{name}.ptx"), &made).unwrap();
                continue;
            }
            assert!(
                code(name).ptx == made,
                "{name}.ptx differs from the compiler's output for {name}.cu: run with MILLSTREAM_WRITE_PTX=1 to regenerate it"
            );
        }
    }

    /// The GLSL includes a file with the parameters, because glslang gets no macros from here. The test
    /// `spirv_is_the_compiler_output_of_the_glsl` of the suite `vulkan` compares the SPIR-V with the GLSL.
    #[test]
    fn parameters_of_the_glsl_are_those_of_the_filter() {
        let expected = format!(
            "// The parameters of the filter (`pipeline.rs`).\n{}",
            parameters()
        );
        if std::env::var_os("MILLSTREAM_WRITE_SPIRV").is_some() {
            let path = concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/src/demo/kernels/parameters.glsl"
            );
            std::fs::write(path, &expected).unwrap();
            return;
        }
        assert!(
            include_str!("kernels/parameters.glsl") == expected,
            "parameters.glsl differs from `pipeline.rs`: run with MILLSTREAM_WRITE_SPIRV=1, then `cargo xtask vulkan`"
        );
    }
}
