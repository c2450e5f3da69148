//! Who reads and who writes which nodes, while versions of buffers are settled.

use std::collections::HashMap;

use crate::schedule::item::Item;
use crate::schedule::walk::Local;

/// The items that read and write each node, by their place in the list. It is told of every change.
#[derive(Debug, Default)]
pub(super) struct Uses {
    readers: HashMap<Local, Vec<usize>>,
    writers: HashMap<Local, Vec<usize>>,
    /// How many items have been asked for: what settling costs.
    pub(super) looked_at: usize,
}

impl Uses {
    pub(super) fn of(items: &[Item]) -> Self {
        let mut uses = Self::default();
        for (index, item) in items.iter().enumerate() {
            uses.add(index, item);
        }
        uses
    }

    /// An item that was added.
    pub(super) fn add(&mut self, index: usize, item: &Item) {
        for written in item.written() {
            self.writers.entry(written).or_default().push(index);
        }
        for read in &item.reads {
            self.reads(index, *read);
        }
    }

    /// An item reads a node as well.
    pub(super) fn reads(&mut self, index: usize, node: Local) {
        let readers = self.readers.entry(node).or_default();
        if readers.last() != Some(&index) {
            readers.push(index);
        }
    }

    /// An item reads a node no more.
    pub(super) fn reads_no_more(&mut self, index: usize, node: Local) {
        if let Some(readers) = self.readers.get_mut(&node) {
            readers.retain(|reader| *reader != index);
        }
    }

    pub(super) fn readers(&mut self, node: Local) -> Vec<usize> {
        let found = self.readers.get(&node).cloned().unwrap_or_default();
        self.looked_at += found.len();
        found
    }

    pub(super) fn writers(&mut self, node: Local) -> Vec<usize> {
        let found = self.writers.get(&node).cloned().unwrap_or_default();
        self.looked_at += found.len();
        found
    }

    /// The place of each item in an order in which what is made comes before what is made of it, and stores as late as can be:
    /// whoever reads a buffer comes before who stores into it, unless it is made of what is stored there. `stored`: the versions of
    /// each base.
    pub(super) fn ranks(
        &mut self,
        items: &[Item],
        stored: &HashMap<Local, Vec<Local>>,
    ) -> Vec<usize> {
        let mut missing = vec![0_usize; items.len()];
        let mut behind: Vec<Vec<usize>> = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let mut next = Vec::new();
            for written in item.written() {
                next.extend(self.next(written, stored));
            }
            // A scatter reads what it stores to.
            next.retain(|other| *other != index);
            next.iter().for_each(|next| missing[*next] += 1);
            behind.push(next);
        }
        let mut is_store = vec![false; items.len()];
        for version in stored.values().flatten() {
            for writer in self.writers(*version) {
                is_store[writer] = true;
            }
        }
        // Stores are the second, taken where there is nothing else.
        let mut ready = [Vec::new(), Vec::new()];
        for index in (0..items.len()).filter(|index| missing[*index] == 0) {
            ready[usize::from(is_store[index])].push(index);
        }
        let mut ranks = vec![usize::MAX; items.len()];
        let mut rank = 0;
        while let Some(index) = ready[0].pop().or_else(|| ready[1].pop()) {
            ranks[index] = rank;
            rank += 1;
            for next in &behind[index] {
                missing[*next] -= 1;
                if missing[*next] == 0 {
                    ready[usize::from(is_store[*next])].push(*next);
                }
            }
        }
        ranks
    }

    /// The items that need a node: its readers, and who stores into it.
    pub(super) fn next(&mut self, node: Local, stored: &HashMap<Local, Vec<Local>>) -> Vec<usize> {
        let mut next = self.readers(node);
        for version in stored.get(&node).into_iter().flatten() {
            next.extend(self.writers(*version));
        }
        next
    }
}
