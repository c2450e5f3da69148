//! What the device thread and whoever steps share: the state behind one lock, and the handles beside it.
//!
//! No user code runs under the lock, and nobody waits under it: calls of the backend stay short while a kernel
//! runs for long.

use std::sync::Arc;

use millstream_protocol::device_status::Gone;
use millstream_protocol::health::Recovery;
use millstream_protocol::table::Table;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::timeline::Timeline;

use crate::checker::Violation;
use crate::faults::{Call, Verdict};
use crate::findings::{Findings, Holds};
use crate::options::Checks;
use crate::state::State;

/// One device, opened.
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) table: Arc<Table>,
    pub(crate) timelines: Box<[Arc<Timeline>]>,
    pub(crate) holds: Holds,
    pub(crate) findings: Findings,
    pub(crate) checks: Checks,
    pub(crate) gone: Arc<Gone>,
    /// The device is lost, and everybody who waits for it was told.
    pub(crate) told: AtomicBool,
}

impl Shared {
    /// Uses the state, and tells what was found meanwhile.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        self.with_found(f).0
    }

    /// Carries out a call of the backend.
    ///
    /// # Panics
    /// When the call breaks a rule, and the checks are to panic then.
    #[track_caller]
    pub(crate) fn call<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let (result, found) = self.with_found(f);
        if self.checks == Checks::Panic
            && let Some(first) = found.first()
        {
            panic!("{first}");
        }
        self.holds.gate().wake();
        result
    }

    fn with_found<R>(&self, f: impl FnOnce(&mut State) -> R) -> (R, Vec<Violation>) {
        let mut state = lock(&self.state);
        let result = f(&mut state);
        let found = state.take_found();
        self.findings.report(&found, state.figures());
        let lost = state.lost;
        drop(state);
        if lost {
            self.tell_loss();
        }
        (result, found)
    }

    /// Nothing will be published any more, whether a call comes that is told so or not.
    #[cold]
    fn tell_loss(&self) {
        // Relaxed: that it is done once matters, nothing is passed on by it.
        if !self.told.swap(true, Ordering::Relaxed) {
            self.gone.set_lost(Recovery::SameProcess);
            self.timelines.iter().for_each(|timeline| timeline.end());
        }
    }

    /// Counts a call and says what becomes of it.
    pub(crate) fn judge(&self, call: Call) -> Verdict {
        self.with(|state| state.judge(call))
    }
}
