//! Compiles kernels for GPUs that this machine need not have, for example in CI: checks that they compile and reports
//! their use of registers and memory.

use std::borrow::Cow;

use millstream_gpu::compile_error;
use millstream_protocol::{Kernel, KernelError, Source};

use super::Target;
use super::compile::{Failure, OutputFormat, compile, options};
use crate::ir::Printed;

/// A kernel compiled for one compute capability.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Compiled {
    /// The binary, as for [`Source::Cubin`].
    pub binary: Vec<u8>,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes that a thread spills to memory because it has too few registers; 0 is best.
    pub spilled_bytes: u32,
    /// Bytes of statically declared shared memory.
    pub shared_bytes: u32,
}

/// Compiles the CUDA C source of a kernel for a target such as `sm_90`. Needs NVRTC, but no GPU and no driver. Blocks
/// until the compiler is done. Does not use the cache.
///
/// ```
/// use millstream_protocol::Kernel;
///
/// let fill = Kernel::new("fill").writes::<f32>("out").cuda(
///     r#"extern "C" __global__ void fill(float* out) { out[threadIdx.x] = 1.0f; }"#,
/// );
/// match millstream_cuda::compile_for(&fill, "sm_90") {
///     Ok(made) => assert!(made.registers > 0 && made.spilled_bytes == 0),
///     Err(error) => println!("{error}"), // says what to install if NVRTC is missing
/// }
/// ```
///
/// # Errors
/// [`KernelError::NoSource`]; [`KernelError::NoCompiler`] with what to install; [`KernelError::Compile`] with the
/// compiler's log and the source lines that it refers to.
pub fn compile_for(kernel: &Kernel, target: &str) -> Result<Compiled, KernelError> {
    let source = source(kernel)?;
    let mut options = options(&Target(target.to_owned()));
    // Adds registers, spills and shared memory to the log.
    options.push("--ptxas-options=-v".to_owned());
    let output = compile(OutputFormat::Binary, kernel.name(), &source, &options);
    let output = output.map_err(|failure| failure.into_error(kernel))?;
    Ok(Compiled {
        registers: number_before(&output.log, " registers"),
        spilled_bytes: number_before(&output.log, " bytes spill stores"),
        shared_bytes: number_before(&output.log, " bytes smem"),
        binary: output.binary,
    })
}

/// Compiles the CUDA C source of a kernel to PTX for a virtual architecture such as `compute_80`, and all later GPUs.
/// The PTX can be read, or shipped as [`Source::Ptx`] to machines without NVRTC. Needs NVRTC, like [`compile_for`].
///
/// # Errors
/// The same as [`compile_for`].
pub fn ptx_for(kernel: &Kernel, target: &str) -> Result<String, KernelError> {
    let source = source(kernel)?;
    let target = Target(target.to_owned());
    let output = compile(OutputFormat::Ptx, kernel.name(), &source, &options(&target));
    let text = output.map_err(|failure| failure.into_error(kernel))?.binary;
    let text = String::from_utf8_lossy(&text);
    Ok(text.trim_end_matches('\0').to_owned())
}

/// Returns the CUDA C of a kernel: its own source, or its IR program printed as CUDA C.
///
/// # Errors
/// [`KernelError::NoSource`]; [`KernelError::Compile`] if no GPU can run the program.
pub fn cuda_c(kernel: &Kernel) -> Result<String, KernelError> {
    source(kernel).map(Cow::into_owned)
}

fn source(kernel: &Kernel) -> Result<Cow<'_, str>, KernelError> {
    for source in kernel.sources() {
        match source {
            Source::CudaC(text) => return Ok(Cow::Borrowed(text)),
            Source::Ir(program) => {
                // How many multiprocessors there are does not change the text.
                return Ok(Cow::Owned(Printed::new(kernel, program, 0, false)?.text));
            }
            _ => {}
        }
    }
    Err(kernel.no_source("NVRTC", &["CUDA C", "IR"]))
}

/// Returns the greatest number directly before an occurrence of `words` in the log, over all entry points, or 0.
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
    /// Converts the failure to the error of preparing this kernel.
    pub(crate) fn into_error(self, kernel: &Kernel) -> KernelError {
        match self {
            Failure::NoCompiler(why) => KernelError::NoCompiler {
                kernel: kernel.name().clone(),
                why,
            },
            Failure::Source(log) => compile_error(kernel, log),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_usage_is_parsed_from_the_log() {
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
