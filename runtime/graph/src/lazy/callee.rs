//! The operation of a node that calls a kernel of a user.

use std::sync::Arc;

use millstream_ir::Program;
use millstream_protocol::Kernel;

use crate::lazy::scalar::WordValue;

/// A kernel with its cubes and scalars.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    pub(crate) kernel: Arc<Kernel>,
    /// The program to run, if the kernel is an SSA function.
    pub(crate) program: Option<Arc<Program>>,
    pub(crate) cubes: [u32; 3],
    /// The scalars, in declared order.
    pub(crate) scalars: Vec<WordValue>,
    pub(crate) in_place: bool,
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
