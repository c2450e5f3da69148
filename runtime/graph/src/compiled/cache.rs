//! Kernels that were compiled before: programs without lengths and constants, so that few of them do much.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_core::client::{ComputeClient, KernelHandle};
use millstream_core::kernel::Kernel;
use millstream_ir::nest::{Nest, Op};
use millstream_ir::{Matmul, Program};

use crate::error::{GraphError, ScheduleError, Why};

/// Most kernels that a cache keeps, unless it is told otherwise.
const KERNELS: usize = 1024;

/// Compiled kernels of one device, held by whoever compiles schedules. `Send + Sync`; share one among all threads.
///
/// A kernel is found by its program, which holds no lengths and no constants: a longer sequence or another learning rate is a kernel that
/// is there already. When there are more than the cache keeps, those that were not asked for longest are let go.
#[derive(Debug)]
pub struct KernelCache {
    inner: Mutex<Kept>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Kept {
    kernels: HashMap<Arc<Program>, (KernelHandle, u64)>,
    /// Counts what is asked, to tell what was not for long.
    asked: u64,
    found: u64,
}

/// What a cache has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CacheStats {
    /// Kernels that were asked for.
    pub asked: u64,
    /// Those of them that were there.
    pub found: u64,
    /// Those that had to be compiled.
    pub compiled: u64,
    /// Kernels that are kept.
    pub kept: usize,
}

impl Default for KernelCache {
    fn default() -> Self {
        Self::new(KERNELS)
    }
}

impl KernelCache {
    /// A cache of at most so many kernels, at least one.
    pub fn new(capacity: usize) -> Self {
        Self {
            inner: Mutex::default(),
            capacity: capacity.max(1),
        }
    }

    /// What it has done so far.
    pub fn stats(&self) -> CacheStats {
        let kept = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        CacheStats {
            asked: kept.asked,
            found: kept.found,
            compiled: kept.asked - kept.found,
            kept: kept.kernels.len(),
        }
    }

    /// The kernel of a program, compiled if it is not there. The lock is not held while it is compiled: two threads that ask
    /// for the same one at once may both compile it.
    pub(crate) fn kernel(
        &self,
        client: &ComputeClient,
        program: &Arc<Program>,
    ) -> Result<KernelHandle, ScheduleError> {
        {
            let mut kept = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            kept.asked += 1;
            let asked = kept.asked;
            if let Some((kernel, last)) = kept.kernels.get_mut(program)
                && client.knows(kernel)
            {
                *last = asked;
                let kernel = kernel.clone();
                kept.found += 1;
                return Ok(kernel);
            }
        }
        let span = tracing::debug_span!("compile", program = %name(program));
        let _entered = span.enter();
        let kernel = Kernel::from_program(name(program), program.clone()).map_err(|why| {
            let why = Why::Kernel(why.to_string());
            ScheduleError::Graph(GraphError::new(
                "compile",
                [],
                why,
                std::panic::Location::caller(),
            ))
        })?;
        let handle = client.kernel(kernel)?;
        let mut kept = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = kept.asked;
        let let_go = (kept.kernels.len() >= self.capacity)
            .then(|| kept.kernels.iter().min_by_key(|(_, (_, last))| *last))
            .flatten()
            .map(|(program, _)| program.clone());
        let let_go = let_go.and_then(|program| kept.kernels.remove(&program));
        kept.kernels
            .insert(program.clone(), (handle.clone(), asked));
        drop(kept);
        drop(let_go);
        Ok(handle)
    }
}

/// Most words in a kernel's name.
const NAME_WORDS: usize = 4;

/// A name for timelines and errors: what the program does, in a few words. It is an identifier.
fn name(program: &Program) -> String {
    let mut words: Vec<&str> = Vec::new();
    match program {
        Program::Nest(nest) => of_nest(nest, &mut words),
        Program::Matmul(Matmul { epilogue, .. }) => {
            words.push("matmul");
            epilogue.iter().for_each(|nest| of_nest(nest, &mut words));
        }
        _ => words.push("ssa"),
    }
    if words.is_empty() {
        words.push("copy");
    }
    words.truncate(NAME_WORDS);
    format!("graph_{}", words.join("_"))
}

fn of_nest(nest: &Nest, words: &mut Vec<&'static str>) {
    for value in &nest.values {
        let word = match &value.op {
            Op::Unary(op, _) => op.name(),
            Op::Binary(op, ..) => op.name(),
            Op::Compare(op, ..) => op.name(),
            Op::Reduce(op, _) => op.name(),
            Op::Gather { .. } => "gather",
            Op::Random { .. } => "random",
            _ => continue,
        };
        if words.last() != Some(&word) {
            words.push(word);
        }
    }
}
