//! Readers that come too late: of a buffer that is overwritten by what they are made of. They read a copy.
//!
//! Most readers come before the store in an order that is found once, and nothing is looked for. For the others it is followed what
//! comes after the store, until all of them are found: only then may it be that much of the schedule is gone through for one store.

use std::collections::{HashMap, HashSet};

use crate::error::ScheduleError;
use crate::lazy::node::Op;
use crate::schedule::order::Versions;
use crate::schedule::walk::Local;

/// What is known of the order of items while they are given their versions.
pub(super) struct Settling {
    /// For each buffer, the versions that are stored into it.
    stored: HashMap<Local, Vec<Local>>,
    /// The first version of the buffers that were looked at, whose readers come before it.
    pub(super) settled: HashMap<Local, Local>,
    /// An order that keeps to all of that, unless it is none any more.
    ranks: Option<Vec<usize>>,
    /// Where the roots are that ask for each node.
    roots: HashMap<Local, Vec<usize>>,
}

impl Versions<'_> {
    pub(super) fn settling(&mut self) -> Settling {
        let mut stored: HashMap<Local, Vec<Local>> = HashMap::new();
        for (version, base) in &self.bases {
            stored.entry(*base).or_default().push(*version);
        }
        let mut roots: HashMap<Local, Vec<usize>> = HashMap::new();
        for (index, root) in self.walk.roots.iter().enumerate() {
            roots.entry(*root).or_default().push(index);
        }
        let ranks = Some(self.uses.ranks(&self.items, &stored));
        Settling {
            stored,
            settled: HashMap::new(),
            ranks,
            roots,
        }
    }

    /// Whoever reads the base, and comes after the new version, reads a copy.
    pub(super) fn keep_for_late_readers(
        &mut self,
        version: Local,
        base: Local,
        settling: &mut Settling,
    ) -> Result<(), ScheduleError> {
        let writers = self.uses.writers(version);
        let mut readers = self.uses.readers(base);
        readers.retain(|index| !self.items[*index].makes(version));
        let late = self.late(version, &writers, readers, settling);
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
        let roots = settling.roots.remove(&base).unwrap_or_default();
        if late.is_empty() && roots.is_empty() && !in_place_too {
            return Ok(());
        }
        let copy = self.copy(base, self.walk.is_held(base))?;
        if let Some(ranks) = &mut settling.ranks {
            // Right before the store.
            let first = writers.iter().map(|writer| ranks[*writer]).min();
            ranks.push(first.unwrap_or(usize::MAX));
        }
        for index in late {
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
                self.uses.reads(index, copy);
            }
        }
        Ok(())
    }

    /// Those of the readers of a buffer that come after its new version, which these items write.
    fn late(
        &mut self,
        version: Local,
        writers: &[usize],
        readers: Vec<usize>,
        settling: &mut Settling,
    ) -> Vec<usize> {
        let first = |ranks: &Vec<usize>| writers.iter().map(|writer| ranks[*writer]).min();
        let before = |ranks: &Vec<usize>, index: usize| Some(ranks[index]) < first(ranks);
        let may_be_late = |index: &usize| match &settling.ranks {
            Some(ranks) => !before(ranks, *index),
            None => true,
        };
        let (mut late, asked): (Vec<usize>, Vec<usize>) = readers
            .into_iter()
            .partition(|index| self.runs_later(*index, version));
        let asked: Vec<usize> = asked.into_iter().filter(may_be_late).collect();
        let count = late.len() + asked.len();
        late.extend(self.after(writers, &asked, settling));
        if late.len() < count {
            // It comes before the new version, but not in that order.
            settling.ranks = None;
        }
        late
    }

    /// Does an item belong to runs, where a version is made before all of them?
    fn runs_later(&self, item: usize, version: Local) -> bool {
        let mut written = self.items[item].written();
        self.walk.is_held(version) && !written.all(|node| self.walk.is_held(node))
    }

    /// Which of the items that are asked for come after a version that these write: those that need it, those that store over what
    /// such a one reads, and so on.
    fn after(&mut self, writers: &[usize], asked: &[usize], settling: &Settling) -> Vec<usize> {
        let mut found = Vec::new();
        if asked.is_empty() {
            return found;
        }
        let asked: HashSet<usize> = asked.iter().copied().collect();
        let mut after = HashSet::new();
        let mut pending = writers.to_vec();
        while let Some(index) = pending.pop() {
            let item = &self.items[index];
            let stored_over = item
                .reads
                .iter()
                .filter_map(|read| settling.settled.get(read));
            let stored_over = stored_over.filter(|over| !item.makes(**over));
            let mut next = Vec::new();
            for written in item.written() {
                next.extend(self.uses.next(written, &settling.stored));
            }
            for over in stored_over {
                next.extend(self.uses.writers(*over));
            }
            for next in next {
                if !after.insert(next) {
                    continue;
                }
                if asked.contains(&next) {
                    found.push(next);
                    if found.len() == asked.len() {
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
    use crate::schedule::fuse::Fuser;
    use crate::schedule::make::{lower, too_large};
    use crate::schedule::walk::Walk;
    use millstream_ir::DType;

    /// How many items are looked at while the versions of these roots are settled, and how many copies are made.
    fn settled(roots: &[LazyBuffer]) -> (usize, usize) {
        let roots: Vec<&LazyBuffer> = roots.iter().collect();
        let mut walk = Walk::new(&roots).expect("the roots are right");
        let mut items = Vec::new();
        let made = Fuser::new(&walk).run(|group| {
            items.extend(lower(&walk, &group)?);
            Ok(())
        });
        made.expect("it can be counted");
        let before = items.len();
        let mut versions = Versions::new(&mut walk, items, |walk, group| {
            lower(walk, group)?.ok_or_else(|| too_large(walk, group))
        });
        versions.settle().expect("copies can be made");
        versions.sort().expect("there is an order");
        (versions.uses.looked_at, versions.items.len() - before)
    }

    /// Ten times as many stores look at ten times as many items.
    fn is_linear(roots: impl Fn(&Graph, usize) -> Vec<LazyBuffer>, copies: usize) {
        let at = |stores| settled(&roots(&Graph::new(), stores));
        let ((few, few_copies), (many, many_copies)) = (at(40), at(400));
        assert_eq!((few_copies, many_copies), (40 * copies, 400 * copies));
        assert!(many <= 11 * few, "{few} and {many} items");
    }

    #[test]
    fn many_buffers_with_readers_are_settled_in_linear_time() {
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
    fn many_versions_of_one_buffer_with_readers_are_settled_in_linear_time() {
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
