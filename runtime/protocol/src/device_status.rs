//! How the end of an epoch of a device reaches those who wait for room, and those who ask later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use millstream_sync::credit::Credit;
use millstream_sync::facade::{Mutex, MutexGuard, lock};

use crate::error::Error;
use crate::health::{Health, Recovery};
use crate::journal::SubmissionLog;
use crate::vitals::Vitals;

/// The end of an epoch. Shared by its clients and its thread.
#[derive(Default)]
pub struct Gone {
    epoch: u64,
    /// Set once: the device is lost, and this helps.
    lost: OnceLock<Recovery>,
    vitals: Arc<Vitals>,
    /// The device is closed: no thread calls callbacks any more.
    has_no_callbacks: AtomicBool,
    credits: Mutex<Credits>,
    /// What the device had taken when it was lost, if that was logged and nobody has taken it.
    log: Mutex<Option<SubmissionLog>>,
}

/// Fewer credits than this are not worth looking through.
const SWEEP_MIN: usize = 64;

/// The credits of an epoch's clients.
#[derive(Default)]
struct Credits {
    live: Vec<Weak<Credit>>,
    /// As many as this are looked through for those that went.
    sweep_at: usize,
    /// Nothing makes room any more.
    ended: bool,
}

impl Gone {
    /// The end of the epoch with this number of a device with these vitals.
    pub fn new(epoch: u64, vitals: Arc<Vitals>) -> Self {
        Self {
            epoch,
            vitals,
            ..Self::default()
        }
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The device is lost. To be called before anybody is answered by it. Only the first loss counts.
    pub fn set_lost(&self, recovery: Recovery) {
        let epoch = self.epoch;
        // Together: whoever is told of the loss, and asks how the device is, finds it lost (I5).
        self.vitals.change_if(Health::Lost { epoch, recovery }, || {
            self.lost.set(recovery).is_ok()
        });
    }

    /// What the device had taken, for who asks once it is lost.
    pub fn leave_log(&self, log: SubmissionLog) {
        *lock(&self.log) = Some(log);
    }

    /// The log of a lost device, once.
    pub fn take_log(&self) -> Option<SubmissionLog> {
        lock(&self.log).take()
    }

    /// A value, given to be dropped after work that will never have ended, is kept for ever.
    pub fn park_value(&self) {
        self.vitals.remains().park_value();
    }

    /// So many bytes are left to a lost device.
    pub fn leave_bytes(&self, bytes: u64) {
        self.vitals.remains().leave_bytes(bytes);
    }

    /// Values kept and bytes left, in all epochs so far.
    pub fn remains(&self) -> (u64, u64) {
        let remains = self.vitals.remains();
        (remains.values_parked(), remains.bytes_left())
    }

    /// The device is being closed, and its threads for user code are ended: it takes no callbacks any more.
    pub fn end_callbacks(&self) {
        // Relaxed: a thread that is ordered after the close sees it; to the others the close comes later.
        self.has_no_callbacks.store(true, Ordering::Relaxed);
    }

    /// Whether callbacks would find no thread to be called on.
    pub fn has_no_callbacks(&self) -> bool {
        // Relaxed: see `end_callbacks`.
        self.has_no_callbacks.load(Ordering::Relaxed)
    }

    /// The device was closed, unless it had been lost.
    pub fn set_closed(&self) {
        if self.lost.get().is_none() {
            self.vitals.change(Health::Closed);
        }
    }

    /// What helps, if the device was lost.
    pub fn lost(&self) -> Option<Recovery> {
        self.lost.get().copied()
    }

    /// Nothing makes room any more: who waits for it is told.
    pub fn end_credits(&self) {
        let mut credits = self.credits();
        credits.ended = true;
        let live = std::mem::take(&mut credits.live);
        drop(credits);
        live.iter()
            .filter_map(Weak::upgrade)
            .for_each(|credit| credit.end());
    }

    /// A credit that ends with the epoch.
    pub fn credit(&self, limit: u64) -> Arc<Credit> {
        let credit = Arc::new(Credit::new(limit));
        let mut credits = self.credits();
        if credits.ended {
            credit.end();
            return credit;
        }
        // Clients come and go: forget those that went, once they may be half of all, so that it costs each
        // client the same however many there are.
        if credits.live.len() >= credits.sweep_at {
            credits.live.retain(|credit| credit.strong_count() > 0);
            credits.sweep_at = SWEEP_MIN.max(credits.live.len() * 2);
        }
        credits.live.push(Arc::downgrade(&credit));
        credit
    }

    /// What is told of it.
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
