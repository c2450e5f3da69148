//! A device that is part of a user's model, where nobody pumps: once somebody's own code waits for it, every call
//! runs it until there is nothing to do, and so does whatever ends without a call (a guard, a handle). Elsewhere
//! this does nothing.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use millstream_protocol::backend::Backend;
use millstream_sync::facade::THREADS;

use super::{DRIVE_BUDGET, Direct, DirectChannel, Inside};

impl<B: Backend> DirectChannel<B> {
    /// In a model nobody pumps: whoever calls runs the device for those whose code waits for it.
    pub(super) fn settle(&self) {
        if THREADS || !self.idle.is_attended() || Inside::get() {
            return;
        }
        let attendant = Waker::from(Arc::new(Attendant(Arc::downgrade(&self.0))));
        loop {
            // What happens from here on comes back to the attendant.
            self.idle.gate.arm(&attendant);
            if !self.step(DRIVE_BUDGET) {
                break;
            }
        }
    }
}

/// Goes on with a device of a model when something ends that is not sent: a guard, a handle.
struct Attendant<B: Backend>(Weak<Direct<B>>);

impl<B: Backend> Wake for Attendant<B> {
    fn wake(self: Arc<Self>) {
        if let Some(device) = self.0.upgrade() {
            device.idle.bell.ring();
            DirectChannel(device).settle();
        }
    }
}
