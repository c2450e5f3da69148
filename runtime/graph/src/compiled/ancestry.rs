//! Which items of a schedule come before which, whatever memory they share later: a bit for each pair.

use std::collections::HashMap;

use crate::schedule::Steps;
use crate::schedule::walk::Local;

/// Schedules of more items are not looked at: the bits of so many take half a mebibyte.
const ITEMS_MAX: usize = 2048;

/// What comes before what.
#[derive(Clone, Debug)]
pub(crate) struct Ancestry {
    words: usize,
    bits: Vec<u64>,
}

impl Ancestry {
    /// That of items of which each comes right behind these earlier ones.
    pub(crate) fn of<I: IntoIterator<Item = usize>>(
        behind: impl ExactSizeIterator<Item = I>,
    ) -> Self {
        let words = behind.len().div_ceil(64);
        let mut bits = vec![0_u64; words * behind.len()];
        for (item, behind) in behind.enumerate() {
            let (earlier, later) = bits.split_at_mut(item * words);
            for other in behind {
                let of_other = &earlier[other * words..][..words];
                later.iter_mut().zip(of_other).for_each(|(a, b)| *a |= b);
                later[other / 64] |= 1 << (other % 64);
            }
        }
        Self { words, bits }
    }

    /// That of a schedule, unless it has very many items: what stores a buffer comes before what touches it later, and after what
    /// touched it before.
    pub(crate) fn new(steps: &Steps) -> Option<Self> {
        if steps.items.len() > ITEMS_MAX {
            return None;
        }
        // For each buffer who stored it last, and who has read it since.
        let mut buffers: HashMap<Local, (Option<usize>, Vec<usize>)> = HashMap::new();
        let mut all: Vec<Vec<usize>> = Vec::with_capacity(steps.items.len());
        for (index, item) in steps.items.iter().enumerate() {
            let stored = item.written().map(|node| steps.storage(node));
            let stored: Vec<Local> = stored.collect();
            let mut behind = Vec::new();
            for bound in &item.bindings {
                let storage = steps.storage(*bound);
                let (writer, readers) = buffers.entry(storage).or_default();
                behind.extend(*writer);
                if !stored.contains(&storage) {
                    readers.push(index);
                }
            }
            for storage in stored {
                let (writer, readers) = buffers.entry(storage).or_default();
                behind.extend(writer.replace(index));
                behind.append(readers);
            }
            behind.retain(|other| *other != index);
            all.push(behind);
        }
        Some(Self::of(all.into_iter()))
    }

    /// Does an item come before another, by any way?
    pub(crate) fn is_before(&self, item: usize, other: usize) -> bool {
        let bits = self.bits.get(other * self.words + item / 64);
        bits.is_some_and(|bits| bits >> (item % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_is_known_by_any_way() {
        // 0 and 1 before 2, and 2 before 3; 70 others by themselves; 73 behind 3.
        let mut behind = vec![vec![]; 74];
        behind[2] = vec![0, 1];
        behind[3] = vec![2];
        behind[73] = vec![3];
        let ancestry = Ancestry::of(behind.into_iter());
        let before: Vec<usize> = (0..74)
            .filter(|item| ancestry.is_before(*item, 73))
            .collect();
        assert_eq!(before, [0, 1, 2, 3]);
        assert!(
            !ancestry.is_before(0, 1) && !ancestry.is_before(3, 2) && !ancestry.is_before(3, 72)
        );
    }
}
