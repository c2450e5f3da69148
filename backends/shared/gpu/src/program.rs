//! Programs of the IR on a GPU: the functions of a program, and the one that a launch uses.
//!
//! [`Variants::lower`] returns the functions of a program. A backend makes an entry point of each ([`Variants::try_map`]). A
//! nest has one for each kind of launch, and the kind of every launch with cubes is among them; other programs have one. A
//! launch selects by its words and addresses alone, so a replay with the same ones launches the same function.
//!
//! `runtime/ir/tests/lower.rs` checks that the kinds are among the functions, `geometry` of `tests/cuda/tests/ir` which one
//! a launch selects, and the programs of `tests/kernels` and `tests/graph-fuzz` the results, on both backends.

use std::sync::Arc;

use millstream_ir::lower::{self, Kind};
use millstream_ir::ssa::Function;
use millstream_ir::{Blocking, Program};
use millstream_protocol::{Kernel, KernelError};

/// Cubes of 256 threads that a multiprocessor runs at once; it has 1,536 or 2,048 threads.
const CUBES_PER_UNIT: u32 = 6;

/// The functions of a kernel, or what a backend has made of them, from which each launch selects one.
pub struct Variants<E> {
    /// `None` if the kernel is no program, and so has one function.
    program: Option<Arc<Program>>,
    blocking: Blocking,
    cubes_at_once: u32,
    /// At least one.
    entries: Vec<(Option<Kind>, E)>,
}

impl Variants<Function> {
    /// Lowers a checked program for a GPU with `units` multiprocessors: a nest to a function for each kind of launch, other
    /// programs to one.
    ///
    /// # Errors
    /// The reason why no GPU can run the program.
    pub fn lower(program: &Arc<Program>, blocking: Blocking, units: usize) -> Result<Self, String> {
        if blocking != Blocking::DEFAULT && !lower::blockings(program).contains(&blocking) {
            return Err(format!(
                "unsupported blocking ({blocking}); query `blockings` for the supported ones"
            ));
        }
        let functions = match program.as_ref() {
            Program::Nest(nest) => lower::nest(nest, blocking).map(|functions| {
                let functions = functions.into_iter();
                functions.map(|(kind, f)| (Some(kind), f)).collect()
            }),
            Program::Matmul(matmul) => lower::matmul(matmul, blocking).map(|f| vec![(None, f)]),
            Program::Ssa(function) => Ok(vec![(None, function.clone())]),
            _ => {
                return Err(
                    "GPUs run nests, products and SSA functions, but not programs of this kind; use one of those".to_owned(),
                );
            }
        };
        let entries: Vec<_> = functions.map_err(|error| error.to_string())?;
        if entries.is_empty() {
            return Err("the program has no entry point".to_owned());
        }
        Ok(Self {
            entries,
            program: Some(program.clone()),
            blocking,
            cubes_at_once: units as u32 * CUBES_PER_UNIT,
        })
    }
}

impl<E> Variants<E> {
    /// Takes the function of a kernel that is no program.
    pub fn single(entry: E) -> Self {
        Self {
            program: None,
            blocking: Blocking::DEFAULT,
            cubes_at_once: 0,
            entries: vec![(None, entry)],
        }
    }

    /// Makes something of each function, in order, until `make` fails.
    ///
    /// # Errors
    /// That of `make`.
    pub fn try_map<F, R>(
        self,
        mut make: impl FnMut(Option<Kind>, E) -> Result<F, R>,
    ) -> Result<Variants<F>, R> {
        let entries = self.entries.into_iter();
        let made = entries.map(|(kind, entry)| Ok((kind, make(kind, entry)?)));
        Ok(Variants {
            program: self.program,
            blocking: self.blocking,
            cubes_at_once: self.cubes_at_once,
            entries: made.collect::<Result<_, R>>()?,
        })
    }

    /// Returns the program, if the kernel is one.
    pub fn program(&self) -> Option<&Program> {
        self.program.as_deref()
    }

    /// Returns the first function.
    pub fn first(&self) -> &E {
        &self.entries[0].1
    }

    /// Returns the function and the cube count of a launch with these words and buffer addresses. `cubes` is the count that
    /// the caller passed, which nests and products do not use. Allocates nothing.
    #[inline]
    pub fn select(&self, cubes: [u32; 3], words: &[u64], addresses: &[u64]) -> (&E, [u32; 3]) {
        match self.program.as_deref() {
            Some(Program::Nest(nest)) => {
                let (at_once, blocking) = (self.cubes_at_once, self.blocking);
                let geometry = lower::geometry(nest, words, addresses, at_once, blocking);
                let mut entries = self.entries.iter();
                let found = entries.find(|(kind, _)| *kind == Some(geometry.kind));
                let entry = found.map_or(self.first(), |(_, entry)| entry);
                (entry, [geometry.cubes, 1, 1])
            }
            Some(Program::Matmul(matmul)) => {
                let cubes = lower::tiles(matmul, words, self.blocking);
                (self.first(), [cubes, 1, 1])
            }
            _ => (self.first(), cubes),
        }
    }
}

/// Returns the error of a kernel that cannot be compiled, with what its author needs to know.
pub fn compile_error(kernel: &Kernel, log: String) -> KernelError {
    KernelError::Compile {
        kernel: kernel.name().clone(),
        log,
    }
}
