//! Opens the groups that fill the buffer of a node: one for most nodes, several if parts of the buffer are stored
//! separately.

use std::rc::Rc;

use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes};
use crate::schedule::fuse::Fuser;
use crate::schedule::group::{AccessPattern, Group, Sink};
use crate::schedule::walk::Local;
use crate::size::Size;

impl Fuser<'_> {
    /// Opens the groups that fill a node's buffer.
    pub(super) fn materialize(&mut self, local: Local) -> Option<()> {
        let node = self.walk.node(local);
        match &node.op {
            Op::Matmul => {
                let (axes, map) = Axes::of(&node.shape);
                let address = Affine::flat(&map, &node.shape)?;
                let group = Group::new(axes, Sink::new(local, address));
                let id = self.groups.insert(group);
                self.make_product(id, local, &map);
            }
            Op::Custom(_) => {
                let sink = Sink::new(local, Affine::zero());
                let id = self.groups.insert(Group::new(Axes::default(), sink));
                // An argument that occurs twice is one use, bound twice.
                let base = node.base();
                let last = node.operands.len().saturating_sub(1);
                let uses = node.operands.iter().enumerate().map(|(index, operand)| {
                    let pattern = match base.is_some() && index == last {
                        true => AccessPattern::Updated,
                        false => AccessPattern::Whole(None),
                    };
                    self.add_use(id, *operand, pattern)
                });
                self.groups[id].arguments = uses.collect();
                if let Some(base) = base {
                    self.forced[base as usize] = true;
                }
                if self.groups[id].arguments.is_empty() {
                    self.finish(id);
                }
            }
            Op::Cat { axis } => {
                let strides = node.shape.dense_strides()?;
                let mut start = Size::ZERO;
                for part in &node.operands {
                    let shape = &self.walk.node(*part).shape;
                    let mut address = Affine::placed(&Axes::of(shape).1, &strides)?;
                    address.constant = start.times(&strides[*axis])?;
                    start = start.plus(&shape[*axis])?;
                    self.store(local, address, *part, true);
                }
            }
            Op::Set(layout) => {
                let (base, values) = (node.operands[0], node.operands[1]);
                self.forced[base as usize] = true;
                let shape = &self.walk.node(values).shape;
                // The store covers the whole buffer in its own order: neither its old content nor its failures (I7) are
                // needed.
                let is_whole = *shape == node.shape
                    && layout.offset.is(0)
                    && Some(&layout.strides) == shape.dense_strides().as_ref();
                let mut address = Affine::placed(&Axes::of(shape).1, &layout.strides)?;
                address.constant = layout.offset.clone();
                self.store(local, address, values, !is_whole);
            }
            Op::Scatter { axis, adds } => self.scatter(local, *axis, *adds)?,
            _ => {
                // The node is the first member of the group.
                let (_, map) = Axes::of(&node.shape);
                let address = Affine::flat(&map, &node.shape)?;
                self.store(local, address, local, false);
                let usage = self.uses[local as usize].pop();
                let joined = usage.is_some_and(|usage| self.join(local, &usage));
                debug_assert!(joined, "a group can compute the node that it fills");
            }
        }
        Some(())
    }

    /// Opens a group that stores the elements of a node at a place in the buffer of another.
    fn store(&mut self, into: Local, address: Affine, node: Local, partial: bool) {
        let (axes, map) = Axes::of(&self.walk.node(node).shape);
        let mut sink = Sink::new(into, address);
        sink.partial = partial;
        let id = self.groups.insert(Group::new(axes, sink));
        let value = self.add_use(id, node, AccessPattern::At(Rc::new(map)));
        self.groups[id].sinks[0].value = value;
    }

    /// Opens a group that copies the base, and one that stores values at their indices, in order.
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
        let address = Affine::placed(&map, &others)?;
        if let [(along, _)] = map[axis].terms[..] {
            axes.make_inner(&[along]);
        }
        let mut sink = Sink::new(local, address);
        sink.partial = true;
        let id = self.groups.insert(Group::new(axes, sink));
        let map = Rc::new(map);
        let value = self.add_use(id, values, AccessPattern::At(map.clone()));
        let place = self.add_use(id, index, AccessPattern::At(map));
        let sink = &mut self.groups[id].sinks[0];
        sink.value = value;
        let (stride, length) = (strides[axis].clone(), node.shape[axis].clone());
        sink.scatter = Some((place, stride, length, adds));
        Some(())
    }
}
