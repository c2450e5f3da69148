//! Fusion: assigns every node to the groups that compute it. Each group becomes one kernel.
//!
//! # States
//! ```text
//!  node    unvisited ──visit──► joined: a member of each group that uses it
//!                          └──► materialized: has a buffer that a group of its own fills; its users load it
//!
//!  group   open (pending > 0) ──last use decided──► complete (pending = 0) ──emit──► an item
//! ```
//! The nodes are visited from the roots down, in reverse topological order. So when a node is visited, all groups that
//! use it have registered their uses, each with the place of the elements in terms of the group's axes
//! ([`AccessPattern`]). A node joins or is materialized:
//!
//! * A view always joins if its elements lie at affines of the kernel's axes; it costs nothing.
//! * A number, index or random bits always join: they are computed where they are used.
//! * An elementwise node joins if it has one use, if recomputing it costs less than loading it
//!   ([`CHEAP_FLOPS`](super::cost::CHEAP_FLOPS)), or if one group has all its uses and all but one of these have few
//!   elements ([`FEW_RATIO`]).
//! * A reduction joins if it has one use and its rows are those of the group.
//! * A product joins if its one use is element for element and the group reduces nothing: the group becomes its
//!   epilogue.
//! * Any other node is a kernel of its own.
//!
//! # Example
//! `y = relu(matmul(x, w) + b)`, with root `y`; `b` has one row.
//!
//! | visit | decision | open uses of group 0 |
//! | --- | --- | --- |
//! | `relu` | materialized: it is a root; opens group 0 with the axes `i, j` and joins it | `+` |
//! | `+` | joins: one use | broadcast, `matmul` |
//! | broadcast | joins: a view; its row is 0, its column `j` | `b`, `matmul` |
//! | `b` | loaded at `[0, j]` | `matmul` |
//! | `matmul` | joins: group 0 is its epilogue; adds the inner axis `k` | `x`, `w` |
//! | `w` | loaded at `[k, j]` | `x` |
//! | `x` | loaded at `[i, k]` | none: complete, emitted |
//!
//! With a second root `z = matmul(x, w)` the product is materialized instead: group 0 loads its buffer.
//!
//! # Invariants
//! * A node is visited after all its users, and once.
//! * `Group::pending` counts the uses whose node is unvisited. When it drops to 0 nothing can join the group any more:
//!   it is emitted.
//! * `Group::pointers` counts the buffers that the group loads or may have to load: a use counts when it is registered
//!   and no longer when its node is computed in place. So a group never exceeds
//!   [`MAX_POINTERS`](super::group::MAX_POINTERS); a group without space for another buffer or value takes in no more
//!   nodes.
//! * Members are listed users first, operands last.
//!
//! Time and memory are linear in the number of nodes: the uses of a node, or those of a group, are searched by the
//! shorter list.
//!
//! `tests/schedules.rs` states what is fused; `tests/graph` (`random`, `oracle`) and `tests/graph-fuzz` compare the
//! values of fused expressions with their meaning.

use std::rc::Rc;

use slab::Slab;
use smallvec::{SmallVec, smallvec};

use crate::error::ScheduleError;
use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes};
use crate::schedule::cost::{Cost, FEW_RATIO, costs};
use crate::schedule::group::{AccessPattern, Group, GroupId, Member, UseId};
use crate::schedule::walk::{Local, Walk};
use crate::shape::Shape;

/// One use of a node by a group.
#[derive(Clone, Debug)]
pub(super) struct Use {
    group: GroupId,
    use_id: UseId,
    pattern: AccessPattern,
}

/// Assigns the nodes of a walk to groups.
pub(crate) struct Fuser<'a> {
    pub(super) walk: &'a Walk,
    pub(super) uses: Vec<SmallVec<[Use; 1]>>,
    /// Nodes that are materialized, whatever uses them: roots, and nodes that are stored into.
    pub(super) forced: Vec<bool>,
    costs: Vec<Cost>,
    /// The open groups. A use that is not decided keeps its group open.
    pub(super) groups: Slab<Group>,
    next_use: UseId,
    complete: Vec<Group>,
}

impl<'a> Fuser<'a> {
    pub(crate) fn new(walk: &'a Walk) -> Self {
        let count = walk.nodes.len();
        let mut forced = vec![false; count];
        walk.roots
            .iter()
            .for_each(|root| forced[*root as usize] = true);
        Self {
            walk,
            uses: vec![SmallVec::new(); count],
            forced,
            costs: costs(walk),
            groups: Slab::new(),
            next_use: 0,
            complete: Vec::new(),
        }
    }

    /// Visits all nodes. Passes each group to `emit` when it is complete.
    pub(crate) fn run(
        &mut self,
        mut emit: impl FnMut(Group) -> Result<(), ScheduleError>,
    ) -> Result<(), ScheduleError> {
        for node in (0..self.walk.nodes.len() as Local).rev() {
            let too_large = || ScheduleError::TooLarge(self.walk.node(node).shape.to_string());
            self.visit(node).ok_or_else(too_large)?;
            for mut group in self.complete.drain(..) {
                group.resolve().ok_or_else(too_large)?;
                emit(group)?;
            }
        }
        Ok(())
    }

    /// Joins a node to the groups that use it, or materializes it. `None` if a size overflows.
    fn visit(&mut self, local: Local) -> Option<()> {
        let uses = std::mem::take(&mut self.uses[local as usize]);
        let node = self.walk.node(local);
        if node.is_buffer() {
            return uses
                .into_iter()
                .try_for_each(|usage| self.load(local, usage));
        }
        let is_apart = self.walk.apart.contains(&local);
        let mut materialize = is_apart || self.forced[local as usize];
        let recompute = self.costs[local as usize];
        let is_cheap = recompute.is_cheap();
        let passes = node.is_view() || node.is_generated();
        let recompute_is_cheap =
            || is_cheap || (node.is_elementwise() && self.recomputes_few(&uses));
        let may_join =
            !is_apart && (passes || (!materialize && (uses.len() == 1 || recompute_is_cheap())));
        let mut loads = Vec::new();
        for usage in uses {
            let joined = may_join && self.join(local, &usage);
            if !joined {
                materialize = true;
                loads.push(usage);
            }
        }
        loads
            .into_iter()
            .try_for_each(|usage| self.load(local, usage))?;
        match materialize {
            true => self.materialize(local),
            false => Some(()),
        }
    }

    /// Returns `true` if one group has all uses, and all uses but the largest have few elements, so that recomputing
    /// those costs little.
    fn recomputes_few(&self, uses: &[Use]) -> bool {
        let elements = |usage: &Use| match &usage.pattern {
            AccessPattern::At(map) if usage.group == uses[0].group => {
                self.groups[usage.group].axes.elements(map)?.known()
            }
            _ => None,
        };
        let Some(mut elements) = uses.iter().map(elements).collect::<Option<Vec<i64>>>() else {
            return false;
        };
        elements.sort_unstable();
        let most = elements.pop();
        let few = elements.iter().sum::<i64>().saturating_mul(FEW_RATIO);
        most.is_some_and(|most| few <= most)
    }

    /// Adds a node to a group that uses it, if the group can compute it. Returns `true` if it does.
    pub(super) fn join(&mut self, local: Local, usage: &Use) -> bool {
        let node = self.walk.node(local);
        if node.is_generated() {
            if matches!(usage.pattern, AccessPattern::At(_)) {
                self.add(local, usage, SmallVec::new(), true);
                return true;
            }
            return false;
        }
        if matches!(node.op, Op::Matmul) {
            return self.join_product(local, usage);
        }
        let pointers = node.operands.iter().map(|operand| self.pointers(*operand));
        let pointers_added = pointers.sum::<usize>().saturating_sub(self.pointers(local));
        let group = &mut self.groups[usage.group];
        if !group.fits(pointers_added) {
            return false;
        }
        let shapes = node.operands.iter();
        let shapes = shapes.map(|operand| &self.walk.node(*operand).shape);
        let shapes: SmallVec<[&Shape; 3]> = shapes.collect();
        let Some(patterns) = group.operands(node, &shapes, &usage.pattern) else {
            return false;
        };
        let operands = node.operands.iter().zip(patterns);
        let operands = operands
            .map(|(operand, pattern)| self.add_use(usage.group, *operand, pattern))
            .collect();
        self.add(local, usage, operands, true);
        true
    }

    /// Makes a group the epilogue of a product, if it uses the product only element for element, each in its own place.
    fn join_product(&mut self, local: Local, usage: &Use) -> bool {
        let node = self.walk.node(local);
        let AccessPattern::At(map) = &usage.pattern else {
            return false;
        };
        let group = &self.groups[usage.group];
        let stored = self.walk.node(group.sink().node);
        let fits = group.product.is_none()
            && !group.axes.has_inner()
            && group.sink().scatter.is_none()
            && !matches!(stored.op, Op::Set(_))
            && stored.dtype == node.dtype
            && Axes::of(&node.shape).1 == **map
            && group.axes.outer().len()
                == map.iter().filter(|index| !index.terms.is_empty()).count();
        if !fits {
            return false;
        }
        self.make_product(usage.group, local, map);
        self.add(local, usage, SmallVec::new(), true);
        true
    }

    /// Makes a group with the axes of a product compute it: registers the uses of both sides.
    pub(super) fn make_product(&mut self, group: GroupId, local: Local, map: &[Affine]) {
        let node = self.walk.node(local);
        let (left, right) = (node.operands[0], node.operands[1]);
        let rank = map.len();
        let inner = &self.walk.node(left).shape[rank - 1];
        let k = match inner.is(1) {
            true => Affine::zero(),
            false => Affine::axis(self.groups[group].axes.add_inner(inner.clone())),
        };
        let (mut of_left, mut of_right) = (map.to_vec(), map.to_vec());
        of_left[rank - 1] = k.clone();
        of_right[rank - 2] = k;
        let left = self.add_use(group, left, AccessPattern::Side(Rc::new(of_left)));
        let right = self.add_use(group, right, AccessPattern::Side(Rc::new(of_right)));
        let made = &mut self.groups[group];
        made.arguments = smallvec![left, right];
        made.product = Some(local);
    }

    /// Returns the most buffers that a node may need: 0 if it is computed from numbers alone.
    fn pointers(&self, local: Local) -> usize {
        usize::from(self.costs[local as usize].loads > 0)
    }

    /// Registers a use of a node by a group, unless the group has an equal one. Returns the id.
    pub(super) fn add_use(
        &mut self,
        group: GroupId,
        local: Local,
        pattern: AccessPattern,
    ) -> UseId {
        let pointers = self.pointers(local);
        let found = &mut self.groups[group];
        let uses = &self.uses[local as usize];
        let same = |usage: &&Use| match (&usage.pattern, &pattern) {
            (AccessPattern::At(a), AccessPattern::At(b))
            | (AccessPattern::Side(a), AccessPattern::Side(b)) => {
                Rc::ptr_eq(a, b) || found.axes.same(a, b)
            }
            (AccessPattern::Flat(a), AccessPattern::Flat(b)) => a == b,
            (AccessPattern::Whole(None), AccessPattern::Whole(None)) => true,
            _ => false,
        };
        // Many groups may use a node, but a group uses few nodes: search the shorter list.
        let known = if uses.len() <= found.uses.len() {
            let mut of_group = uses.iter().filter(|usage| usage.group == group);
            of_group.find(same)
        } else {
            let of_node = found.uses.iter().filter(|(needed, _)| *needed == local);
            let mut of_node = of_node.filter_map(|(_, place)| uses.get(*place as usize));
            of_node.find(same)
        };
        if let Some(known) = known {
            return known.use_id;
        }
        found.uses.push((local, uses.len() as u32));
        found.pending += 1;
        found.pointers += pointers;
        let use_id = self.next_use;
        self.next_use += 1;
        self.uses[local as usize].push(Use {
            group,
            use_id,
            pattern,
        });
        use_id
    }

    /// Loads the node's buffer in a group, at a row-major index unless the whole buffer is used.
    fn load(&mut self, local: Local, mut usage: Use) -> Option<()> {
        if let AccessPattern::At(map) | AccessPattern::Side(map) = &usage.pattern {
            let shape = &self.walk.node(local).shape;
            usage.pattern = AccessPattern::Flat(Affine::flat(map, shape)?);
        }
        self.add(local, &usage, SmallVec::new(), false);
        Some(())
    }

    /// Makes a node a member of a group. The last use that is decided completes the group.
    fn add(&mut self, node: Local, usage: &Use, operands: SmallVec<[UseId; 3]>, computed: bool) {
        let pointers = self.pointers(node);
        let group = &mut self.groups[usage.group];
        if computed {
            group.pointers -= pointers;
        }
        group.members.push(Member {
            use_id: usage.use_id,
            node,
            pattern: usage.pattern.clone(),
            operands,
            computed,
        });
        group.pending -= 1;
        if group.pending == 0 {
            self.finish(usage.group);
        }
    }

    pub(super) fn finish(&mut self, id: GroupId) {
        self.complete.push(self.groups.remove(id));
    }
}
