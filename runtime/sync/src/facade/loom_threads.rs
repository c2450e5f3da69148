//! Threads and parking in a loom model. The model starts its threads itself.
//!
//! Parking uses `loom::sync::Notify`, because `loom::thread::unpark` wakes a thread out of *any* block,
//! including `join` (tokio-rs/loom#249, #422). Time does not pass in a model: deadlines never pass.

use loom::sync::Notify;
pub use loom::thread::yield_now;
use std::sync::Arc;
pub use std::thread::JoinHandle;
use std::time::{Duration, Instant};

loom::thread_local! { static ME: Arc<Notify> = Arc::new(Notify::new()); }

/// A thread of the model.
#[derive(Clone, Debug)]
pub struct Thread(Arc<Notify>);

impl Thread {
    /// Wakes the thread, or makes its next park return at once.
    pub fn unpark(&self) {
        // A model that has failed is torn down, and no thread runs any more.
        if !std::thread::panicking() {
            self.0.notify();
        }
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

/// Blocks until unparked: in a model deadlines never pass.
pub fn park_deadline(_: Instant) {
    park();
}

/// Blocks until unparked and returns `true`: in a model deadlines never pass.
pub fn park_until(_: Option<Instant>) -> bool {
    park();
    true
}

/// Returns `false`: in a model deadlines never pass.
pub fn is_past(_: Instant) -> bool {
    false
}

/// Lets another thread of the model run.
pub fn sleep(_: Duration) {
    yield_now();
}

/// Starts no thread: a model is limited to five, which belong to its author.
///
/// # Errors
/// Always.
pub fn spawn_named<T: Send + 'static>(
    _: &str,
    _: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Returns `true` if this is the calling thread's own handle.
pub fn is_current<T>(_: &JoinHandle<T>) -> bool {
    false
}
