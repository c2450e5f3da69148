//! The bytes that a device may keep for a purpose (I12).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of bytes, of which parts are taken and given back.
#[derive(Clone)]
pub(crate) struct Budget(Arc<AtomicU64>);

/// A part of a budget, given back on drop, on any thread.
pub(crate) struct Charge {
    budget: Budget,
    bytes: u64,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Takes a part; `None` if fewer bytes are left.
    pub(crate) fn take(&self, bytes: u64) -> Option<Charge> {
        // Relaxed, here and below: a counter that orders nothing.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let taken = self
            .0
            .fetch_update(set, fetch, |left| left.checked_sub(bytes));
        taken.ok().map(|_| Charge {
            budget: self.clone(),
            bytes,
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_budget_is_taken_i12() {
        let budget = Budget::new(10);
        let first = budget.take(6).unwrap();
        assert!(budget.take(5).is_none());
        let second = budget.take(4).unwrap();
        assert!(budget.take(1).is_none());
        drop(first);
        assert!(budget.take(7).is_none());
        assert!(budget.take(6).is_some());
        drop(second);
        assert!(budget.take(10).is_some());
    }
}
