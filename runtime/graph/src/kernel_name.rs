//! The names of kernels in traces and errors.

use millstream_ir::nest::{Nest, Op};
use millstream_ir::{Matmul, Program};

/// The most words in a kernel's name.
const NAME_WORDS: usize = 4;

/// Returns a name for traces and errors: the operations of a program, in a few words. It is an identifier.
pub(crate) fn kernel_name(program: &Program) -> String {
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
