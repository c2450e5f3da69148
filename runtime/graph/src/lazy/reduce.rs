//! Reductions, and operations composed of them. Reduced axes keep length 1, so results broadcast back.

use std::panic::Location;

use millstream_ir::{DType, ReduceOp};

use crate::error::Why;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::axis_of;
use crate::lazy::node::Op;
use crate::shape::Shape;
use crate::size::Size;

/// The axes of a reduction: one, several, or all. Negative ones count from the end.
#[derive(Clone, Debug)]
pub enum Over {
    /// These axes.
    Axes(Vec<isize>),
    /// All axes.
    All,
    /// These axes, which the result does not have.
    Dropped(Box<Over>),
}

impl Over {
    /// Returns the same axes, removed from the result instead of kept with length 1.
    ///
    /// ```
    /// # use millstream_graph::{DType, Graph, Over};
    /// let x = Graph::new().input("x", DType::F32, [8, 3]);
    /// assert_eq!(x.sum(1).shape().to_string(), "[8, 1]");
    /// assert_eq!(x.sum(Over::from(1).dropped()).shape().to_string(), "[8]");
    /// ```
    pub fn dropped(self) -> Self {
        match self {
            Over::Dropped(_) => self,
            kept => Over::Dropped(Box::new(kept)),
        }
    }

    /// Returns the axes, and whether they are removed.
    fn into_axes(self) -> (Self, bool) {
        match self {
            Over::Dropped(over) => (*over, true),
            kept => (kept, false),
        }
    }
}

impl From<isize> for Over {
    fn from(axis: isize) -> Self {
        Over::Axes(vec![axis])
    }
}

impl<const N: usize> From<[isize; N]> for Over {
    fn from(axes: [isize; N]) -> Self {
        Over::Axes(axes.to_vec())
    }
}

impl From<&[isize]> for Over {
    fn from(axes: &[isize]) -> Self {
        Over::Axes(axes.to_vec())
    }
}

impl From<std::ops::RangeFull> for Over {
    fn from(_: std::ops::RangeFull) -> Self {
        Over::All
    }
}

macro_rules! reduce_methods {
    ($($(#[$doc:meta])* $method:ident => $op:ident),* $(,)?) => {
        /// Reductions. `..` reduces all axes.
        impl LazyBuffer {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $method(&self, over: impl Into<Over>) -> LazyBuffer {
                self.reduce(stringify!($method), ReduceOp::$op, over.into(), Location::caller())
            }
        )*}
    };
}

reduce_methods! {
    /// Returns sums, in the type of the elements. Sums of integers wrap.
    sum => Sum,
    /// Returns products, in the type of the elements. Products of integers wrap.
    product => Prod,
    /// Returns the greatest element; NaN if one is.
    max => Max,
    /// Returns the least element; NaN if one is.
    min => Min,
    /// Returns the index of the first greatest element, or of the first NaN, as `i64`; over several axes in row-major
    /// order.
    argmax => ArgMax,
    /// Returns the index of the first least element, or of the first NaN, as `i64`; over several axes in row-major
    /// order.
    argmin => ArgMin,
}

/// Combinations of operations.
impl LazyBuffer {
    /// Returns the mean of floats.
    #[track_caller]
    pub fn mean(&self, over: impl Into<Over>) -> LazyBuffer {
        let (at, (over, drops)) = (Location::caller(), over.into().into_axes());
        let dropped = drops.then(|| over.clone());
        let mean = self.widened(|wide| wide.mean_of(over, at));
        match dropped {
            Some(over) => mean.drop_axes(&over, at),
            None => mean,
        }
    }

    /// Removes these axes of length 1.
    fn drop_axes(&self, over: &Over, at: &'static Location<'static>) -> LazyBuffer {
        let (shape, rank) = (self.shape(), self.rank());
        let is_dropped = |axis: usize| match over {
            Over::Axes(axes) => axes.iter().any(|it| axis_of(*it, rank) == Ok(axis)),
            _ => true,
        };
        let left = (0..rank).filter(|axis| !is_dropped(*axis));
        let left = Shape::new(left.map(|axis| &shape[axis]));
        self.reshape_at("reduce", &left, at)
    }

    /// Computes with halves in `f32`, because intermediate sums and counts exceed the range of halves.
    #[track_caller]
    pub(super) fn widened(&self, of: impl FnOnce(&LazyBuffer) -> LazyBuffer) -> LazyBuffer {
        match self.dtype() {
            DType::F16 | DType::Bf16 => of(&self.cast(DType::F32)).cast(self.dtype()),
            _ => of(self),
        }
    }

    fn mean_of(&self, over: Over, at: &'static Location<'static>) -> LazyBuffer {
        let sum = self.reduce("mean", ReduceOp::Sum, over, at);
        if sum.error().is_some() {
            return sum;
        }
        if !sum.dtype().is_float() {
            let operand = (self.dtype(), self.shape());
            return LazyBuffer::refused("mean", [operand], Why::DType(self.dtype()), at);
        }
        let (before, after) = (self.shape(), sum.shape());
        let reduced = before.iter().zip(after.iter()).filter(|(a, b)| a != b);
        let Some(count) = Size::product(reduced.map(|(axis, _)| axis)) else {
            return sum;
        };
        // Divide instead of multiplying by the reciprocal, so that the mean of equal numbers is that number.
        match (count.known(), sum.graph()) {
            (None, Some(graph)) => {
                let count = graph.length_value(count).cast(sum.dtype());
                sum / count
            }
            (count, _) => sum / count.unwrap_or(0) as f64,
        }
    }

    /// Refuses a buffer that is not of floats, with the name of the method.
    #[track_caller]
    pub(super) fn refuse_non_floats(&self, name: &'static str) -> Option<LazyBuffer> {
        let dtype = self.dtype();
        if self.error().is_some() || dtype.is_float() {
            return None;
        }
        let (operand, why) = ((dtype, self.shape()), Why::DType(dtype));
        let at = Location::caller();
        Some(LazyBuffer::refused(name, [operand], why, at))
    }

    /// Returns the variance of floats (not corrected for the mean).
    #[track_caller]
    pub fn variance(&self, over: impl Into<Over>) -> LazyBuffer {
        if let Some(refused) = self.refuse_non_floats("variance") {
            return refused;
        }
        let over = over.into();
        let variance = self.widened(|wide| {
            let from_mean = wide - wide.mean(over.clone().into_axes().0);
            from_mean.square().mean(over)
        });
        variance.named("variance", &[self], Location::caller())
    }

    /// Returns `exp(x - max) / sum(exp(x - max))` along axes.
    #[track_caller]
    pub fn softmax(&self, over: impl Into<Over>) -> LazyBuffer {
        if let Some(refused) = self.refuse_non_floats("softmax") {
            return refused;
        }
        let (over, _) = over.into().into_axes();
        // The maximum only avoids overflow; it does not change the result, so it has no gradient.
        let powers = (self - self.max(over.clone()).detach()).exp();
        let sum = powers.sum(over);
        (powers / sum).named("softmax", &[self], Location::caller())
    }

    /// Returns the logarithm of [`LazyBuffer::softmax`], accurate also for small values.
    #[track_caller]
    pub fn log_softmax(&self, over: impl Into<Over>) -> LazyBuffer {
        if let Some(refused) = self.refuse_non_floats("log_softmax") {
            return refused;
        }
        let (over, _) = over.into().into_axes();
        let from_max = self - self.max(over.clone()).detach();
        let sum = from_max.exp().sum(over).log();
        (from_max - sum).named("log_softmax", &[self], Location::caller())
    }

    /// Returns `(x - mean) / sqrt(variance + epsilon)` along axes.
    #[track_caller]
    pub fn normalize(&self, over: impl Into<Over>, epsilon: f64) -> LazyBuffer {
        if let Some(refused) = self.refuse_non_floats("normalize") {
            return refused;
        }
        let (over, _) = over.into().into_axes();
        let normal = self.widened(|wide| {
            let from_mean = wide - wide.mean(over.clone());
            let variance = from_mean.square().mean(over);
            from_mean / (variance + epsilon).sqrt()
        });
        normal.named("normalize", &[self], Location::caller())
    }

    pub(crate) fn reduce(
        &self,
        name: &'static str,
        op: ReduceOp,
        over: Over,
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        let (over, drops) = over.into_axes();
        if drops {
            let kept = self.reduce(name, op, over.clone(), at);
            return kept.drop_axes(&over, at);
        }
        let reduced = self.reduce_node(name, op, over, at);
        let (Ok(node_ref), Some(graph)) = (reduced.node_ref(), self.graph()) else {
            return reduced;
        };
        if *node_ref.shape() != self.shape() {
            return reduced;
        }
        // Only axes of length 1 are reduced: the result is the value itself, at index 0.
        match op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => {
                // Still depend on the value, so that stores that it needs happen whatever the lengths are.
                let zeros = graph.zeros(DType::I64, node_ref.shape());
                self.equals(self).select(&zeros, &zeros)
            }
            _ => self.same_values(name, at),
        }
    }

    fn reduce_node(
        &self,
        name: &'static str,
        op: ReduceOp,
        over: Over,
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        LazyBuffer::of(name, [self], at, |[node_ref]| {
            let (shape, dtype) = (node_ref.shape(), node_ref.dtype().computed());
            if !op.takes(dtype) {
                return Err(Why::DType(node_ref.dtype()));
            }
            let rank = shape.rank();
            let named = match over {
                Over::Axes(axes) => axes,
                Over::All | Over::Dropped(_) => (0..rank as isize).collect(),
            };
            let mut reduced = vec![false; rank];
            for axis in &named {
                let index = axis_of(*axis, rank)?;
                if reduced[index] {
                    return Err(Why::Axes { axes: named, rank });
                }
                reduced[index] = true;
            }
            let length = |(axis, length): (usize, &Size)| {
                if reduced[axis] {
                    Size::ONE
                } else {
                    length.clone()
                }
            };
            let lengths = Shape::new(shape.iter().enumerate().map(length));
            let out = match op.output(dtype) {
                DType::I64 => DType::I64,
                _ => node_ref.dtype(),
            };
            Ok((Op::Reduce(op), out, lengths))
        })
    }
}
