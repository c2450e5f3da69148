//! Withdrawing tasks that have not been issued: by a token, or because their time is up.
//!
//! Withdrawing changes no order. A withdrawn task keeps its place, and when its turn comes it fails with
//! [`Reason::Cancelled`] or
//! [`Reason::DeadlinePassed`] instead of being issued: what it
//! would have written is poisoned by that, whoever reads it is told (I6, I7). What has been issued runs
//! to its end, and is counted as detached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use millstream_sync::facade::{Mutex, MutexGuard, lock};

use crate::failure::Reason;
use crate::handle::{Hold, Table};

/// Withdraws the tasks that were submitted with it. Cheap to clone; clones are one token.
///
/// ```
/// use millstream_core::cancel::CancelToken;
/// # fn f(stream: &millstream_core::client::Stream, values: &millstream_core::handle::Handle<u32>) -> Result<(), millstream_core::error::Error> {
/// let token = CancelToken::new();
/// let request = stream.with_cancel(&token);
/// request.fill(values, 1)?;
/// let tally = token.cancel();
/// println!("{} tasks were issued already", tally.detached);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    accepted: AtomicU64,
    issued: AtomicU64,
    withdrawn: AtomicU64,
    /// A slot of each device that may hold tasks of the token. Dropping it wakes the device, without a
    /// message that might find no room.
    rings: Mutex<Vec<Hold>>,
}

/// What has become of the tasks of a token so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Tasks that were submitted with the token.
    pub accepted: u64,
    /// Those that were issued before it was cancelled: they run, or ran, to their end.
    pub detached: u64,
    /// Those that were removed before they were issued.
    pub withdrawn: u64,
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Withdraws what has not been issued, and whatever is submitted with the token from now on. Never
    /// waits. The tally is of this moment: the device removes tasks as their turn comes.
    pub fn cancel(&self) -> Tally {
        // Release: pairs with the Acquire in `is_cancelled`. The rings' drops order it before the device's
        // next turn.
        self.0.cancelled.store(true, Ordering::Release);
        drop(std::mem::take(&mut *self.rings()));
        self.tally()
    }

    /// Has it been cancelled?
    pub fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the Release in `cancel`.
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// What has become of its tasks so far.
    pub fn tally(&self) -> Tally {
        // Relaxed: figures.
        Tally {
            accepted: self.0.accepted.load(Ordering::Relaxed),
            detached: self.0.issued.load(Ordering::Relaxed),
            withdrawn: self.0.withdrawn.load(Ordering::Relaxed),
        }
    }

    /// The device of `table` is woken when the token is cancelled.
    pub(crate) fn ring(&self, table: &Arc<Table>) {
        let mut rings = self.rings();
        if self.is_cancelled() || rings.iter().any(|ring| Arc::ptr_eq(ring.table(), table)) {
            return;
        }
        // Without a slot the device finds out at its next turn, when a handle goes at the latest.
        rings.extend(table.acquire().ok());
    }

    fn rings(&self) -> MutexGuard<'_, Vec<Hold>> {
        lock(&self.0.rings)
    }
}

impl std::fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .field("tally", &self.tally())
            .finish()
    }
}

/// Under which terms a task was submitted.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// What withdraws it.
    pub cancel: Option<CancelToken>,
    /// When it is withdrawn, if it has not been issued.
    pub deadline: Option<Instant>,
    /// A moment that has passed, at which the deadline was set: it is later than this.
    pub since: Option<Instant>,
}

impl Terms {
    /// Why a task under these terms is not to be issued at `now`.
    pub(crate) fn withdrawn(&self, now: Option<Instant>) -> Option<Reason> {
        if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Some(Reason::Cancelled);
        }
        let passed = self.deadline.zip(now).is_some_and(|(end, now)| end <= now);
        passed.then_some(Reason::DeadlinePassed)
    }

    /// A task is accepted under these terms.
    pub(crate) fn accepted(&self) {
        self.count(|shared| &shared.accepted);
    }

    /// A task is issued.
    pub(crate) fn issued(&self) {
        self.count(|shared| &shared.issued);
    }

    /// A task is removed.
    pub(crate) fn removed(&self) {
        self.count(|shared| &shared.withdrawn);
    }

    fn count(&self, counter: impl FnOnce(&Shared) -> &AtomicU64) {
        if let Some(token) = &self.cancel {
            // Relaxed: a figure.
            counter(&token.0).fetch_add(1, Ordering::Relaxed);
        }
    }
}
