//! The readers and writers of each node, while versions of buffers are resolved.

use std::collections::HashMap;

use crate::schedule::item::Item;
use crate::schedule::walk::Local;

/// The items that read and write each node, as indices into the list of items. The owner reports every change.
#[derive(Debug, Default)]
pub(super) struct Uses {
    readers: HashMap<Local, Vec<usize>>,
    writers: HashMap<Local, Vec<usize>>,
    /// The number of items that queries have returned: the cost of resolving versions.
    pub(super) visited: usize,
}

impl Uses {
    pub(super) fn of(items: &[Item]) -> Self {
        let mut uses = Self::default();
        for (index, item) in items.iter().enumerate() {
            uses.add(index, item);
        }
        uses
    }

    /// Adds an item.
    pub(super) fn add(&mut self, index: usize, item: &Item) {
        for written in item.written() {
            self.writers.entry(written).or_default().push(index);
        }
        for read in &item.reads {
            self.add_reader(index, *read);
        }
    }

    /// Adds a reader of a node.
    pub(super) fn add_reader(&mut self, index: usize, node: Local) {
        let readers = self.readers.entry(node).or_default();
        if readers.last() != Some(&index) {
            readers.push(index);
        }
    }

    /// Removes a reader of a node.
    pub(super) fn remove_reader(&mut self, index: usize, node: Local) {
        if let Some(readers) = self.readers.get_mut(&node) {
            readers.retain(|reader| *reader != index);
        }
    }

    pub(super) fn readers(&mut self, node: Local) -> Vec<usize> {
        let found = self.readers.get(&node).cloned().unwrap_or_default();
        self.visited += found.len();
        found
    }

    pub(super) fn writers(&mut self, node: Local) -> Vec<usize> {
        let found = self.writers.get(&node).cloned().unwrap_or_default();
        self.visited += found.len();
        found
    }

    /// Returns the items that must run after a node is made: its readers, and the items that store into it.
    pub(super) fn users(&mut self, node: Local, stored: &HashMap<Local, Vec<Local>>) -> Vec<usize> {
        let mut users = self.readers(node);
        for version in stored.get(&node).into_iter().flatten() {
            users.extend(self.writers(*version));
        }
        users
    }
}
