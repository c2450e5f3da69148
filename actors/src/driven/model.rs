//! A driven device inside a user's model, where no thread pumps. Once code of the user waits for the device without
//! driving it, every call runs it until there is nothing to do, and so does everything that ends without a call (a
//! guard, a handle). Outside of models this does nothing.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use millstream_protocol::backend::Backend;
use millstream_sync::facade::THREADS;

use super::inside::is_inside;
use super::{DRIVE_BUDGET, Direct, DirectChannel};

impl<B: Backend> DirectChannel<B> {
    /// In a model, runs the device on the calling thread until there is nothing to do, if code of the user waits for
    /// it.
    pub(super) fn run_model(&self) {
        if THREADS || !self.idle.is_awaited() || is_inside() {
            return;
        }
        let waker = Waker::from(Arc::new(ModelWaker(Arc::downgrade(&self.0))));
        loop {
            // Armed before the step, so that no wake during the step is missed.
            self.idle.gate.arm(&waker);
            if !self.step(DRIVE_BUDGET) {
                break;
            }
        }
    }
}

/// Runs the device of a model when something ends without a message: a guard, a handle.
struct ModelWaker<B: Backend>(Weak<Direct<B>>);

impl<B: Backend> Wake for ModelWaker<B> {
    fn wake(self: Arc<Self>) {
        if let Some(device) = self.0.upgrade() {
            device.idle.bell.ring();
            DirectChannel(device).run_model();
        }
    }
}
