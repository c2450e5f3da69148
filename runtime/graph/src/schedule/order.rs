//! The order of items, and the versions of buffers.
//!
//! Storing into a buffer that is there (a `set`, a kernel in place) makes a new *version* of it: another node whose memory is the
//! same. Whoever reads the old version runs before the store. A reader that cannot, because it needs the new version as well,
//! reads a copy that is made before the store; so does whoever asks for the old version as a root, and every further store into
//! the same version makes its new version of a copy.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::error::ScheduleError;
use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes};
use crate::schedule::group::{Group, Kind, Member, Reach, Sink};
use crate::schedule::item::Item;
use crate::schedule::uses::Uses;
use crate::schedule::walk::{Local, Seen, Walk};

/// The node whose memory a node's is, if it stores into one that is there. Kernels of users are bound to what is under reshapes, which
/// is the same memory; what is set is the reshaped buffer itself.
pub(crate) fn base_of(walk: &Walk, node: &Seen) -> Option<Local> {
    match &node.op {
        Op::Set(_) => node.operands.first().copied(),
        Op::Custom(custom) if custom.in_place => {
            let mut base = *node.operands.last()?;
            while matches!(walk.node(base).op, Op::Reshape) {
                base = walk.node(base).operands[0];
            }
            Some(base)
        }
        _ => None,
    }
}

/// Items while they are put in order.
pub(crate) struct Versions<'a> {
    pub(crate) walk: &'a mut Walk,
    pub(crate) items: Vec<Item>,
    /// For each node that stores into a buffer that is there, whose buffer it is.
    pub(crate) bases: HashMap<Local, Local>,
    /// Makes the item of a group.
    lower: fn(&Walk, &Group) -> Result<Item, ScheduleError>,
    pub(super) uses: Uses,
}

impl<'a> Versions<'a> {
    pub(crate) fn new(
        walk: &'a mut Walk,
        items: Vec<Item>,
        lower: fn(&Walk, &Group) -> Result<Item, ScheduleError>,
    ) -> Self {
        let uses = Uses::of(&items);
        let bases = HashMap::new();
        Self {
            walk,
            items,
            bases,
            lower,
            uses,
        }
    }

    /// Gives every reader the version that it wants, with copies where the memory is another version by then.
    pub(crate) fn settle(&mut self) -> Result<(), ScheduleError> {
        for local in 0..self.walk.nodes.len() as Local {
            if let Some(base) = base_of(self.walk, self.walk.node(local)) {
                self.bases.insert(local, base);
            }
        }
        let mut stores: Vec<(Local, Local)> = self.bases.iter().map(|(w, b)| (*w, *b)).collect();
        // Those of runs first: the copies that they make read a version that one of those before all runs may overwrite.
        let written = |version: Local| self.walk.node(version).written;
        stores.sort_unstable_by_key(|(version, _)| {
            let is_held = self.walk.is_held(*version);
            (is_held, written(*version), *version)
        });
        // Where further stores go comes first: who reads late is found by who stores where.
        let mut taken: HashSet<Local> = HashSet::new();
        let mut first = Vec::new();
        for (version, base) in stores {
            // What is made once, for many runs, is not what a run stores into.
            let is_kept = self.walk.is_held(base) && !self.walk.is_held(version);
            if is_kept || !taken.insert(base) {
                let copy = self.copy(base, self.walk.is_held(version))?;
                self.bases.insert(version, copy);
                self.redirect_store(version, base, copy);
            } else {
                first.push((version, base));
            }
        }
        if !first.is_empty() {
            let mut settling = self.settling();
            for (version, base) in first {
                self.keep_for_late_readers(version, base, &mut settling)?;
                settling.settled.insert(base, version);
            }
        }
        self.copy_held_roots()
    }

    /// Who asks for a value that is made once, for many runs, gets a copy: outputs are the caller's, to be written as well.
    fn copy_held_roots(&mut self) -> Result<(), ScheduleError> {
        let mut copies: HashMap<Local, Local> = HashMap::new();
        for index in 0..self.walk.roots.len() {
            let root = self.walk.roots[index];
            if !self.walk.is_held(root) || self.walk.node(root).is_buffer() {
                continue;
            }
            let copy = match copies.get(&root) {
                Some(copy) => *copy,
                None => self.copy(root, false)?,
            };
            copies.insert(root, copy);
            self.walk.roots[index] = copy;
        }
        Ok(())
    }

    /// The store of a further version goes to a copy. What the item reads of the base, element by element where it stores, is
    /// read there as well; but a kernel of a user may read any of it at any time, and reads the base.
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
            self.uses.reads(index, copy);
            if !item.bindings.contains(&base) {
                item.reads.retain(|read| *read != base);
                self.uses.reads_no_more(index, base);
            }
        }
    }

    /// Reads of one node become reads of another.
    pub(super) fn redirect(&mut self, index: usize, from: Local, to: Local) {
        let item = &mut self.items[index];
        if item.reads.contains(&from) {
            self.uses.reads_no_more(index, from);
            self.uses.reads(index, to);
        }
        for read in item.reads.iter_mut().chain(&mut item.bindings) {
            if *read == from {
                *read = to;
            }
        }
    }

    /// A copy of a node's buffer, with an item that makes it.
    pub(super) fn copy(&mut self, of: Local, is_held: bool) -> Result<Local, ScheduleError> {
        let node = self.walk.node(of);
        let seen = Seen {
            op: Op::Copy,
            operands: smallvec::smallvec![of],
            shape: node.shape.clone(),
            dtype: node.dtype,
            id: node.id,
            written: 0,
        };
        let copy = self.walk.add(seen, is_held);
        let group = copy_group(self.walk, of, copy)?;
        let item = (self.lower)(self.walk, &group)?;
        self.uses.add(self.items.len(), &item);
        self.items.push(item);
        Ok(copy)
    }

    /// Puts the items in order: what is read before its readers, readers of a version before the next one is stored.
    ///
    /// # Errors
    /// [`ScheduleError::Circle`], which is never so.
    pub(crate) fn sort(&mut self) -> Result<(), ScheduleError> {
        let count = self.items.len();
        let mut writers: HashMap<Local, Vec<usize>> = HashMap::new();
        let mut readers: HashMap<Local, Vec<usize>> = HashMap::new();
        for (index, item) in self.items.iter().enumerate() {
            for written in item.written() {
                writers.entry(written).or_default().push(index);
            }
            for read in &item.reads {
                readers.entry(*read).or_default().push(index);
            }
        }
        let none = Vec::new();
        let of = |map: &'_ HashMap<Local, Vec<usize>>, node: &Local| -> Vec<usize> {
            map.get(node).unwrap_or(&none).clone()
        };
        let mut before: Vec<HashSet<usize>> = vec![HashSet::new(); count];
        for (index, item) in self.items.iter().enumerate() {
            for read in &item.reads {
                before[index].extend(of(&writers, read));
            }
            for base in item.written().filter_map(|node| self.bases.get(&node)) {
                before[index].extend(of(&writers, base));
                before[index].extend(of(&readers, base));
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
        // Of those that can go, the one that was written down first.
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
        // Late readers read copies, so there is none.
        if order.len() != count {
            debug_assert!(false, "items need each other: {:?}", self.items);
            return Err(ScheduleError::Circle);
        }
        let mut items: Vec<Option<Item>> = self.items.drain(..).map(Some).collect();
        self.items = order
            .into_iter()
            .filter_map(|index| items[index].take())
            .collect();
        Ok(())
    }
}

/// A group that copies a node's buffer to another's, both dense.
pub(crate) fn copy_group(walk: &Walk, from: Local, to: Local) -> Result<Group, ScheduleError> {
    let shape = &walk.node(to).shape;
    let (axes, map) = Axes::of(shape);
    let too_large = || ScheduleError::TooLarge(shape.to_string());
    let address = Affine::flat(&map, shape).ok_or_else(too_large)?;
    Ok(moving_group(
        axes,
        Reach::At(map.into()),
        from,
        to,
        address,
        false,
    ))
}

/// A group that loads a node and stores it at an address of another's buffer.
pub(crate) fn moving_group(
    axes: Axes,
    how: Reach,
    from: Local,
    to: Local,
    address: Affine,
    partial: bool,
) -> Group {
    let sink = Sink {
        node: to,
        address,
        value: 0,
        scatter: None,
        partial,
    };
    let mut group = Group::new(Kind::Nest, axes, sink);
    group.members.push(Member {
        reach: 0,
        node: from,
        how,
        operands: smallvec::SmallVec::new(),
        computed: false,
    });
    group
}
