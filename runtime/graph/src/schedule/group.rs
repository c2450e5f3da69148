//! A kernel under construction: the nodes that it computes, and the place of each in terms of its axes.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes, AxisId, Map};
use crate::schedule::walk::{Local, Walk, WalkNode};
use crate::shape::Shape;
use crate::size::Size;

/// The index of a group among the open groups.
pub(crate) type GroupId = usize;

/// The id of one use of a node by one group.
pub(crate) type UseId = u32;

/// The most values of a kernel, numbers and views included: enough for hand-written expressions, and a bound for
/// generated ones.
pub(crate) const MAX_VALUES: usize = 256;

/// The most buffers of a kernel: as many as a task carries inline. Larger expressions are split.
pub(crate) const MAX_POINTERS: usize = 8;

/// Fewer rows than these are not reduced within the kernel that uses the result if they are long ([`LONG_ROW`]): one
/// kernel that reads each long row several times is slower than two kernels. If the length is known, the reduction is
/// split ([`two_stage`](super::two_stage)).
pub(crate) const FEW_ROWS: i64 = 16;

/// Rows of more elements than these are long. See [`FEW_ROWS`].
pub(crate) const LONG_ROW: i64 = 1 << 16;

/// The elements of a node that a group uses.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum AccessPattern {
    /// The element at this index along each axis.
    At(Rc<Map>),
    /// The same for a side of a product, which is a buffer behind views.
    Side(Rc<Map>),
    /// The element at this row-major index: the node is a buffer, or a reshaped one. All elements that a group loads.
    Flat(Affine),
    /// The value that the group itself stores to the node's buffer, rounded to the type of the buffer.
    Stored,
    /// The whole node, as a buffer. If the group gathers from it: at this index along each axis but the gathered one.
    Whole(Option<Rc<Map>>),
    /// The whole node, as the buffer that a kernel of a user updates: never the buffer of another node behind a view.
    Updated,
}

impl AccessPattern {
    /// Returns the pattern with other indices.
    pub(crate) fn mapped(&self, of: &dyn Fn(&Affine) -> Option<Affine>) -> Option<Self> {
        let all = |map: &Rc<Map>| map.iter().map(of).collect::<Option<Map>>().map(Rc::new);
        Some(match self {
            AccessPattern::At(map) => AccessPattern::At(all(map)?),
            AccessPattern::Side(map) => AccessPattern::Side(all(map)?),
            AccessPattern::Flat(flat) => AccessPattern::Flat(of(flat)?),
            AccessPattern::Whole(Some(map)) => AccessPattern::Whole(Some(all(map)?)),
            AccessPattern::Whole(None) | AccessPattern::Updated | AccessPattern::Stored => {
                self.clone()
            }
        })
    }
}

/// A node in a group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) use_id: UseId,
    pub(crate) node: Local,
    pub(crate) pattern: AccessPattern,
    /// The uses that it is computed from. Empty if it is loaded or generated.
    pub(crate) operands: SmallVec<[UseId; 3]>,
    pub(crate) computed: bool,
}

/// A store of a group.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    /// The node whose buffer receives the value.
    pub(crate) node: Local,
    /// The place of the element in the buffer.
    pub(crate) address: Affine,
    /// The value.
    pub(crate) value: UseId,
    /// For a scatter: its index, the stride and the length of the scattered axis, and whether values are added.
    pub(crate) scatter: Option<(UseId, Size, Size, bool)>,
    /// Whether the store covers only a part of the buffer.
    pub(crate) partial: bool,
}

impl Sink {
    /// Creates a store of all elements of a node.
    pub(crate) fn new(node: Local, address: Affine) -> Self {
        Self {
            node,
            address,
            value: 0,
            scatter: None,
            partial: false,
        }
    }

    /// Returns `true` if this store may leave bytes of the buffer unchanged. A buffer whose length depends on symbols
    /// is as large as the greatest length, and a run fills only its own lengths.
    pub(crate) fn stores_in_part(&self, walk: &Walk) -> bool {
        let shape = &walk.node(self.node).shape;
        self.partial
            || self.scatter.is_some()
            || shape.iter().any(|length| length.known().is_none())
    }
}

/// A kernel under construction.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) axes: Axes,
    /// The store, and behind it those of groups that were merged into this one
    /// ([`multi_output`](super::multi_output)).
    pub(crate) sinks: SmallVec<[Sink; 1]>,
    /// The members: users come before their operands.
    pub(crate) members: Vec<Member>,
    /// The number of uses whose node is not visited yet. At 0 the group is complete.
    pub(crate) pending: usize,
    /// The nodes that the group uses, with the index of each use among those of its node.
    pub(crate) uses: Vec<(Local, u32)>,
    /// The number of buffers that the group accesses or may have to load.
    pub(crate) pointers: usize,
    /// The product whose epilogue the group is.
    pub(crate) product: Option<Local>,
    /// The operands of the product or of the call.
    pub(crate) arguments: SmallVec<[UseId; 3]>,
}

impl Group {
    pub(crate) fn new(axes: Axes, sink: Sink) -> Self {
        Self {
            axes,
            sinks: SmallVec::from_iter([sink]),
            members: Vec::new(),
            pending: 0,
            uses: Vec::new(),
            // The buffer that it stores to.
            pointers: 1,
            product: None,
            arguments: SmallVec::new(),
        }
    }

    /// Returns the store that the group was opened for.
    pub(crate) fn sink(&self) -> &Sink {
        &self.sinks[0]
    }

    /// Replaces split axes by their parts in all members and sinks of a complete group. `None` if a size overflows.
    pub(crate) fn resolve(&mut self) -> Option<()> {
        let axes = &self.axes;
        if axes.are_split() {
            for member in &mut self.members {
                member.pattern = member.pattern.mapped(&|index| axes.resolve(index))?;
            }
            for sink in &mut self.sinks {
                sink.address = axes.resolve(&sink.address)?;
            }
        }
        Some(())
    }

    /// Returns the member that loads or binds what a use reads through views.
    pub(crate) fn loaded(&self, mut use_id: UseId) -> Option<&Member> {
        loop {
            let mut members = self.members.iter();
            let member = members.find(|member| member.use_id == use_id)?;
            match member.operands.first() {
                Some(operand) if member.computed => use_id = *operand,
                _ => return Some(member),
            }
        }
    }

    /// Returns `true` if the group may reduce, and split its axes: it is no product, and no scatter, whose inner axis runs
    /// in order.
    fn has_free_axes(&self) -> bool {
        self.product.is_none() && self.sink().scatter.is_none()
    }

    /// Returns `true` if the limits admit another value that needs `pointers` more buffers.
    pub(crate) fn fits(&self, pointers: usize) -> bool {
        self.members.len() < MAX_VALUES && self.pointers + pointers <= MAX_POINTERS
    }

    /// Returns the accesses to the operands of `node` if the group computes it. `None` if it cannot; then the node is
    /// materialized.
    pub(crate) fn operands(
        &mut self,
        node: &WalkNode,
        shapes: &[&Shape],
        pattern: &AccessPattern,
    ) -> Option<SmallVec<[AccessPattern; 3]>> {
        match pattern {
            AccessPattern::At(map) | AccessPattern::Side(map) if node.is_view() => {
                let is_side = matches!(pattern, AccessPattern::Side(_));
                let operand = match self.through_view(node, shapes[0], map, !is_side)? {
                    AccessPattern::At(map) if is_side => AccessPattern::Side(map),
                    other => other,
                };
                Some(SmallVec::from_iter([operand]))
            }
            // A reshape, or a broadcast to the same shape, has the same elements in the same buffer.
            AccessPattern::Flat(_) | AccessPattern::Whole(None)
                if matches!(node.op, Op::Reshape | Op::Detach)
                    || (matches!(node.op, Op::Broadcast) && *shapes[0] == node.shape) =>
            {
                Some(SmallVec::from_iter([pattern.clone()]))
            }
            AccessPattern::At(map) => self.computed(node, shapes, map),
            _ => None,
        }
    }

    /// Returns the accesses to the operands of a node that is no view.
    fn computed(
        &mut self,
        node: &WalkNode,
        shapes: &[&Shape],
        map: &Rc<Map>,
    ) -> Option<SmallVec<[AccessPattern; 3]>> {
        match &node.op {
            _ if node.is_elementwise() => {
                let at = shapes.iter().map(|_| AccessPattern::At(map.clone()));
                Some(at.collect())
            }
            Op::Reduce(_) if self.has_free_axes() => {
                let operand = self.reduction_operand(&node.shape, shapes[0], map)?;
                Some(SmallVec::from_iter([AccessPattern::At(Rc::new(operand))]))
            }
            Op::Gather { .. } => {
                let base = AccessPattern::Whole(Some(map.clone()));
                Some(SmallVec::from_iter([base, AccessPattern::At(map.clone())]))
            }
            _ => None,
        }
    }

    /// Returns the access to the operand of a view.
    fn through_view(
        &mut self,
        node: &WalkNode,
        from: &Shape,
        map: &Rc<Map>,
        may_split: bool,
    ) -> Option<AccessPattern> {
        let at = |map: Map| Some(AccessPattern::At(Rc::new(map)));
        match &node.op {
            Op::Broadcast => {
                let missing = node.shape.rank() - from.rank();
                let lengths = node.shape[missing..].iter().zip(from.iter());
                let axes = map[missing..].iter().zip(lengths);
                let axes = axes.map(|(index, (to, from))| match from == to {
                    true => index.clone(),
                    false => Affine::zero(),
                });
                at(axes.collect())
            }
            Op::Detach => Some(AccessPattern::At(map.clone())),
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
                let may_split = may_split && self.has_free_axes();
                match self.axes.reshaped(map, &node.shape, from, may_split) {
                    Some(reshaped) => at(reshaped),
                    None => Some(AccessPattern::Flat(Affine::flat(map, &node.shape)?)),
                }
            }
            _ => None,
        }
    }

    /// Returns the index map of the operand of a reduction, if the group reduces the same rows, or reduces nothing yet.
    fn reduction_operand(&mut self, to: &Shape, from: &Shape, map: &[Affine]) -> Option<Map> {
        let reduced: Vec<usize> = (0..from.rank())
            .filter(|axis| from[*axis] != to[*axis])
            .collect();
        let mut used = Vec::new();
        for index in map {
            let terms = self.axes.resolve(index)?.terms;
            used.extend(terms.into_iter().map(|(axis, _)| axis));
        }
        let (outer, mut inner) = (self.axes.outer(), self.axes.inner());
        if used.iter().any(|axis| inner.contains(axis)) {
            return None;
        }
        let unused = outer.iter().copied().filter(|axis| !used.contains(axis));
        let unused: Vec<AxisId> = unused.collect();
        if self.axes.has_inner() {
            if !unused.is_empty() {
                return None;
            }
        } else if unused.is_empty() {
            let lengths = reduced.iter().map(|axis| from[*axis].clone());
            inner = lengths.map(|length| self.axes.add_inner(length)).collect();
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
            self.axes.make_inner(&inner);
        }
        let mut operand = map.to_vec();
        for (axis, inner) in reduced.iter().zip(inner) {
            operand[*axis] = Affine::axis(inner);
        }
        Some(operand)
    }
}
