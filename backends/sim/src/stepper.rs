//! The thread that runs the steps of a device that is not driven. It sleeps while no step is possible (I11).

use std::sync::Arc;

use millstream_protocol::{
    OpenError,
    marks::mark_runtime_thread,
    threads::{Spawner, Thread, ThreadRole},
};
use millstream_sync::facade::{SpinPolicy, Spinner};

use crate::shared::Shared;
use crate::step::{can_step, step};

/// The stepping thread. Dropping it joins the thread; `State::stopping` must be set before.
pub(crate) struct Stepper(Option<Thread<()>>);

impl Stepper {
    pub(crate) fn start(shared: Arc<Shared>, spawner: &Spawner) -> Result<Self, OpenError> {
        let guard = ExitGuard(shared);
        let body = move || {
            let shared = &guard.0;
            let _mark = mark_runtime_thread();
            // Wake-up latency does not matter here.
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

/// Ends the timelines when the thread ends, or when it was never started.
struct ExitGuard(Arc<Shared>);

impl Drop for ExitGuard {
    /// No thread runs steps any more. Unless the device is closing, that is a loss of the device.
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
            // A panic of user code was caught and reported with its task.
            let _ = thread.join();
        }
    }
}
