//! The names in a body, and how the kernel uses its buffers.

use std::collections::HashMap;

use syn::Ident;

use crate::signature::Mode;

/// What a name in a body means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Local {
    /// A value that does not change.
    Value,
    /// A variable: `let mut`.
    Variable,
    /// The number of the thread, which no other thread has.
    Number,
    /// A buffer, by its number among the buffers.
    Buffer(usize, Mode),
    /// An array that the threads of a cube share.
    Shared,
    /// A closure.
    Closure,
}

/// The names of the open blocks, innermost last.
#[derive(Default)]
pub(crate) struct Scopes(Vec<HashMap<String, Option<Local>>>);

impl Scopes {
    pub(crate) fn open(&mut self) {
        self.0.push(HashMap::new());
    }

    pub(crate) fn close(&mut self) {
        self.0.pop();
    }

    pub(crate) fn bind(&mut self, name: &Ident, local: Local) {
        if let Some(innermost) = self.0.last_mut() {
            innermost.insert(name.to_string(), Some(local));
        }
    }

    /// A constant of the body has this name.
    pub(crate) fn hide(&mut self, name: &Ident) {
        if let Some(innermost) = self.0.last_mut() {
            innermost.insert(name.to_string(), None);
        }
    }

    /// Returns what a name means; `None` if it is not of the body, such as a constant's.
    pub(crate) fn find(&self, name: &Ident) -> Option<Local> {
        let name = name.to_string();
        self.0
            .iter()
            .rev()
            .find_map(|scope| scope.get(&name))
            .copied()
            .flatten()
    }
}

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Use {
    /// A thread accesses an element other than that of its number, or passes the buffer to a function.
    pub(crate) elsewhere: bool,
    /// A thread accesses the element of its number.
    pub(crate) at_number: bool,
}
