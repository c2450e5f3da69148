//! Failures that became known when a task was routed: ranges of a slice that hold no data.
//!
//! Marked, found and cleared by the device thread in the order in which tasks are issued, which is
//! the order of every conflicting pair. What becomes known while a task runs is
//! [`settle`](millstream_protocol::settle)'s.

use std::ops::Range;

use millstream_protocol::failure::FailureRef;
use millstream_sync::ranges::Ranges;

/// Failed ranges of one slice. Takes one word while there are none.
#[derive(Default, Debug)]
pub(crate) struct PoisonedRanges(Option<Box<Ranges<FailureRef>>>);

impl PoisonedRanges {
    /// Is nothing failed?
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.0.is_none()
    }

    /// The oldest failure of any byte of `range`.
    pub(crate) fn find(&self, range: &Range<u64>) -> Option<&FailureRef> {
        self.0.as_ref()?.find(range)
    }

    /// `range` holds no data because of `failure`.
    pub(crate) fn mark(&mut self, range: Range<u64>, failure: FailureRef) {
        if !range.is_empty() {
            self.0.get_or_insert_default().set(range, failure);
        }
    }

    /// `range` was defined anew.
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
    fn an_overwrite_heals_only_the_bytes_that_it_defines() {
        let mut poisoned_ranges = PoisonedRanges::default();
        poisoned_ranges.mark(10..20, Failure::panicked(&"k".into(), "boom".into()));
        poisoned_ranges.clear(&(12..15));
        assert!(poisoned_ranges.find(&(12..15)).is_none());
        assert!(
            poisoned_ranges.find(&(11..12)).is_some() && poisoned_ranges.find(&(15..16)).is_some()
        );
        poisoned_ranges.clear(&(0..100));
        assert!(poisoned_ranges.is_clean());
    }
}
