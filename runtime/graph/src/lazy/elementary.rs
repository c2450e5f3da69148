//! Elementary functions that are made of others: rounding, signs, logarithms and powers near 1 and 0, and tests.
//!
//! They are the same on every device, fuse as any expression does, and have gradients, because what they are made of has.

use std::panic::Location;

use millstream_ir::DType;

use crate::error::Why;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::reduce::Over;

impl LazyBuffer {
    /// The nearest whole numbers, of floats; of two that are as near, the even one. Beyond the fraction's digits a float is
    /// whole already. Whole numbers stay as they are.
    #[track_caller]
    pub fn round(&self) -> LazyBuffer {
        if !self.dtype().is_float() && self.error().is_none() {
            return self.same_values("round", Location::caller());
        }
        let below = self.floor();
        let fraction = self - &below;
        let above = &below + 1.0;
        let is_even = (&below * 0.5).floor().equals(&below * 0.5);
        let of_tie = is_even.select(&below, &above);
        let upper = fraction.greater(0.5).select(&above, &of_tie);
        fraction.less(0.5).select(&below, &upper)
    }

    /// -1 for what is negative, 1 for what is positive, and else the value itself: zero, or NaN.
    #[track_caller]
    pub fn sign(&self) -> LazyBuffer {
        let rest = match self.dtype() {
            DType::U8 | DType::U32 | DType::U64 => self.clone(),
            _ => self.less(0).select(-self.full_like(1), self),
        };
        self.greater(0).select(self.full_like(1), rest)
    }

    /// `log(1 + x)`, as exact for small `x` as for others. (Kahan's correction of the rounding of `1 + x`.)
    #[track_caller]
    pub fn log1p(&self) -> LazyBuffer {
        self.wide("log1p", |x| {
            let u = x + 1.0;
            let is_small = u.equals(1.0);
            let is_infinite = u.equals(f64::INFINITY);
            let corrected = u.log() * (x / (&u - 1.0));
            let rest = is_infinite.select(&u, corrected);
            is_small.select(x, rest)
        })
    }

    /// `exp(x) - 1`, as exact for small `x` as for others. (Kahan's correction of the rounding of `exp(x)`.)
    #[track_caller]
    pub fn expm1(&self) -> LazyBuffer {
        self.wide("expm1", |x| {
            let u = x.exp();
            let less_one = &u - 1.0;
            let corrected = &less_one * (x / u.log());
            // From where on `exp(x) - 1` is `exp(x)`, or -1, there is nothing to correct, and infinities to spoil it.
            let is_far = x.abs().greater(16.0);
            let rest = is_far.select(&less_one, corrected);
            u.equals(1.0).select(x, rest)
        })
    }

    /// Where the values are NaN.
    #[track_caller]
    pub fn is_nan(&self) -> LazyBuffer {
        self.differs(self)
    }

    /// Whether any element along axes is true, or not zero. Of none: false.
    #[track_caller]
    pub fn any(&self, over: impl Into<Over>) -> LazyBuffer {
        self.cast(DType::Bool).max(over)
    }

    /// Whether all elements along axes are true, or not zero. Of none: true.
    #[track_caller]
    pub fn all(&self, over: impl Into<Over>) -> LazyBuffer {
        self.cast(DType::Bool).min(over)
    }

    /// Computes functions of halves in `f32`: their corrections are below what halves can tell.
    #[track_caller]
    fn wide(&self, name: &'static str, of: impl FnOnce(&LazyBuffer) -> LazyBuffer) -> LazyBuffer {
        let dtype = self.dtype();
        if self.error().is_none() && !dtype.is_float() {
            let operand = (dtype, self.shape());
            let at = Location::caller();
            return LazyBuffer::refused(name, [operand], Why::DType(dtype), at);
        }
        match dtype {
            DType::F16 | DType::Bf16 => of(&self.cast(DType::F32)).cast(dtype),
            _ => of(self),
        }
    }

    /// This shape and type full of a whole number.
    #[track_caller]
    pub(crate) fn full_like(&self, value: i64) -> LazyBuffer {
        match self.graph() {
            Some(graph) => graph.full(self.dtype(), self.shape(), value),
            None => self.clone(),
        }
    }
}
