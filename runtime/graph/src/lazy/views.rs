//! Views: the same elements in another shape, at no cost.

use smallvec::SmallVec;

use crate::error::{By, Why, why};
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::axis_of;
use crate::lazy::node::Op;
use crate::shape::Shape;
use crate::size::Size;

impl LazyBuffer {
    /// Repeats axes of length 1 and adds axes in front, to get this shape.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> LazyBuffer {
        let (shape, by) = (shape.into(), By::new("broadcast_to"));
        if self.shape() == shape {
            return self.same_values(by);
        }
        self.expand(by, &shape)
    }

    /// Returns a separate node with these values, for an operation that has nothing to do for these lengths. As for any
    /// other lengths, a store into the result is not a store into this buffer.
    pub(crate) fn same_values(&self, by: By) -> LazyBuffer {
        LazyBuffer::of(by, [self], |[node_ref]| {
            Ok((Op::Broadcast, node_ref.dtype, node_ref.shape.clone()))
        })
    }

    /// Broadcasts to a shape with as many axes or more.
    pub(crate) fn expand(&self, by: By, shape: &Shape) -> LazyBuffer {
        if self.error().is_some() || self.shape() == *shape {
            return self.clone();
        }
        LazyBuffer::of(by, [self], |[node_ref]| {
            if node_ref.shape.broadcast(shape).as_ref() != Some(shape) {
                return Err(why::BROADCAST);
            }
            Ok((Op::Broadcast, node_ref.dtype, shape.clone()))
        })
    }

    /// Returns the same elements in row-major order in another shape with as many elements. One length may be -1: it is
    /// inferred.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> LazyBuffer {
        let to = shape.into();
        self.reshape_with(By::new("reshape"), |mine| {
            let mut open = (0..to.rank()).filter(|axis| to[*axis].is(-1));
            let Some(axis) = open.next() else {
                return Ok(to);
            };
            let here = mine.elements().ok_or(why::TOO_LARGE)?;
            if open.next().is_some() {
                return Err(format!(
                    "the lengths of {to} cannot be inferred: at most one may be -1"
                )
                .into());
            }
            let others = to.iter().enumerate().filter(|(other, _)| *other != axis);
            let others = Size::product(others.map(|(_, length)| length));
            let inferred = others.and_then(|others| here.divided_by(&others));
            let mut lengths = to.to_vec();
            lengths[axis] = inferred.ok_or_else(|| {
                format!("{here} elements do not fill {to} with any length in the place of -1")
            })?;
            Ok(Shape::from(lengths))
        })
    }

    pub(crate) fn reshape_at(&self, by: By, shape: &Shape) -> LazyBuffer {
        self.reshape_with(by, |_| Ok(shape.clone()))
    }

    /// Reshapes to the shape that `to` returns for the shape of this buffer.
    pub(crate) fn reshape_with(
        &self,
        by: By,
        to: impl FnOnce(&Shape) -> Result<Shape, Why>,
    ) -> LazyBuffer {
        LazyBuffer::of(by, [self], |[node_ref]| {
            let to = to(&node_ref.shape)?;
            let here = node_ref.shape.elements().ok_or(why::TOO_LARGE)?;
            if let Some(negative) = to.iter().find(|length| length.may_be_negative()) {
                return Err(why::negative(negative));
            }
            let there = to.elements().ok_or(why::TOO_LARGE)?;
            if here != there {
                return Err(why::elements(&to, &here, &there));
            }
            Ok((Op::Reshape, node_ref.dtype, to))
        })
    }

    /// Splits an axis into several, the product of whose lengths is its length.
    #[track_caller]
    pub fn split_axis(&self, axis: isize, lengths: impl Into<Shape>) -> LazyBuffer {
        let lengths = lengths.into();
        self.reshape_with(By::new("split_axis"), |mine| {
            let axis = axis_of(axis, mine.rank())?;
            Ok([&mine[..axis], &lengths, &mine[axis + 1..]].concat().into())
        })
    }

    /// Merges neighbouring axes into one.
    #[track_caller]
    pub fn merge_axes(&self, first: isize, last: isize) -> LazyBuffer {
        self.reshape_with(By::new("merge_axes"), |mine| {
            let rank = mine.rank();
            let (start, end) = (axis_of(first, rank)?, axis_of(last, rank)?);
            if start > end {
                return Err(why::axis(last, rank));
            }
            let merged = Size::product(&mine[start..=end]).ok_or(why::TOO_LARGE)?;
            Ok([&mine[..start], &[merged], &mine[end + 1..]]
                .concat()
                .into())
        })
    }

    /// Inserts an axis of length 1 before axis `axis`; negative ones count from behind the last.
    #[track_caller]
    pub fn unsqueeze(&self, axis: isize) -> LazyBuffer {
        self.reshape_with(By::new("unsqueeze"), |mine| {
            let rank = mine.rank();
            let place = axis_of(axis, rank + 1).map_err(|_| why::axis(axis, rank))?;
            Ok([&mine[..place], &[Size::ONE], &mine[place..]]
                .concat()
                .into())
        })
    }

    /// Removes an axis of length 1.
    #[track_caller]
    pub fn squeeze(&self, axis: isize) -> LazyBuffer {
        self.reshape_with(By::new("squeeze"), |mine| {
            let axis = axis_of(axis, mine.rank())?;
            Ok([&mine[..axis], &mine[axis + 1..]].concat().into())
        })
    }

    /// Reorders the axes: axis `i` of the result is axis `axes[i]`.
    #[track_caller]
    pub fn permute(&self, axes: impl AsRef<[isize]>) -> LazyBuffer {
        let axes = axes.as_ref();
        LazyBuffer::of(By::new("permute"), [self], |[node_ref]| {
            let rank = node_ref.shape.rank();
            let mut order: SmallVec<[u8; 8]> = SmallVec::new();
            for axis in axes {
                let axis = axis_of(*axis, rank)? as u8;
                if order.contains(&axis) {
                    return Err(why::axes(axes, rank));
                }
                order.push(axis);
            }
            if order.len() != rank {
                return Err(why::axes(axes, rank));
            }
            let lengths = order.iter().map(|axis| &node_ref.shape[usize::from(*axis)]);
            let shape = Shape::new(lengths);
            Ok((Op::Permute(order), node_ref.dtype, shape))
        })
    }

    /// Exchanges two axes.
    #[track_caller]
    pub fn transpose(&self, first: isize, second: isize) -> LazyBuffer {
        LazyBuffer::composed(By::new("transpose"), &[self], || {
            let rank = self.rank();
            let mut axes: Vec<isize> = (0..rank as isize).collect();
            axes.swap(axis_of(first, rank)?, axis_of(second, rank)?);
            Ok(self.permute(axes))
        })
    }

    /// Exchanges the last two axes.
    #[track_caller]
    pub fn t(&self) -> LazyBuffer {
        self.transpose(-2, -1).named(By::new("t"), &[self])
    }

    /// Returns the elements `start..start + len` along an axis. Both may depend on symbols.
    #[track_caller]
    pub fn narrow(&self, axis: isize, start: impl Into<Size>, len: impl Into<Size>) -> LazyBuffer {
        let (start, len) = (start.into(), len.into());
        LazyBuffer::of(By::new("narrow"), [self], |[node_ref]| {
            let axis = axis_of(axis, node_ref.shape.rank())?;
            check_range(&start, &len, &node_ref.shape[axis])?;
            let mut lengths = node_ref.shape.to_vec();
            lengths[axis] = len.clone();
            let op = Op::Narrow {
                axis,
                start: start.clone(),
            };
            Ok((op, node_ref.dtype, Shape::from(lengths)))
        })
    }
}

/// Checks that `start..start + len` is within an axis of this length, for all values of the symbols.
pub(crate) fn check_range(start: &Size, len: &Size, axis: &Size) -> Result<(), Why> {
    if let Some(negative) = [start, len].into_iter().find(|size| size.may_be_negative()) {
        return Err(why::negative(negative));
    }
    check_reach("row", &start.plus(len).ok_or(why::TOO_LARGE)?, axis)
}

/// Checks that a range of elements or rows that ends here is within this many.
pub(crate) fn check_reach(what: &str, reach: &Size, there: &Size) -> Result<(), Why> {
    match there.minus(reach).ok_or(why::TOO_LARGE)?.may_be_negative() {
        true => Err(why::out_of_bounds(what, reach, there)),
        false => Ok(()),
    }
}
