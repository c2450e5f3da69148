//! Reductions, and operations composed of them. Reduced axes keep length 1, so results broadcast back.

use millstream_ir::{DType, ReduceOp};

use crate::error::{By, Why, why};
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

    /// Returns whether each axis of a buffer with this many is reduced.
    fn reduced(&self, rank: usize) -> Result<Vec<bool>, Why> {
        let Over::Axes(axes) = self else {
            return Ok(vec![true; rank]);
        };
        let mut reduced = vec![false; rank];
        for axis in axes {
            if std::mem::replace(&mut reduced[axis_of(*axis, rank)?], true) {
                return Err(why::axes(axes, rank));
            }
        }
        Ok(reduced)
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
                self.reduce(By::new(stringify!($method)), ReduceOp::$op, over.into())
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
        let (by, (over, drops)) = (By::new("mean"), over.into().into_axes());
        let mean = self.wide(by, |wide| {
            let sum = wide.reduce(by, ReduceOp::Sum, over.clone());
            let (before, after) = (wide.shape(), sum.shape());
            let reduced = before.iter().zip(after.iter()).filter(|(a, b)| a != b);
            let count = Size::product(reduced.map(|(axis, _)| axis));
            // Divide instead of multiplying by the reciprocal, so that the mean of equal numbers is that number.
            match (count, sum.graph()) {
                (Some(count), Some(graph)) => match count.known() {
                    Some(count) => &sum / count as f64,
                    None => &sum / graph.length_value(count).cast(sum.dtype()),
                },
                _ => sum,
            }
        });
        mean.drop_axes(by, &over, drops)
    }

    /// Removes these axes of length 1, if they are to be dropped.
    fn drop_axes(self, by: By, over: &Over, drops: bool) -> LazyBuffer {
        if !drops {
            return self;
        }
        self.reshape_with(by, |mine| {
            let lengths = mine.iter().zip(over.reduced(mine.rank())?);
            let left = lengths.filter(|(_, is_reduced)| !is_reduced);
            Ok(Shape::new(left.map(|(length, _)| length)))
        })
    }

    /// Computes with halves in `f32`, because intermediate sums and counts exceed the range of halves.
    #[track_caller]
    pub(super) fn widened(&self, of: impl FnOnce(&LazyBuffer) -> LazyBuffer) -> LazyBuffer {
        match self.dtype() {
            DType::F16 | DType::Bf16 => of(&self.cast(DType::F32)).cast(self.dtype()),
            _ => of(self),
        }
    }

    /// As [`LazyBuffer::widened`], of floats.
    pub(super) fn wide(&self, by: By, of: impl FnOnce(&LazyBuffer) -> LazyBuffer) -> LazyBuffer {
        self.of_floats(by, |x| x.widened(of))
    }

    /// Returns the variance of floats (not corrected for the mean).
    #[track_caller]
    pub fn variance(&self, over: impl Into<Over>) -> LazyBuffer {
        let over = over.into();
        self.wide(By::new("variance"), |x| {
            let from_mean = x - x.mean(over.clone().into_axes().0);
            from_mean.square().mean(over)
        })
    }

    /// Returns `exp(x - max) / sum(exp(x - max))` along axes.
    #[track_caller]
    pub fn softmax(&self, over: impl Into<Over>) -> LazyBuffer {
        let (over, _) = over.into().into_axes();
        self.of_floats(By::new("softmax"), |x| {
            // The maximum only avoids overflow; it does not change the result, so it has no gradient.
            let powers = (x - x.max(over.clone()).detach()).exp();
            &powers / powers.sum(over)
        })
    }

    /// Returns the logarithm of [`LazyBuffer::softmax`], accurate also for small values.
    #[track_caller]
    pub fn log_softmax(&self, over: impl Into<Over>) -> LazyBuffer {
        let (over, _) = over.into().into_axes();
        self.of_floats(By::new("log_softmax"), |x| {
            let from_max = x - x.max(over.clone()).detach();
            &from_max - from_max.exp().sum(over).log()
        })
    }

    /// Returns `(x - mean) / sqrt(variance + epsilon)` along axes.
    #[track_caller]
    pub fn normalize(&self, over: impl Into<Over>, epsilon: f64) -> LazyBuffer {
        let (over, _) = over.into().into_axes();
        self.wide(By::new("normalize"), |x| {
            let from_mean = x - x.mean(over.clone());
            let variance = from_mean.square().mean(over);
            from_mean / (variance + epsilon).sqrt()
        })
    }

    pub(crate) fn reduce(&self, by: By, op: ReduceOp, over: Over) -> LazyBuffer {
        let (over, drops) = over.into_axes();
        self.reduce_kept(by, op, &over).drop_axes(by, &over, drops)
    }

    /// Reduces axes, which keep length 1.
    fn reduce_kept(&self, by: By, op: ReduceOp, over: &Over) -> LazyBuffer {
        let reduced = self.reduce_node(by, op, over);
        let (Ok(node_ref), Some(graph)) = (reduced.node_ref(), self.graph()) else {
            return reduced;
        };
        if node_ref.shape != self.shape() {
            return reduced;
        }
        // Only axes of length 1 are reduced: the result is the value itself, at index 0.
        match op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => {
                // Still depend on the value, so that stores that it needs happen whatever the lengths are.
                let zeros = graph.zeros(DType::I64, &node_ref.shape);
                self.equals(self).select(&zeros, &zeros)
            }
            _ => self.same_values(by),
        }
    }

    fn reduce_node(&self, by: By, op: ReduceOp, over: &Over) -> LazyBuffer {
        LazyBuffer::of(by, [self], |[node_ref]| {
            let (shape, dtype) = (&node_ref.shape, node_ref.dtype.computed());
            if !op.takes(dtype) {
                return Err(why::dtype(node_ref.dtype));
            }
            let lengths = shape.iter().zip(over.reduced(shape.rank())?);
            let lengths = lengths.map(|(length, is_reduced)| match is_reduced {
                true => Size::ONE,
                false => length.clone(),
            });
            let lengths = Shape::new(lengths);
            let out = match op.output(dtype) {
                DType::I64 => DType::I64,
                _ => node_ref.dtype,
            };
            Ok((Op::Reduce(op), out, lengths))
        })
    }
}
