//! A map with a value for every byte: ranges split where a change begins or ends, and merge where values are equal.

use std::collections::BTreeMap;
use std::ops::Range;

/// A value of `T` for every byte from 0 on; initially the default everywhere.
///
/// `starts` holds the first byte of each run of equal values, always including 0; neighbouring runs differ.
#[derive(Clone, Debug)]
pub(crate) struct RangeMap<T> {
    starts: BTreeMap<u64, T>,
}

impl<T: Clone + Default + PartialEq> RangeMap<T> {
    /// Changes the values of a range.
    pub(crate) fn update(&mut self, range: Range<u64>, mut change: impl FnMut(&mut T)) {
        if range.is_empty() {
            return;
        }
        self.split(range.start);
        self.split(range.end);
        let touched: Vec<u64> = self
            .starts
            .range(range.clone())
            .map(|(at, _)| *at)
            .collect();
        for at in &touched {
            if let Some(value) = self.starts.get_mut(at) {
                change(value);
            }
        }
        touched
            .into_iter()
            .chain([range.end])
            .for_each(|at| self.merge(at));
    }

    /// Iterates over the runs of equal values within a range.
    pub(crate) fn iter(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, &T)> {
        let first = self.run_at(range.start).0;
        let ends = self.starts.range(first + 1..).map(|(at, _)| *at);
        let ends = ends.chain([u64::MAX]);
        self.starts
            .range(first..)
            .zip(ends)
            .map(move |((start, value), end)| {
                ((*start).max(range.start)..end.min(range.end), value)
            })
            .take_while(|(part, _)| !part.is_empty())
    }

    fn run_at(&self, at: u64) -> (u64, Option<&T>) {
        let run = self.starts.range(..=at).next_back();
        run.map_or((0, None), |(start, value)| (*start, Some(value)))
    }

    fn split(&mut self, at: u64) {
        let (start, value) = self.run_at(at);
        if start != at {
            let value = value.cloned().unwrap_or_default();
            self.starts.insert(at, value);
        }
    }

    /// Removes the start at `at` if the run before it has the same value.
    fn merge(&mut self, at: u64) {
        let before = self.starts.range(..at).next_back();
        if before.is_some_and(|(_, value)| Some(value) == self.starts.get(&at)) {
            self.starts.remove(&at);
        }
    }
}

impl<T: Default> Default for RangeMap<T> {
    fn default() -> Self {
        Self {
            starts: BTreeMap::from([(0, T::default())]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u64 = 24;

    proptest! {
        #[test]
        fn map_equals_an_array_of_bytes(changes in prop::collection::vec((0..BYTES, 0..BYTES, 0_u8..3), 0..40)) {
            let (mut map, mut model) = (RangeMap::default(), [0_u8; BYTES as usize]);
            for (start, end, value) in changes {
                map.update(start..end, |byte| *byte = value);
                (start..end).for_each(|at| model[at as usize] = value);
                let mut seen = Vec::new();
                let mut runs = 0;
                for (part, byte) in map.iter(0..BYTES) {
                    runs += 1;
                    seen.extend(part.map(|_| *byte));
                }
                prop_assert_eq!(&seen, &model);
                prop_assert_eq!(runs, model.chunk_by(|a, b| a == b).count(), "equal neighbours are merged");
                let part: Vec<u8> = map.iter(start..end).flat_map(|(part, byte)| part.map(|_| *byte)).collect();
                let (start, end) = (start as usize, (end as usize).max(start as usize));
                prop_assert_eq!(part, &model[start..end]);
            }
        }
    }
}
