//! State that the device thread and the stepping thread share: the state behind one lock, and the handles beside it.
//!
//! No user code runs under the lock, and no thread waits under it: backend calls stay short while a kernel runs for
//! long.

use std::ops::Deref;
use std::sync::Arc;

use millstream_host::HostResources;
use millstream_protocol::{DeviceStatus, Recovery, Table};
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::timeline::Timeline;

use crate::checker::Violation;
use crate::faults::{Call, Verdict};
use crate::findings::{Findings, Holds};
use crate::state::State;

/// An open device.
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) table: Arc<Table>,
    pub(crate) timelines: Box<[Arc<Timeline>]>,
    pub(crate) holds: Holds,
    pub(crate) findings: Findings,
    /// A call that breaks a rule panics.
    pub(crate) panics: bool,
    pub(crate) gone: Arc<DeviceStatus>,
    /// The loss of the device was reported to its waiters.
    pub(crate) loss_reported: AtomicBool,
}

impl Shared {
    /// Runs `f` on the state, and reports the violations it found.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        self.with_violations(f).0
    }

    /// Runs a call of the backend.
    ///
    /// # Panics
    /// If the call breaks a rule, and the checks are set to panic.
    #[track_caller]
    pub(crate) fn call<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let (result, found) = self.with_violations(f);
        if self.panics
            && let Some(first) = found.first()
        {
            panic!("{first}");
        }
        self.holds.gate().wake();
        result
    }

    fn with_violations<R>(&self, f: impl FnOnce(&mut State) -> R) -> (R, Vec<Violation>) {
        let mut state = lock(&self.state);
        let result = f(&mut state);
        let found = state.take_violations();
        self.findings.report(&found, state.figures());
        let lost = state.lost;
        drop(state);
        if lost {
            self.report_loss();
        }
        (result, found)
    }

    /// Ends all timelines, whether or not a later call observes the loss: nothing more will be published.
    #[cold]
    fn report_loss(&self) {
        // Relaxed: it must only happen once; nothing is passed on through it.
        if !self.loss_reported.swap(true, Ordering::Relaxed) {
            self.gone.set_lost(Recovery::SameProcess);
            self.timelines.iter().for_each(|timeline| timeline.end());
        }
    }

    /// Counts a call and decides whether it fails.
    pub(crate) fn judge(&self, call: Call) -> Verdict {
        self.with(|state| state.judge(call))
    }
}

// The memory that a custom task or a guard receives. The checker observes it while a guard has it.

/// The memory of some bindings; see [`HostResources`].
pub struct SimResources {
    pub(crate) resources: HostResources,
    /// Reports its end, if it is of a guard that the checker observes.
    pub(crate) _guard: Option<Guard>,
}

/// Reports the end of a host guard to the checker.
pub(crate) struct Guard {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let number = self.number;
        self.shared
            .with(|state| state.check(|checker| checker.host_ends(number)));
    }
}

impl Deref for SimResources {
    type Target = HostResources;

    fn deref(&self) -> &HostResources {
        &self.resources
    }
}
