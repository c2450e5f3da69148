//! Where temporaries lie in one piece of memory, so that those that are not needed at the same time share bytes.
//!
//! Lifetimes are known from the order of items. The largest are placed first, each at the lowest offset where nothing that lives at
//! the same time lies: greedy by size, which for the graphs of models is within a few percent of the best (Pisarchyk and Lee,
//! "Efficient memory management for deep neural net inference", 2020).
//!
//! Sharing bytes orders the items that do. Where a device runs items side by side, temporaries of independent items are kept apart
//! as far as there is room for that: a little more than they take in order.

use millstream_protocol::hazard::order::Order;

/// Every temporary starts at a multiple of this, in bytes: as slices of all devices do.
const ALIGNMENT: u64 = 256;

/// Independent items are kept apart where that takes at most this share of the memory more: an eighth.
const APART_SHARE: u64 = 8;

/// Temporaries that together have at most this many bytes are always kept apart: it is little memory, and items with larger ones keep
/// a whole device busy one by one.
const APART_BYTES: u64 = 4 << 20;

/// A temporary: its bytes, and the items that touch it, in order.
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

    /// Are both needed at the same time where items run in order?
    fn meets(&self, other: &Temporary) -> bool {
        self.first() <= other.last() && other.first() <= self.last()
    }

    /// May both be needed at the same time where items run as soon as they may?
    fn may_meet(&self, other: &Temporary, order: &Order) -> bool {
        if self.meets(other) {
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

/// Where temporaries lie.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    /// The offset of each.
    pub(crate) offsets: Vec<u64>,
    /// Bytes of all together.
    pub(crate) bytes: u64,
}

impl Plan {
    /// Places temporaries of items that run in order or, given the `order` of the items, as soon as they
    /// may. None if their bytes cannot be counted.
    pub(crate) fn new(all: &[Temporary], order: Option<&Order>) -> Option<Self> {
        let dense = Self::greedy(all, u64::MAX, Temporary::meets)?;
        let Some(order) = order else {
            return Some(dense);
        };
        let more = dense.bytes.checked_add(dense.bytes / APART_SHARE)?;
        let room = more.max(APART_BYTES);
        let apart = Self::greedy(all, room, |a, b| a.may_meet(b, order))?;
        Some(if apart.bytes <= room { apart } else { dense })
    }

    /// Each where it meets no other; where that would be beyond the room, where it is not needed at the same time as another.
    fn greedy(
        all: &[Temporary],
        room: u64,
        meets: impl Fn(&Temporary, &Temporary) -> bool,
    ) -> Option<Self> {
        let mut by_bytes: Vec<usize> = (0..all.len()).collect();
        by_bytes.sort_by_key(|index| {
            let it = &all[*index];
            (std::cmp::Reverse(it.bytes), it.first(), *index)
        });
        let mut offsets = vec![0; all.len()];
        // What is placed, in the order of offsets.
        let mut placed: Vec<usize> = Vec::with_capacity(by_bytes.len());
        let mut bytes = 0;
        for index in by_bytes {
            let it = &all[index];
            let size = it.bytes.checked_next_multiple_of(ALIGNMENT)?;
            let others = |meets: &dyn Fn(&Temporary, &Temporary) -> bool| {
                let others = placed.iter().filter(|other| meets(&all[**other], it));
                let ranges = others.map(|other| {
                    let size = all[*other].bytes.next_multiple_of(ALIGNMENT);
                    (offsets[*other], offsets[*other] + size)
                });
                lowest(ranges, size)
            };
            let mut offset = others(&meets)?;
            if offset.checked_add(size)? > room {
                offset = others(&Temporary::meets)?;
            }
            offsets[index] = offset;
            bytes = bytes.max(offset.checked_add(size)?);
            let place = placed.partition_point(|other| offsets[*other] <= offset);
            placed.insert(place, index);
        }
        Some(Self { offsets, bytes })
    }
}

/// The lowest offset with `size` free bytes beside these ranges, which are sorted by their starts.
fn lowest(ranges: impl Iterator<Item = (u64, u64)>, size: u64) -> Option<u64> {
    let mut offset = 0_u64;
    for (start, end) in ranges {
        if start >= offset.checked_add(size)? {
            break;
        }
        offset = offset.max(end);
    }
    Some(offset)
}

#[cfg(test)]
mod tests {
    use millstream_protocol::access::Access;
    use millstream_protocol::hazard::order::Touch;
    use proptest::prelude::*;

    use super::*;

    fn temporaries() -> impl Strategy<Value = Vec<Temporary>> {
        let one =
            (0_u64..5000, 0_usize..30, 0_usize..6).prop_map(|(bytes, first, more)| Temporary {
                bytes,
                items: (first..=first + more).collect(),
            });
        prop::collection::vec(one, 0..40)
    }

    /// The order of items each of which comes behind these earlier ones: it reads what they store.
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

    /// For each item of 40 some that it comes right behind.
    fn order() -> impl Strategy<Value = Order> {
        let behind = prop::collection::vec(prop::collection::vec(0_u32..40, 0..3), 40);
        behind.prop_map(|mut behind| {
            for (item, behind) in behind.iter_mut().enumerate() {
                behind.retain(|other| (*other as usize) < item);
            }
            order_behind(&behind)
        })
    }

    fn apart(plan: &Plan, all: &[Temporary], i: usize, j: usize) -> bool {
        let ends = |index: usize| plan.offsets[index] + all[index].bytes;
        let (a, b) = (plan.offsets[i], plan.offsets[j]);
        ends(i) <= b || ends(j) <= a || all[i].bytes == 0 || all[j].bytes == 0
    }

    proptest! {
        #[test]
        fn what_lives_at_the_same_time_shares_no_byte_i4(
            all in temporaries(), order in prop::option::of(order()),
        ) {
            let plan = Plan::new(&all, order.as_ref()).unwrap();
            for (i, a) in all.iter().enumerate() {
                prop_assert!(plan.offsets[i] + a.bytes <= plan.bytes);
                prop_assert_eq!(plan.offsets[i] % ALIGNMENT, 0);
                for (j, b) in all.iter().enumerate().skip(i + 1) {
                    prop_assert!(!a.meets(b) || apart(&plan, &all, i, j));
                    // There is room for all of them here: independent ones are apart, too.
                    if let Some(order) = &order {
                        prop_assert!(!a.may_meet(b, order) || apart(&plan, &all, i, j));
                    }
                }
            }
            // Never more than all of them side by side, never less than what lives at one time.
            let side_by_side: u64 = all.iter().map(|it| it.bytes.next_multiple_of(ALIGNMENT)).sum();
            prop_assert!(plan.bytes <= side_by_side);
            for item in 0..40 {
                let alive = all.iter().filter(|it| it.first() <= item && item <= it.last());
                prop_assert!(alive.map(|it| it.bytes).sum::<u64>() <= plan.bytes);
            }
        }

        /// Of temporaries that are large, keeping independent ones apart takes no more than an eighth more.
        #[test]
        fn being_apart_costs_no_more_than_it_may(mut all in temporaries(), order in order()) {
            all.iter_mut().for_each(|it| it.bytes <<= 14);
            let dense = Plan::new(&all, None).unwrap().bytes;
            let plan = Plan::new(&all, Some(&order)).unwrap();
            prop_assert!(plan.bytes <= APART_BYTES.max(dense + dense / APART_SHARE));
            for (i, a) in all.iter().enumerate() {
                for (j, b) in all.iter().enumerate().skip(i + 1) {
                    prop_assert!(!a.meets(b) || apart(&plan, &all, i, j));
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
    fn a_chain_needs_room_for_two() {
        let behind = (0..101_u32).map(|item| item.checked_sub(1).into_iter().collect());
        let order = order_behind(&behind.collect::<Vec<_>>());
        for order in [None, Some(&order)] {
            let plan = Plan::new(&chain(0, 100, 1024), order).unwrap();
            assert_eq!(plan.bytes, 2048);
        }
    }

    #[test]
    fn independent_chains_share_bytes_only_where_there_is_little_room() {
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
