//! The face of random schedules: shuttle's types.
//!
//! Shuttle's atomics are sequentially consistent: it finds errors of protocol, not of ordering. Time does
//! not pass: a deadline never comes.

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

/// Runs `f`: there is stack enough.
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

    /// Shuttle's handle, which can tell whether the thread has ended.
    #[derive(Debug)]
    pub struct JoinHandle<T> {
        handle: shuttle::thread::JoinHandle<T>,
        over: Arc<AtomicBool>,
    }

    impl<T> JoinHandle<T> {
        /// As std's.
        ///
        /// # Errors
        /// As std's.
        pub fn join(self) -> std::thread::Result<T> {
            self.handle.join()
        }

        /// As std's.
        pub fn thread(&self) -> &Thread {
            self.handle.thread()
        }

        /// As std's.
        pub fn is_finished(&self) -> bool {
            // Relaxed: the threads of a model are one thread of the system.
            self.over.load(Ordering::Relaxed)
        }
    }

    std::thread_local! {
        static ALIVE: Cell<usize> = const { Cell::new(0) };
    }

    /// Threads of this model that were started here and have not ended. Shuttle's first is none of them.
    pub fn alive() -> usize {
        ALIVE.get()
    }

    /// Says that a thread has ended, however it did.
    struct Over(Arc<AtomicBool>);

    impl Drop for Over {
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
        let over = Arc::new(AtomicBool::new(false));
        let end = Over(over.clone());
        ALIVE.set(ALIVE.get() + 1);
        let builder = shuttle::thread::Builder::new().name(name.to_owned());
        let handle = builder.spawn(move || {
            let _end = end;
            f()
        })?;
        Ok(JoinHandle { handle, over })
    }

    /// Is this the calling thread's own handle?
    pub fn is_current<T>(handle: &JoinHandle<T>) -> bool {
        handle.thread().id() == current().id()
    }

    /// Lets others run, who may do what is waited for.
    pub fn nap(_: Duration) {
        yield_now();
    }

    /// False: no deadline comes in a model.
    pub fn is_past(_: Instant) -> bool {
        false
    }

    /// Parks: no deadline comes in a model.
    pub fn park_deadline(_: Instant) {
        park();
    }

    /// Parks; true: no deadline comes in a model.
    pub fn park_until(_: Option<Instant>) -> bool {
        park();
        true
    }
}
