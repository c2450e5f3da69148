//! The operation of a node that calls a kernel of a user.

use std::sync::Arc;

use millstream_ir::nest::BufferMode;
use millstream_ir::{DType, Program, ProgramError};
use millstream_protocol::Kernel;

use crate::lazy::scalar::WordValue;

/// A kernel with its cubes and scalars.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    pub(crate) callee: Callee,
    pub(crate) cubes: [u32; 3],
    /// The scalars, in declared order.
    pub(crate) scalars: Vec<WordValue>,
    pub(crate) in_place: bool,
}

/// A kernel of a user.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// A kernel with its own sources.
    Kernel(Arc<Kernel>),
    /// An SSA function.
    Ssa(Arc<Program>),
}

impl Callee {
    pub(crate) fn name(&self) -> &str {
        match self {
            Callee::Kernel(kernel) => kernel.name(),
            Callee::Ssa(program) => match &**program {
                Program::Ssa(function) => &function.name,
                _ => "program",
            },
        }
    }

    /// Returns the kernel with its signature; an SSA function is checked.
    pub(super) fn kernel(&self) -> Result<Arc<Kernel>, ProgramError> {
        match self {
            Callee::Kernel(kernel) => Ok(kernel.clone()),
            Callee::Ssa(program) => {
                Kernel::from_program(self.name(), program.clone()).map(Arc::new)
            }
        }
    }

    /// Returns the type of each scalar.
    pub(super) fn scalars(&self) -> Vec<DType> {
        match self {
            Callee::Kernel(kernel) => {
                let specs = kernel.signature().scalars().iter();
                specs.map(|spec| spec.dtype).collect()
            }
            Callee::Ssa(program) => match &**program {
                Program::Ssa(function) => function.scalars.iter().map(|it| it.dtype).collect(),
                _ => Vec::new(),
            },
        }
    }

    /// Returns the same kernel for an output buffer that may have more elements than a run: a function that writes all
    /// elements writes only as many as the lengths of the run.
    pub(super) fn writing_in_part(&self) -> Self {
        let mut callee = self.clone();
        if let Callee::Ssa(program) = &mut callee
            && let Program::Ssa(function) = Arc::make_mut(program)
            && let Some(output) = function.params.last_mut()
        {
            output.mode = BufferMode::Update;
        }
        callee
    }
}

/// Returns the name of the first scalar of a kernel that runs may set and that shares a word with another.
pub(super) fn shares_a_word<'k>(kernel: &'k Kernel, scalars: &[WordValue]) -> Option<&'k str> {
    let specs = kernel.signature().scalars();
    let changes = |word: &WordValue| match word {
        WordValue::Bits(_) => false,
        WordValue::Size(size) => size.known().is_none(),
        WordValue::Scalar(_) => true,
    };
    let in_word = |word: usize| specs.iter().filter(move |spec| spec.offset / 8 == word);
    let mut changing = specs.iter().zip(scalars).filter(|(_, word)| changes(word));
    let found = changing.find(|(spec, _)| in_word(spec.offset / 8).count() > 1);
    found.map(|(spec, _)| &*spec.name)
}
