//! The switch that loses a device on command ([`Altered`](crate::altered::Altered)).
//!
//! After the loss every call reports it, as that of a real device would. The loss happens at the nth launch or
//! allocation, at a custom task, or without a call, by the end of the queues' timelines.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use millstream::backend::{Refused, Timeline};

/// Loses a device, and counts its calls.
#[derive(Default)]
pub(crate) struct Switch {
    /// The number of launches until the loss; 0 means never.
    launches_left: AtomicU64,
    /// The number of allocations until the loss; 0 means never.
    pages_left: AtomicU64,
    /// The next custom task loses it.
    custom_loses: AtomicBool,
    lost: AtomicBool,
    panics: AtomicBool,
    /// The number of pages that were freed after the loss.
    pub(crate) freed_lost: AtomicU64,
    /// The number of dropped backends.
    pub(crate) dropped: AtomicU64,
    /// The number of openings.
    pub(crate) opened: AtomicU64,
    timelines: Mutex<Vec<Arc<Timeline>>>,
}

impl Switch {
    pub(crate) fn lose_at_launch(&self, nth: u64) {
        self.launches_left.store(nth, Ordering::SeqCst);
    }

    pub(crate) fn lose_at_page(&self, nth: u64) {
        self.pages_left.store(nth, Ordering::SeqCst);
    }

    pub(crate) fn lose_at_next_custom(&self) {
        self.custom_loses.store(true, Ordering::SeqCst);
    }

    /// Makes the next launch panic, like a bug of the backend.
    pub(crate) fn panic_at_next_launch(&self) {
        self.panics.store(true, Ordering::SeqCst);
    }

    /// Loses the device as if one of its own threads detected it.
    pub(crate) fn lose_now(&self) {
        self.lost.store(true, Ordering::SeqCst);
        let timelines = self.timelines.lock().unwrap().clone();
        timelines.iter().for_each(|timeline| timeline.end());
    }

    /// Notes an opening, which ends a loss.
    pub(crate) fn opened_with(&self, timelines: Vec<Arc<Timeline>>) {
        *self.timelines.lock().unwrap() = timelines;
        self.lost.store(false, Ordering::SeqCst);
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn count_launch(&self) {
        if self.panics.swap(false, Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new("a bug of the backend"));
        }
        self.count_down(&self.launches_left);
    }

    pub(crate) fn count_page(&self) {
        self.count_down(&self.pages_left);
    }

    pub(crate) fn count_custom(&self) {
        if self.custom_loses.swap(false, Ordering::SeqCst) {
            self.lost.store(true, Ordering::SeqCst);
        }
    }

    fn count_down(&self, left: &AtomicU64) {
        let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        if before == Ok(1) {
            self.lost.store(true, Ordering::SeqCst);
        }
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        match self.lost.load(Ordering::SeqCst) {
            true => Err(Refused::Lost("the device fell off the bus".into())),
            false => Ok(()),
        }
    }
}
