//! The poisoned ranges of one slice, for failures that the device thread finds when it issues a task.
//!
//! The device thread marks, finds and clears them in issue order, which is the order of every conflicting pair of
//! tasks. Failures that a queue finds while a task runs are recorded by [`settle`](millstream_protocol::settle).

use std::ops::Range;

use millstream_protocol::failure::FailureRef;
use millstream_sync::ranges::Ranges;

/// The poisoned ranges of one slice. One word while there are none.
#[derive(Default, Debug)]
pub(crate) struct PoisonedRanges(Option<Box<Ranges<FailureRef>>>);

impl PoisonedRanges {
    /// Returns `true` if no byte is poisoned.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the oldest failure of any byte of `range`.
    pub(crate) fn find(&self, range: &Range<u64>) -> Option<&FailureRef> {
        self.0.as_ref()?.find(range)
    }

    /// Poisons `range` with `failure`.
    pub(crate) fn mark(&mut self, range: Range<u64>, failure: FailureRef) {
        if !range.is_empty() {
            self.0.get_or_insert_default().set(range, failure);
        }
    }

    /// Heals `range`: a task has overwritten it.
    pub(crate) fn clear(&mut self, range: &Range<u64>) {
        self.0.take_if(|failed| {
            failed.clear(range);
            failed.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::failure::Failure;

    use super::*;

    #[test]
    fn clear_heals_only_the_given_bytes() {
        let mut poisoned = PoisonedRanges::default();
        poisoned.mark(10..20, Failure::panicked(&"k".into(), "boom".into()));
        poisoned.clear(&(12..15));
        assert!(poisoned.find(&(12..15)).is_none());
        assert!(poisoned.find(&(11..12)).is_some() && poisoned.find(&(15..16)).is_some());
        poisoned.clear(&(0..100));
        assert!(poisoned.is_clean());
    }
}
