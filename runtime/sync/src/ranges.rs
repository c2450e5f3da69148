//! Disjoint byte ranges, each with a value: sorted, bounded, and exact up to the bound. A poison
//! cell keeps the poisoned bytes of a slice in it. There is no synchronization here.
//!
//! A list holds up to [`RANGES_MAX`] ranges exactly. Beyond that the two neighbours with the fewest
//! bytes between them become one range, which includes those bytes and has the older of the two
//! values. So a list never loses a byte, and its size is bounded (I12).

use std::ops::Range;

/// The greatest number of ranges of one list.
pub const RANGES_MAX: usize = 4_096;

/// One range.
#[derive(Debug)]
struct Entry<T> {
    bytes: Range<u64>,
    /// Position in the order in which values were set.
    age: u64,
    value: T,
}

/// Disjoint byte ranges, each with a value.
#[derive(Debug)]
pub struct Ranges<T> {
    /// Sorted by their bytes.
    list: Vec<Entry<T>>,
    next_age: u64,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            next_age: 0,
        }
    }
}

impl<T> Ranges<T> {
    /// Returns `true` if no byte has a value.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl<T: Clone> Ranges<T> {
    /// Sets the value of the bytes, replacing earlier ones. An empty range changes nothing.
    pub fn set(&mut self, bytes: Range<u64>, value: T) {
        if bytes.is_empty() {
            return;
        }
        self.cut(&bytes);
        let at = self
            .list
            .partition_point(|entry| entry.bytes.end <= bytes.start);
        let age = self.next_age;
        self.next_age += 1;
        self.list.insert(at, Entry { bytes, age, value });
        self.bound(None);
    }

    /// Removes the values of the bytes.
    pub fn clear(&mut self, bytes: &Range<u64>) {
        if let Some(gap) = self.cut(bytes) {
            self.bound(Some(gap));
        }
    }

    /// Returns the oldest value of any of the bytes.
    pub fn find(&self, bytes: &Range<u64>) -> Option<&T> {
        let found = &self.list[self.overlapping(bytes)];
        let oldest = found.iter().min_by_key(|entry| entry.age);
        oldest.map(|entry| &entry.value)
    }

    /// Returns the entries that overlap the bytes.
    fn overlapping(&self, bytes: &Range<u64>) -> Range<usize> {
        if bytes.is_empty() {
            return 0..0;
        }
        let first = self
            .list
            .partition_point(|entry| entry.bytes.end <= bytes.start);
        let behind = self.list[first..].partition_point(|entry| entry.bytes.start < bytes.end);
        first..first + behind
    }

    /// Removes the bytes from every entry. If that splits an entry, returns the index of its first part.
    fn cut(&mut self, bytes: &Range<u64>) -> Option<usize> {
        let found = self.overlapping(bytes);
        let (first, last) = (
            self.list.get(found.start)?,
            self.list[found.clone()].last()?,
        );
        let piece = |entry: &Entry<T>, bytes: Range<u64>| {
            (!bytes.is_empty()).then(|| Entry {
                bytes,
                age: entry.age,
                value: entry.value.clone(),
            })
        };
        let before = piece(first, first.bytes.start..bytes.start.max(first.bytes.start));
        let after = piece(last, bytes.end.min(last.bytes.end)..last.bytes.end);
        let is_split = found.len() == 1 && before.is_some() && after.is_some();
        let start = found.start;
        self.list.splice(found, before.into_iter().chain(after));
        is_split.then_some(start)
    }

    /// Merges the two nearest neighbours if there are too many entries; but not those around the
    /// gap behind entry `gap`, whose bytes were just cleared.
    fn bound(&mut self, gap: Option<usize>) {
        if self.list.len() <= RANGES_MAX {
            return;
        }
        let between = |index: &usize| {
            let [left, right] = [&self.list[*index], &self.list[*index + 1]];
            right.bytes.start - left.bytes.end
        };
        let pairs = (0..self.list.len() - 1).filter(|index| Some(*index) != gap);
        if let Some(nearest) = pairs.min_by_key(between) {
            let right = self.list.remove(nearest + 1);
            let left = &mut self.list[nearest];
            left.bytes.end = right.bytes.end;
            if right.age < left.age {
                (left.age, left.value) = (right.age, right.value);
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn spread(count: usize) -> Ranges<usize> {
        let mut ranges = Ranges::default();
        for index in 0..count {
            // In an order that is neither ascending nor descending.
            let index = index * 7 % count;
            let start = index as u64 * 10;
            ranges.set(start..start + 1, index);
        }
        ranges
    }

    #[test]
    fn ranges_are_exact_up_to_the_bound() {
        let count = if cfg!(miri) { 100 } else { RANGES_MAX };
        let ranges = spread(count);
        for index in 0..count {
            let start = index as u64 * 10;
            assert_eq!(ranges.find(&(start..start + 1)), Some(&index));
            assert_eq!(ranges.find(&(start + 1..start + 10)), None);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of ranges take minutes")]
    fn beyond_the_bound_neighbours_merge_and_no_byte_is_lost() {
        let count = RANGES_MAX + 501;
        let mut ranges = spread(count);
        assert_eq!(ranges.list.len(), RANGES_MAX);
        let has = |ranges: &Ranges<usize>, byte| ranges.find(&(byte..byte + 1)).is_some();
        assert!((0..count as u64).all(|index| has(&ranges, index * 10)));
        // A gap made in a full list stays a gap.
        let wide = ranges
            .list
            .iter()
            .find(|entry| entry.bytes.end - entry.bytes.start > 3);
        let hole = wide.expect("neighbours were merged").bytes.start + 2;
        ranges.clear(&(hole..hole + 1));
        assert!(!has(&ranges, hole) && has(&ranges, hole - 1) && has(&ranges, hole + 1));
        assert_eq!(ranges.list.len(), RANGES_MAX);
    }

    #[test]
    fn any_sequence_of_changes_agrees_with_a_value_per_byte() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            let mut ranges = Ranges::default();
            // The value of a byte and its age.
            let mut bytes = [None; 64];
            for age in 0..60 {
                let start = draw(64);
                let range = start..start + draw(65 - start);
                let part = &mut bytes[range.start as usize..range.end as usize];
                match draw(3) {
                    0 => {
                        part.fill(None);
                        ranges.clear(&range);
                    }
                    1 => {
                        part.fill(Some(age));
                        ranges.set(range, age);
                    }
                    _ => assert_eq!(ranges.find(&range), part.iter().flatten().min()),
                }
                assert_eq!(ranges.is_empty(), bytes.iter().all(Option::is_none));
            }
        }
    }
}
