//! The groups that fill the buffer of a node: one for most, several where parts of it are stored apart.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes, Map};
use crate::schedule::fuse::Fuser;
use crate::schedule::group::{Group, GroupId, Kind, Reach, ReachId, Sink};
use crate::schedule::order::base_of;
use crate::schedule::walk::Local;
use crate::shape::Shape;
use crate::size::Size;

impl Fuser<'_> {
    /// Makes the groups that fill a node's buffer.
    pub(super) fn realize(&mut self, local: Local) -> Option<()> {
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
                if let Some(base) = base_of(self.walk, node) {
                    self.forced[base as usize] = true;
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
                // All of the buffer in its own order: what was in it is not needed, nor are its failures.
                let is_whole = *shape == node.shape
                    && layout.offset.is(0)
                    && Some(&layout.strides) == shape.dense_strides().as_ref();
                let mut address = placed(shape, &layout.strides)?;
                address.constant = layout.offset.clone();
                self.store(local, address, values, !is_whole);
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
