//! Memory planning: assigns offsets to temporaries, so that those with disjoint lifetimes share bytes.
//!
//! The order of items determines lifetimes. The largest temporaries are placed first, each at the lowest offset that no
//! temporary with an overlapping lifetime uses: greedy by size, which for graphs of models is within a few percent of
//! the optimum (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
//!
//! ```text
//!  item        0     1     2     3
//!  a  4 KiB    w─────r                    offset 0
//!  b  4 KiB          w─────r              offset 4 KiB: overlaps a
//!  c  2 KiB                w─────r        offset 0: a has ended
//! ```
//!
//! # Independent items
//! Items that share bytes run in order. A device that runs independent items at the same time would lose this
//! parallelism, so for such a device temporaries of independent items get separate bytes, as long as the plan stays
//! within a limit:
//!
//! ```text
//!  chain 1     item 0 ──► item 1           writes and reads a
//!  chain 2     item 2 ──► item 3           writes and reads b
//!
//!  in order    a and b share bytes         item 1 reads a, item 2 writes b: a conflict, so chain 2 follows chain 1
//!  separate    a and b are disjoint        no conflict: the chains run at the same time
//! ```
//! Both plans are correct; the second needs more memory. It is chosen if it needs at most 1/[`SEPARATE_SHARE`] more
//! than the first, or [`SEPARATE_BYTES`] in all.

mod placed;

use millstream_protocol::hazard::order::{Order, TASKS_MAX};
use placed::Placed;

/// The alignment of temporaries in bytes: that of slices on all devices.
const ALIGNMENT: u64 = 256;

/// The part of the memory that separating independent items may add: an eighth.
const SEPARATE_SHARE: u64 = 8;

/// Temporaries that need at most this many bytes together are always separated: it is little memory, and an item with
/// larger temporaries fills a device alone.
const SEPARATE_BYTES: u64 = 4 << 20;

/// A temporary: its number of bytes, and the items that use it, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Temporary {
    pub(crate) bytes: u64,
    pub(crate) items: Vec<usize>,
}

impl Temporary {
    pub(crate) fn first(&self) -> usize {
        self.items.first().copied().unwrap_or(0)
    }

    pub(crate) fn last(&self) -> usize {
        self.items.last().copied().unwrap_or(0)
    }

    /// Returns `true` if both are live at the same time when items run in order.
    fn overlaps(&self, other: &Temporary) -> bool {
        self.first() <= other.last() && other.first() <= self.last()
    }

    /// Returns `true` if both may be live at the same time when each item runs as soon as its dependencies allow.
    fn may_overlap(&self, other: &Temporary, order: &Order) -> bool {
        if self.overlaps(other) {
            return true;
        }
        let (before, after) = if self.last() < other.first() {
            (self, other)
        } else {
            (other, self)
        };
        let mut ends = before.items.iter();
        !ends.all(|end| after.items.iter().all(|item| order.is_before(*end, *item)))
    }
}

/// The placement of temporaries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    /// The offset of each temporary.
    pub(crate) offsets: Vec<u64>,
    /// The number of bytes of the arena.
    pub(crate) bytes: u64,
}

impl Plan {
    /// Places temporaries. With an `order`, items run as soon as it allows; without one, one after the other. `None` if
    /// the number of bytes overflows.
    pub(crate) fn new(all: &[Temporary], order: Option<&Order>) -> Option<Self> {
        let dense = Self::greedy(all, u64::MAX, None)?;
        // The items of a longer order run in sequence.
        let Some(order) = order.filter(|order| order.len() <= TASKS_MAX) else {
            return Some(dense);
        };
        let grown = dense.bytes.checked_add(dense.bytes / SEPARATE_SHARE)?;
        let limit = grown.max(SEPARATE_BYTES);
        let separate = Self::greedy(all, limit, Some(order))?;
        Some(if separate.bytes <= limit {
            separate
        } else {
            dense
        })
    }

    /// Places each temporary apart from those that are live at the same time, in the order if there is one, else when
    /// items run one after the other. Where an order would exceed the limit, it is ignored.
    fn greedy(all: &[Temporary], limit: u64, order: Option<&Order>) -> Option<Self> {
        let mut by_bytes: Vec<usize> = (0..all.len()).collect();
        by_bytes.sort_by_key(|index| {
            let temporary = &all[*index];
            (
                std::cmp::Reverse(temporary.bytes),
                temporary.first(),
                *index,
            )
        });
        let mut placed = Placed::new(all);
        let mut bytes = 0;
        for index in by_bytes {
            let temporary = &all[index];
            let size = temporary.bytes.checked_next_multiple_of(ALIGNMENT)?;
            let apart = order.map(|order| {
                placed.lowest_apart_from(|other| other.may_overlap(temporary, order), size)
            });
            let offset = match apart {
                Some(offset) if offset?.checked_add(size)? <= limit => offset?,
                _ => placed.lowest(temporary, size)?,
            };
            bytes = bytes.max(offset.checked_add(size)?);
            placed.add(index, offset);
        }
        Some(Self {
            offsets: placed.into_offsets(),
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::{Access, hazard::order::Touch};
    use proptest::prelude::*;

    use super::*;
    use crate::steps;

    fn temporaries() -> impl Strategy<Value = Vec<Temporary>> {
        let one =
            (0_u64..5000, 0_usize..30, 0_usize..6).prop_map(|(bytes, first, grown)| Temporary {
                bytes,
                items: (first..=first + grown).collect(),
            });
        prop::collection::vec(one, 0..40)
    }

    /// Returns an order in which each item follows these earlier items: it reads what they write.
    fn order_behind(behind: &[Vec<u32>]) -> Order {
        let touch = |space, access| Touch {
            space,
            range: 0..1,
            access,
        };
        let items = behind.iter().enumerate().map(|(item, behind)| {
            let reads = behind.iter().map(|other| touch(*other, Access::Read));
            reads
                .chain([touch(item as u32, Access::Write)])
                .collect::<Vec<_>>()
        });
        Order::of(&items.collect::<Vec<_>>())
    }

    /// Orders 40 items: each follows up to two random earlier ones.
    fn order() -> impl Strategy<Value = Order> {
        let behind = prop::collection::vec(prop::collection::vec(0_u32..40, 0..3), 40);
        behind.prop_map(|mut behind| {
            for (item, behind) in behind.iter_mut().enumerate() {
                behind.retain(|other| (*other as usize) < item);
            }
            order_behind(&behind)
        })
    }

    fn separate(plan: &Plan, all: &[Temporary], i: usize, j: usize) -> bool {
        let ends = |index: usize| plan.offsets[index] + all[index].bytes;
        let (a, b) = (plan.offsets[i], plan.offsets[j]);
        ends(i) <= b || ends(j) <= a || all[i].bytes == 0 || all[j].bytes == 0
    }

    /// Places each temporary as [`Plan::greedy`] does without an order, by visiting all placed ones.
    fn greedy_by_search(all: &[Temporary]) -> Vec<u64> {
        let mut by_bytes: Vec<usize> = (0..all.len()).collect();
        by_bytes.sort_by_key(|index| (std::cmp::Reverse(all[*index].bytes), all[*index].first()));
        let mut placed = Placed::new(all);
        for index in by_bytes {
            let size = all[index].bytes.next_multiple_of(ALIGNMENT);
            let offset = placed.lowest_apart_from(|other| other.overlaps(&all[index]), size);
            placed.add(index, offset.unwrap());
        }
        placed.into_offsets()
    }

    proptest! {
        #[test]
        fn plan_is_that_of_a_search_of_all(short in temporaries(), long in temporaries()) {
            // Every second one of `long` lives until the end, so that many are live at the same time.
            let mut all = [short, long.clone(), long].concat();
            all.iter_mut().step_by(2).for_each(|temporary| temporary.items.push(40));
            prop_assert_eq!(Plan::new(&all, None).unwrap().offsets, greedy_by_search(&all));
        }

        #[test]
        fn temporaries_that_are_live_at_the_same_time_share_no_byte_i4(
            all in temporaries(), order in prop::option::of(order()),
        ) {
            let plan = Plan::new(&all, order.as_ref()).unwrap();
            for (i, a) in all.iter().enumerate() {
                prop_assert!(plan.offsets[i] + a.bytes <= plan.bytes);
                prop_assert_eq!(plan.offsets[i] % ALIGNMENT, 0);
                for (j, b) in all.iter().enumerate().skip(i + 1) {
                    prop_assert!(!a.overlaps(b) || separate(&plan, &all, i, j));
                    // These are below `SEPARATE_BYTES`, so independent temporaries are separate, too.
                    if let Some(order) = &order {
                        prop_assert!(!a.may_overlap(b, order) || separate(&plan, &all, i, j));
                    }
                }
            }
            // At most the sum of all temporaries, at least the sum of those that are live at one time.
            let side_by_side: u64 = all.iter().map(|temporary| temporary.bytes.next_multiple_of(ALIGNMENT)).sum();
            prop_assert!(plan.bytes <= side_by_side);
            for item in 0..40 {
                let alive = all.iter().filter(|temporary| temporary.first() <= item && item <= temporary.last());
                prop_assert!(alive.map(|temporary| temporary.bytes).sum::<u64>() <= plan.bytes);
            }
        }

        /// For large temporaries, separating independent ones adds at most an eighth.
        #[test]
        fn separating_independent_temporaries_stays_within_the_limit(mut all in temporaries(), order in order()) {
            all.iter_mut().for_each(|temporary| temporary.bytes <<= 14);
            let dense = Plan::new(&all, None).unwrap().bytes;
            let plan = Plan::new(&all, Some(&order)).unwrap();
            prop_assert!(plan.bytes <= SEPARATE_BYTES.max(dense + dense / SEPARATE_SHARE));
            for (i, a) in all.iter().enumerate() {
                for (j, b) in all.iter().enumerate().skip(i + 1) {
                    prop_assert!(!a.overlaps(b) || separate(&plan, &all, i, j));
                }
            }
        }
    }

    fn chain(first: usize, items: usize, bytes: u64) -> Vec<Temporary> {
        let one = |index| Temporary {
            bytes,
            items: vec![index, index + 1],
        };
        (first..first + items).map(one).collect()
    }

    #[test]
    fn a_chain_needs_memory_for_two_temporaries() {
        let behind = (0..101_u32).map(|item| item.checked_sub(1).into_iter().collect());
        let order = order_behind(&behind.collect::<Vec<_>>());
        for order in [None, Some(&order)] {
            let plan = Plan::new(&chain(0, 100, 1024), order).unwrap();
            assert_eq!(plan.bytes, 2048);
        }
    }

    /// A temporary costs the logarithm of their number, not their number.
    #[test]
    fn temporaries_that_are_live_elsewhere_are_not_visited() {
        let visits = [1000, 4000].map(|items| {
            steps::take();
            Plan::new(&chain(0, items, 1024), None).unwrap();
            steps::take() / items as u64
        });
        assert!(visits[1] <= visits[0] + 2 * 8, "{visits:?}");
    }

    #[test]
    fn independent_chains_share_bytes_only_above_the_limit() {
        let behind = (0..22_u32).map(|item| item.checked_sub(1).filter(|_| item != 11));
        let behind: Vec<Vec<u32>> = behind.map(|one| one.into_iter().collect()).collect();
        let order = order_behind(&behind);
        for (bytes, rooms) in [(1024, 4), (64 << 20, 2)] {
            let both = [chain(0, 10, bytes), chain(11, 10, bytes)].concat();
            assert_eq!(Plan::new(&both, None).unwrap().bytes, 2 * bytes);
            let plan = Plan::new(&both, Some(&order)).unwrap();
            assert_eq!(plan.bytes, rooms * bytes);
        }
    }
}
