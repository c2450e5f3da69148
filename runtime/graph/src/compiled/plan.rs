//! Where temporaries lie in one piece of memory, so that those that are not needed at the same time share bytes.
//!
//! Lifetimes are known from the order of items. The largest are placed first, each at the lowest offset where nothing that lives at
//! the same time lies: greedy by size, which for the graphs of models is within a few percent of the best (Pisarchyk and Lee,
//! "Efficient memory management for deep neural net inference", 2020).

/// Every temporary starts at a multiple of this, in bytes: as slices of all devices do.
const ALIGNMENT: u64 = 256;

/// A temporary: its bytes, and the items between which it is needed, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lifetime {
    pub(crate) bytes: u64,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

impl Lifetime {
    fn meets(&self, other: &Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
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
    /// Places temporaries. None if their bytes cannot be counted.
    pub(crate) fn new(lifetimes: &[Lifetime]) -> Option<Self> {
        let mut order: Vec<usize> = (0..lifetimes.len()).collect();
        order.sort_by_key(|index| {
            let it = lifetimes[*index];
            (std::cmp::Reverse(it.bytes), it.first, *index)
        });
        let mut offsets = vec![0; lifetimes.len()];
        let mut placed: Vec<usize> = Vec::with_capacity(order.len());
        let mut bytes = 0;
        for index in order {
            let it = lifetimes[index];
            let size = it.bytes.checked_next_multiple_of(ALIGNMENT)?;
            // What is placed is kept in the order of offsets.
            let mut offset = 0_u64;
            for other in placed.iter().filter(|other| lifetimes[**other].meets(&it)) {
                if offsets[*other] >= offset.checked_add(size)? {
                    break;
                }
                let end = offsets[*other] + lifetimes[*other].bytes.next_multiple_of(ALIGNMENT);
                offset = offset.max(end);
            }
            offsets[index] = offset;
            bytes = bytes.max(offset.checked_add(size)?);
            let place = placed.partition_point(|other| offsets[*other] <= offset);
            placed.insert(place, index);
        }
        Some(Self { offsets, bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lifetimes() -> impl Strategy<Value = Vec<Lifetime>> {
        let one =
            (0_u64..5000, 0_usize..30, 0_usize..6).prop_map(|(bytes, first, more)| Lifetime {
                bytes,
                first,
                last: first + more,
            });
        prop::collection::vec(one, 0..40)
    }

    proptest! {
        #[test]
        fn what_lives_at_the_same_time_shares_no_byte_i4(all in lifetimes()) {
            let plan = Plan::new(&all).unwrap();
            for (i, a) in all.iter().enumerate() {
                prop_assert!(plan.offsets[i] + a.bytes <= plan.bytes);
                prop_assert_eq!(plan.offsets[i] % ALIGNMENT, 0);
                for (j, b) in all.iter().enumerate().skip(i + 1) {
                    let apart = plan.offsets[i] + a.bytes <= plan.offsets[j]
                        || plan.offsets[j] + b.bytes <= plan.offsets[i];
                    prop_assert!(!a.meets(b) || apart || a.bytes == 0 || b.bytes == 0);
                }
            }
            // Never more than all of them side by side, never less than what lives at one time.
            let side_by_side: u64 = all.iter().map(|it| it.bytes.next_multiple_of(ALIGNMENT)).sum();
            prop_assert!(plan.bytes <= side_by_side);
            for item in 0..40 {
                let alive = all.iter().filter(|it| it.first <= item && item <= it.last);
                prop_assert!(alive.map(|it| it.bytes).sum::<u64>() <= plan.bytes);
            }
        }
    }

    #[test]
    fn a_chain_needs_room_for_two() {
        let chain: Vec<Lifetime> = (0..100)
            .map(|index| Lifetime {
                bytes: 1024,
                first: index,
                last: index + 1,
            })
            .collect();
        assert_eq!(Plan::new(&chain).unwrap().bytes, 2048);
    }
}
