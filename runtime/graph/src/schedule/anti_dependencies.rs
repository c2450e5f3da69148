//! Copies for late readers: items that read a buffer and depend on the store that overwrites it.
//!
//! Such an item has an anti-dependency on the store (it must run before it) and a true dependency on it (it must run
//! after it). A copy of the old version, made before the store, breaks this cycle.
//!
//! Most readers precede the store in the order of the walk, and need no search. For the others the items that depend on
//! the store are searched until all of these readers are found or the search ends; only then can one store cost a walk
//! over much of the schedule.

use std::collections::{HashMap, HashSet};

use crate::error::ScheduleError;
use crate::lazy::node::Op;
use crate::schedule::order::Versions;
use crate::schedule::walk::Local;

/// The state of resolving versions.
pub(super) struct Resolution {
    /// For each buffer, the versions that are stored into it.
    stored: HashMap<Local, Vec<Local>>,
    /// The first version of each buffer that is resolved: all readers of the buffer precede it.
    pub(super) resolved: HashMap<Local, Local>,
    /// Whether the order of the walk satisfies all of this.
    walk_is_an_order: bool,
    /// For each node, the roots that are this node.
    roots: HashMap<Local, Vec<usize>>,
}

impl Versions<'_> {
    pub(super) fn start_resolution(&mut self) -> Resolution {
        let mut stored: HashMap<Local, Vec<Local>> = HashMap::new();
        for (version, base) in &self.bases {
            stored.entry(*base).or_default().push(*version);
        }
        let mut roots: HashMap<Local, Vec<usize>> = HashMap::new();
        for (index, root) in self.walk.roots.iter().enumerate() {
            roots.entry(*root).or_default().push(index);
        }
        Resolution {
            stored,
            resolved: HashMap::new(),
            walk_is_an_order: true,
            roots,
        }
    }

    /// Makes the readers of the base that run after the new version read a copy.
    pub(super) fn copy_for_late_readers(
        &mut self,
        version: Local,
        base: Local,
        resolution: &mut Resolution,
    ) -> Result<(), ScheduleError> {
        let writers = self.uses.writers(version);
        let mut readers = self.uses.readers(base);
        readers.retain(|index| !self.items[*index].makes(version));
        let late_readers = self.late_readers(&writers, readers, resolution);
        let is_custom = matches!(self.walk.node(version).op, Op::Custom(_));
        let mut in_place = writers.iter().map(|index| &self.items[*index]);
        let in_place_too = is_custom
            && in_place.any(|item| {
                // A kernel of a user writes one buffer.
                let outputs = item.writes.iter();
                let mut outputs = outputs.map(|written| item.bindings[written.binding]);
                let bound = |output| item.bindings.iter().filter(move |bound| **bound == output);
                outputs.any(|output| bound(output).count() > 1)
            });
        let roots = resolution.roots.remove(&base).unwrap_or_default();
        if late_readers.is_empty() && roots.is_empty() && !in_place_too {
            return Ok(());
        }
        let copy = self.copy(base)?;
        for index in late_readers {
            self.redirect(index, base, copy);
        }
        for root in roots {
            self.walk.roots[root] = copy;
        }
        if in_place_too {
            for index in writers {
                let item = &mut self.items[index];
                let outputs = item.writes.iter().map(|written| written.binding);
                let outputs: Vec<usize> = outputs.collect();
                for (index, bound) in item.bindings.iter_mut().enumerate() {
                    if *bound == base && !outputs.contains(&index) {
                        *bound = copy;
                    }
                }
                item.reads.push(copy);
                self.uses.add_reader(index, copy);
            }
        }
        Ok(())
    }

    /// Returns the readers of a buffer that run after its new version, which `writers` make.
    fn late_readers(
        &mut self,
        writers: &[usize],
        readers: Vec<usize>,
        resolution: &mut Resolution,
    ) -> Vec<usize> {
        let first = writers.iter().map(|writer| self.place(*writer)).min();
        let mut candidates = readers;
        if resolution.walk_is_an_order {
            candidates.retain(|index| Some(self.place(*index)) >= first);
        }
        let late_readers = self.after(writers, &candidates, resolution);
        if late_readers.len() < candidates.len() {
            // A reader precedes the new version, but not in this order.
            resolution.walk_is_an_order = false;
        }
        late_readers
    }

    /// Returns the place of an item in the order of the walk: that of the first node that it makes. A copy is made as
    /// soon as its node.
    fn place(&self, index: usize) -> Local {
        let place = |local: Local| match self.walk.node(local) {
            node if matches!(node.op, Op::Copy) => node.operands[0],
            _ => local,
        };
        self.items[index].written().map(place).min().unwrap_or(0)
    }

    /// Returns which of the items `candidates` run after a version that `writers` make: items that read it, items that
    /// store over a buffer that such an item reads, and so on transitively.
    fn after(
        &mut self,
        writers: &[usize],
        candidates: &[usize],
        resolution: &Resolution,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        if candidates.is_empty() {
            return found;
        }
        let candidates: HashSet<usize> = candidates.iter().copied().collect();
        let mut after = HashSet::new();
        let mut pending = writers.to_vec();
        while let Some(index) = pending.pop() {
            let item = &self.items[index];
            let stored_over = item
                .reads
                .iter()
                .filter_map(|read| resolution.resolved.get(read));
            let stored_over = stored_over.filter(|over| !item.makes(**over));
            let mut next = Vec::new();
            for written in item.written() {
                next.extend(self.uses.users(written, &resolution.stored));
            }
            for over in stored_over {
                next.extend(self.uses.writers(*over));
            }
            for next in next {
                if !after.insert(next) {
                    continue;
                }
                if candidates.contains(&next) {
                    found.push(next);
                    if found.len() == candidates.len() {
                        return found;
                    }
                }
                pending.push(next);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lazy::buffer::LazyBuffer;
    use crate::lazy::graph::Graph;
    use crate::schedule::emit::lower;
    use crate::schedule::fuse::Fuser;
    use crate::schedule::walk::Walk;
    use millstream_ir::DType;

    /// Returns how many items resolving the versions of these roots visits, and how many copies it makes.
    fn resolved(roots: &[LazyBuffer]) -> (usize, usize) {
        let roots: Vec<&LazyBuffer> = roots.iter().collect();
        let mut walk = Walk::new(&roots).expect("the roots are valid");
        let mut items = Vec::new();
        let made = Fuser::new(&walk).run(|group| {
            items.extend(lower(&walk, &group)?);
            Ok(())
        });
        made.expect("sizes do not overflow");
        let before = items.len();
        let mut versions = Versions::new(&mut walk, items);
        versions.resolve().expect("copies can be made");
        versions.sort().expect("there is an order");
        (versions.uses.visited, versions.items.len() - before)
    }

    /// Asserts that ten times as many stores visit at most eleven times as many items.
    fn is_linear(roots: impl Fn(&Graph, usize) -> Vec<LazyBuffer>, copies: usize) {
        let at = |stores| resolved(&roots(&Graph::new(), stores));
        let ((few, few_copies), (many, many_copies)) = (at(40), at(400));
        assert_eq!((few_copies, many_copies), (40 * copies, 400 * copies));
        assert!(many <= 11 * few, "{few} and {many} items");
    }

    #[test]
    fn many_buffers_with_readers_are_resolved_in_linear_time() {
        let roots = |graph: &Graph, stores: usize| {
            let each = (0..stores).flat_map(|index| {
                let w = graph.input(format!("w{index}"), DType::F32, [4]);
                [&w * 2.0, w.set(&(&w - 1.0))]
            });
            each.collect()
        };
        is_linear(roots, 0);
    }

    #[test]
    fn many_versions_of_one_buffer_with_readers_are_resolved_in_linear_time() {
        let roots = |graph: &Graph, stores: usize| {
            let mut x = graph.input("x", DType::F32, [4]);
            let mut roots = Vec::new();
            for _ in 0..stores {
                roots.push(&x * 2.0);
                x = x.set(&(&x - 1.0));
            }
            roots.push(x);
            roots
        };
        is_linear(roots, 0);
    }

    #[test]
    fn many_late_readers_are_found_in_linear_time() {
        let roots = |graph: &Graph, stores: usize| {
            let mut x = graph.input("x", DType::F32, [4]);
            let mut roots = Vec::new();
            for _ in 0..stores {
                let new = x.set(&(&x - 1.0));
                roots.push(&new * &x);
                x = new;
            }
            roots
        };
        is_linear(roots, 1);
    }
}
