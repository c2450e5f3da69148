//! shuttle's types, for random schedules.
//!
//! shuttle's atomics are sequentially consistent: it finds errors of protocol, not of ordering.
//! Time does not pass: deadlines never pass.

// Only one thread of a model runs at a time, and switches happen at atomics and locks.
#[path = "plain_cell.rs"]
pub mod cell;
pub(crate) use shuttle::sync::Condvar;
pub use shuttle::sync::{Arc, Mutex, MutexGuard, atomic};

#[doc(hidden)]
pub use ::shuttle as checker;

/// Whether a model checker runs the threads.
pub(crate) const IN_MODEL: bool = true;

/// Whether devices may start threads of their own.
pub const THREADS: bool = true;

/// Lets another thread of the model run.
pub fn relax() {
    shuttle::thread::yield_now();
}

/// Runs `f`: the stack is large enough.
#[inline(always)]
pub fn with_stack<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Threads and parking.
pub mod thread {
    pub use shuttle::thread::{Thread, current, park, yield_now};
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// shuttle's handle, which also knows whether the thread has ended.
    #[derive(Debug)]
    pub struct JoinHandle<T> {
        handle: shuttle::thread::JoinHandle<T>,
        ended: Arc<AtomicBool>,
    }

    impl<T> JoinHandle<T> {
        /// As std's `join`.
        ///
        /// # Errors
        /// As std's.
        pub fn join(self) -> std::thread::Result<T> {
            self.handle.join()
        }

        /// As std's `thread`.
        pub fn thread(&self) -> &Thread {
            self.handle.thread()
        }

        /// As std's `is_finished`.
        pub fn is_finished(&self) -> bool {
            // Relaxed: the threads of a model are one thread of the system.
            self.ended.load(Ordering::Relaxed)
        }
    }

    std::thread_local! {
        static ALIVE: Cell<usize> = const { Cell::new(0) };
    }

    /// Returns the number of threads that were started here in this model and have not ended. It
    /// does not count shuttle's first thread.
    pub fn alive() -> usize {
        ALIVE.get()
    }

    /// Marks its thread as ended when dropped, even by a panic.
    struct EndOnDrop(Arc<AtomicBool>);

    impl Drop for EndOnDrop {
        fn drop(&mut self) {
            ALIVE.set(ALIVE.get() - 1);
            // Relaxed: see `is_finished`.
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Starts a thread.
    pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        spawn_named("", f).expect("a model's thread always starts")
    }

    /// Starts a thread with a name.
    ///
    /// # Errors
    /// Never.
    pub fn spawn_named<T: Send + 'static>(
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        let ended = Arc::new(AtomicBool::new(false));
        let end = EndOnDrop(ended.clone());
        ALIVE.set(ALIVE.get() + 1);
        let builder = shuttle::thread::Builder::new().name(name.to_owned());
        let handle = builder.spawn(move || {
            let _end = end;
            f()
        })?;
        Ok(JoinHandle { handle, ended })
    }

    /// Returns `true` if this is the calling thread's own handle.
    pub fn is_current<T>(handle: &JoinHandle<T>) -> bool {
        handle.thread().id() == current().id()
    }

    /// Lets other threads run.
    pub fn sleep(_: Duration) {
        yield_now();
    }

    /// Returns `false`: in a model deadlines never pass.
    pub fn is_past(_: Instant) -> bool {
        false
    }

    /// Parks: in a model deadlines never pass.
    pub fn park_deadline(_: Instant) {
        park();
    }

    /// Parks and returns `true`: in a model deadlines never pass.
    pub fn park_until(_: Option<Instant>) -> bool {
        park();
        true
    }
}
