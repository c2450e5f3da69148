//! Compiling for a GPU that is not here, to see whether a kernel compiles and what it takes: a check for CI.

use std::borrow::Cow;

use millstream_protocol::error::KernelError;
use millstream_protocol::kernel::{Kernel, Source};

use super::Target;
use super::compile::{Failure, Form, compile, options};
use crate::ir::{self, Printed};

/// What a kernel became for one kind of GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Compiled {
    /// The binary, as [`Source::Cubin`] takes it.
    pub binary: Vec<u8>,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that a thread writes to memory because it has too few registers. 0 is good.
    pub spilled_bytes: u32,
    /// Bytes of shared memory that the source declares.
    pub shared_bytes: u32,
}

/// Compiles the CUDA C source of a kernel for GPUs such as `sm_90`. Needs NVRTC, but no GPU and no driver. Blocks for
/// as long as the compiler takes. Nothing is kept.
///
/// ```
/// use millstream_protocol::kernel::Kernel;
///
/// let fill = Kernel::new("fill").writes::<f32>("out").cuda(
///     r#"extern "C" __global__ void fill(float* out) { out[threadIdx.x] = 1.0f; }"#,
/// );
/// match millstream_cuda::compile_for(&fill, "sm_90") {
///     Ok(made) => assert!(made.registers > 0 && made.spilled_bytes == 0),
///     Err(why) => println!("{why}"), // what to install, where there is no NVRTC
/// }
/// ```
///
/// # Errors
/// [`KernelError::NoSource`], [`KernelError::NoCompiler`] with what to install, [`KernelError::Compile`] with what the
/// compiler said and the lines that it means.
pub fn compile_for(kernel: &Kernel, target: &str) -> Result<Compiled, KernelError> {
    let source = source(kernel)?;
    let mut options = options(&Target(target.to_owned()));
    // Has registers, spills and shared memory told in the log.
    options.push("--ptxas-options=-v".to_owned());
    let made = compile(Form::Binary, kernel.name(), &source, &options);
    let made = made.map_err(|why| why.of(kernel))?;
    Ok(Compiled {
        registers: number_before(&made.log, " registers"),
        spilled_bytes: number_before(&made.log, " bytes spill stores"),
        shared_bytes: number_before(&made.log, " bytes smem"),
        binary: made.binary,
    })
}

/// Compiles the CUDA C source of a kernel to PTX, for the GPUs that a virtual one such as `compute_80` stands for and all later
/// ones: to read, or to ship as [`Source::Ptx`] where there is no NVRTC. Needs what [`compile_for`] needs.
///
/// # Errors
/// As [`compile_for`].
pub fn ptx_for(kernel: &Kernel, target: &str) -> Result<String, KernelError> {
    let source = source(kernel)?;
    let target = Target(target.to_owned());
    let made = compile(Form::Ptx, kernel.name(), &source, &options(&target));
    let text = made.map_err(|why| why.of(kernel))?.binary;
    let text = String::from_utf8_lossy(&text);
    Ok(text.trim_end_matches('\0').to_owned())
}

/// The CUDA C of a kernel: its own, or what a program of the IR is printed as.
///
/// # Errors
/// [`KernelError::NoSource`]; [`KernelError::Compile`] of a program that no GPU can take.
pub fn cuda_c(kernel: &Kernel) -> Result<String, KernelError> {
    source(kernel).map(Cow::into_owned)
}

fn source(kernel: &Kernel) -> Result<Cow<'_, str>, KernelError> {
    for source in kernel.sources() {
        match source {
            Source::CudaC(text) => return Ok(Cow::Borrowed(text)),
            Source::Ir(program) => {
                let blocking = ir::blocking_of(kernel);
                let printed = Printed::new(kernel.name(), program, blocking, false);
                let printed = printed.map_err(|log| Failure::Source(log).of(kernel))?;
                return Ok(Cow::Owned(printed.text));
            }
            _ => {}
        }
    }
    Err(kernel.no_source("NVRTC", &["CUDA C", "IR"]))
}

/// The greatest number that stands before these words, of all entry points; 0 where they are not said.
fn number_before(log: &str, words: &str) -> u32 {
    let number = |before: &str| {
        let mut parts = before.rsplit(|letter: char| !letter.is_ascii_digit());
        parts.next()?.parse().ok()
    };
    let places = log.match_indices(words);
    let numbers = places.filter_map(|(place, _)| number(&log[..place]));
    numbers.max().unwrap_or(0)
}

impl Failure {
    /// As the error of preparing this kernel.
    pub(crate) fn of(self, kernel: &Kernel) -> KernelError {
        let kernel = kernel.name().clone();
        match self {
            Failure::NoCompiler(why) => KernelError::NoCompiler { kernel, why },
            Failure::Source(log) => KernelError::Compile { kernel, log },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_what_a_kernel_takes() {
        let log = "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'f' for 'sm_90'\n\
                   ptxas info    : Function properties for f\n    \
                   24 bytes stack frame, 16 bytes spill stores, 12 bytes spill loads\n\
                   ptxas info    : Used 40 registers, used 1 barriers, 1056 bytes smem, 8 bytes cmem[0]";
        assert_eq!(number_before(log, " registers"), 40);
        assert_eq!(number_before(log, " bytes spill stores"), 16);
        assert_eq!(number_before(log, " bytes smem"), 1056);
        assert_eq!(number_before(log, " bytes of anything"), 0);
    }
}
