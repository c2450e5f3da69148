//! The stack of free slots: no index has two owners, and an owner sees what the one before it did (I4).

use millstream_loom::{Bound, Payload, check};
use millstream_sync::index_stack::{IndexStack, Link};
use std::sync::Arc;

/// Slots with a payload that only the owner of the index touches: loom reports two that touch one at a time.
struct Table {
    free: IndexStack,
    slots: [(Link, Payload); 2],
}

impl Table {
    /// Creates a table whose slots are all free; the first one is on top.
    fn new() -> Arc<Self> {
        let slots = [(); 2].map(|()| (Link::new(0), Payload::default()));
        let free = IndexStack::new();
        for index in [1, 0] {
            free.push(index, &slots[index as usize].0);
        }
        Arc::new(Self { free, slots })
    }

    fn pop(&self) -> Option<u32> {
        let link = |index: u32| self.slots.get(index as usize).map(|(link, _)| link);
        self.free.pop(link)
    }

    /// Uses the slot of an index that the caller owns.
    fn touch(&self, index: u32) {
        let payload = &self.slots[index as usize].1;
        payload.set(payload.get() + 1);
    }

    fn push(&self, index: u32) {
        self.free.push(index, &self.slots[index as usize].0);
    }
}

#[test]
fn an_index_has_one_owner_who_sees_what_the_last_one_did() {
    check(Bound::None, |sides| {
        let table = Table::new();
        let turn = |table: Arc<Table>| {
            move || {
                let index = table.pop().expect("there are as many as sides");
                table.touch(index);
                table.push(index);
                table
            }
        };
        let (table, _) = sides.run(turn(table.clone()), turn(table));
        let all = [table.pop(), table.pop(), table.pop()];
        assert!(all == [Some(0), Some(1), None] || all == [Some(1), Some(0), None]);
    });
}

/// One side reads the link of the top, and the other pops both and pushes the top again: the link is stale then.
#[test]
fn a_top_that_left_and_came_back_is_noticed() {
    check(Bound::None, |sides| {
        let table = Table::new();
        let (one, other) = (table.clone(), table.clone());
        let (first, second) = sides.run(
            move || one.pop(),
            move || {
                let (Some(top), Some(below)) = (other.pop(), other.pop()) else {
                    return None;
                };
                other.push(top);
                Some(below)
            },
        );
        // An index that a side owns is neither of the other side nor on the stack.
        let mut seen: Vec<u32> = [first, second].into_iter().flatten().collect();
        while let Some(index) = table.pop() {
            seen.push(index);
        }
        seen.sort_unstable();
        assert!(
            seen.is_sorted_by(|a, b| a < b),
            "{first:?} {second:?} {seen:?}"
        );
    });
}
