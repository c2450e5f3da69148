//! The face of a build: std's types, and a cell with loom's closure API.

pub use std::sync::{Arc, Mutex, MutexGuard, atomic};

/// Whether a model checker runs the threads.
pub(crate) const IN_MODEL: bool = false;

/// Tells the processor that this thread spins.
#[inline(always)]
pub fn relax() {
    std::hint::spin_loop();
}

/// Cells whose accesses a model can see.
pub mod cell {
    /// `std::cell::UnsafeCell` behind loom's closure API.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// Wraps a value.
        #[inline(always)]
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// A shared access, for as long as the closure runs.
        #[inline(always)]
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// An exclusive access, for as long as the closure runs.
        #[inline(always)]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

/// Threads and parking.
pub mod thread {
    pub use std::thread::{JoinHandle, Thread, current, park, spawn, yield_now};
    use std::time::Instant;

    /// Starts a thread with a name; the system may refuse.
    pub fn spawn_named<T: Send + 'static>(
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        std::thread::Builder::new().name(name.to_owned()).spawn(f)
    }

    /// Parks until unparked or until the deadline; may return early, like any park.
    pub fn park_deadline(deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::park_timeout(left);
        }
    }

    /// Parks, until the deadline if there is one; false, without parking, once it has passed.
    pub fn park_until(deadline: Option<Instant>) -> bool {
        match deadline {
            None => park(),
            Some(at) if Instant::now() >= at => return false,
            Some(at) => park_deadline(at),
        }
        true
    }
}
