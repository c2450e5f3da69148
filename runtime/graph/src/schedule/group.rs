//! A kernel while it is made: which nodes are computed in it, and where each is in terms of its axes.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes, Map};
use crate::schedule::walk::{Local, Seen, Walk};
use crate::shape::Shape;
use crate::size::Size;

/// The place of a group in the list of all.
pub(crate) type GroupId = u32;

/// A node as one group needs it, by a number of its own.
pub(crate) type ReachId = u32;

/// Most values of a kernel, numbers and views among them: enough for everything that people write, and a bound for what machines do.
pub(crate) const MAX_VALUES: usize = 256;

/// Most buffers of a kernel: as many as a task carries inline. Larger expressions are split.
pub(crate) const MAX_POINTERS: usize = 8;

/// Rows so few are not reduced within the kernel that uses the result, if they are long: one kernel of long rows
/// each read several times is slower than two. Where their length is known they are reduced in parts
/// ([`stages`](super::stages)).
pub(crate) const FEW_ROWS: i64 = 16;

/// See [`FEW_ROWS`].
pub(crate) const LONG_ROW: i64 = 1 << 16;

/// How a group needs a node.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    /// The element at an index along each axis.
    At(Rc<Map>),
    /// The same, of one side of a product: through views of a buffer.
    Side(Rc<Map>),
    /// The element at a flat index: the node is a buffer.
    Flat(Affine),
    /// What the group itself stores, where it stores it: rounded as its buffer holds it.
    Stored,
    /// All of it, as a buffer. Where a group indexes it, it is by the map but along one axis.
    Whole(Option<Rc<Map>>),
}

/// What a group makes of a node.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) reach: ReachId,
    pub(crate) node: Local,
    pub(crate) how: Reach,
    /// What it is computed from. None for what is loaded or generated.
    pub(crate) operands: SmallVec<[ReachId; 3]>,
    pub(crate) computed: bool,
}

/// What becomes of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A nest.
    Nest,
    /// A nest whose inner axis is in order: it scatters. Nothing is reduced in it.
    Ordered,
    /// A product of matrices.
    Product,
    /// A kernel of a user.
    Call,
}

/// Where a group stores.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    /// The node whose buffer it is.
    pub(crate) node: Local,
    /// Where the element lies in the buffer.
    pub(crate) address: Affine,
    /// Which value is stored.
    pub(crate) value: ReachId,
    /// The index of a scatter, how far apart neighbours along its axis are, how many there are, and whether values are added.
    pub(crate) scatter: Option<(ReachId, Size, Size, bool)>,
    /// Is only a part of the buffer stored to?
    pub(crate) partial: bool,
}

impl Sink {
    /// Whether a group that stores here may leave bytes of the buffer as they are. A buffer whose length depends on symbols has
    /// room for the greatest, and a run fills as much of it as its lengths say.
    pub(crate) fn stores_in_part(&self, walk: &Walk) -> bool {
        let shape = &walk.node(self.node).shape;
        self.partial
            || self.scatter.is_some()
            || shape.iter().any(|length| length.known().is_none())
    }
}

/// A kernel while it is made.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    pub(crate) axes: Axes,
    pub(crate) sink: Sink,
    /// The sinks of the groups that it has taken in ([`sinks`](super::sinks)).
    pub(crate) others: Vec<Sink>,
    /// What uses comes before what is used.
    pub(crate) members: Vec<Member>,
    /// Reaches that have not been looked at. None left: the group is complete.
    pub(crate) pending: usize,
    /// The nodes that it needs, and the place of each need among those of its node.
    pub(crate) needs: Vec<(Local, u32)>,
    /// Buffers that it loads, or may have to.
    pub(crate) pointers: usize,
    /// The product that it is the epilogue of.
    pub(crate) product: Option<Local>,
    /// What the product, or the call, is of.
    pub(crate) arguments: SmallVec<[ReachId; 3]>,
}

impl Group {
    pub(crate) fn new(kind: Kind, axes: Axes, sink: Sink) -> Self {
        Self {
            kind,
            axes,
            sink,
            others: Vec::new(),
            members: Vec::new(),
            pending: 0,
            needs: Vec::new(),
            // The one that it stores to.
            pointers: 1,
            product: None,
            arguments: SmallVec::new(),
        }
    }

    /// Everything that it stores.
    pub(crate) fn sinks(&self) -> impl Iterator<Item = &Sink> {
        [&self.sink].into_iter().chain(&self.others)
    }

    /// Is there room for another value that needs so many more buffers?
    pub(crate) fn has_room(&self, pointers: usize) -> bool {
        self.members.len() < MAX_VALUES && self.pointers + pointers <= MAX_POINTERS
    }

    /// Where the operands of `node` are, if the group takes it in. None if it cannot: then the node gets a buffer.
    pub(crate) fn operands(
        &mut self,
        node: &Seen,
        shapes: &[&Shape],
        reach: &Reach,
    ) -> Option<SmallVec<[Reach; 3]>> {
        match reach {
            Reach::At(map) if node.is_view() => {
                let viewed = self.viewed(node, shapes[0], map, true)?;
                Some(SmallVec::from_iter([viewed]))
            }
            Reach::Side(map) if node.is_view() => {
                let viewed = match self.viewed(node, shapes[0], map, false)? {
                    Reach::At(map) => Reach::Side(map),
                    other => other,
                };
                Some(SmallVec::from_iter([viewed]))
            }
            // Reshaped, or broadcast to its own shape, it is the same element and the same buffer.
            Reach::Flat(_) | Reach::Whole(None)
                if matches!(node.op, Op::Reshape | Op::Detach)
                    || (matches!(node.op, Op::Broadcast) && *shapes[0] == node.shape) =>
            {
                Some(SmallVec::from_iter([reach.clone()]))
            }
            Reach::At(map) => self.computed(node, shapes, map),
            _ => None,
        }
    }

    /// Where the operands of a node that is computed are.
    fn computed(
        &mut self,
        node: &Seen,
        shapes: &[&Shape],
        map: &Rc<Map>,
    ) -> Option<SmallVec<[Reach; 3]>> {
        match &node.op {
            _ if node.is_elementwise() => {
                Some(shapes.iter().map(|_| Reach::At(map.clone())).collect())
            }
            Op::Reduce(_) if self.kind == Kind::Nest && self.product.is_none() => {
                let operand = self.reduced(&node.shape, shapes[0], map)?;
                Some(SmallVec::from_iter([Reach::At(Rc::new(operand))]))
            }
            Op::Gather { .. } => {
                let base = Reach::Whole(Some(map.clone()));
                Some(SmallVec::from_iter([base, Reach::At(map.clone())]))
            }
            _ => None,
        }
    }

    /// Where what a view is of is.
    fn viewed(
        &mut self,
        node: &Seen,
        from: &Shape,
        map: &Rc<Map>,
        may_split: bool,
    ) -> Option<Reach> {
        let at = |map: Map| Some(Reach::At(Rc::new(map)));
        match &node.op {
            Op::Broadcast => {
                let missing = node.shape.rank() - from.rank();
                let lengths = node.shape[missing..].iter().zip(from.iter());
                let axes = map[missing..].iter().zip(lengths);
                at(axes
                    .map(|(index, (to, from))| {
                        if from == to {
                            index.clone()
                        } else {
                            Affine::zero()
                        }
                    })
                    .collect())
            }
            Op::Detach => Some(Reach::At(map.clone())),
            Op::Permute(order) => {
                let mut permuted = vec![Affine::zero(); map.len()];
                for (index, axis) in map.iter().zip(order) {
                    permuted[usize::from(*axis)] = index.clone();
                }
                at(permuted)
            }
            Op::Narrow { axis, start } => {
                let mut moved = (**map).clone();
                moved[*axis].constant = moved[*axis].constant.plus(start)?;
                at(moved)
            }
            Op::Parts { axis, step } => {
                let mut whole = (**map).clone();
                let within = whole.remove(axis + 1);
                let part = std::mem::replace(&mut whole[*axis], within);
                whole[*axis].add(&part, &Size::fixed(*step))?;
                at(whole)
            }
            Op::Reshape => {
                let may_split = may_split && self.kind == Kind::Nest && self.product.is_none();
                match self.axes.reshaped(map, &node.shape, from, may_split) {
                    Some(reshaped) => at(reshaped),
                    None => Some(Reach::Flat(Affine::flat(map, &node.shape)?)),
                }
            }
            _ => None,
        }
    }

    /// Where the operand of a reduction is, if its rows are those of the group, or the group has none yet.
    fn reduced(&mut self, to: &Shape, from: &Shape, map: &[Affine]) -> Option<Map> {
        let reduced: Vec<usize> = (0..from.rank())
            .filter(|axis| from[*axis] != to[*axis])
            .collect();
        let mut used = Vec::new();
        for index in map {
            used.extend(
                self.axes
                    .resolve(index)?
                    .terms
                    .into_iter()
                    .map(|(axis, _)| axis),
            );
        }
        let (outer, mut inner) = (self.axes.outer(), self.axes.inner());
        if used.iter().any(|axis| inner.contains(axis)) {
            return None;
        }
        let unused: Vec<_> = outer
            .iter()
            .copied()
            .filter(|axis| !used.contains(axis))
            .collect();
        if self.axes.has_inner() {
            if !unused.is_empty() {
                return None;
            }
        } else if unused.is_empty() {
            inner = reduced
                .iter()
                .map(|axis| self.axes.add_inner(from[*axis].clone()))
                .collect();
        } else {
            inner = unused;
        }
        let lengths = inner.iter().map(|axis| self.axes.length(*axis));
        if !lengths.eq(reduced.iter().map(|axis| &from[*axis])) {
            return None;
        }
        if !self.axes.has_inner() {
            let rows = outer.iter().filter(|axis| !inner.contains(axis));
            let rows = Size::product(rows.map(|axis| self.axes.length(*axis)))?;
            let row = Size::product(reduced.iter().map(|axis| &from[*axis]))?;
            if rows.max()? < FEW_ROWS && row.max()? > LONG_ROW {
                return None;
            }
            self.axes.turn_in(&inner);
        }
        let mut operand = map.to_vec();
        for (axis, inner) in reduced.iter().zip(inner) {
            operand[*axis] = Affine::axis(inner);
        }
        Some(operand)
    }
}
