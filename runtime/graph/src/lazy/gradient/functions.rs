//! The derivatives of functions that have a gradient of their own, in the forms that overflow least.

use std::f64::consts::PI;

use smallvec::smallvec;

use super::rules::{OperandAdjoints, Rule};
use crate::lazy::node::Function;

impl Rule<'_> {
    /// Returns the adjoints of the arguments of a function. Its value is operand 0, its arguments follow.
    pub(super) fn function(&self, function: Function) -> OperandAdjoints {
        let (g, y, x) = (self.adjoint, self.result, self.operand(1));
        let zero = self.zeros(y.shape());
        let of_x = match function {
            // The result exists already. NaN passes its gradient.
            Function::Relu => y.less_equal(0.0).select(&zero, g),
            Function::Clamp => {
                let within = x.greater(self.operand(2)) & x.less(self.operand(3));
                within.select(g, &zero)
            }
            Function::Sigmoid => g * ((1.0 - y) * y),
            Function::Silu => {
                let sigmoid = x.sigmoid();
                g * (&sigmoid * (&x * (1.0 - &sigmoid) + 1.0))
            }
            Function::GeluTanh => {
                // `y = x s`, where `s` is the sigmoid of `2 u`; see `gelu_tanh`.
                let factor = 2.0 * (2.0 / PI).sqrt();
                let square = x.square();
                let sigmoid = (&x * (&square * 0.044_715 + 1.0) * factor).sigmoid();
                let slope = (square * (3.0 * 0.044_715) + 1.0) * factor;
                // 0 where the sigmoid is constant, although the square may overflow.
                let change = &sigmoid * (1.0 - &sigmoid);
                let of_sigmoid = change.equals(0.0).select(&zero, &x * change * slope);
                g * (sigmoid + of_sigmoid)
            }
            Function::Log1p => g / (x + 1.0),
            Function::Expm1 => g * (y + 1.0),
            Function::Atan2 => {
                let (y, x) = (x, self.operand(2));
                let square = y.square() + x.square();
                // The origin has no angle.
                let inverse = square.equals(0.0).select(&zero, square.recip());
                return smallvec![(1, g * (&x * &inverse)), (2, g * (-y * inverse))];
            }
        };
        smallvec![(1, of_x)]
    }
}
