//! The errors of compiling a program.

use millstream_ir::nest::{Nest, Op};
use millstream_ir::{Blocking, DType};

/// The reason a program cannot be compiled for this CPU.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The program is invalid.
    #[error("{0}")]
    Invalid(millstream_ir::ProgramError),
    /// There is no code for an operation.
    #[error("the CPU does not support `{op}` (value {index}) for {dtype}; cast to another type")]
    Value {
        /// The index of the value.
        index: usize,
        /// The text of its operation.
        op: String,
        /// The type of its operands.
        dtype: DType,
    },
    /// There is no code for a store.
    #[error("the CPU does not support store {index}, a scatter of {dtype}; cast to another type")]
    Store {
        /// The index of the store.
        index: usize,
        /// The type of its value.
        dtype: DType,
    },
    /// There is no code for a product of this type.
    #[error("the CPU does not support products of {0}; cast the factors to another type")]
    Product(DType),
    /// The nest has this many axes, more than the interpreter supports.
    #[error("the CPU supports at most {max} axes, got {0}; merge some", max = crate::AXES_MAX)]
    Axes(usize),
    /// The kind of program is not supported.
    #[error(
        "the CPU runs nests, products and SSA functions, but not programs of this kind; use one of those"
    )]
    Kind,
    /// The program cannot be blocked in this way.
    #[error(
        "the CPU does not support this blocking for the program ({0}); `blockings` lists the supported ones"
    )]
    Blocking(Blocking),
}

impl CompileError {
    #[cold]
    pub(crate) fn value(nest: &Nest, index: usize) -> Self {
        let value = &nest.values[index];
        // The operand's type decides, except for an operation without operands, and a selection.
        let dtype = match (&value.op, value.op.operands().first()) {
            (Op::Select(..), _) | (_, None) => value.dtype,
            (_, Some(operand)) => nest.values[usize::from(*operand)].dtype,
        };
        let op = format!("{:?}", value.op);
        Self::Value { index, op, dtype }
    }

    #[cold]
    pub(crate) fn store(nest: &Nest, index: usize) -> Self {
        let value = usize::from(nest.stores[index].value);
        let dtype = nest.values[value].dtype;
        Self::Store { index, dtype }
    }
}
