//! Versions of buffers, and the order of items.
//!
//! A store into an existing buffer (a `set`, a kernel in place) makes a new *version* of it: another node with the same
//! memory. So the order of items must keep three kinds of dependencies:
//!
//! * true: an item runs after the items that make what it reads;
//! * anti: a store into a buffer runs after all readers of the version that it overwrites;
//! * output: a store runs after the items that made that version.
//!
//! The user may write readers of any version in any order, so the three can form a cycle. Copies break it.
//!
//! # Protocol
//! 1. [`Versions::resolve`] lists the stores `(version, base)`. Stores of runs come before stores that are done once,
//!    before all runs; within these, the order is that in which the user wrote them.
//! 2. The first store into a base is in place. Every further store into the same base, and every store of a run into a
//!    base that is made once, stores into a copy of the base.
//! 3. For each store in place, the readers of the base that depend on the new version read a copy, which is made before
//!    the store ([`anti_dependencies`](super::anti_dependencies)). A root that is the base becomes the copy.
//! 4. A root that is made once becomes a copy: the caller owns its outputs and may write them.
//! 5. [`Versions::sort`] orders the items topologically by the three dependencies. Of the items that are ready, the one
//!    whose node comes first in the walk is taken, so the order is deterministic.
//!
//! # Example
//! `new = x.set(x * 10)`, with the roots `change = new - x` and `old = x`:
//!
//! ```text
//!  as written                          resolved
//!  x   read by  set, change, old       c0  = copy x            true: reads x
//!  new read by  change                 new = set x (x * 10)    anti: after the copy, which reads x
//!                                      change = new - c0       true: after the set; reads the copy
//!  cycle: change reads new (after the set),
//!         and reads x (before the set)
//! ```
//! `old` is returned as `c0` too.
//!
//! # Invariants
//! * At most one store is in place for each base.
//! * After `resolve` no reader of a base depends on the store into it, so `sort` always finds an order. If it did not,
//!   the schedule would fail with [`ScheduleError::Cycle`] instead of computing a wrong value.
//!
//! `tests/graph` (`storing`, `hard_cases`, `random`) and `tests/graph-fuzz` compare schedules with stores and readers
//! in any order with their meaning; the tests of `anti_dependencies` state that resolving is linear.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use smallvec::{SmallVec, smallvec};

use crate::error::ScheduleError;
use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes};
use crate::schedule::emit::lower;
use crate::schedule::group::{AccessPattern, Group, Kind, Member, Sink};
use crate::schedule::item::Item;
use crate::schedule::uses::Uses;
use crate::schedule::walk::{Local, Walk, WalkNode};

/// Resolves versions of buffers, and orders items.
pub(crate) struct Versions<'a> {
    pub(crate) walk: &'a mut Walk,
    pub(crate) items: Vec<Item>,
    /// For each node that stores into an existing buffer, the node whose buffer that is.
    pub(crate) bases: HashMap<Local, Local>,
    pub(super) uses: Uses,
}

impl<'a> Versions<'a> {
    pub(crate) fn new(walk: &'a mut Walk, items: Vec<Item>) -> Self {
        let uses = Uses::of(&items);
        let bases = HashMap::new();
        Self {
            walk,
            items,
            bases,
            uses,
        }
    }

    /// Gives every reader its version: inserts copies where the memory has another version by then.
    pub(crate) fn resolve(&mut self) -> Result<(), ScheduleError> {
        for local in 0..self.walk.nodes.len() as Local {
            if let Some(base) = self.walk.node(local).base() {
                self.bases.insert(local, base);
            }
        }
        let mut stores: Vec<(Local, Local)> = self.bases.iter().map(|(w, b)| (*w, *b)).collect();
        stores.sort_unstable_by_key(|(version, _)| (self.walk.node(*version).written, *version));
        // Further stores are redirected first: the search for late readers needs to know the target of every store.
        let mut taken: HashSet<Local> = HashSet::new();
        let mut first = Vec::new();
        for (version, base) in stores {
            if taken.insert(base) {
                first.push((version, base));
            } else {
                let copy = self.copy(base)?;
                self.bases.insert(version, copy);
                self.redirect_store(version, base, copy);
            }
        }
        if !first.is_empty() {
            let mut resolution = self.start_resolution();
            for (version, base) in first {
                self.copy_for_late_readers(version, base, &mut resolution)?;
                resolution.resolved.insert(base, version);
            }
        }
        Ok(())
    }

    /// Redirects a further store to a copy. What the item reads of the base, element by element where it stores, it
    /// reads from the copy as well. A kernel of a user may read any element at any time, so it reads the base.
    fn redirect_store(&mut self, version: Local, base: Local, copy: Local) {
        let is_custom = matches!(self.walk.node(version).op, Op::Custom(_));
        for index in self.uses.writers(version) {
            if !is_custom {
                self.redirect(index, base, copy);
                continue;
            }
            let item = &mut self.items[index];
            // A kernel of a user writes one buffer.
            for written in &item.writes {
                item.bindings[written.binding] = copy;
            }
            item.reads.push(copy);
            self.uses.add_reader(index, copy);
            if !item.bindings.contains(&base) {
                item.reads.retain(|read| *read != base);
                self.uses.remove_reader(index, base);
            }
        }
    }

    /// Redirects the reads of an item from one node to another.
    pub(super) fn redirect(&mut self, index: usize, from: Local, to: Local) {
        let item = &mut self.items[index];
        if item.reads.contains(&from) {
            self.uses.remove_reader(index, from);
            self.uses.add_reader(index, to);
        }
        for read in item.reads.iter_mut().chain(&mut item.bindings) {
            if *read == from {
                *read = to;
            }
        }
    }

    /// Adds a copy of a node's buffer, and the item that makes it.
    pub(super) fn copy(&mut self, of: Local) -> Result<Local, ScheduleError> {
        let node = self.walk.node(of);
        let seen = WalkNode {
            op: Op::Copy,
            operands: smallvec![of],
            shape: node.shape.clone(),
            dtype: node.dtype,
            id: node.id,
            written: 0,
        };
        let copy = self.walk.add(seen);
        let item = copied(self.walk, of, copy)?;
        self.uses.add(self.items.len(), &item);
        self.items.push(item);
        Ok(copy)
    }

    /// Orders the items by their true, anti and output dependencies.
    ///
    /// # Errors
    /// [`ScheduleError::Cycle`] if the dependencies have a cycle, which resolved versions exclude.
    pub(crate) fn sort(&mut self) -> Result<(), ScheduleError> {
        let count = self.items.len();
        let mut before: Vec<HashSet<usize>> = vec![HashSet::new(); count];
        for (index, item) in self.items.iter().enumerate() {
            for read in &item.reads {
                before[index].extend(self.uses.writers(*read));
            }
            for base in item.written().filter_map(|node| self.bases.get(&node)) {
                before[index].extend(self.uses.writers(*base));
                before[index].extend(self.uses.readers(*base));
            }
            before[index].remove(&index);
        }
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut missing: Vec<usize> = vec![0; count];
        for (index, before) in before.iter().enumerate() {
            missing[index] = before.len();
            for other in before {
                after[*other].push(index);
            }
        }
        // Of the items that are ready, the one whose node comes first.
        let key = |index: usize| Reverse((self.items[index].written().min(), index));
        let ready = (0..count).filter(|index| missing[*index] == 0);
        let mut ready: BinaryHeap<_> = ready.map(key).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(Reverse((_, index))) = ready.pop() {
            order.push(index);
            for next in &after[index] {
                missing[*next] -= 1;
                if missing[*next] == 0 {
                    ready.push(key(*next));
                }
            }
        }
        // Late readers read copies, so there is no cycle.
        if order.len() != count {
            debug_assert!(
                false,
                "the dependencies of items have a cycle: {:?}",
                self.items
            );
            return Err(ScheduleError::Cycle);
        }
        let mut items: Vec<Option<Item>> = self.items.drain(..).map(Some).collect();
        self.items = order
            .into_iter()
            .filter_map(|index| items[index].take())
            .collect();
        Ok(())
    }
}

/// Returns the item that copies a node's buffer to that of another, both dense.
fn copied(walk: &Walk, from: Local, to: Local) -> Result<Item, ScheduleError> {
    let shape = &walk.node(to).shape;
    let (axes, map) = Axes::of(shape);
    let too_large = || ScheduleError::TooLarge(shape.to_string());
    let address = Affine::flat(&map, shape).ok_or_else(too_large)?;
    let mut group = Group::new(Kind::Nest, axes, Sink::new(to, address));
    group.members.push(Member {
        use_id: 0,
        node: from,
        pattern: AccessPattern::At(map.into()),
        operands: SmallVec::new(),
        computed: false,
    });
    lower(walk, &group)?.ok_or_else(too_large)
}
