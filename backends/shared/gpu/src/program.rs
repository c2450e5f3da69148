//! Programs of the IR on a GPU: the functions of a program, and the one that a launch uses.
//!
//! A backend compiles each function that [`lower_program`] returns to an entry point, and keeps them as [`Variants`]. A nest has
//! one for each kind of launch, and the kind of every launch with cubes is among them; other programs have one. A launch
//! selects by its words and addresses alone, so a replay with the same ones launches the same function.
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

/// Lowers a checked program: a nest to a function for each kind of launch, other programs to one.
///
/// # Errors
/// The reason why no GPU can run the program.
pub fn lower_program(
    program: &Program,
    blocking: Blocking,
) -> Result<Vec<(Option<Kind>, Function)>, String> {
    if blocking != Blocking::DEFAULT && !lower::blockings(program).contains(&blocking) {
        return Err(format!(
            "unsupported blocking ({blocking}); query `blockings` for the supported ones"
        ));
    }
    let functions = match program {
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
    let functions: Vec<_> = functions.map_err(|error| error.to_string())?;
    match functions.is_empty() {
        true => Err("the program has no entry point".to_owned()),
        false => Ok(functions),
    }
}

/// The compiled functions of a program, from which each launch selects one.
pub struct Variants<E> {
    program: Arc<Program>,
    blocking: Blocking,
    cubes_at_once: u32,
    entries: Vec<(Option<Kind>, E)>,
}

impl<E> Variants<E> {
    /// Takes the compiled functions of [`lower_program`], at least one. The GPU has `units` multiprocessors.
    pub fn new(
        program: Arc<Program>,
        blocking: Blocking,
        units: usize,
        entries: Vec<(Option<Kind>, E)>,
    ) -> Self {
        Self {
            program,
            blocking,
            cubes_at_once: units as u32 * CUBES_PER_UNIT,
            entries,
        }
    }

    /// Returns the function and the cube count of a launch with these words and buffer addresses. `cubes` is the count that
    /// the caller passed, which only an SSA function uses. Allocates nothing.
    pub fn select(&self, cubes: [u32; 3], words: &[u64], addresses: &[u64]) -> (&E, [u32; 3]) {
        let (_, first) = &self.entries[0];
        match self.program.as_ref() {
            Program::Nest(nest) => {
                let (at_once, blocking) = (self.cubes_at_once, self.blocking);
                let geometry = lower::geometry(nest, words, addresses, at_once, blocking);
                let mut entries = self.entries.iter();
                let found = entries.find(|(kind, _)| *kind == Some(geometry.kind));
                (
                    found.map_or(first, |(_, entry)| entry),
                    [geometry.cubes, 1, 1],
                )
            }
            Program::Matmul(matmul) => {
                let cubes = lower::tiles(matmul, words, self.blocking);
                (first, [cubes, 1, 1])
            }
            _ => (first, cubes),
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
