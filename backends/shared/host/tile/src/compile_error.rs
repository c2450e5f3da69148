//! Why a program cannot be compiled.

use millstream_ir::nest::{Nest, Op};

/// The reason why a program cannot be compiled for this CPU, as text.
pub type CompileError = String;

/// There is no code for an operation.
#[cold]
pub(crate) fn unsupported(nest: &Nest, index: usize) -> CompileError {
    let value = &nest.values[index];
    // The operand's type decides, except for an operation without operands, and a selection.
    let dtype = match (&value.op, value.op.operands().first()) {
        (Op::Select(..), _) | (_, None) => value.dtype,
        (_, Some(operand)) => nest.values[usize::from(*operand)].dtype,
    };
    let op = &value.op;
    format!("the CPU does not support `{op:?}` (value {index}) for {dtype}; cast to another type")
}

/// There is no code for a store.
#[cold]
pub(crate) fn unsupported_store(nest: &Nest, index: usize) -> CompileError {
    let dtype = nest.values[usize::from(nest.stores[index].value)].dtype;
    format!("the CPU does not support store {index}, a scatter of {dtype}; cast to another type")
}

/// The program has too many axes.
#[cold]
pub(crate) fn too_many_axes(axes: usize) -> CompileError {
    let most = crate::AXES_MAX;
    format!("the CPU supports at most {most} axes, got {axes}; merge some")
}
