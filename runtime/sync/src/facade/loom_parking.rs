//! Parking in a loom model.
//!
//! Parking goes over `loom::sync::Notify`, because `loom::thread::unpark` wakes a thread out of *any*
//! block, also out of `join` (tokio-rs/loom#249, #422). Time does not pass in a model: a deadline
//! never comes.

use loom::sync::Notify;
use std::sync::Arc;
use std::time::Instant;

loom::thread_local! { static ME: Arc<Notify> = Arc::new(Notify::new()); }

/// A thread of the model, to be unparked.
#[derive(Clone, Debug)]
pub struct Thread(Arc<Notify>);

impl Thread {
    /// Wakes the thread, or lets its next park return at once.
    pub fn unpark(&self) {
        // A model that has failed is taken down, and nobody runs any more.
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

/// Blocks until unparked: no deadline comes in a model.
pub fn park_deadline(_: Instant) {
    park();
}

/// Blocks until unparked; true: no deadline comes in a model.
pub fn park_until(_: Option<Instant>) -> bool {
    park();
    true
}
