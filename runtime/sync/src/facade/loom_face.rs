//! The face of a model: loom's types.
//!
//! Parking goes over `loom::sync::Notify`, because `loom::thread::unpark` wakes a thread out of *any*
//! block, also out of `join` (tokio-rs/loom#249, #422). Time does not pass in a model: a deadline
//! never comes.

pub(crate) use loom::sync::Condvar;
pub use loom::sync::{Arc, Mutex, MutexGuard};

/// Whether a model checker runs the threads.
pub(crate) const IN_MODEL: bool = true;

/// Atomics as loom sees them.
pub mod atomic {
    pub use loom::sync::atomic::*;
    pub use std::sync::atomic::Ordering;
}

/// Cells as loom sees them.
pub mod cell {
    pub use loom::cell::UnsafeCell;
}

/// Lets another thread of the model run.
pub fn relax() {
    loom::thread::yield_now();
}

/// Threads and parking.
pub mod thread {
    use loom::sync::Notify;
    pub use loom::thread::{JoinHandle, spawn, yield_now};
    use std::sync::Arc;
    use std::time::Instant;

    loom::thread_local! { static ME: Arc<Notify> = Arc::new(Notify::new()); }

    /// A thread of the model, to be unparked.
    #[derive(Clone, Debug)]
    pub struct Thread(Arc<Notify>);

    impl Thread {
        /// Wakes the thread, or lets its next park return at once.
        pub fn unpark(&self) {
            self.0.notify();
        }
    }

    /// The calling thread.
    pub fn current() -> Thread {
        Thread(ME.with(Clone::clone))
    }

    /// Blocks until unparked.
    pub fn park() {
        ME.with(Clone::clone).wait();
    }

    /// Blocks until unparked: no deadline comes in a model.
    pub fn park_deadline(_: Instant) {
        park();
    }

    /// Blocks until unparked; true: no deadline comes in a model.
    pub fn park_until(_: Option<Instant>) -> bool {
        park();
        true
    }

    /// Starts a thread; the name is not kept.
    pub fn spawn_named<T: Send + 'static>(
        _: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        Ok(spawn(f))
    }
}
