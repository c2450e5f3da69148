//! The end of an epoch, by a loss or a close: the state that clients, the device thread and the backend share.
//!
//! ```text
//! device thread or backend                    clients
//! set_lost(recovery)                          submit: the mailbox is closed ──► error() is DeviceLost
//!   health is Lost in the same step
//! ends timelines and credits ───────────────► waiters wake and call error()
//! ```
//! [`DeviceStatus::set_lost`] comes before the mailbox, the timelines or the credits end. So a caller that observes such
//! an end finds the reason here, and [`HealthState::health`] agrees with it (I5). Without a loss the end is a close.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use millstream_sync::credit::Credit;
use millstream_sync::facade::{Mutex, MutexGuard, lock};

use crate::error::Error;
use crate::health::{Health, Recovery};
use crate::health_state::{HealthState, Remains};
use crate::journal::SubmissionLog;

/// The status of one epoch of a device. Shared by its clients, its thread and its backend.
#[derive(Default)]
pub struct DeviceStatus {
    epoch: u64,
    /// Set once, by the first loss.
    lost: OnceLock<Recovery>,
    health_state: Arc<HealthState>,
    /// The device is closed: no thread runs callbacks any more.
    has_no_callbacks: AtomicBool,
    credits: Mutex<Credits>,
    /// The submission log as of the loss, if the log is enabled and was not taken yet.
    log: Mutex<Option<SubmissionLog>>,
}

/// Below this number of credits no sweep is worth its cost.
const SWEEP_MIN: usize = 64;

/// The credits of an epoch's clients.
#[derive(Default)]
struct Credits {
    live: Vec<Weak<Credit>>,
    /// The length of `live` at which the next sweep removes credits that were dropped.
    sweep_at: usize,
    /// The epoch has ended: no more room becomes free.
    ended: bool,
}

impl DeviceStatus {
    /// Creates the status of an epoch of a device with this health.
    pub fn new(epoch: u64, health_state: Arc<HealthState>) -> Self {
        Self {
            epoch,
            health_state,
            ..Self::default()
        }
    }

    /// Returns the number of the epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Marks the device as lost. Call it before any caller can observe the loss. Only the first call has an effect.
    pub fn set_lost(&self, recovery: Recovery) {
        let epoch = self.epoch;
        // In one step: a caller that receives the error and then reads the health finds `Lost` (I5).
        self.health_state
            .change_if(Health::Lost { epoch, recovery }, || {
                self.lost.set(recovery).is_ok()
            });
    }

    /// Stores the submission log of a lost device for a later [`DeviceStatus::take_log`].
    pub fn leave_log(&self, log: SubmissionLog) {
        *lock(&self.log) = Some(log);
    }

    /// Takes the submission log of a lost device. Later calls return `None`.
    pub fn take_log(&self) -> Option<SubmissionLog> {
        lock(&self.log).take()
    }

    /// Returns what all epochs so far have left behind.
    pub fn remains(&self) -> &Remains {
        &self.health_state.remains
    }

    /// Marks the threads for user code as ended, during a close: callbacks are refused from now on.
    pub fn end_callbacks(&self) {
        // Relaxed: a thread that is ordered after the close observes it; for any other thread the close comes later.
        self.has_no_callbacks.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if no thread runs callbacks any more.
    pub fn has_no_callbacks(&self) -> bool {
        // Relaxed: see `end_callbacks`.
        self.has_no_callbacks.load(Ordering::Relaxed)
    }

    /// Marks the device as closed, unless it was lost.
    pub fn set_closed(&self) {
        if self.lost.get().is_none() {
            self.health_state.change(Health::Closed);
        }
    }

    /// Returns how the device can be opened again, if it was lost.
    pub fn lost(&self) -> Option<Recovery> {
        self.lost.get().copied()
    }

    /// Ends all credits: callers that wait for room receive the error. No more room becomes free.
    pub fn end_credits(&self) {
        let mut credits = self.credits();
        credits.ended = true;
        let live = std::mem::take(&mut credits.live);
        drop(credits);
        live.iter()
            .filter_map(Weak::upgrade)
            .for_each(|credit| credit.end());
    }

    /// Creates a credit that ends with the epoch. In a forked child, where no call waits for credit, it takes no lock.
    pub fn credit(&self, limit: u64) -> Arc<Credit> {
        let credit = Arc::new(Credit::new(limit));
        if !self.health_state.is_of_this_process() {
            return credit;
        }
        let mut credits = self.credits();
        if credits.ended {
            credit.end();
            return credit;
        }
        // Credits of dropped clients are removed once they may be half of the list, so that the cost per client is
        // constant however many clients there are.
        if credits.live.len() >= credits.sweep_at {
            credits.live.retain(|credit| credit.strong_count() > 0);
            credits.sweep_at = SWEEP_MIN.max(credits.live.len() * 2);
        }
        credits.live.push(Arc::downgrade(&credit));
        credit
    }

    /// Returns the error for callers: [`Error::DeviceLost`] after a loss, [`Error::Closed`] otherwise.
    pub fn error(&self) -> Error {
        match self.lost() {
            Some(recovery) => Error::DeviceLost {
                epoch: self.epoch,
                recovery,
            },
            None => Error::Closed,
        }
    }

    fn credits(&self) -> MutexGuard<'_, Credits> {
        lock(&self.credits)
    }
}
