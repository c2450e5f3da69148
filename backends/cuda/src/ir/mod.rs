//! Programs of millstream's IR on a GPU: printed as CUDA C, and launched as their words say.
//!
//! A nest has several entry points, of which each launch takes the one that its lengths and strides suit
//! ([`millstream_ir::lower`]); a product has one, and a function of a thread is one. All take a pointer for each binding and then
//! the launch words, as one structure by value: they may be more than a kernel can have parameters.

mod print;

use std::fmt::Write;
use std::sync::Arc;

use millstream_ir::lower::{self, Kind, Limits};
use millstream_ir::{Blocking, Matmul, Nest, Program};
use millstream_protocol::kernel::{Kernel, Source};

use crate::driver::Function;
use crate::launch::{CudaLaunch, Shape};

/// Bytes of a launch's parameters at most, on every GPU.
const PARAMETER_BYTES_MAX: usize = 4096;

/// A program as CUDA C.
pub(crate) struct Printed {
    pub(crate) text: String,
    pub(crate) entries: Entries,
    /// What is done to each element of a product that a library may do: a program of its own.
    pub(crate) epilogue: Option<Entries>,
}

/// The entry points of a program.
pub(crate) struct Entries {
    pub(crate) program: Arc<Program>,
    blocking: Blocking,
    pub(crate) list: Vec<Entry>,
}

/// One of its entry points.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) threads: [u32; 3],
    /// Of a nest: which launches it is for.
    kind: Option<Kind>,
}

/// Entry points of a program, loaded, and how a launch chooses.
pub(crate) struct Ways {
    program: Arc<Program>,
    blocking: Blocking,
    loaded: Vec<(Entry, Function)>,
    limits: Limits,
}

/// The program that a kernel has for a source, if it has one.
pub(crate) fn program_of(kernel: &Kernel) -> Option<&Arc<Program>> {
    kernel.sources().iter().find_map(|source| match source {
        Source::Ir(program) => Some(program),
        _ => None,
    })
}

/// How a kernel's program is to be cut up.
pub(crate) fn blocking_of(kernel: &Kernel) -> Blocking {
    kernel.extension().copied().unwrap_or_default()
}

/// Bytes of the parameters of its entry points, with what each is.
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
    /// A program that was checked, cut up so, with entry points of this name, or why it cannot be. Of a product that a library may do,
    /// what is done to its elements is there alone, too.
    pub(crate) fn new(
        name: &str,
        program: &Arc<Program>,
        blocking: Blocking,
        by_library: bool,
    ) -> Result<Self, String> {
        if blocking != Blocking::USUAL && !lower::blockings(program).contains(&blocking) {
            return Err(format!(
                "this backend has no way to run it as asked ({blocking}); ask which ones it has"
            ));
        }
        let bytes: usize = parameters(program).iter().map(|(_, bytes)| bytes).sum();
        if bytes > PARAMETER_BYTES_MAX {
            let most = PARAMETER_BYTES_MAX;
            return Err(format!(
                "its bindings and launch words have {bytes} bytes, and {most} can be passed"
            ));
        }
        let mut text = print::PRELUDE.to_owned();
        let entries = Entries::print(&mut text, name, program, blocking)?;
        let epilogue = match program.as_ref() {
            Program::Matmul(matmul) if by_library => matmul.epilogue.clone(),
            _ => None,
        };
        let epilogue = epilogue.map(|nest| {
            let name = format!("{name}_epilogue");
            Entries::print(
                &mut text,
                &name,
                &Arc::new(Program::Nest(nest)),
                Blocking::USUAL,
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
        let functions = match program.as_ref() {
            Program::Nest(nest) => lower::nest(nest, blocking).map(|functions| {
                let functions = functions.into_iter();
                functions.map(|(kind, f)| (Some(kind), f)).collect()
            }),
            Program::Matmul(matmul) => lower::matmul(matmul, blocking).map(|f| vec![(None, f)]),
            Program::Ssa(function) => Ok(vec![(None, function.clone())]),
            _ => return Err("this kind of program is not known to this backend".to_owned()),
        };
        let functions: Vec<_> = functions.map_err(|error| error.to_string())?;
        let mut list = Vec::with_capacity(functions.len());
        for (kind, function) in functions {
            let mut entry = entry_name(name);
            match kind {
                None => {}
                Some(Kind::Thread { lanes: 1 }) => entry += "_threads",
                // A `String` takes whatever is written.
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

    /// How launches choose among them, in their order.
    pub(crate) fn ways(self, functions: Vec<Function>, limits: Limits) -> Ways {
        Ways {
            program: self.program,
            blocking: self.blocking,
            loaded: self.list.into_iter().zip(functions).collect(),
            limits,
        }
    }
}

impl Ways {
    /// The launch that these words, and buffers at these addresses, make of a nest.
    pub(crate) fn launch(&self, words: &[u64], addresses: &[u64]) -> Shape {
        let shape = Shape {
            function: std::ptr::null_mut(),
            cubes: [0; 3],
            threads: [1; 3],
            shared_bytes: 0,
            options: CudaLaunch::default(),
        };
        self.shape(shape, words, addresses)
    }

    /// The launch that these words, and buffers at these addresses, make of `shape`, whose cubes are those that the launch
    /// says. Allocates nothing.
    pub(crate) fn shape(&self, shape: Shape, words: &[u64], addresses: &[u64]) -> Shape {
        let (found, cubes) = match self.program.as_ref() {
            Program::Nest(nest) => self.of_nest(nest, words, addresses),
            Program::Matmul(matmul) => self.of_matmul(matmul, words),
            _ => (self.loaded.first(), shape.cubes),
        };
        // There is an entry point for each kind that a nest's launches may be of.
        let Some((entry, function)) = found else {
            return shape;
        };
        Shape {
            function: function.raw(),
            cubes,
            threads: entry.threads,
            ..shape
        }
    }

    fn of_nest(
        &self,
        nest: &Nest,
        words: &[u64],
        addresses: &[u64],
    ) -> (Option<&(Entry, Function)>, [u32; 3]) {
        let geometry = lower::geometry(nest, words, addresses, self.limits, self.blocking);
        let of_kind = |(entry, _): &&(Entry, Function)| entry.kind == Some(geometry.kind);
        let found = self.loaded.iter().find(of_kind).or(self.loaded.first());
        (found, [geometry.cubes, 1, 1])
    }

    fn of_matmul(&self, matmul: &Matmul, words: &[u64]) -> (Option<&(Entry, Function)>, [u32; 3]) {
        let tiles = lower::tiles(matmul, words, self.blocking);
        (self.loaded.first(), [tiles.cubes, 1, 1])
    }
}

/// A kernel's name, as a name of C's can be.
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
    fn any_name_becomes_one_of_c() {
        assert_eq!(entry_name("a+b * \u{e9}"), "ms_a_b____");
        assert_eq!(entry_name(""), "ms_");
    }
}
