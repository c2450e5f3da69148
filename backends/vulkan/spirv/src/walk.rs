//! Walks over the statements of a function.

use millstream_ir::ssa::{Block, Stmt};

/// Calls `f` with each statement of a block and of the blocks within it.
pub(crate) fn each_statement<'f>(block: &'f Block, f: &mut impl FnMut(&'f Stmt)) {
    for stmt in block {
        f(stmt);
        match stmt {
            Stmt::If {
                then, otherwise, ..
            } => {
                each_statement(then, f);
                each_statement(otherwise, f);
            }
            Stmt::For { body, .. } => each_statement(body, f),
            _ => {}
        }
    }
}
