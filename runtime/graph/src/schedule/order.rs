//! Versions of buffers, and the order of items.
//!
//! A store into an existing buffer (a `set`, a kernel in place) makes a new *version* of it: another node with the same
//! memory. So the order of items must keep three kinds of dependencies:
//!
//! * true: an item runs after the items that make what it reads;
//! * output: a store runs after the items that made the version that it overwrites;
//! * anti: a store into a buffer runs after all other readers of that version.
//!
//! The user may write readers of any version in any order, so an anti-dependency can close a cycle with the others, which
//! alone have none. A copy of the old version, made before the store, breaks it.
//!
//! # Protocol
//! 1. [`Versions::place_stores`] takes the stores in the order in which the user wrote them. The first store into a buffer
//!    is in place, and every further one stores into a copy. A root that is the old version of a store becomes a copy.
//! 2. [`Versions::order`] takes the items topologically by the three dependencies. Of the items that are ready, the one
//!    whose node comes first in the walk is taken, so the order is deterministic.
//! 3. If no item is ready, each of those left waits for another one. Following these leads to a cycle, and in it to a
//!    store that waits for readers alone. Its buffer is copied, the readers that are left read the copy, and the store is
//!    ready.
//!
//! # Example
//! `new = x.set(x * 10)`, with the roots `change = new - x` and `old = x`:
//!
//! ```text
//!  as written                          ordered
//!  x   read by  set, change, old       c0  = copy x            true: reads x
//!  new read by  change                 new = set x (x * 10)    anti: after the copy, which reads x
//!                                      change = new - c0       true: after the set; reads the copy
//!  cycle: change reads new (after the set),
//!         and reads x (before the set)
//! ```
//! `old` is returned as `c0` too.
//!
//! # Invariants
//! * At most one store is in place for each buffer.
//! * A store that the third step chooses waits for readers alone, so the items that made the old version have run, and
//!   the copy may be made at once.
//! * Each dependency is visited a bounded number of times. Only the way to a cycle can be walked once for each of several
//!   stores, if these wait for readers at the end of one long chain.
//!
//! `tests/graph-fuzz` compares schedules with stores and readers in any order with their meaning.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use smallvec::{SmallVec, smallvec};

use crate::error::ScheduleError;
use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes};
use crate::schedule::emit::lower;
use crate::schedule::group::{AccessPattern, Group, Member, Sink};
use crate::schedule::item::Item;
use crate::schedule::walk::{Local, Walk, WalkNode};

const CYCLE: ScheduleError = ScheduleError::Bug("the dependencies of the items have a cycle");

/// Items, and the versions of the buffers that they store into.
pub(super) struct Versions<'a> {
    walk: &'a mut Walk,
    items: Vec<Item>,
    /// For each node that stores into an existing buffer, the node whose buffer that is.
    pub(super) bases: HashMap<Local, Local>,
    /// The copies of nodes whose buffers are stored into in place.
    old: HashMap<Local, Local>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(walk: &'a mut Walk, items: Vec<Item>) -> Self {
        Self {
            walk,
            items,
            bases: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// Decides which stores are in place.
    pub(super) fn place_stores(&mut self) -> Result<(), ScheduleError> {
        let mut stores = Vec::new();
        for (index, item) in self.items.iter().enumerate() {
            for version in item.written() {
                let node = self.walk.node(version);
                stores.extend(node.base().map(|base| (node.written, version, base, index)));
            }
        }
        stores.sort_unstable();
        let mut stored: HashSet<Local> = HashSet::new();
        for (_, version, base, index) in stores {
            let target = match stored.insert(base) {
                true => base,
                false => self.copy(base)?,
            };
            let is_argument = self.items[index].reads.contains(&base);
            let source = match self.walk.node(version).op {
                // A kernel of a user may read any element at any time, so it reads another buffer than it stores to.
                Op::Custom(_) if target == base && is_argument => self.old(base)?,
                Op::Custom(_) => base,
                // What any other item reads of the base, it reads where it stores.
                _ => target,
            };
            self.bases.insert(version, target);
            let item = &mut self.items[index];
            item.redirect(base, source);
            for written in &item.writes {
                item.bindings[written.binding] = target;
            }
        }
        for place in 0..self.walk.roots.len() {
            let root = self.walk.roots[place];
            if stored.contains(&root) {
                self.walk.roots[place] = self.old(root)?;
            }
        }
        Ok(())
    }

    /// Returns the node whose buffer an item stores into, if it stores into an existing one.
    fn base(&self, item: usize) -> Option<Local> {
        let mut written = self.items[item].written();
        written.find_map(|node| self.bases.get(&node).copied())
    }

    /// Returns the copy of a node whose buffer is stored into in place.
    fn old(&mut self, base: Local) -> Result<Local, ScheduleError> {
        if let Some(copy) = self.old.get(&base) {
            return Ok(*copy);
        }
        let copy = self.copy(base)?;
        self.old.insert(base, copy);
        Ok(copy)
    }

    /// Adds a copy of a node's buffer, and the item that makes it.
    fn copy(&mut self, of: Local) -> Result<Local, ScheduleError> {
        let node = WalkNode {
            op: Op::Copy,
            operands: smallvec![of],
            written: 0,
            ..self.walk.node(of).clone()
        };
        let copy = self.walk.add(node);
        self.items.push(copied(self.walk, of, copy)?);
        Ok(copy)
    }

    /// Returns the items, ordered by their dependencies.
    ///
    /// # Errors
    /// [`CYCLE`] if there is a cycle without a reader of an old version, which the true dependencies exclude.
    pub(super) fn order(&mut self) -> Result<Vec<Item>, ScheduleError> {
        let mut waits = Waits::of(self);
        // Of the items that are ready, the one whose node comes first.
        let key = |items: &[Item], index: usize| Reverse((items[index].written().min(), index));
        let ready = (0..self.items.len()).filter(|index| waits.missing[*index] == 0);
        let mut ready: BinaryHeap<_> = ready.map(|index| key(&self.items, index)).collect();
        let mut order = Vec::with_capacity(self.items.len());
        while order.len() < self.items.len() {
            let Some(Reverse((_, index))) = ready.pop() else {
                let (store, readers) = waits.store_on_a_cycle()?;
                let base = self.base(store).ok_or(CYCLE)?;
                let first = self.items.len();
                let copy = self.old(base)?;
                order.extend(first..self.items.len());
                for reader in readers {
                    self.items[reader].redirect(base, copy);
                }
                ready.push(key(&self.items, store));
                continue;
            };
            order.push(index);
            let next = waits.finish(index);
            ready.extend(next.into_iter().map(|index| key(&self.items, index)));
        }
        let mut items: Vec<Option<Item>> = self.items.drain(..).map(Some).collect();
        let ordered = order.into_iter().filter_map(|index| items[index].take());
        Ok(ordered.collect())
    }
}

/// The state of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// Waits, and is on the way to a cycle.
    OnPath,
    Done,
}

/// The items that each item waits for.
struct Waits {
    states: Vec<State>,
    /// The number of items that each waits for.
    missing: Vec<usize>,
    /// For each item, those that it waits for by a true or output dependency. Those that are done are removed when they
    /// are met.
    makers: Vec<Vec<usize>>,
    /// For each store, the readers that it waits for.
    readers: Vec<Vec<usize>>,
    /// For each item, the items that wait for it.
    waiting: Vec<Vec<usize>>,
    /// Items that wait, each for the next one, and whether for a reader.
    path: Vec<(usize, bool)>,
    /// All items before this one are done.
    first_waiting: usize,
}

impl Waits {
    fn of(versions: &Versions) -> Self {
        let items = &versions.items;
        let mut makers: HashMap<Local, Vec<usize>> = HashMap::new();
        let mut readers: HashMap<Local, Vec<usize>> = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            let written = item.written();
            written.for_each(|node| makers.entry(node).or_default().push(index));
            let reads = item.reads.iter();
            reads.for_each(|node| readers.entry(*node).or_default().push(index));
        }
        let none = || vec![Vec::new(); items.len()];
        let mut waits = Self {
            states: vec![State::Waiting; items.len()],
            missing: vec![0; items.len()],
            makers: none(),
            readers: none(),
            waiting: none(),
            path: Vec::new(),
            first_waiting: 0,
        };
        for (index, item) in items.iter().enumerate() {
            let base = versions.base(index);
            let others = |all: &HashMap<Local, Vec<usize>>, node| -> Vec<usize> {
                let all = all.get(node).into_iter().flatten().copied();
                all.filter(|other| *other != index).collect()
            };
            let needed = item.reads.iter().chain(&base);
            waits.makers[index] = needed.flat_map(|node| others(&makers, node)).collect();
            waits.readers[index] = base
                .iter()
                .flat_map(|node| others(&readers, node))
                .collect();
            for other in waits.makers[index].iter().chain(&waits.readers[index]) {
                #[cfg(test)]
                crate::steps::count();
                waits.missing[index] += 1;
                waits.waiting[*other].push(index);
            }
        }
        waits
    }

    /// Records that an item is done. Returns the items that waited for it alone.
    fn finish(&mut self, item: usize) -> Vec<usize> {
        self.states[item] = State::Done;
        let mut waiting = std::mem::take(&mut self.waiting[item]);
        waiting.retain(|next| {
            // A store whose readers read a copy waits no more.
            let waits = self.missing[*next] > 0;
            self.missing[*next] -= usize::from(waits);
            waits && self.missing[*next] == 0
        });
        waiting
    }

    /// Returns an item that another one waits for, and whether that is a reader.
    fn blocker(&mut self, item: usize) -> Option<(usize, bool)> {
        let lists = [
            (&mut self.makers[item], false),
            (&mut self.readers[item], true),
        ];
        for (list, is_reader) in lists {
            while let Some(other) = list.pop() {
                #[cfg(test)]
                crate::steps::count();
                if self.states[other] != State::Done {
                    list.push(other);
                    return Some((other, is_reader));
                }
            }
        }
        None
    }

    /// Returns a store on a cycle of waiting items that waits for readers alone, and these readers. It no longer waits
    /// for them. All items wait for others.
    fn store_on_a_cycle(&mut self) -> Result<(usize, Vec<usize>), ScheduleError> {
        // Items that are done are at the end of the path, since each waited for the next.
        while let Some((item, _)) = self.path.last()
            && self.states[*item] == State::Done
        {
            self.path.pop();
        }
        while self.states.get(self.first_waiting) == Some(&State::Done) {
            self.first_waiting += 1;
        }
        let mut next = self.path.pop().map_or(self.first_waiting, |(item, _)| item);
        loop {
            let (blocker, is_reader) = self.blocker(next).ok_or(CYCLE)?;
            self.path.push((next, is_reader));
            self.states[next] = State::OnPath;
            if self.states[blocker] == State::OnPath {
                break;
            }
            next = blocker;
        }
        // The last one that waits for a reader is on the cycle: without an anti-dependency there is none.
        while let Some((item, waits_for_reader)) = self.path.pop() {
            self.states[item] = State::Waiting;
            if waits_for_reader {
                self.missing[item] = 0;
                let mut readers = std::mem::take(&mut self.readers[item]);
                readers.retain(|reader| self.states[*reader] != State::Done);
                return Ok((item, readers));
            }
        }
        Err(CYCLE)
    }
}

/// Returns the item that copies a node's buffer to that of another, both dense.
fn copied(walk: &Walk, from: Local, to: Local) -> Result<Item, ScheduleError> {
    let shape = &walk.node(to).shape;
    let (axes, map) = Axes::of(shape);
    let too_large = || ScheduleError::TooLarge(shape.to_string());
    let address = Affine::flat(&map, shape).ok_or_else(too_large)?;
    let pattern = AccessPattern::Flat(address.clone());
    let mut group = Group::new(axes, Sink::new(to, address));
    group.members.push(Member {
        use_id: 0,
        node: from,
        pattern,
        operands: SmallVec::new(),
        computed: false,
    });
    lower(walk, &group)?.ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lazy::buffer::LazyBuffer;
    use crate::lazy::graph::Graph;
    use crate::schedule::fused;
    use crate::steps;
    use millstream_ir::DType;

    /// Returns how many dependencies ordering these roots visits, and how many copies it makes.
    fn ordered(roots: &[LazyBuffer]) -> (u64, usize) {
        let roots: Vec<&LazyBuffer> = roots.iter().collect();
        let mut walk = Walk::new(&roots).expect("the roots are valid");
        let (items, _) = fused(&walk).expect("sizes do not overflow");
        let before = items.len();
        let mut versions = Versions::new(&mut walk, items);
        steps::take();
        versions.place_stores().expect("copies can be made");
        let items = versions.order().expect("there is an order");
        (steps::take(), items.len() - before)
    }

    /// Asserts that ten times as many stores visit at most eleven times as many dependencies.
    fn is_linear(roots: impl Fn(&Graph, usize) -> Vec<LazyBuffer>, copies: usize) {
        let at = |stores| ordered(&roots(&Graph::new(), stores));
        let ((few, few_copies), (many, many_copies)) = (at(40), at(400));
        assert_eq!((few_copies, many_copies), (40 * copies, 400 * copies));
        assert!(many <= 11 * few, "{few} and {many} dependencies");
    }

    #[test]
    fn many_buffers_with_readers_are_ordered_in_linear_time() {
        let roots = |graph: &Graph, stores: usize| {
            let each = (0..stores).flat_map(|index| {
                let w = graph.input(format!("w{index}"), DType::F32, [4]);
                [&w * 2.0, w.set(&(&w - 1.0))]
            });
            each.collect()
        };
        is_linear(roots, 0);
    }

    /// The last version as the first or the last root: the readers of the others are found behind or before the stores.
    #[test]
    fn many_versions_of_one_buffer_with_readers_are_ordered_in_linear_time() {
        for is_first in [false, true] {
            let roots = |graph: &Graph, stores: usize| {
                let mut x = graph.input("x", DType::F32, [4]);
                let mut roots = Vec::new();
                for _ in 0..stores {
                    roots.push(&x * 2.0);
                    x = x.set(&(&x - 1.0));
                }
                roots.insert(if is_first { 0 } else { stores }, x);
                roots
            };
            is_linear(roots, 0);
        }
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

    /// `y` waits for a reader behind `x`, which waits for one behind itself: one copy suffices.
    #[test]
    fn only_a_store_on_a_cycle_gets_a_copy() {
        let graph = Graph::new();
        let [x, y] = ["x", "y"].map(|name| graph.input(name, DType::F32, [4]));
        let (new_y, new_x) = (y.set(&(&y + 1.0)), x.set(&(&x - 1.0)));
        let roots = [&new_x * &y, &new_x * &x, new_y];
        assert_eq!(ordered(&roots).1, 1);
    }
}
