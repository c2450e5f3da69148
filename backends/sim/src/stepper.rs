//! The thread that steps a device that is not driven. It sleeps while there is no step to do (I11).

use std::sync::Arc;

use millstream_core::channel::mark_runtime_thread;
use millstream_core::error::OpenError;
use millstream_sync::facade::thread::{self, JoinHandle};
use millstream_sync::facade::{SpinPolicy, Spinner};

use crate::shared::Shared;
use crate::step::{can_step, step};

/// The thread. Dropping it joins it, once the state says that the device goes away.
pub(crate) struct Stepper(Option<JoinHandle<()>>);

impl Stepper {
    pub(crate) fn start(shared: Arc<Shared>) -> Result<Self, OpenError> {
        let body = move || {
            let _mark = mark_runtime_thread();
            // How fast a simulator wakes is of no interest.
            let mut spin = Spinner::new(SpinPolicy::never());
            let is_stopping = || shared.with(|state| state.stopping);
            while !is_stopping() {
                if !step(&shared) {
                    let gate = shared.holds.gate();
                    gate.wait_until(&mut spin, || {
                        (is_stopping() || can_step(&shared)).then_some(())
                    });
                }
            }
        };
        let thread = thread::spawn_named("ms-sim", body);
        let thread = thread.map_err(|error| OpenError::Thread(error.to_string()))?;
        Ok(Self(Some(thread)))
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        let Some(thread) = self.0.take() else { return };
        if !thread::is_current(&thread) {
            // A panic of user code has been caught and told.
            let _ = thread.join();
        }
    }
}
