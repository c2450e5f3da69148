//! Views: the same elements in another shape. None of them costs anything by itself.

use std::panic::Location;

use smallvec::SmallVec;

use crate::error::Why;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::axis_of;
use crate::lazy::node::Op;
use crate::shape::Shape;
use crate::size::Size;

impl LazyBuffer {
    /// Axes of length 1 repeated, and axes put in front, to make this shape.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> LazyBuffer {
        let (shape, at) = (shape.into(), Location::caller());
        if self.shape() == shape {
            return self.same_values("broadcast", at);
        }
        self.expand(&shape, at)
    }

    /// A buffer of its own with these values, as an operation makes it that has nothing to do for these lengths. What is
    /// stored into it is not stored into this one, as with any other lengths.
    pub(crate) fn same_values(
        &self,
        name: &'static str,
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        LazyBuffer::of(name, [self], at, |[held]| {
            Ok((Op::Broadcast, held.dtype(), held.shape().clone()))
        })
    }

    /// To a shape with as many axes or more.
    pub(crate) fn expand(&self, shape: &Shape, at: &'static Location<'static>) -> LazyBuffer {
        if self.error().is_some() || self.shape() == *shape {
            return self.clone();
        }
        LazyBuffer::of("broadcast", [self], at, |[held]| {
            if !held.shape().broadcasts_to(shape) {
                return Err(Why::Broadcast);
            }
            Ok((Op::Broadcast, held.dtype(), shape.clone()))
        })
    }

    /// The same elements in row-major order, in another shape of as many elements. One length may be -1: that which makes it as
    /// many.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> LazyBuffer {
        let (mut shape, at) = (shape.into(), Location::caller());
        if let Some(axis) = shape.iter().position(|length| length.is(-1))
            && let Some(inferred) = self.inferred(&shape, axis)
        {
            let mut lengths = shape.to_vec();
            lengths[axis] = inferred;
            shape = Shape::from(lengths);
        }
        self.reshape_at("reshape", &shape, at)
    }

    /// The length of an axis with which a shape has as many elements as this.
    fn inferred(&self, shape: &Shape, axis: usize) -> Option<Size> {
        let others = shape.iter().enumerate().filter(|(other, _)| *other != axis);
        let others = Size::product(others.map(|(_, length)| length))?;
        self.shape().elements()?.divided_by(&others)
    }

    pub(crate) fn reshape_at(
        &self,
        name: &'static str,
        shape: &Shape,
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        LazyBuffer::of(name, [self], at, |[held]| {
            let here = held.shape().elements().ok_or(Why::TooLarge)?;
            let there = shape.elements().ok_or(Why::TooLarge)?;
            if here != there {
                let to = shape.clone();
                return Err(Why::Elements { to, here, there });
            }
            Ok((Op::Reshape, held.dtype(), shape.clone()))
        })
    }

    /// One axis cut into several, whose lengths multiply to its.
    #[track_caller]
    pub fn split_axis(&self, axis: isize, lengths: impl Into<Shape>) -> LazyBuffer {
        let (at, lengths, mine) = (Location::caller(), lengths.into(), self.shape());
        let Ok(axis) = axis_of(axis, mine.rank()) else {
            return self.no_axis("split_axis", axis, at);
        };
        let shape = [&mine[..axis], &lengths, &mine[axis + 1..]].concat();
        self.reshape_at("split_axis", &Shape::from(shape), at)
    }

    /// Neighbouring axes made one.
    #[track_caller]
    pub fn merge_axes(&self, first: isize, last: isize) -> LazyBuffer {
        let (at, mine) = (Location::caller(), self.shape());
        let ends = (axis_of(first, mine.rank()), axis_of(last, mine.rank()));
        match ends {
            (Ok(start), Ok(end)) if start <= end => match Size::product(&mine[start..=end]) {
                Some(merged) => {
                    let shape = [&mine[..start], &[merged], &mine[end + 1..]].concat();
                    self.reshape_at("merge_axes", &Shape::from(shape), at)
                }
                None => self.clone(),
            },
            (Err(_), _) => self.no_axis("merge_axes", first, at),
            _ => self.no_axis("merge_axes", last, at),
        }
    }

    /// An axis of length 1 put before axis `axis`; negative ones count from behind the last.
    #[track_caller]
    pub fn unsqueeze(&self, axis: isize) -> LazyBuffer {
        let (at, mine) = (Location::caller(), self.shape());
        let Ok(axis) = axis_of(axis, mine.rank() + 1) else {
            return self.no_axis("unsqueeze", axis, at);
        };
        let shape = [&mine[..axis], &[Size::ONE], &mine[axis..]].concat();
        self.reshape_at("unsqueeze", &Shape::from(shape), at)
    }

    /// An axis of length 1 taken away.
    #[track_caller]
    pub fn squeeze(&self, axis: isize) -> LazyBuffer {
        let (at, mine) = (Location::caller(), self.shape());
        let Ok(axis) = axis_of(axis, mine.rank()) else {
            return self.no_axis("squeeze", axis, at);
        };
        let shape = [&mine[..axis], &mine[axis + 1..]].concat();
        self.reshape_at("squeeze", &Shape::from(shape), at)
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]`.
    #[track_caller]
    pub fn permute(&self, axes: impl AsRef<[isize]>) -> LazyBuffer {
        let axes = axes.as_ref();
        LazyBuffer::of("permute", [self], Location::caller(), |[held]| {
            let rank = held.shape().rank();
            let misnamed = || Why::Axes {
                axes: axes.to_vec(),
                rank,
            };
            let mut order: SmallVec<[u8; 8]> = SmallVec::new();
            for axis in axes {
                let axis = axis_of(*axis, rank)? as u8;
                if order.contains(&axis) {
                    return Err(misnamed());
                }
                order.push(axis);
            }
            if order.len() != rank {
                return Err(misnamed());
            }
            let lengths = order.iter().map(|axis| &held.shape()[usize::from(*axis)]);
            let shape = Shape::new(lengths);
            Ok((Op::Permute(order), held.dtype(), shape))
        })
    }

    /// Two axes exchanged.
    #[track_caller]
    pub fn transpose(&self, first: isize, second: isize) -> LazyBuffer {
        let (at, rank) = (Location::caller(), self.rank());
        match (axis_of(first, rank), axis_of(second, rank)) {
            (Ok(first), Ok(second)) => {
                let mut axes: Vec<isize> = (0..rank as isize).collect();
                axes.swap(first, second);
                self.permute(axes)
            }
            (Err(_), _) => self.no_axis("transpose", first, at),
            _ => self.no_axis("transpose", second, at),
        }
    }

    /// The last two axes exchanged.
    #[track_caller]
    pub fn t(&self) -> LazyBuffer {
        self.transpose(-2, -1)
    }

    /// The elements `start..start + len` along an axis. Both may depend on symbols.
    #[track_caller]
    pub fn narrow(&self, axis: isize, start: impl Into<Size>, len: impl Into<Size>) -> LazyBuffer {
        let (start, len) = (start.into(), len.into());
        LazyBuffer::of("narrow", [self], Location::caller(), |[held]| {
            let axis = axis_of(axis, held.shape().rank())?;
            check_range(&start, &len, &held.shape()[axis])?;
            let mut lengths = held.shape().to_vec();
            lengths[axis] = len.clone();
            let op = Op::Narrow {
                axis,
                start: start.clone(),
            };
            Ok((op, held.dtype(), Shape::from(lengths)))
        })
    }

    pub(crate) fn no_axis(
        &self,
        op: &'static str,
        axis: isize,
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        match self.held() {
            Ok(held) => {
                let rank = held.shape().rank();
                let operand = (held.dtype(), held.shape().clone());
                LazyBuffer::refused(op, [operand], Why::Axis { axis, rank }, at)
            }
            Err(_) => self.clone(),
        }
    }
}

/// Does `start..start + len` lie in an axis of this length, whatever the symbols are?
pub(crate) fn check_range(start: &Size, len: &Size, axis: &Size) -> Result<(), Why> {
    for size in [start, len] {
        if size.min().is_none_or(|least| least < 0) {
            return Err(Why::Negative(size.clone()));
        }
    }
    let reach = start.plus(len).ok_or(Why::TooLarge)?;
    let left = axis.minus(&reach).ok_or(Why::TooLarge)?;
    if left.min().is_none_or(|least| least < 0) {
        let (what, there) = ("row", axis.clone());
        return Err(Why::OutOfBounds { what, reach, there });
    }
    Ok(())
}
