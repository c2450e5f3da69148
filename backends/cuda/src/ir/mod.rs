//! Programs of millstream's IR on a GPU: prints them as CUDA C and computes their launches from the launch words.
//!
//! A nest has several entry points; each launch selects the one that suits its lengths and strides
//! ([`millstream_ir::lower`]). A product and an SSA function have one. An entry point takes a pointer for each binding,
//! then all launch words as one struct by value, because there may be more words than parameters of a kernel.
//!
//! `print` writes the code.

mod print;

use std::fmt::Write;
use std::sync::Arc;

use millstream_gpu::{Variants, compile_error};
use millstream_ir::lower::Kind;
use millstream_ir::{Blocking, Program};
use millstream_protocol::{Kernel, KernelError, Source};

use crate::driver::Function;
use crate::launch::Shape;

/// Most bytes of a launch's parameters that every GPU supports.
const PARAMETER_BYTES_MAX: usize = 4096;

/// A program as CUDA C.
pub(crate) struct Printed {
    pub(crate) text: String,
    pub(crate) entries: Variants<PrintedEntry>,
    /// The epilogue of a product that a library may perform, as a program of its own.
    pub(crate) epilogue: Option<Variants<PrintedEntry>>,
}

/// One entry point of a program: its name, and the threads of a cube.
pub(crate) type PrintedEntry = (String, [u32; 3]);

/// The loaded entry points of a kernel with the threads of a cube, from which each launch selects one.
pub(crate) type Entries = Variants<(Function, [u32; 3])>;

/// Returns the launch of a kernel with these words and buffer addresses, without dynamic shared memory and options. `cubes`
/// is the count that the caller passed. Allocates nothing.
#[inline]
pub(crate) fn shape(entries: &Entries, cubes: [u32; 3], words: &[u64], addresses: &[u64]) -> Shape {
    let ((function, threads), cubes) = entries.select(cubes, words, addresses);
    Shape {
        function: function.raw,
        cubes,
        threads: *threads,
        ..Shape::default()
    }
}

/// Returns the IR program among a kernel's sources.
pub(crate) fn program_of(kernel: &Kernel) -> Option<&Arc<Program>> {
    kernel.sources().iter().find_map(|source| match source {
        Source::Ir(program) => Some(program),
        _ => None,
    })
}

/// Returns the blocking of a kernel's program.
pub(crate) fn blocking_of(kernel: &Kernel) -> Blocking {
    kernel.extension().copied().unwrap_or_default()
}

/// Returns the declared parameters of a program's entry points with their sizes in bytes.
pub(crate) fn parameters(program: &Program) -> Vec<(String, usize)> {
    let buffers = program.buffers().into_iter().enumerate();
    let pointers = buffers.map(|(index, (dtype, _))| {
        let what = format!("`{dtype}* {}`", program.buffer_name(index));
        (what, size_of::<u64>())
    });
    let words = program.words();
    let words = (words > 0).then(|| ("the launch words".to_owned(), words * size_of::<u64>()));
    pointers.chain(words).collect()
}

impl Printed {
    /// Prints the checked program of a kernel for a GPU with `units` multiprocessors. With `use_library`, also prints the
    /// epilogue of a product separately.
    ///
    /// # Errors
    /// The program cannot be printed.
    pub(crate) fn new(
        kernel: &Kernel,
        program: &Arc<Program>,
        units: usize,
        use_library: bool,
    ) -> Result<Self, KernelError> {
        let failed = |log| compile_error(kernel, log);
        let bytes: usize = parameters(program).iter().map(|(_, bytes)| bytes).sum();
        if bytes > PARAMETER_BYTES_MAX {
            let most = PARAMETER_BYTES_MAX;
            return Err(failed(format!(
                "expected at most {most} bytes of bindings and launch words, got {bytes}"
            )));
        }
        let mut text = print::PRELUDE.to_owned();
        let is_exclusive = !kernel.signature().aliases();
        let mut print = |suffix: &str, program: &Arc<Program>, blocking| {
            let name = entry_name(kernel.name()) + suffix;
            let functions = Variants::lower(program, blocking, units)?;
            functions.try_map(|kind, function| {
                let mut name = name.clone();
                match kind {
                    None => {}
                    Some(Kind::Thread { lanes: 1 }) => name += "_threads",
                    // Writing to a `String` cannot fail.
                    Some(Kind::Thread { lanes }) => _ = write!(name, "_threads_{lanes}"),
                    Some(Kind::Row) => name += "_rows",
                    Some(Kind::Cube) => name += "_cubes",
                }
                let printed = print::print(&mut text, &name, &function, is_exclusive);
                printed.map_err(|error| error.to_string())?;
                Ok::<_, String>((name, function.threads))
            })
        };
        let entries = print("", program, blocking_of(kernel)).map_err(failed)?;
        let epilogue = match program.as_ref() {
            Program::Matmul(matmul) if use_library => matmul.epilogue.clone(),
            _ => None,
        };
        let epilogue = epilogue.map(|nest| {
            let program = Arc::new(Program::Nest(nest));
            print("_epilogue", &program, Blocking::DEFAULT)
        });
        Ok(Self {
            epilogue: epilogue.transpose().map_err(failed)?,
            entries,
            text,
        })
    }
}

/// Converts a kernel's name to a valid C identifier.
fn entry_name(name: &str) -> String {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let name = name.chars().take(128);
    let name: String = name.map(|c| if letter(c) { c } else { '_' }).collect();
    format!("ms_{name}")
}

#[cfg(test)]
mod tests;
