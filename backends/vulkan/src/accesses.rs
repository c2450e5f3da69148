//! Which tasks of a queue need a barrier before them.
//!
//! Commands of one Vulkan queue may run at the same time, unless a barrier separates them. The tasks of one of our
//! queues appear to run in order, so a barrier is needed before a task that conflicts with an earlier one: if one of
//! them writes bytes that the other accesses. Tasks that do not conflict overlap.
//!
//! # Protocol
//! [`Accesses`] holds the ranges that tasks have read and written since the last barrier, over all batches of the
//! queue: a submission does not separate commands either. A task that conflicts with one of them is preceded by a
//! barrier that covers all earlier commands, after which only the ranges of the task itself are held.
//!
//! ```text
//!  task                 held before                      barrier?
//!  launch writes a      -                                no
//!  launch writes b      wrote a                          no: overlaps with the first
//!  copy   reads a       wrote a, b                       yes
//!  launch reads a       read a (by the copy)             no
//!  launch writes a      read a                           yes
//! ```
//! The lists are bounded (I12): a task that does not fit is preceded by a barrier. A range that begins in the last
//! one or at its end, such as the next part of a slice, extends it. So launches on the parts of a slice in order are
//! found independent by one comparison, and any number of launches may read one slice without a barrier.
//!
//! `tests` below check the rule against an oracle on random tasks; synchronization validation checks the recorded
//! barriers on the whole suite.

use millstream_protocol::{Access, BoundSlice, PageId};

/// The most ranges of each kind that are held.
const HELD_MAX: usize = 64;

/// A range of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    page: PageId,
    start: u64,
    end: u64,
}

impl Range {
    fn of(binding: &BoundSlice) -> Option<Self> {
        let page = binding.page.filter(|_| binding.len > 0)?;
        Some(Self {
            page,
            start: binding.offset,
            end: binding.offset + binding.len,
        })
    }

    #[inline]
    fn overlaps(&self, other: &Self) -> bool {
        self.page == other.page && self.start < other.end && other.start < self.end
    }

    /// Adds the bytes of `next` to the range, if they begin in it or at its end. Returns `false` if not.
    #[inline]
    fn extend(&mut self, next: &Self) -> bool {
        let extends = self.page == next.page && (self.start..=self.end).contains(&next.start);
        if extends {
            self.end = self.end.max(next.end);
        }
        extends
    }
}

/// The accesses of a queue since its last barrier.
pub(crate) struct Accesses {
    reads: Vec<Range>,
    writes: Vec<Range>,
}

impl Default for Accesses {
    fn default() -> Self {
        Self {
            reads: Vec::with_capacity(HELD_MAX),
            writes: Vec::with_capacity(HELD_MAX),
        }
    }
}

impl Accesses {
    /// Adds a task with these bindings. Returns `true` if a barrier must precede it.
    pub(crate) fn add<'a>(
        &mut self,
        bindings: impl Iterator<Item = &'a BoundSlice> + Clone,
    ) -> bool {
        let ranges = bindings.filter_map(|binding| Some((Range::of(binding)?, binding.access)));
        let needs_barrier = ranges
            .clone()
            .any(|(range, access)| self.conflicts(range, access))
            || !self.has_room(ranges.clone());
        if needs_barrier {
            self.clear();
        }
        for (range, access) in ranges {
            let list = match access {
                Access::Read => &mut self.reads,
                Access::Write | Access::ReadWrite => &mut self.writes,
            };
            if !list.last_mut().is_some_and(|last| last.extend(&range)) {
                // After a barrier a task may have more ranges than fit; the list then grows to its size.
                list.push(range);
            }
        }
        needs_barrier
    }

    /// Replaces the accesses by those of `other`.
    pub(crate) fn copy(&mut self, other: &Self) {
        self.reads.clone_from(&other.reads);
        self.writes.clone_from(&other.writes);
    }

    /// Forgets all accesses: a barrier was recorded.
    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }

    fn conflicts(&self, range: Range, access: Access) -> bool {
        let overlap = |held: &Range| held.overlaps(&range);
        self.writes.iter().any(overlap)
            || (access != Access::Read && self.reads.iter().any(overlap))
    }

    fn has_room(&self, ranges: impl Iterator) -> bool {
        self.reads.len().max(self.writes.len()) + ranges.count() <= HELD_MAX
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::SliceId;
    use millstream_sync::slots::SlotId;
    use proptest::prelude::*;

    use super::*;

    fn binding(page: u32, offset: u64, len: u64, access: Access) -> BoundSlice {
        BoundSlice {
            page: Some(PageId(page)),
            offset,
            len,
            access,
            slice: SliceId(SlotId {
                index: 0,
                generation: 0,
            }),
            slice_offset: 0,
        }
    }

    fn any_task() -> impl Strategy<Value = Vec<BoundSlice>> {
        let access = prop_oneof![
            Just(Access::Read),
            Just(Access::Write),
            Just(Access::ReadWrite)
        ];
        let one = (0..2_u32, 0..12_u64, 0..5_u64, access);
        prop::collection::vec(
            one.prop_map(|(page, at, len, access)| binding(page, at, len, access)),
            0..4,
        )
    }

    fn conflict(one: &[BoundSlice], other: &[BoundSlice]) -> bool {
        let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
        pairs.into_iter().any(|(a, b)| {
            let writes = a.access != Access::Read || b.access != Access::Read;
            let bytes = |of: &BoundSlice| of.offset..of.offset + of.len;
            let shared = bytes(a).any(|byte| bytes(b).contains(&byte));
            writes && a.page == b.page && shared
        })
    }

    proptest! {
        /// Conflicting tasks of a queue are separated by a barrier, and a barrier separates tasks that conflict (I1).
        #[test]
        fn barriers_separate_exactly_the_tasks_that_conflict_i1(tasks in prop::collection::vec(any_task(), 1..24)) {
            let mut accesses = Accesses::default();
            // The tasks since the last barrier.
            let mut open: Vec<&Vec<BoundSlice>> = Vec::new();
            for task in &tasks {
                let needed = open.iter().any(|earlier| conflict(earlier, task));
                prop_assert_eq!(accesses.add(task.iter()), needed);
                if needed {
                    open.clear();
                }
                open.push(task);
            }
        }
    }

    #[test]
    fn held_ranges_are_bounded_i12() {
        let mut accesses = Accesses::default();
        let barriers = (0..1000_u64).filter(|nth| {
            // With gaps.
            let task = [binding(0, nth * 16, 8, Access::Write)];
            accesses.add(task.iter())
        });
        assert_eq!(barriers.count(), 1000 / HELD_MAX);
        assert!(accesses.writes.len() <= HELD_MAX);
    }

    #[test]
    fn parts_of_a_slice_in_order_are_one_range() {
        let mut accesses = Accesses::default();
        for nth in 0..1000_u64 {
            let task = [binding(0, nth * 8, 8, Access::Write)];
            assert!(!accesses.add(task.iter()));
        }
        assert_eq!(accesses.writes.len(), 1);
        assert!(accesses.add([binding(0, 4000, 1, Access::Read)].iter()));
    }
}
