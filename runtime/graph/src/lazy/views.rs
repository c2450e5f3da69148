//! Views: the same elements in another shape, at no cost.

use std::panic::Location;

use smallvec::SmallVec;

use crate::error::{At, Why, why};
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::axis_of;
use crate::lazy::node::Op;
use crate::shape::Shape;
use crate::size::Size;

impl LazyBuffer {
    /// Repeats axes of length 1 and adds axes in front, to get this shape.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> LazyBuffer {
        let (shape, at) = (shape.into(), Location::caller());
        if self.shape() == shape {
            return self.same_values("broadcast_to", at);
        }
        self.expand("broadcast_to", &shape, at)
    }

    /// Returns a separate node with these values, for an operation that has nothing to do for these lengths. As for any
    /// other lengths, a store into the result is not a store into this buffer.
    pub(crate) fn same_values(&self, name: &'static str, at: At) -> LazyBuffer {
        LazyBuffer::of(name, [self], at, |[node_ref]| {
            Ok((Op::Broadcast, node_ref.dtype(), node_ref.shape().clone()))
        })
    }

    /// Broadcasts to a shape with as many axes or more.
    pub(crate) fn expand(&self, name: &'static str, shape: &Shape, at: At) -> LazyBuffer {
        if self.error().is_some() || self.shape() == *shape {
            return self.clone();
        }
        LazyBuffer::of(name, [self], at, |[node_ref]| {
            if node_ref.shape().broadcast(shape).as_ref() != Some(shape) {
                return Err(why::BROADCAST);
            }
            Ok((Op::Broadcast, node_ref.dtype(), shape.clone()))
        })
    }

    /// Returns the same elements in row-major order in another shape with as many elements. One length may be -1: it is
    /// inferred.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> LazyBuffer {
        let to = shape.into();
        self.reshape_with("reshape", Location::caller(), |mine| {
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

    pub(crate) fn reshape_at(&self, name: &'static str, shape: &Shape, at: At) -> LazyBuffer {
        self.reshape_with(name, at, |_| Ok(shape.clone()))
    }

    /// Reshapes to the shape that `to` returns for the shape of this buffer.
    fn reshape_with(
        &self,
        name: &'static str,
        at: At,
        to: impl FnOnce(&Shape) -> Result<Shape, Why>,
    ) -> LazyBuffer {
        LazyBuffer::of(name, [self], at, |[node_ref]| {
            let to = to(node_ref.shape())?;
            let here = node_ref.shape().elements().ok_or(why::TOO_LARGE)?;
            let is_negative = |length: &&Size| length.min().is_none_or(|least| least < 0);
            if let Some(negative) = to.iter().find(is_negative) {
                return Err(why::negative(negative));
            }
            let there = to.elements().ok_or(why::TOO_LARGE)?;
            if here != there {
                return Err(why::elements(&to, &here, &there));
            }
            Ok((Op::Reshape, node_ref.dtype(), to))
        })
    }

    /// Splits an axis into several, the product of whose lengths is its length.
    #[track_caller]
    pub fn split_axis(&self, axis: isize, lengths: impl Into<Shape>) -> LazyBuffer {
        let lengths = lengths.into();
        self.reshape_with("split_axis", Location::caller(), |mine| {
            let axis = axis_of(axis, mine.rank())?;
            Ok([&mine[..axis], &lengths, &mine[axis + 1..]].concat().into())
        })
    }

    /// Merges neighbouring axes into one.
    #[track_caller]
    pub fn merge_axes(&self, first: isize, last: isize) -> LazyBuffer {
        self.reshape_with("merge_axes", Location::caller(), |mine| {
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
        self.reshape_with("unsqueeze", Location::caller(), |mine| {
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
        self.reshape_with("squeeze", Location::caller(), |mine| {
            let axis = axis_of(axis, mine.rank())?;
            Ok([&mine[..axis], &mine[axis + 1..]].concat().into())
        })
    }

    /// Reorders the axes: axis `i` of the result is axis `axes[i]`.
    #[track_caller]
    pub fn permute(&self, axes: impl AsRef<[isize]>) -> LazyBuffer {
        let axes = axes.as_ref();
        LazyBuffer::of("permute", [self], Location::caller(), |[node_ref]| {
            let rank = node_ref.shape().rank();
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
            let lengths = order
                .iter()
                .map(|axis| &node_ref.shape()[usize::from(*axis)]);
            let shape = Shape::new(lengths);
            Ok((Op::Permute(order), node_ref.dtype(), shape))
        })
    }

    /// Exchanges two axes.
    #[track_caller]
    pub fn transpose(&self, first: isize, second: isize) -> LazyBuffer {
        LazyBuffer::composed("transpose", &[self], Location::caller(), || {
            let rank = self.rank();
            let mut axes: Vec<isize> = (0..rank as isize).collect();
            axes.swap(axis_of(first, rank)?, axis_of(second, rank)?);
            Ok(self.permute(axes))
        })
    }

    /// Exchanges the last two axes.
    #[track_caller]
    pub fn t(&self) -> LazyBuffer {
        let at = Location::caller();
        self.transpose(-2, -1).named("t", &[self], at)
    }

    /// Returns the elements `start..start + len` along an axis. Both may depend on symbols.
    #[track_caller]
    pub fn narrow(&self, axis: isize, start: impl Into<Size>, len: impl Into<Size>) -> LazyBuffer {
        let (start, len) = (start.into(), len.into());
        LazyBuffer::of("narrow", [self], Location::caller(), |[node_ref]| {
            let axis = axis_of(axis, node_ref.shape().rank())?;
            check_range(&start, &len, &node_ref.shape()[axis])?;
            let mut lengths = node_ref.shape().to_vec();
            lengths[axis] = len.clone();
            let op = Op::Narrow {
                axis,
                start: start.clone(),
            };
            Ok((op, node_ref.dtype(), Shape::from(lengths)))
        })
    }
}

/// Checks that `start..start + len` is within an axis of this length, for all values of the symbols.
pub(crate) fn check_range(start: &Size, len: &Size, axis: &Size) -> Result<(), Why> {
    for size in [start, len] {
        if size.min().is_none_or(|least| least < 0) {
            return Err(why::negative(size));
        }
    }
    let reach = start.plus(len).ok_or(why::TOO_LARGE)?;
    let left = axis.minus(&reach).ok_or(why::TOO_LARGE)?;
    if left.min().is_none_or(|least| least < 0) {
        return Err(why::out_of_bounds("row", &reach, axis));
    }
    Ok(())
}
