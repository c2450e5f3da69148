//! Shapes: the lengths of axes, shared by all nodes of one shape.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::size::Size;

/// The most axes of a buffer.
pub const MAX_RANK: usize = 8;

/// The lengths of a buffer's axes, slowest first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Shape(Arc<[Size]>);

impl Shape {
    /// Creates a shape of these lengths.
    pub fn new(lengths: impl IntoIterator<Item = impl Into<Size>>) -> Self {
        Self(lengths.into_iter().map(Into::into).collect())
    }

    /// Creates the shape of one number: no axes.
    pub fn scalar() -> Self {
        Self(Arc::new([]))
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of elements, or `None` if it overflows.
    pub fn elements(&self) -> Option<Size> {
        Size::product(self.iter())
    }

    /// Returns the lengths, if none depends on a symbol.
    pub fn known(&self) -> Option<Vec<u64>> {
        let known = |size: &Size| size.known().and_then(|length| u64::try_from(length).ok());
        self.iter().map(known).collect()
    }

    /// Returns the row-major strides, in elements, or `None` if one overflows.
    pub fn dense_strides(&self) -> Option<Vec<Size>> {
        let mut strides = vec![Size::ONE; self.rank()];
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis].times(&self[axis])?;
        }
        Some(strides)
    }

    /// Returns the shape that both broadcast to: axes are matched from the last, and one of two lengths may be 1.
    pub(crate) fn broadcast(&self, other: &Shape) -> Option<Shape> {
        if self == other || other.rank() == 0 {
            return Some(self.clone());
        }
        let rank = self.rank().max(other.rank());
        let axis = |shape: &Shape, axis: usize| match (axis + shape.rank()).checked_sub(rank) {
            Some(index) => shape[index].clone(),
            None => Size::ONE,
        };
        let lengths = (0..rank).map(|index| {
            let (a, b) = (axis(self, index), axis(other, index));
            match (a == b, a.is(1), b.is(1)) {
                (true, ..) | (_, _, true) => Some(a),
                (_, true, _) => Some(b),
                _ => None,
            }
        });
        Some(Shape(lengths.collect::<Option<Vec<Size>>>()?.into()))
    }
}

impl Deref for Shape {
    type Target = [Size];

    fn deref(&self) -> &[Size] {
        &self.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (axis, length) in self.iter().enumerate() {
            let comma = if axis > 0 { ", " } else { "" };
            write!(f, "{comma}{length}")?;
        }
        f.write_str("]")
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}

impl<S: Into<Size>, const N: usize> From<[S; N]> for Shape {
    fn from(lengths: [S; N]) -> Self {
        Shape::new(lengths)
    }
}

impl<S: Into<Size>> From<Vec<S>> for Shape {
    fn from(lengths: Vec<S>) -> Self {
        Shape::new(lengths)
    }
}
