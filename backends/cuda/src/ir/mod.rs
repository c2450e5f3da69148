//! Programs of millstream's IR on a GPU: prints them as CUDA C and computes their launches from the launch words.
//!
//! A nest has several entry points; each launch selects the one that suits its lengths and strides
//! ([`millstream_ir::lower`]). A product and an SSA function have one. An entry point takes a pointer for each binding,
//! then all launch words as one struct by value, because there may be more words than parameters of a kernel.

mod for_loop;
mod print;

use std::fmt::Write;
use std::sync::Arc;

use millstream_gpu::lower_program;
use millstream_ir::lower::Kind;
use millstream_ir::{Blocking, Program};
use millstream_protocol::{Kernel, Source};

use crate::driver::Function;
use crate::launch::Shape;

/// Most bytes of a launch's parameters that every GPU supports.
const PARAMETER_BYTES_MAX: usize = 4096;

/// A program as CUDA C.
pub(crate) struct Printed {
    pub(crate) text: String,
    pub(crate) entries: Entries,
    /// The epilogue of a product that a library may perform, as a program of its own.
    pub(crate) epilogue: Option<Entries>,
}

/// The entry points of a program.
pub(crate) struct Entries {
    pub(crate) program: Arc<Program>,
    pub(crate) blocking: Blocking,
    pub(crate) list: Vec<Entry>,
}

/// One entry point of a program.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) threads: [u32; 3],
    /// The launches that it is for; `None` if the program is not a nest.
    pub(crate) kind: Option<Kind>,
}

/// The loaded entry points of a program with their threads, from which each launch selects one.
pub(crate) type Variants = millstream_gpu::Variants<(Function, [u32; 3])>;

/// Returns the launch of a program with these words and buffer addresses. `shape` has the cube count of the launch, which
/// only an SSA function uses. Allocates nothing.
pub(crate) fn shape(variants: &Variants, shape: Shape, words: &[u64], addresses: &[u64]) -> Shape {
    let ((function, threads), cubes) = variants.select(shape.cubes, words, addresses);
    Shape {
        function: function.raw,
        cubes,
        threads: *threads,
        ..shape
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
    /// Prints a checked program with this blocking. `name` is the base of the entry points' names. With `use_library`,
    /// also prints the epilogue of a product separately.
    ///
    /// # Errors
    /// The reason why the program cannot be printed.
    pub(crate) fn new(
        name: &str,
        program: &Arc<Program>,
        blocking: Blocking,
        use_library: bool,
    ) -> Result<Self, String> {
        let bytes: usize = parameters(program).iter().map(|(_, bytes)| bytes).sum();
        if bytes > PARAMETER_BYTES_MAX {
            let most = PARAMETER_BYTES_MAX;
            return Err(format!(
                "expected at most {most} bytes of bindings and launch words, got {bytes}"
            ));
        }
        let mut text = print::PRELUDE.to_owned();
        let entries = Entries::print(&mut text, name, program, blocking)?;
        let epilogue = match program.as_ref() {
            Program::Matmul(matmul) if use_library => matmul.epilogue.clone(),
            _ => None,
        };
        let epilogue = epilogue.map(|nest| {
            let name = format!("{name}_epilogue");
            Entries::print(
                &mut text,
                &name,
                &Arc::new(Program::Nest(nest)),
                Blocking::DEFAULT,
            )
        });
        Ok(Self {
            epilogue: epilogue.transpose()?,
            entries,
            text,
        })
    }
}

impl Entries {
    fn print(
        text: &mut String,
        name: &str,
        program: &Arc<Program>,
        blocking: Blocking,
    ) -> Result<Self, String> {
        let functions = lower_program(program, blocking)?;
        let mut list = Vec::with_capacity(functions.len());
        for (kind, function) in functions {
            let mut entry = entry_name(name);
            match kind {
                None => {}
                Some(Kind::Thread { lanes: 1 }) => entry += "_threads",
                // Writing to a `String` cannot fail.
                Some(Kind::Thread { lanes }) => _ = write!(entry, "_threads_{lanes}"),
                Some(Kind::Row) => entry += "_rows",
                Some(Kind::Cube) => entry += "_cubes",
            }
            print::print(text, &entry, &function).map_err(|error| error.to_string())?;
            list.push(Entry {
                name: entry,
                threads: function.threads,
                kind,
            });
        }
        Ok(Self {
            program: program.clone(),
            blocking,
            list,
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
mod tests {
    use super::*;

    #[test]
    fn any_name_becomes_a_c_identifier() {
        assert_eq!(entry_name("a+b * \u{e9}"), "ms_a_b____");
        assert_eq!(entry_name(""), "ms_");
    }
}
