//! Texts of the errors: why a launch is refused, and why a program cannot be compiled for this CPU.

use millstream_ir::nest::{Nest, Op};
use millstream_protocol::NativeView;

/// The reason why a launch is refused, as text.
pub(crate) type PrepareError = String;

/// Checks that there are enough bindings or words.
#[inline]
pub(crate) fn check_count(what: &str, needed: usize, given: usize) -> Result<(), PrepareError> {
    match given < needed {
        true => Err(format!("expected at least {needed} {what}, got {given}")),
        false => Ok(()),
    }
}

/// A length is negative, or the index space is too large.
#[cold]
pub(crate) fn lengths(words: &[u64]) -> PrepareError {
    let lengths: Vec<i64> = words.iter().map(|word| *word as i64).collect();
    format!(
        "the lengths {lengths:?} are negative, or their product is too large; check the launch's words"
    )
}

/// A binding's memory is not aligned for its elements.
#[cold]
pub(crate) fn unaligned(binding: usize, view: NativeView, align: usize) -> PrepareError {
    let excess = view.pointer.addr() % align;
    format!(
        "binding {binding} starts {excess} bytes after a multiple of its element size of {align} bytes; slice at a multiple of {align}"
    )
}

/// An access leaves its binding, which has this many elements. `reach`: the first and the last element that it touches.
#[cold]
pub(crate) fn out_of_bounds(
    access: usize,
    binding: usize,
    reach: Option<(i64, i64)>,
    elements: i64,
) -> PrepareError {
    let reach = reach.map_or("overflows the elements".to_owned(), |(first, last)| {
        format!("reaches elements {first} to {last}")
    });
    format!(
        "access {access} {reach} of binding {binding}, which has {elements}; check the launch's lengths, strides and offsets"
    )
}

// Why a program cannot be compiled.

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
