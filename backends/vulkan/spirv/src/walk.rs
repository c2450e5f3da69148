//! Walks over the statements of a function.

use millstream_ir::ssa::{Block, Stmt};

/// Returns the statements of a block and of the blocks within it, in order.
pub(crate) fn statements(block: &Block) -> impl Iterator<Item = &Stmt> {
    let mut open = vec![block.iter()];
    std::iter::from_fn(move || {
        loop {
            let Some(stmt) = open.last_mut()?.next() else {
                open.pop();
                continue;
            };
            match stmt {
                Stmt::If {
                    then, otherwise, ..
                } => open.extend([otherwise.iter(), then.iter()]),
                Stmt::For { body, .. } => open.push(body.iter()),
                _ => {}
            }
            return Some(stmt);
        }
    })
}
