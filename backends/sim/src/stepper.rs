//! The thread that steps a device that is not driven. It sleeps while there is no step to do (I11).

use std::sync::Arc;

use millstream_protocol::error::OpenError;
use millstream_protocol::marks::mark_runtime_thread;
use millstream_protocol::threads::{Spawner, Thread, ThreadRole};
use millstream_sync::facade::{SpinPolicy, Spinner};

use crate::shared::Shared;
use crate::step::{can_step, step};

/// The thread. Dropping it joins it, once the state says that the device goes away.
pub(crate) struct Stepper(Option<Thread<()>>);

impl Stepper {
    pub(crate) fn start(shared: Arc<Shared>, spawner: &Spawner) -> Result<Self, OpenError> {
        let guard = ExitGuard(shared);
        let body = move || {
            let shared = &guard.0;
            let _mark = mark_runtime_thread();
            // How fast a simulator wakes is of no interest.
            let mut spin = Spinner::new(SpinPolicy::never());
            let is_stopping = || shared.with(|state| state.stopping);
            while !is_stopping() {
                if !step(shared) {
                    let gate = shared.holds.gate();
                    gate.wait_until(&mut spin, || {
                        (is_stopping() || can_step(shared)).then_some(())
                    });
                }
            }
        };
        let thread = spawner.spawn(ThreadRole::Queue, "ms-sim", body)?;
        Ok(Self(Some(thread)))
    }
}

/// Goes with the thread, or with what was to be one.
struct ExitGuard(Arc<Shared>);

impl Drop for ExitGuard {
    /// Nobody steps any more: unless the device goes away anyway, that is a loss of the device.
    fn drop(&mut self) {
        if !self.0.with(|state| state.stopping) {
            self.0.timelines.iter().for_each(|timeline| timeline.end());
        }
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        let Some(thread) = self.0.take() else { return };
        if !thread.is_current() {
            // A panic of user code has been caught and told.
            let _ = thread.join();
        }
    }
}
