//! Which steps of a replay come after which: each after those that it conflicts with, and after nothing else, so that the driver runs
//! independent ones side by side.
//!
//! Two steps conflict where they bind overlapping bytes of a slice and one of the two writes: what the core's own hazards are, by the
//! accesses that kernels declare (I1, I2). A binding of which nothing is declared counts as read and written, and no step touches what
//! it does not bind.

use millstream_protocol::backend::BoundSlice;
use millstream_protocol::id::SliceId;

/// Steps of a recording that are told apart, at most (I12): there is a bit for each pair of them, half a mebibyte. More are one behind the
/// other.
const STEPS_MAX: usize = 2048;

/// A range of bytes that a step binds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Touch {
    slice: SliceId,
    start: u64,
    len: u64,
    writes: bool,
}

impl Touch {
    pub(crate) fn of(binding: &BoundSlice) -> Self {
        Self {
            slice: binding.slice,
            start: binding.slice_offset,
            len: binding.len,
            writes: binding.access.writes(),
        }
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.slice == other.slice
            && (self.writes || other.writes)
            && self.len > 0
            && other.len > 0
            && self.start < other.start.saturating_add(other.len)
            && other.start < self.start.saturating_add(self.len)
    }
}

/// What each step binds.
#[derive(Clone, Default)]
pub(crate) struct Touches {
    list: Vec<Touch>,
    /// Where those of each step end.
    ends: Vec<usize>,
}

impl Touches {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.ends.clear();
    }

    /// Adds a step that binds these.
    pub(crate) fn push<'a>(&mut self, bindings: impl IntoIterator<Item = &'a BoundSlice>) {
        self.list.extend(bindings.into_iter().map(Touch::of));
        self.ends.push(self.list.len());
    }

    fn of(&self, step: usize) -> &[Touch] {
        let start = step.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.list[start..self.ends[step]]
    }

    fn conflict(&self, one: usize, other: usize) -> bool {
        let (one, other) = (self.of(one), self.of(other));
        one.iter()
            .any(|touch| other.iter().any(|before| touch.conflicts(before)))
    }
}

/// The order of the steps of a graph.
pub(crate) struct Order {
    touches: Touches,
    /// The first range of the same slice, for each.
    firsts: Vec<usize>,
    /// For each step those that it comes right behind, ascending: it comes behind all others that it must through them.
    behind: Vec<Vec<usize>>,
    before: Before,
}

impl Order {
    /// The order of steps that bind these.
    pub(crate) fn new(touches: Touches) -> Self {
        let (behind, before) = order(&touches);
        let of = |touch: &Touch| {
            let mut all = touches.list.iter();
            all.position(|first| first.slice == touch.slice)
        };
        let firsts = touches.list.iter().filter_map(of).collect();
        Self {
            touches,
            firsts,
            behind,
            before,
        }
    }

    /// The steps that a step comes right behind.
    pub(crate) fn behind(&self, step: usize) -> &[usize] {
        &self.behind[step]
    }

    /// Is it an order for as many steps that bind these as well?
    pub(crate) fn holds_for(&self, touches: &Touches) -> bool {
        if self.touches.ends != touches.ends {
            return false;
        }
        self.overlap_alike(&touches.list) || {
            let (behind, _) = order(touches);
            let mut steps = behind.iter().enumerate();
            steps.all(|(step, behind)| behind.iter().all(|other| self.before.has(step, *other)))
        }
    }

    /// Do these ranges overlap each other as those do that the order was made for? True for other handles of the same sizes;
    /// where handles overlap otherwise it is left open.
    fn overlap_alike(&self, touches: &[Touch]) -> bool {
        let known = &self.touches.list;
        let alike = |(at, touch): (usize, &Touch)| {
            let (first, was, was_first) = (self.firsts[at], &known[at], &known[self.firsts[at]]);
            let first_now = &touches[first];
            let same = touch.slice == first_now.slice
                && touch.start.wrapping_sub(first_now.start)
                    == was.start.wrapping_sub(was_first.start)
                && (touch.len, touch.writes) == (was.len, was.writes);
            // Slices that were apart are apart.
            let is_apart = || {
                let mut others = self.firsts.iter().filter(|other| **other != first);
                first != at
                    || touch.slice == was.slice
                    || others.all(|other| touches[*other].slice != touch.slice)
            };
            same && is_apart()
        };
        touches.iter().enumerate().all(alike)
    }
}

/// Which steps come before which, by any way: a bit for each pair.
struct Before {
    words: usize,
    bits: Vec<u64>,
    /// There are no bits: each comes before all that follow.
    all: bool,
}

impl Before {
    fn has(&self, step: usize, other: usize) -> bool {
        self.all || self.bits[step * self.words + other / 64] >> (other % 64) & 1 == 1
    }

    /// `other`, and all that come before it, come before `step`, which is later.
    fn add(&mut self, step: usize, other: usize) {
        let (earlier, later) = self.bits.split_at_mut(step * self.words);
        let earlier = &earlier[other * self.words..][..self.words];
        for (bits, more) in later.iter_mut().zip(earlier) {
            *bits |= more;
        }
        later[other / 64] |= 1 << (other % 64);
    }
}

/// The steps that each comes right behind, and all that come before it.
fn order(touches: &Touches) -> (Vec<Vec<usize>>, Before) {
    let steps = touches.ends.len();
    let all = steps > STEPS_MAX;
    let words = if all { 0 } else { steps.div_ceil(64) };
    let bits = vec![0; words * steps];
    let mut before = Before { words, bits, all };
    let behind = (0..steps).map(|step| {
        if all {
            return step.checked_sub(1).into_iter().collect();
        }
        // From the last one back: what comes before it does not have to be looked at.
        let mut behind = Vec::new();
        for other in (0..step).rev() {
            if !before.has(step, other) && touches.conflict(step, other) {
                before.add(step, other);
                behind.push(other);
            }
        }
        behind.reverse();
        behind
    });
    (behind.collect(), before)
}

#[cfg(test)]
mod tests {
    use millstream_protocol::access::Access;
    use millstream_sync::slots::SlotId;
    use proptest::prelude::*;

    use super::*;

    fn slices(first: u32, count: u32) -> Vec<SliceId> {
        let slot = |index| SlotId {
            index,
            generation: 0,
        };
        (first..first + count)
            .map(|index| SliceId(slot(index)))
            .collect()
    }

    /// Steps that bind ranges of slices: which slice, where, how many bytes, and whether they are written.
    type Bound = Vec<Vec<(usize, u64, u64, bool)>>;

    fn touches(bound: &Bound, slices: &[SliceId]) -> Touches {
        let mut touches = Touches::default();
        for step in bound {
            let bindings: Vec<BoundSlice> = step
                .iter()
                .map(|(slice, start, len, writes)| BoundSlice {
                    page: None,
                    offset: 0,
                    len: *len,
                    access: if *writes {
                        Access::ReadWrite
                    } else {
                        Access::Read
                    },
                    slice: slices[*slice],
                    slice_offset: *start,
                })
                .collect();
            touches.push(&bindings);
        }
        touches
    }

    fn bound() -> impl Strategy<Value = Bound> {
        let range = (0_usize..4, 0_u64..6, 0_u64..4, any::<bool>());
        prop::collection::vec(prop::collection::vec(range, 0..4), 0..70)
    }

    proptest! {
        /// I1, I2: conflicting steps are in order, and no other order is made than what follows from that.
        #[test]
        fn conflicts_are_in_order_and_nothing_else_is_i1_i2(bound in bound()) {
            let touches = touches(&bound, &slices(0, 4));
            let order = Order::new(touches.clone());
            let steps = bound.len();
            let mut reached: Vec<Vec<bool>> = Vec::new();
            for step in 0..steps {
                let by_any_way = |other: usize| {
                    let mut between = other + 1..step;
                    touches.conflict(step, other)
                        || between.any(|by| touches.conflict(step, by) && reached[by][other])
                };
                let before: Vec<bool> = (0..step).map(by_any_way).collect();
                let known: Vec<bool> = (0..step).map(|other| order.before.has(step, other)).collect();
                prop_assert_eq!(&before, &known);
                reached.push(before);
                for other in order.behind(step) {
                    prop_assert!(touches.conflict(step, *other));
                    // None of them comes before another of them: each edge is needed.
                    let mut others = order.behind(step).iter();
                    prop_assert!(!others.any(|by| by > other && reached[*by][*other]));
                }
            }
        }

        /// I2: an order is not taken for steps that conflict otherwise; it is for the same ones on other slices.
        #[test]
        fn an_order_holds_for_what_conflicts_alike_i2(
            bound in bound(), taken in prop::collection::vec(0_usize..5, 4), shift in 0_u64..2,
        ) {
            let made_for = slices(0, 4);
            let order = Order::new(touches(&bound, &made_for));
            prop_assert!(order.holds_for(&touches(&bound, &slices(7, 4))));
            // Some of the slices are the same one now, or lie elsewhere.
            let others = slices(2, 5);
            let now: Vec<SliceId> = taken.iter().map(|taken| others[*taken]).collect();
            let mut moved = bound.clone();
            for binding in moved.iter_mut().flatten() {
                binding.1 += shift * binding.0 as u64;
            }
            let now = touches(&moved, &now);
            if order.holds_for(&now) {
                for step in 0..moved.len() {
                    for other in 0..step {
                        prop_assert!(!now.conflict(step, other) || order.before.has(step, other));
                    }
                }
            }
        }
    }

    #[test]
    fn more_steps_than_are_told_apart_are_one_behind_the_other_i12() {
        let bound = vec![vec![]; STEPS_MAX + 1];
        let order = Order::new(touches(&bound, &[]));
        assert_eq!(order.behind(0), []);
        assert!((1..bound.len()).all(|step| order.behind(step) == [step - 1]));
    }
}
