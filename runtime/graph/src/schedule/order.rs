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
//! 2. [`Versions::order`] takes the items in the order of their nodes in the walk, each behind those that it waits for:
//!    first the ones that it needs, then the readers. So the order is deterministic.
//! 3. If an item waits for one that is on the way to it, the way ends in a cycle, and the last item on it that waits for
//!    a reader is a store on the cycle. Its buffer is copied, the readers that are left read the copy, and the store is
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
//!   the copy may be made at once. There is one, since the dependencies without readers have no cycle.
//! * Each dependency is visited a bounded number of times. Only the way from a store to the end of a cycle can be walked
//!   once for each of several stores, if these wait for readers at the end of one long chain.
//!
//! `tests/graph-fuzz` compares schedules with stores and readers in any order with their meaning.

use std::collections::{HashMap, HashSet};

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
    bases: HashMap<Local, Local>,
    /// For each of them, the node that the buffer was allocated for: the first version.
    pub(super) firsts: HashMap<Local, Local>,
    /// The copies of nodes whose buffers are stored into in place.
    old: HashMap<Local, Local>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(walk: &'a mut Walk, items: Vec<Item>) -> Self {
        Self {
            walk,
            items,
            bases: HashMap::new(),
            firsts: HashMap::new(),
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
            // The base was written before.
            let first = self.firsts.get(&target).copied().unwrap_or(target);
            self.firsts.insert(version, first);
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
        let mut starts: Vec<usize> = (0..self.items.len()).collect();
        starts.sort_by_key(|index| self.items[*index].written().min());
        let mut order = Vec::with_capacity(self.items.len());
        // Items that wait, each for the next one.
        let mut path: Vec<usize> = Vec::new();
        for start in starts {
            path.extend((waits.states[start] == State::Waiting).then_some(start));
            while let Some(item) = path.last().copied() {
                waits.states[item] = State::OnPath;
                match waits.blocker(item) {
                    Some(next) if waits.states[next] == State::Waiting => path.push(next),
                    Some(_) => {
                        let (base, readers) = self.store_on_a_cycle(&mut waits, &mut path)?;
                        let first = self.items.len();
                        let copy = self.old(base)?;
                        order.extend(first..self.items.len());
                        for reader in readers {
                            let item = &mut self.items[reader];
                            if item.writes[0].node == copy {
                                // The copy of a root is an item already.
                                waits.states[reader] = State::Done;
                                order.push(reader);
                            } else {
                                item.redirect(base, copy);
                            }
                        }
                    }
                    None => {
                        waits.states[item] = State::Done;
                        order.push(item);
                        path.pop();
                    }
                }
            }
        }
        let mut items: Vec<Option<Item>> = self.items.drain(..).map(Some).collect();
        let ordered = order.into_iter().filter_map(|index| items[index].take());
        Ok(ordered.collect())
    }

    /// Shortens a path that ends in a cycle to the last store on it that waits for a reader, and lets the store wait no
    /// more. Returns the node whose buffer it stores into, and the readers that are left.
    fn store_on_a_cycle(
        &self,
        waits: &mut Waits,
        path: &mut Vec<usize>,
    ) -> Result<(Local, Vec<usize>), ScheduleError> {
        while let Some(item) = path.last().copied() {
            // Without anything to make what it needs, it waits for a reader.
            if waits.makers[item].is_empty() {
                let mut readers = std::mem::take(&mut waits.readers[item]);
                readers.retain(|reader| waits.states[*reader] != State::Done);
                return Ok((self.base(item).ok_or(CYCLE)?, readers));
            }
            waits.states[item] = State::Waiting;
            path.pop();
        }
        Err(CYCLE)
    }
}

/// The state of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// Waits, and is on the way to an item that waits for nothing.
    OnPath,
    Done,
}

/// The items that each item waits for.
struct Waits {
    states: Vec<State>,
    /// For each item, those that it waits for by a true or output dependency. Those that are done are removed when they
    /// are met.
    makers: Vec<Vec<usize>>,
    /// For each store, the readers that it waits for.
    readers: Vec<Vec<usize>>,
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
        let others = |index: usize, all: &HashMap<Local, Vec<usize>>, node: &Local| {
            let all = all.get(node).into_iter().flatten().copied();
            let others = all.filter(|other| *other != index);
            // The first comes last, where the search begins.
            others.rev().collect::<Vec<usize>>()
        };
        let mut waits = Self {
            states: vec![State::Waiting; items.len()],
            makers: Vec::with_capacity(items.len()),
            readers: Vec::with_capacity(items.len()),
        };
        for (index, item) in items.iter().enumerate() {
            let base = versions.base(index);
            let needed = item.reads.iter().chain(&base);
            let needed = needed.flat_map(|node| others(index, &makers, node));
            waits.makers.push(needed.collect());
            let read = base.iter().flat_map(|node| others(index, &readers, node));
            waits.readers.push(read.collect());
        }
        waits
    }

    /// Returns an item that another one waits for: a reader if it waits for nothing else.
    fn blocker(&mut self, item: usize) -> Option<usize> {
        for list in [&mut self.makers[item], &mut self.readers[item]] {
            while let Some(other) = list.last().copied() {
                #[cfg(test)]
                crate::steps::count();
                if self.states[other] != State::Done {
                    return Some(other);
                }
                list.pop();
            }
        }
        None
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
