//! The kernels for GPUs: CUDA C beside the native ones, and the PTX that NVRTC has made of it, which a machine without NVRTC
//! runs. The PTX is written anew by
//!
//! ```text
//! MILLSTREAM_WRITE_PTX=1 cargo xtask gpu --only the_ptx_is_what
//! ```

use millstream::{Kernel, Source};

use super::pipeline::PIXELS_PER_COUNT;
use super::recipe::{HALF_INK, LEVELS, LUMA, PAPER, RADIUS};

/// CUDA C and PTX of each kernel, by its name.
macro_rules! codes {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("kernels/", $name, ".cu")), include_str!(concat!("kernels/", $name, ".ptx")))),*]
    };
}

const CODES: [(&str, &str, &str); 6] =
    codes!("luma", "blur_x", "blur_y", "sobel", "tone", "histogram");

/// What GPUs run of a kernel of the recipe: the first source that can be had is taken.
pub(crate) fn sources(kernel: Kernel) -> Kernel {
    let cuda_c = Source::CudaC(cuda_c(kernel.name()).into());
    let ptx = ptx(kernel.name());
    kernel.source(cuda_c).source(ptx)
}

fn code(name: &str) -> (&'static str, &'static str, &'static str) {
    let found = CODES.into_iter().find(|(known, ..)| *known == name);
    found.unwrap_or_default()
}

/// CUDA C with the numbers of the recipe in front.
fn cuda_c(name: &str) -> String {
    let [red, green, blue] = LUMA;
    let code = code(name).1;
    format!(
        "#define LUMA_RED {red:?}f\n#define LUMA_GREEN {green:?}f\n#define LUMA_BLUE {blue:?}f\n\
         #define RADIUS {RADIUS}\n#define PAPER {PAPER:?}f\n#define HALF_INK {HALF_INK:?}f\n\
         #define LEVELS {LEVELS}\n#define PIXELS_PER_COUNT {PIXELS_PER_COUNT}\n#line 1\n{code}"
    )
}

/// PTX for GPUs from sm_80 on.
pub(super) fn ptx(name: &str) -> Source {
    Source::Ptx(code(name).2.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::pipeline::kernels;

    /// Every GPU that we name has these kernels, within its registers. Prints what they take.
    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn the_kernels_compile_for_gpus_without_spilling() {
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
                    "{} takes {}",
                    kernel.name(),
                    made.registers
                );
                assert_eq!(made.spilled_bytes, 0, "{} spills", kernel.name());
            }
        }
    }

    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn the_ptx_is_what_the_compiler_makes_of_the_cuda_c() {
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
                "{name}.ptx is of another compiler or another {name}.cu: MILLSTREAM_WRITE_PTX=1 writes it anew"
            );
        }
    }
}
