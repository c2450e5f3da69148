//! What is computed with what.
//!
//! Nodes are visited from the roots down, each after everything that uses it. By then it is known which groups need it, and where
//! in terms of their axes. A node joins the groups that need it or gets a buffer, and a group of its own that fills it:
//!
//! | node | joins if |
//! | --- | --- |
//! | view | always, where the place of its elements is an affine of the kernel's axes; it costs nothing |
//! | number, index, random bits | always, they are computed where they are needed |
//! | elementwise | one group needs it at one place, or computing it again costs less than loading it ([`CHEAP_FLOPS`](super::cost::CHEAP_FLOPS)), or one group needs it at several places, all but one of few elements ([`FEW_TIMES`]) |
//! | reduction | one group needs it at one place, and its rows are those of the group |
//! | product | one group needs it, element for element, with nothing reduced: the group is its epilogue |
//! | other | never: it is a kernel of its own |
//!
//! A group that has no room for another buffer or value takes nothing more in. Every node is visited once and a group is lowered
//! as soon as nothing more can join it, so both time and memory are linear.

use std::collections::HashSet;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::error::ScheduleError;
use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes};
use crate::schedule::cost::{Cost, FEW_TIMES, costs, frontier};
use crate::schedule::group::{Group, GroupId, Kind, Member, Reach, ReachId};
use crate::schedule::walk::{Local, Walk};
use crate::shape::Shape;

/// One need of a node.
#[derive(Clone, Debug)]
pub(super) struct Need {
    group: GroupId,
    reach: ReachId,
    how: Reach,
}

/// Fuses a walk into groups.
pub(crate) struct Fuser<'a> {
    pub(super) walk: &'a Walk,
    roots: HashSet<Local>,
    pub(super) needs: Vec<SmallVec<[Need; 1]>>,
    /// Nodes that must be buffers, whatever else needs them.
    pub(super) forced: Vec<bool>,
    costs: Vec<Cost>,
    /// Groups that are not complete.
    pub(super) groups: Vec<Option<Group>>,
    free: Vec<GroupId>,
    next_reach: ReachId,
    complete: Vec<Group>,
}

impl<'a> Fuser<'a> {
    pub(crate) fn new(walk: &'a Walk) -> Self {
        let count = walk.nodes.len();
        let costs = costs(walk);
        let mut forced = frontier(walk, &costs);
        walk.forced
            .iter()
            .for_each(|node| forced[*node as usize] = true);
        Self {
            walk,
            roots: walk.root_set(),
            needs: vec![SmallVec::new(); count],
            forced,
            costs,
            groups: Vec::new(),
            free: Vec::new(),
            next_reach: 0,
            complete: Vec::new(),
        }
    }

    /// Visits everything. `emit` is given each group when it is complete.
    pub(crate) fn run(
        &mut self,
        mut emit: impl FnMut(Group) -> Result<(), ScheduleError>,
    ) -> Result<(), ScheduleError> {
        for node in (0..self.walk.nodes.len() as Local).rev() {
            self.visit(node)
                .ok_or_else(|| ScheduleError::TooLarge(self.walk.node(node).shape.to_string()))?;
            for group in self.complete.drain(..) {
                emit(group)?;
            }
        }
        Ok(())
    }

    /// Decides about a node. None if something cannot be counted.
    fn visit(&mut self, local: Local) -> Option<()> {
        let needs = std::mem::take(&mut self.needs[local as usize]);
        let node = self.walk.node(local);
        if node.is_buffer() {
            needs.into_iter().for_each(|need| self.load(local, need));
            return Some(());
        }
        let is_root = self.roots.contains(&local);
        let mut realize = is_root || self.forced[local as usize];
        let again = self.costs[local as usize];
        let is_cheap = again.is_cheap();
        let passes = node.is_view() || node.is_generated();
        let again_is_little = || is_cheap || (node.is_elementwise() && self.are_few(&needs));
        let may_join = passes || (!realize && (needs.len() == 1 || again_is_little()));
        let mut loads = Vec::new();
        for need in needs {
            let joined = may_join && self.join(local, &need);
            if !joined {
                realize = true;
                loads.push(need);
            }
        }
        loads.into_iter().for_each(|need| self.load(local, need));
        if realize {
            self.realize(local)?;
        }
        Some(())
    }

    /// Are all needs of one group, and all but one of few elements beside those of the one? To compute those again costs little.
    fn are_few(&self, needs: &[Need]) -> bool {
        if needs.iter().any(|need| need.group != needs[0].group) {
            return false;
        }
        let mut elements = Vec::with_capacity(needs.len());
        for need in needs {
            let (Some(group), Reach::At(map)) = (&self.groups[need.group as usize], &need.how)
            else {
                return false;
            };
            match group.axes.elements(map).and_then(|size| size.known()) {
                Some(count) => elements.push(count),
                None => return false,
            }
        }
        elements.sort_unstable();
        let Some(most) = elements.pop() else {
            return false;
        };
        elements.iter().sum::<i64>().saturating_mul(FEW_TIMES) <= most
    }

    /// Takes a node into the group that needs it, if it can be.
    pub(super) fn join(&mut self, local: Local, need: &Need) -> bool {
        let node = self.walk.node(local);
        if node.is_generated() {
            if matches!(need.how, Reach::At(_)) {
                self.add(local, need, SmallVec::new(), true);
                return true;
            }
            return false;
        }
        if matches!(node.op, Op::Matmul) {
            return self.join_product(local, need);
        }
        let more: usize = node
            .operands
            .iter()
            .map(|operand| self.pointers(*operand))
            .sum();
        let more = more.saturating_sub(self.pointers(local));
        let Some(group) = self.groups[need.group as usize].as_mut() else {
            return false;
        };
        if !group.has_room(more) {
            return false;
        }
        let shapes: SmallVec<[&Shape; 3]> = node
            .operands
            .iter()
            .map(|operand| &self.walk.node(*operand).shape)
            .collect();
        let Some(reaches) = group.operands(node, &shapes, &need.how) else {
            return false;
        };
        let operands = node.operands.iter().zip(reaches);
        let operands = operands
            .map(|(operand, how)| self.need(need.group, *operand, how))
            .collect();
        self.add(local, need, operands, true);
        true
    }

    /// Makes a group the epilogue of a product, if it needs nothing but each of its elements in its place.
    fn join_product(&mut self, local: Local, need: &Need) -> bool {
        let node = self.walk.node(local);
        let Reach::At(map) = &need.how else {
            return false;
        };
        let Some(group) = self.groups[need.group as usize].as_mut() else {
            return false;
        };
        let stored = self.walk.node(group.sink.node);
        let fits = group.kind == Kind::Nest
            && group.product.is_none()
            && !group.axes.has_inner()
            && group.sink.scatter.is_none()
            && !matches!(stored.op, Op::Set(_))
            && stored.dtype == node.dtype
            && Axes::of(&node.shape).1 == **map
            && group.axes.outer().len()
                == map.iter().filter(|index| !index.terms.is_empty()).count();
        if !fits {
            return false;
        }
        group.product = Some(local);
        let map = (**map).clone();
        let arguments = self.sides(need.group, local, &map);
        if let Some(group) = self.groups[need.group as usize].as_mut() {
            group.arguments = arguments;
        }
        self.add(local, need, SmallVec::new(), true);
        true
    }

    /// Needs both sides of a product in a group that has its axes.
    pub(super) fn sides(
        &mut self,
        group: GroupId,
        local: Local,
        map: &[Affine],
    ) -> SmallVec<[ReachId; 3]> {
        let node = self.walk.node(local);
        let (left, right) = (node.operands[0], node.operands[1]);
        let rank = map.len();
        let inner = &self.walk.node(left).shape[rank - 1];
        let axes = &mut self.groups[group as usize]
            .as_mut()
            .map(|group| &mut group.axes);
        let k = match axes {
            Some(axes) if !inner.is(1) => Affine::axis(axes.add_inner(inner.clone())),
            _ => Affine::zero(),
        };
        let (mut of_left, mut of_right) = (map.to_vec(), map.to_vec());
        of_left[rank - 1] = k.clone();
        of_right[rank - 2] = k;
        let left = self.need(group, left, Reach::Side(Rc::new(of_left)));
        let right = self.need(group, right, Reach::Side(Rc::new(of_right)));
        SmallVec::from_iter([left, right])
    }

    /// How many buffers a node may turn out to be: none if it is made of numbers alone.
    fn pointers(&self, local: Local) -> usize {
        usize::from(self.costs[local as usize].loads > 0)
    }

    /// A need of a group, or the same one that it has already.
    pub(super) fn need(&mut self, group: GroupId, local: Local, how: Reach) -> ReachId {
        let pointers = self.pointers(local);
        let Some(found) = self.groups[group as usize].as_mut() else {
            return 0;
        };
        let needs = &self.needs[local as usize];
        let same = |need: &&Need| match (&need.how, &how) {
            (Reach::At(a), Reach::At(b)) | (Reach::Side(a), Reach::Side(b)) => {
                Rc::ptr_eq(a, b) || found.axes.same(a, b)
            }
            (Reach::Flat(a), Reach::Flat(b)) => a == b,
            (Reach::Whole(None), Reach::Whole(None)) => true,
            _ => false,
        };
        // A node may be needed by every group, but a group needs few nodes: the shorter list is looked through.
        let known = if needs.len() <= found.needs.len() {
            let mut of_group = needs.iter().filter(|need| need.group == group);
            of_group.find(same)
        } else {
            let of_node = found.needs.iter().filter(|(needed, _)| *needed == local);
            let mut of_node = of_node.filter_map(|(_, place)| needs.get(*place as usize));
            of_node.find(same)
        };
        if let Some(known) = known {
            return known.reach;
        }
        found.needs.push((local, needs.len() as u32));
        found.pending += 1;
        found.pointers += pointers;
        let reach = self.next_reach;
        self.next_reach += 1;
        self.needs[local as usize].push(Need { group, reach, how });
        reach
    }

    /// The group loads the node's buffer.
    fn load(&mut self, local: Local, need: Need) {
        self.add(local, &need, SmallVec::new(), false);
    }

    /// Makes a node a member of a group. The last that a group needs completes it.
    fn add(&mut self, node: Local, need: &Need, operands: SmallVec<[ReachId; 3]>, computed: bool) {
        let pointers = self.pointers(node);
        let Some(group) = self.groups[need.group as usize].as_mut() else {
            return;
        };
        if computed {
            group.pointers -= pointers;
        }
        group.members.push(Member {
            reach: need.reach,
            node,
            how: need.how.clone(),
            operands,
            computed,
        });
        group.pending -= 1;
        if group.pending == 0 {
            self.finish(need.group);
        }
    }

    pub(super) fn finish(&mut self, id: GroupId) {
        if let Some(group) = self.groups[id as usize].take() {
            self.complete.push(group);
            self.free.push(id);
        }
    }

    pub(super) fn open(&mut self, group: Group) -> GroupId {
        match self.free.pop() {
            Some(id) => {
                self.groups[id as usize] = Some(group);
                id
            }
            None => {
                self.groups.push(Some(group));
                (self.groups.len() - 1) as GroupId
            }
        }
    }
}
