//! The GPU kernels: CUDA C, and the PTX that NVRTC compiled from it for machines without NVRTC.
//!
//! To regenerate the PTX:
//!
//! ```text
//! MILLSTREAM_WRITE_PTX=1 cargo xtask gpu --only ptx_is_the_compiler_output
//! ```

use millstream::{Kernel, Source};

use super::filter::{HALF_INK, LEVELS, LUMA, PAPER, RADIUS};
use super::pipeline::PIXELS_PER_COUNT;

/// The CUDA C and PTX of each kernel, by name.
macro_rules! codes {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("kernels/", $name, ".cu")), include_str!(concat!("kernels/", $name, ".ptx")))),*]
    };
}

const CODES: [(&str, &str, &str); 6] =
    codes!("luma", "blur_x", "blur_y", "sobel", "tone", "histogram");

/// Adds the GPU sources to a kernel. The backend takes the first source that it can use.
pub(crate) fn sources(kernel: Kernel) -> Kernel {
    let cuda_c = Source::CudaC(cuda_c(kernel.name()).into());
    let ptx = ptx(kernel.name());
    kernel.source(cuda_c).source(ptx)
}

fn code(name: &str) -> (&'static str, &'static str, &'static str) {
    let code = CODES.into_iter().find(|(known, ..)| *known == name);
    code.unwrap_or_default()
}

/// Returns a kernel's CUDA C, preceded by the parameters of the filter.
fn cuda_c(name: &str) -> String {
    let [red, green, blue] = LUMA;
    let code = code(name).1;
    format!(
        "#define LUMA_RED {red:?}f\n#define LUMA_GREEN {green:?}f\n#define LUMA_BLUE {blue:?}f\n\
         #define RADIUS {RADIUS}\n#define PAPER {PAPER:?}f\n#define HALF_INK {HALF_INK:?}f\n\
         #define LEVELS {LEVELS}\n#define PIXELS_PER_COUNT {PIXELS_PER_COUNT}\n#line 1\n{code}"
    )
}

/// Returns a kernel's PTX for GPUs from sm_80 on.
pub(super) fn ptx(name: &str) -> Source {
    Source::Ptx(code(name).2.into())
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
                code(name).2 == made,
                "{name}.ptx differs from the compiler's output for {name}.cu: run with MILLSTREAM_WRITE_PTX=1 to regenerate it"
            );
        }
    }
}
