//! [`Placed`]: the temporaries that have an offset, and the lowest free offset for another.
//!
//! Most temporaries are live at the same time as few others, however many there are. These are found in a tree over the
//! temporaries by their first item, in which each node has the last item of the placed ones below it.

use super::{ALIGNMENT, Temporary};

pub(super) struct Placed<'a> {
    all: &'a [Temporary],
    offsets: Vec<u64>,
    /// The placed temporaries.
    placed: Vec<usize>,
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
            placed: Vec::with_capacity(all.len()),
            by_first,
            leaf,
            ends: vec![0; 2 * all.len().next_power_of_two()],
        }
    }

    /// Places a temporary.
    pub(super) fn add(&mut self, index: usize, offset: u64) {
        self.offsets[index] = offset;
        self.placed.push(index);
        let mut node = self.ends.len() / 2 + self.leaf[index];
        while node > 0 {
            self.ends[node] = self.ends[node].max(self.all[index].last() + 1);
            node /= 2;
        }
    }

    pub(super) fn into_offsets(self) -> Vec<u64> {
        self.offsets
    }

    /// Returns the lowest offset with `size` free bytes apart from the placed temporaries that `is_apart` accepts. Visits
    /// all placed temporaries.
    pub(super) fn lowest_apart_from(
        &self,
        is_apart: impl Fn(&Temporary) -> bool,
        size: u64,
    ) -> Option<u64> {
        let placed = self.placed.iter().copied();
        self.lowest_among(placed.filter(|index| is_apart(&self.all[*index])), size)
    }

    /// As [`Placed::lowest_apart_from`], apart from those that are live at the same time as this one.
    pub(super) fn lowest(&self, temporary: &Temporary, size: u64) -> Option<u64> {
        let starts_before = |index: &usize| self.all[*index].first() <= temporary.last();
        let begun = self.by_first.partition_point(starts_before);
        let leaves = self.ends.len() / 2;
        let mut live = Vec::new();
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
            live.push(self.by_first[first_leaf]);
        }
        self.lowest_among(live.into_iter(), size)
    }

    /// Returns the lowest offset with `size` free bytes between these placed temporaries.
    fn lowest_among(&self, placed: impl Iterator<Item = usize>, size: u64) -> Option<u64> {
        let range = |index: usize| {
            let bytes = self.all[index].bytes.next_multiple_of(ALIGNMENT);
            (self.offsets[index], self.offsets[index] + bytes)
        };
        let mut ranges: Vec<(u64, u64)> = placed.map(range).collect();
        ranges.sort_unstable();
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
}
