//! A driven device inside a user's model, where no thread pumps. Once code of the user waits for the device without
//! driving it, every call runs it until there is nothing to do, and so does everything that ends without a call (a
//! guard, a handle). Outside of models this does nothing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use millstream_protocol::Backend;
use millstream_sync::facade::THREADS;

use super::DRIVE_BUDGET;
use super::inside::is_inside;
use crate::executor::Executor;

impl<B: Backend> Executor<B> {
    /// Notes that code of the user waits for the device without driving it.
    pub(crate) fn set_awaited(self: &Arc<Self>) {
        if let Some(driven) = &self.driven {
            // Relaxed: read in models only, in which one thread runs at a time.
            driven.is_awaited.store(true, Ordering::Relaxed);
            self.run_model();
        }
    }

    /// In a model, runs the device on the calling thread until there is nothing to do, if code of the user waits for
    /// it.
    pub(crate) fn run_model(self: &Arc<Self>) {
        if THREADS {
            return;
        }
        let Some(driven) = &self.driven else { return };
        // Relaxed: see `set_awaited`.
        if !driven.is_awaited.load(Ordering::Relaxed) || is_inside() {
            return;
        }
        let waker = Waker::from(Arc::new(ModelWaker(Arc::downgrade(self))));
        loop {
            // Armed before the step, so that no wake during the step is missed.
            self.gate.arm(&waker);
            if !self.step(DRIVE_BUDGET) {
                break;
            }
        }
    }
}

/// Runs the device of a model when something ends without a message: a guard, a handle.
struct ModelWaker<B: Backend>(Weak<Executor<B>>);

impl<B: Backend> Wake for ModelWaker<B> {
    fn wake(self: Arc<Self>) {
        if let Some(device) = self.0.upgrade() {
            device.ring();
            device.run_model();
        }
    }
}
