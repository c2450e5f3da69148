//! Reductions, and what is made of them. Reduced axes keep the length 1, so that results broadcast back.

use std::panic::Location;

use millstream_ir::{DType, ReduceOp};

use crate::error::Why;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::axis_of;
use crate::lazy::node::Op;
use crate::shape::Shape;
use crate::size::Size;

/// Which axes: one, several, or all of them. Negative ones count from the end.
#[derive(Clone, Debug)]
pub enum Over {
    /// These.
    Axes(Vec<isize>),
    /// All.
    All,
    /// These, which the result does not have any more.
    Dropped(Box<Over>),
}

impl Over {
    /// The same axes, which the result does not keep with length 1.
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

    /// The axes, and whether they are dropped.
    fn kept(self) -> (Self, bool) {
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
        /// Many values in, one out. `..` is over all axes.
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
    /// Sums, of the type of the elements: those of integers wrap.
    sum => Sum,
    /// Products, of the type of the elements: those of integers wrap.
    product => Prod,
    /// The greatest; NaN if one is.
    max => Max,
    /// The least; NaN if one is.
    min => Min,
    /// Index of the first greatest, or of the first NaN, as `i64`; over several axes in row-major order.
    argmax => ArgMax,
    /// Index of the first least, or of the first NaN, as `i64`; over several axes in row-major order.
    argmin => ArgMin,
}

/// What several operations make.
impl LazyBuffer {
    /// Means of floats.
    #[track_caller]
    pub fn mean(&self, over: impl Into<Over>) -> LazyBuffer {
        let (at, (over, drops)) = (Location::caller(), over.into().kept());
        let dropped = drops.then(|| over.clone());
        let mean = self.widened(|wide| wide.mean_of(over, at));
        match dropped {
            Some(over) => mean.without(&over, at),
            None => mean,
        }
    }

    /// Without these axes, which have length 1.
    fn without(&self, over: &Over, at: &'static Location<'static>) -> LazyBuffer {
        let (shape, rank) = (self.shape(), self.rank());
        let is_dropped = |axis: usize| match over {
            Over::Axes(axes) => axes.iter().any(|it| axis_of(*it, rank) == Ok(axis)),
            _ => true,
        };
        let left = (0..rank).filter(|axis| !is_dropped(*axis));
        let left = Shape::new(left.map(|axis| &shape[axis]));
        self.reshape_at("reduce", &left, at)
    }

    /// What is computed of halves has sums and counts beyond them on its way.
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
        // Divided, not multiplied by the reciprocal: the mean of equal numbers is that number.
        match (count.known(), sum.graph()) {
            (None, Some(graph)) => {
                let count = graph.length_value(count).cast(sum.dtype());
                sum / count
            }
            (count, _) => sum / count.unwrap_or(0) as f64,
        }
    }

    /// Refuses what is no float, by the name of the method that was called.
    #[track_caller]
    fn refuse_but_floats(&self, name: &'static str) -> Option<LazyBuffer> {
        let dtype = self.dtype();
        if self.error().is_some() || dtype.is_float() {
            return None;
        }
        let (operand, why) = ((dtype, self.shape()), Why::DType(dtype));
        let at = Location::caller();
        Some(LazyBuffer::refused(name, [operand], why, at))
    }

    /// Variances of floats about their mean, of all there are (no correction).
    #[track_caller]
    pub fn variance(&self, over: impl Into<Over>) -> LazyBuffer {
        if let Some(refused) = self.refuse_but_floats("variance") {
            return refused;
        }
        let over = over.into();
        self.widened(|wide| {
            let from_mean = wide - wide.mean(over.clone().kept().0);
            from_mean.square().mean(over)
        })
    }

    /// `exp(x - max) / sum(exp(x - max))` along axes.
    #[track_caller]
    pub fn softmax(&self, over: impl Into<Over>) -> LazyBuffer {
        if let Some(refused) = self.refuse_but_floats("softmax") {
            return refused;
        }
        let (over, _) = over.into().kept();
        // The maximum is subtracted for the sake of the range alone: it has no part in the result.
        let powers = (self - self.max(over.clone()).detach()).exp();
        let sum = powers.sum(over);
        powers / sum
    }

    /// Logarithms of [`LazyBuffer::softmax`], without its loss of small ones.
    #[track_caller]
    pub fn log_softmax(&self, over: impl Into<Over>) -> LazyBuffer {
        if let Some(refused) = self.refuse_but_floats("log_softmax") {
            return refused;
        }
        let (over, _) = over.into().kept();
        let from_max = self - self.max(over.clone()).detach();
        let sum = from_max.exp().sum(over).log();
        from_max - sum
    }

    /// `(x - mean) / sqrt(variance + epsilon)` along axes.
    #[track_caller]
    pub fn normalize(&self, over: impl Into<Over>, epsilon: f64) -> LazyBuffer {
        if let Some(refused) = self.refuse_but_floats("normalize") {
            return refused;
        }
        let (over, _) = over.into().kept();
        self.widened(|wide| {
            let from_mean = wide - wide.mean(over.clone());
            let variance = from_mean.square().mean(over);
            from_mean / (variance + epsilon).sqrt()
        })
    }

    pub(crate) fn reduce(
        &self,
        name: &'static str,
        op: ReduceOp,
        over: Over,
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        let (over, drops) = over.kept();
        if drops {
            let kept = self.reduce(name, op, over.clone(), at);
            return kept.without(&over, at);
        }
        let reduced = self.reduce_node(name, op, over, at);
        let (Ok(held), Some(graph)) = (reduced.held(), self.graph()) else {
            return reduced;
        };
        if *held.shape() != self.shape() {
            return reduced;
        }
        // Nothing but axes of length 1: of one value, that value, at index 0.
        match op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => {
                // Of the value all the same: what it needs is done, as a store, whatever the lengths are.
                let zeros = graph.zeros(DType::I64, held.shape());
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
        LazyBuffer::of(name, [self], at, |[held]| {
            let (shape, dtype) = (held.shape(), held.dtype().computed());
            if !op.takes(dtype) {
                return Err(Why::DType(held.dtype()));
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
                _ => held.dtype(),
            };
            Ok((Op::Reduce(op), out, lengths))
        })
    }
}
