//! [`Placed`]: the temporaries that have an offset, and the lowest free offset for another.
//!
//! Most temporaries are live at the same time as few others, however many there are. These are found in a tree over the
//! temporaries by their first item, in which each node has the last item of the placed ones below it. If they are many,
//! visiting all placed temporaries by offset is faster than sorting these.

use std::collections::BTreeSet;

use super::{ALIGNMENT, Temporary};

/// All placed temporaries are visited if more than one in this number is live at the same time.
const FEW: usize = 16;

pub(super) struct Placed<'a> {
    all: &'a [Temporary],
    offsets: Vec<u64>,
    /// The placed temporaries, by offset.
    by_offset: BTreeSet<(u64, usize)>,
    /// All temporaries, sorted by their first item: the leaves of the tree.
    by_first: Vec<usize>,
    /// The place of each temporary in `by_first`.
    leaf: Vec<usize>,
    /// The nodes of the tree; the children of node n are 2n and 2n + 1. Each is the greatest last item, plus 1, of the
    /// placed temporaries below it, or 0.
    ends: Vec<usize>,
}

impl<'a> Placed<'a> {
    pub(super) fn new(all: &'a [Temporary]) -> Self {
        let mut by_first: Vec<usize> = (0..all.len()).collect();
        by_first.sort_by_key(|index| all[*index].first());
        let mut leaf = vec![0; all.len()];
        for (place, index) in by_first.iter().enumerate() {
            leaf[*index] = place;
        }
        Self {
            all,
            offsets: vec![0; all.len()],
            by_offset: BTreeSet::new(),
            by_first,
            leaf,
            ends: vec![0; 2 * all.len().next_power_of_two()],
        }
    }

    /// Places a temporary.
    pub(super) fn add(&mut self, index: usize, offset: u64) {
        self.offsets[index] = offset;
        self.by_offset.insert((offset, index));
        let mut node = self.ends.len() / 2 + self.leaf[index];
        while node > 0 {
            self.ends[node] = self.ends[node].max(self.all[index].last() + 1);
            node /= 2;
        }
    }

    pub(super) fn into_offsets(self) -> Vec<u64> {
        self.offsets
    }

    /// Returns the lowest offset with `size` free bytes apart from the placed temporaries that are live at the same time
    /// as this one.
    pub(super) fn lowest(&self, temporary: &Temporary, size: u64) -> Option<u64> {
        match self.few_live_with(temporary) {
            Some(few) => lowest(few.into_iter(), size),
            None => self.lowest_apart_from(|other| other.overlaps(temporary), size),
        }
    }

    /// As [`Placed::lowest`], apart from those that `is_apart` accepts. Visits all placed temporaries.
    pub(super) fn lowest_apart_from(
        &self,
        is_apart: impl Fn(&Temporary) -> bool,
        size: u64,
    ) -> Option<u64> {
        let placed = self.by_offset.iter();
        let apart = placed.filter(|(_, index)| is_apart(&self.all[*index]));
        lowest(apart.map(|(_, index)| self.range(*index)), size)
    }

    /// Returns the ranges of the placed temporaries that are live at the same time as this one, sorted; `None` if they
    /// are many.
    fn few_live_with(&self, temporary: &Temporary) -> Option<Vec<(u64, u64)>> {
        let starts_before = |index: &usize| self.all[*index].first() <= temporary.last();
        let begun = self.by_first.partition_point(starts_before);
        let leaves = self.ends.len() / 2;
        let mut ranges = Vec::new();
        let mut open = vec![1_usize];
        while let Some(node) = open.pop() {
            #[cfg(test)]
            crate::steps::count();
            let depth = node.ilog2();
            let first_leaf = (node << (leaves.ilog2() - depth)) - leaves;
            if first_leaf >= begun || self.ends[node] <= temporary.first() {
                continue;
            }
            if node < leaves {
                open.extend([2 * node, 2 * node + 1]);
                continue;
            }
            ranges.push(self.range(self.by_first[first_leaf]));
            if ranges.len() > FEW.max(self.by_offset.len() / FEW) {
                return None;
            }
        }
        ranges.sort_unstable();
        Some(ranges)
    }

    fn range(&self, index: usize) -> (u64, u64) {
        let size = self.all[index].bytes.next_multiple_of(ALIGNMENT);
        (self.offsets[index], self.offsets[index] + size)
    }
}

/// Returns the lowest offset with `size` free bytes between these ranges, which are sorted by their starts.
fn lowest(ranges: impl Iterator<Item = (u64, u64)>, size: u64) -> Option<u64> {
    let mut offset = 0_u64;
    for (start, end) in ranges {
        #[cfg(test)]
        crate::steps::count();
        if start >= offset.checked_add(size)? {
            break;
        }
        offset = offset.max(end);
    }
    Some(offset)
}
