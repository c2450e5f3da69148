//! Parking in a loom model.
//!
//! It uses `loom::sync::Notify`, because `loom::thread::unpark` wakes a thread out of *any* block,
//! including `join` (tokio-rs/loom#249, #422). Time does not pass in a model: deadlines never pass.

use loom::sync::Notify;
use std::sync::Arc;
use std::time::Instant;

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
