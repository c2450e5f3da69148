//! loom's types, for models of our primitives.

pub(crate) use loom::sync::Condvar;
#[path = "loom_threads.rs"]
pub mod thread;
pub use loom::sync::{Arc, Mutex, MutexGuard};

#[doc(hidden)]
pub use ::loom as checker;

/// Whether a model checker runs the threads.
pub(crate) const IN_MODEL: bool = true;

/// Whether devices may start threads of their own.
pub const THREADS: bool = false;

/// loom's atomics.
pub mod atomic {
    pub use loom::sync::atomic::*;
    pub use std::sync::atomic::Ordering;
}

/// loom's cells.
pub mod cell {
    pub use loom::cell::UnsafeCell;
}

/// Lets another thread of the model run.
pub fn relax() {
    loom::thread::yield_now();
}

/// Runs `f`: the stack is large enough.
#[inline(always)]
pub fn with_stack<R>(f: impl FnOnce() -> R) -> R {
    f()
}
