//! Elementary functions that are composed of others: rounding, signs, accurate logarithms and exponentials near 0, and
//! tests.
//!
//! They have the same definition on every device, and are fused like any expression.

use millstream_ir::DType;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use crate::error::{By, why};
use crate::lazy::buffer::{LazyBuffer, Operand};
use crate::lazy::node::Function;
use crate::lazy::reduce::Over;

impl LazyBuffer {
    /// Rounds floats to the nearest integer; ties go to the even one. Floats without fraction digits and integers are
    /// unchanged.
    #[track_caller]
    pub fn round(&self) -> LazyBuffer {
        if !self.dtype().is_float() && self.error().is_none() {
            return self.same_values(By::new("round"));
        }
        let below = self.floor();
        let fraction = self - &below;
        let above = &below + 1.0;
        let is_even = (&below * 0.5).floor().equals(&below * 0.5);
        let of_tie = is_even.select(&below, &above);
        let upper = fraction.greater(0.5).select(&above, &of_tie);
        let rounded = fraction.less(0.5).select(&below, &upper);
        // Zero has the sign of the element.
        rounded.equals(0.0).select(self * 0.0, &rounded).detach()
    }

    /// Returns -1 for negative elements, 1 for positive ones, and otherwise the element itself: zero or NaN.
    #[track_caller]
    pub fn sign(&self) -> LazyBuffer {
        let rest = match self.dtype() {
            DType::U8 | DType::U32 | DType::U64 => self.clone(),
            _ => self.less(0).select(-self.full_like(1), self),
        };
        let sign = self.greater(0).select(self.full_like(1), rest).detach();
        sign.named(By::new("sign"), &[self])
    }

    /// Returns `log(1 + x)`, accurate also for small `x` (Kahan's correction of the rounding of `1 + x`).
    #[track_caller]
    pub fn log1p(&self) -> LazyBuffer {
        let by = By::new("log1p");
        let value = self.wide(by, |x| {
            let u = x + 1.0;
            let is_small = u.equals(1.0);
            let is_infinite = u.equals(f64::INFINITY);
            let corrected = u.log() * (x / (&u - 1.0));
            let rest = is_infinite.select(&u, corrected);
            is_small.select(x, rest)
        });
        value.with_gradient(by, Function::Log1p, &[self])
    }

    /// Returns `exp(x) - 1`, accurate also for small `x` (Kahan's correction of the rounding of `exp(x)`).
    #[track_caller]
    pub fn expm1(&self) -> LazyBuffer {
        let by = By::new("expm1");
        let value = self.wide(by, |x| {
            let u = x.exp();
            let less_one = &u - 1.0;
            let corrected = &less_one * (x / u.log());
            // Beyond this `exp(x) - 1` is `exp(x)` or -1: nothing to correct, and infinities would make the correction
            // NaN.
            let is_far = x.abs().greater(16.0);
            let rest = is_far.select(&less_one, corrected);
            u.equals(1.0).select(x, rest)
        });
        value.with_gradient(by, Function::Expm1, &[self])
    }

    /// Returns the angle of the point `(x, self)` in `-pi..=pi`: the arc tangent of `self / x` in the right quadrant.
    /// The angle of `(0, 0)` is 0, and the sign of zero is ignored. (Range reduction and polynomials of the Cephes
    /// library.)
    #[track_caller]
    pub fn atan2(&self, x: impl Into<Operand>) -> LazyBuffer {
        let by = By::new("atan2");
        let x = x.into().like(by, self);
        let value = LazyBuffer::composed(by, &[self, &x], || {
            if x.dtype() != self.dtype() {
                return Err(why::DTYPES);
            }
            Ok(self.wide(by, |y| angle(y, &x.cast(y.dtype()))))
        });
        if value.error().is_some() {
            return value;
        }
        let shape = value.shape();
        let [y, x] = [self, &x].map(|of| of.expand(by, &shape));
        value.with_gradient(by, Function::Atan2, &[&y, &x])
    }

    /// Returns where elements are NaN.
    #[track_caller]
    pub fn is_nan(&self) -> LazyBuffer {
        self.differs(self)
    }

    /// Returns whether any element along axes is true or not zero. False without elements.
    #[track_caller]
    pub fn any(&self, over: impl Into<Over>) -> LazyBuffer {
        let any = self.cast(DType::Bool).max(over);
        any.named(By::new("any"), &[self])
    }

    /// Returns whether all elements along axes are true or not zero. True without elements.
    #[track_caller]
    pub fn all(&self, over: impl Into<Over>) -> LazyBuffer {
        let all = self.cast(DType::Bool).min(over);
        all.named(By::new("all"), &[self])
    }

    /// Returns a buffer of this shape and type, filled with an integer.
    #[track_caller]
    pub(crate) fn full_like(&self, value: i64) -> LazyBuffer {
        match self.graph() {
            Some(graph) => graph.full(self.dtype(), self.shape(), value),
            None => self.clone(),
        }
    }
}

/// Returns the angles of points of `f32` or `f64`.
#[track_caller]
fn angle(y: &LazyBuffer, x: &LazyBuffer) -> LazyBuffer {
    let size = |of: &LazyBuffer| of.less(0).select(-of, of);
    let (rise, run) = (size(y), size(x));
    let is_steep = rise.greater(&run);
    let (low, top) = (is_steep.select(&run, &rise), is_steep.select(&rise, &run));
    // Either may be NaN, which propagates.
    let are_both = |value: f64| low.equals(value) & top.equals(value);
    let ratio = are_both(0.0).select(0.0, &low / &top);
    let ratio = are_both(f64::INFINITY).select(1.0, ratio);
    let first = arc_tangent(&ratio);
    let right = is_steep.select(FRAC_PI_2 - &first, &first);
    let upper = x.less(0).select(PI - &right, &right);
    y.less(0).select(-&upper, &upper)
}

/// Returns the arc tangents of numbers in `0..=1`.
#[track_caller]
fn arc_tangent(x: &LazyBuffer) -> LazyBuffer {
    let polynomial = |z: &LazyBuffer, factors: &[f64]| {
        let first = z * factors[0] + factors[1];
        factors[2..]
            .iter()
            .fold(first, |sum, factor| sum * z + *factor)
    };
    let is_double = x.dtype() == DType::F64;
    let is_far = x.greater(if is_double { 0.66 } else { 0.414_213_56 });
    let near = is_far.select((x - 1.0) / (x + 1.0), x);
    let z = near.square();
    let rest = if is_double {
        polynomial(&z, &DIVIDEND) / polynomial(&z, &DIVISOR)
    } else {
        polynomial(&z, &SINGLE)
    };
    let curved = &near * (rest * z) + near;
    is_far.select(&curved + FRAC_PI_4, &curved)
}

/// The polynomial of `atanf`.
const SINGLE: [f64; 4] = [
    8.053_744_495_38e-2,
    -1.387_768_560_32e-1,
    1.997_771_064_78e-1,
    -3.333_294_915_39e-1,
];
/// The polynomial `P` of `atan`.
const DIVIDEND: [f64; 5] = [
    -8.750_608_600_031_904e-1,
    -1.615_753_718_733_365e1,
    -7.500_855_792_314_705e1,
    -1.228_866_684_490_136e2,
    -6.485_021_904_942_025e1,
];
/// The polynomial `Q` of `atan`.
const DIVISOR: [f64; 6] = [
    1.0,
    2.485_846_490_142_306e1,
    1.650_270_098_316_988_6e2,
    4.328_810_604_912_903e2,
    4.853_903_996_359_137e2,
    1.945_506_571_482_614e2,
];
