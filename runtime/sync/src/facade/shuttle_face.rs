//! The face of random schedules: shuttle's types.
//!
//! Shuttle's atomics are sequentially consistent: it finds errors of protocol, not of ordering. Time does
//! not pass: a deadline never comes.

pub(crate) use shuttle::sync::Condvar;
pub use shuttle::sync::{Arc, Mutex, MutexGuard, atomic};

/// Whether a model checker runs the threads.
pub(crate) const IN_MODEL: bool = true;

/// Lets another thread of the model run.
pub fn relax() {
    shuttle::thread::yield_now();
}

/// Cells: only one thread of a model runs at a time, and switches happen at atomics and locks.
pub mod cell {
    /// `std::cell::UnsafeCell` behind loom's closure API.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// Wraps a value.
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// A shared access, for as long as the closure runs.
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// An exclusive access, for as long as the closure runs.
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

/// Threads and parking.
pub mod thread {
    pub use shuttle::thread::{JoinHandle, Thread, current, park, spawn, yield_now};
    use std::time::Instant;

    /// Parks: no deadline comes in a model.
    pub fn park_deadline(_: Instant) {
        park();
    }

    /// Parks; true: no deadline comes in a model.
    pub fn park_until(_: Option<Instant>) -> bool {
        park();
        true
    }

    /// Starts a thread with a name.
    pub fn spawn_named<T: Send + 'static>(
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        shuttle::thread::Builder::new()
            .name(name.to_owned())
            .spawn(f)
    }
}
