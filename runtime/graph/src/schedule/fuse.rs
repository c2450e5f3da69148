//! What is computed with what.
//!
//! Nodes are visited from the roots down, each after everything that uses it. By then it is known which groups need it, and where
//! in terms of their axes. A node joins the groups that need it or gets a buffer, and a group of its own that fills it:
//!
//! | node | joins if |
//! | --- | --- |
//! | view | always, where the place of its elements is an affine of the kernel's axes; it costs nothing |
//! | number, index, random bits | always, they are computed where they are needed |
//! | elementwise | one group needs it at one place, or computing it again costs less than loading it ([`CHEAP_FLOPS`]) |
//! | reduction | one group needs it at one place, and its rows are those of the group |
//! | product | one group needs it, element for element, with nothing reduced: the group is its epilogue |
//! | other | never: it is a kernel of its own |
//!
//! A group that has no room for another buffer or value takes nothing more in. Every node is visited once and a group is lowered
//! as soon as nothing more can join it, so both time and memory are linear.

use std::collections::HashSet;
use std::rc::Rc;

use millstream_ir::UnaryOp;
use smallvec::SmallVec;

use crate::error::ScheduleError;
use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes, Map};
use crate::schedule::group::{Group, GroupId, Kind, Member, Reach, ReachId, Sink};
use crate::schedule::walk::{Local, Seen, Walk};
use crate::shape::Shape;
use crate::size::Size;

/// An elementwise node that is needed in several places is computed in each of them, rather than stored and loaded, if it takes
/// at most this many cheap operations and one load.
const CHEAP_FLOPS: u32 = 4;

/// What an operation that is no single instruction costs, in cheap operations.
const DEAR_FLOPS: u32 = 10;

/// What it takes to compute an element of a node in place.
#[derive(Clone, Copy, Debug)]
struct Cost {
    flops: u32,
    loads: u32,
}

impl Cost {
    /// Is computing it again no more than loading it?
    fn is_cheap(&self) -> bool {
        self.flops <= CHEAP_FLOPS && self.loads <= 1
    }
}

/// One need of a node.
#[derive(Clone, Debug)]
struct Need {
    group: GroupId,
    reach: ReachId,
    how: Reach,
}

/// Fuses a walk into groups.
pub(crate) struct Fuser<'a> {
    walk: &'a Walk,
    roots: HashSet<Local>,
    needs: Vec<SmallVec<[Need; 1]>>,
    /// Nodes that must be buffers, whatever else needs them.
    forced: Vec<bool>,
    costs: Vec<Cost>,
    /// Groups that are not complete.
    groups: Vec<Option<Group>>,
    free: Vec<GroupId>,
    next_reach: ReachId,
    /// Which nodes are computed into buffers.
    pub(crate) realized: Vec<bool>,
    complete: Vec<Group>,
}

impl<'a> Fuser<'a> {
    pub(crate) fn new(walk: &'a Walk) -> Self {
        let count = walk.nodes.len();
        let costs = costs(walk);
        Self {
            walk,
            roots: walk.root_set(),
            needs: vec![SmallVec::new(); count],
            forced: frontier(walk, &costs),
            costs,
            groups: Vec::new(),
            free: Vec::new(),
            next_reach: 0,
            realized: vec![false; count],
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
        let may_join = passes || (!realize && (needs.len() == 1 || is_cheap));
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
            self.realized[local as usize] = true;
            self.realize(local)?;
        }
        Some(())
    }

    /// Takes a node into the group that needs it, if it can be.
    fn join(&mut self, local: Local, need: &Need) -> bool {
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
    fn sides(&mut self, group: GroupId, local: Local, map: &[Affine]) -> SmallVec<[ReachId; 3]> {
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
    fn need(&mut self, group: GroupId, local: Local, how: Reach) -> ReachId {
        let pointers = self.pointers(local);
        let Some(found) = self.groups[group as usize].as_mut() else {
            return 0;
        };
        for need in self.needs[local as usize]
            .iter()
            .filter(|need| need.group == group)
        {
            let same = match (&need.how, &how) {
                (Reach::At(a), Reach::At(b)) | (Reach::Side(a), Reach::Side(b)) => {
                    Rc::ptr_eq(a, b) || found.axes.same(a, b)
                }
                (Reach::Flat(a), Reach::Flat(b)) => a == b,
                (Reach::Whole(None), Reach::Whole(None)) => true,
                _ => false,
            };
            if same {
                return need.reach;
            }
        }
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

    fn finish(&mut self, id: GroupId) {
        if let Some(group) = self.groups[id as usize].take() {
            self.complete.push(group);
            self.free.push(id);
        }
    }

    fn open(&mut self, group: Group) -> GroupId {
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

    /// Makes the groups that fill a node's buffer.
    fn realize(&mut self, local: Local) -> Option<()> {
        let node = self.walk.node(local);
        match &node.op {
            Op::Matmul => {
                let (axes, map) = Axes::of(&node.shape);
                let address = Affine::flat(&map, &node.shape)?;
                let id = self.open(Group::new(Kind::Product, axes, sink(local, address)));
                let arguments = self.sides(id, local, &map);
                if let Some(group) = self.groups[id as usize].as_mut() {
                    group.arguments = arguments;
                    group.product = Some(local);
                }
            }
            Op::Custom(_) => {
                let kind = Kind::Call;
                let id = self.open(Group::new(
                    kind,
                    Axes::default(),
                    sink(local, Affine::zero()),
                ));
                // The same argument twice is one reach, bound twice.
                let needs = node
                    .operands
                    .iter()
                    .map(|operand| self.need(id, *operand, Reach::Whole(None)));
                let arguments: SmallVec<[ReachId; 3]> = needs.collect();
                let nothing = arguments.is_empty();
                if let Some(group) = self.groups[id as usize].as_mut() {
                    group.arguments = arguments;
                }
                if let (Op::Custom(custom), Some(source)) = (&node.op, node.operands.last())
                    && custom.in_place
                {
                    self.forced[*source as usize] = true;
                }
                if nothing {
                    self.finish(id);
                }
            }
            Op::Cat { axis } => {
                let strides = node.shape.dense_strides()?;
                let mut start = Size::ZERO;
                for part in &node.operands {
                    let shape = &self.walk.node(*part).shape;
                    let mut address = placed(shape, &strides)?;
                    address.constant = start.times(&strides[*axis])?;
                    start = start.plus(&shape[*axis])?;
                    self.store(local, address, *part, true);
                }
            }
            Op::Set(layout) => {
                let (base, values) = (node.operands[0], node.operands[1]);
                self.forced[base as usize] = true;
                let shape = &self.walk.node(values).shape;
                let mut address = placed(shape, &layout.strides)?;
                address.constant = layout.offset.clone();
                self.store(local, address, values, true);
            }
            Op::Scatter { axis, adds } => self.scatter(local, *axis, *adds)?,
            _ => {
                let (axes, map) = Axes::of(&node.shape);
                let address = Affine::flat(&map, &node.shape)?;
                let id = self.open(Group::new(Kind::Nest, axes, sink(local, address)));
                self.take_root(id, local, map);
            }
        }
        Some(())
    }

    /// The first member of a group: the node that it is for.
    fn take_root(&mut self, group: GroupId, local: Local, map: Map) {
        let how = Reach::At(Rc::new(map));
        let reach = self.need(group, local, how);
        if let Some(group) = self.groups[group as usize].as_mut() {
            group.sink.value = reach;
        }
        let need = self.needs[local as usize].pop();
        let joined = need.is_some_and(|need| self.join(local, &need));
        debug_assert!(joined, "what has a group of its own can be computed in it");
    }

    /// A group that stores a node's elements, each at its place in another's buffer.
    fn store(&mut self, into: Local, address: Affine, node: Local, partial: bool) {
        let (axes, map) = Axes::of(&self.walk.node(node).shape);
        let mut sink = sink(into, address);
        sink.partial = partial;
        let id = self.open(Group::new(Kind::Nest, axes, sink));
        let reach = self.need(id, node, Reach::At(Rc::new(map)));
        if let Some(group) = self.groups[id as usize].as_mut() {
            group.sink.value = reach;
        }
    }

    /// A copy of the base, and then values put where the indices say, in order.
    fn scatter(&mut self, local: Local, axis: usize, adds: bool) -> Option<()> {
        let node = self.walk.node(local);
        let (base, index, values) = (node.operands[0], node.operands[1], node.operands[2]);
        let (_, map) = Axes::of(&node.shape);
        let address = Affine::flat(&map, &node.shape)?;
        self.store(local, address, base, false);
        let shape = &self.walk.node(index).shape;
        let (mut axes, map) = Axes::of(shape);
        let strides = node.shape.dense_strides()?;
        let mut others = strides.clone();
        others[axis] = Size::ZERO;
        let address = placed(shape, &others)?;
        if let [(along, _)] = map[axis].terms[..] {
            axes.turn_in(&[along]);
        }
        let mut sink = sink(local, address);
        sink.partial = true;
        let id = self.open(Group::new(Kind::Ordered, axes, sink));
        let map = Rc::new(map);
        let value = self.need(id, values, Reach::At(map.clone()));
        let place = self.need(id, index, Reach::At(map));
        if let Some(group) = self.groups[id as usize].as_mut() {
            group.sink.value = value;
            let (stride, length) = (strides[axis].clone(), node.shape[axis].clone());
            group.sink.scatter = Some((place, stride, length, adds));
        }
        Some(())
    }
}

fn sink(node: Local, address: Affine) -> Sink {
    Sink {
        node,
        address,
        value: 0,
        scatter: None,
        partial: false,
    }
}

/// Where the elements of a shape lie, by these strides, in terms of the shape's own axes.
fn placed(shape: &Shape, strides: &[Size]) -> Option<Affine> {
    let (_, map) = Axes::of(shape);
    let mut address = Affine::zero();
    for (index, stride) in map.iter().zip(strides) {
        address.add(index, stride)?;
    }
    Some(address)
}

/// Which nodes must be buffers because they are made once, of what is held, and read by each run. What is cheap is computed again
/// by the kernel that reads it, as always.
fn frontier(walk: &Walk, costs: &[Cost]) -> Vec<bool> {
    let mut forced = vec![false; walk.nodes.len()];
    for (local, node) in walk.nodes.iter().enumerate() {
        if walk.is_held(local as Local) {
            continue;
        }
        for operand in &node.operands {
            let mut made = *operand;
            while walk.is_held(made) && walk.node(made).is_view() {
                made = walk.node(made).operands[0];
            }
            let seen = walk.node(made);
            let is_made = walk.is_held(made) && !seen.is_buffer() && !seen.is_generated();
            forced[made as usize] |= is_made && !costs[made as usize].is_cheap();
        }
    }
    forced
}

/// What it takes to compute an element of each node where it is needed.
fn costs(walk: &Walk) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Vec::with_capacity(walk.nodes.len());
    for node in &walk.nodes {
        let of = node.operands.iter().map(|operand| costs[*operand as usize]);
        let mut sum = Cost { flops: 0, loads: 0 };
        for cost in of {
            sum.flops = sum.flops.saturating_add(cost.flops);
            sum.loads = sum.loads.saturating_add(cost.loads);
        }
        sum.flops = sum.flops.saturating_add(own_flops(node));
        if node.is_buffer() {
            sum.loads = 1;
        }
        costs.push(sum);
    }
    costs
}

/// What a node itself costs, in cheap operations. What is never computed again costs more than can be counted.
fn own_flops(node: &Seen) -> u32 {
    match &node.op {
        _ if node.is_view() || node.is_buffer() => 0,
        Op::Const(_) | Op::Scalar(_) | Op::Index(_) => 0,
        Op::Random(_) => DEAR_FLOPS,
        Op::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not) => 1,
        Op::Unary(_) => DEAR_FLOPS,
        Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast => 1,
        _ => u32::MAX,
    }
}
