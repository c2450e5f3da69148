//! Functions with a gradient of their own: limits and activations.

use crate::error::By;
use crate::lazy::buffer::{LazyBuffer, Operand};
use crate::lazy::node::{Function, Op};

impl LazyBuffer {
    /// Returns each element, or zero if it is negative.
    #[track_caller]
    pub fn relu(&self) -> LazyBuffer {
        let by = By::new("relu");
        let value = self.maximum(0).named(by, &[self]);
        value.with_gradient(by, Function::Relu, &[self])
    }

    /// Limits each element to a range. NaN stays NaN.
    #[track_caller]
    pub fn clamp(&self, least: impl Into<Operand>, most: impl Into<Operand>) -> LazyBuffer {
        let by = By::new("clamp");
        let limits = [least.into(), most.into()];
        let are_numbers = !limits
            .iter()
            .any(|limit| matches!(limit, Operand::Buffer(_)));
        let [least, most] = limits.map(|limit| limit.like(by, self));
        let value = self.maximum(&least).minimum(&most);
        let value = value.named(by, &[self, &least, &most]);
        // Elements at a limit share their gradient with a buffer, but not with a number.
        if !are_numbers {
            return value;
        }
        value.with_gradient(by, Function::Clamp, &[self, &least, &most])
    }

    /// Returns `1 / (1 + exp(-x))`.
    #[track_caller]
    pub fn sigmoid(&self) -> LazyBuffer {
        self.activation(Function::Sigmoid, |x| ((-x).exp() + 1.0).recip())
    }

    /// Returns `x * sigmoid(x)`.
    #[track_caller]
    pub fn silu(&self) -> LazyBuffer {
        self.activation(Function::Silu, |x| x / ((-x).exp() + 1.0))
    }

    /// Returns `x / 2 * (1 + erf(x / sqrt(2)))`: the exact Gaussian error linear unit.
    #[track_caller]
    pub fn gelu(&self) -> LazyBuffer {
        self.of_floats(By::new("gelu"), |x| {
            x * 0.5 * ((x * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0)
        })
    }

    /// Returns the approximation of the Gaussian error linear unit by a hyperbolic tangent, with which most models were
    /// trained: `x * sigmoid(2 u)` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`.
    #[track_caller]
    pub fn gelu_tanh(&self) -> LazyBuffer {
        self.activation(Function::GeluTanh, |x| {
            let cube = x * x * x;
            let scale = -2.0 * (2.0 / std::f64::consts::PI).sqrt();
            let power = (cube * 0.044_715 + x) * scale;
            x / (power.exp() + 1.0)
        })
    }

    #[track_caller]
    fn activation(
        &self,
        function: Function,
        of: impl FnOnce(&LazyBuffer) -> LazyBuffer,
    ) -> LazyBuffer {
        let by = By::new(function.name());
        let value = self.of_floats(by, of);
        value.with_gradient(by, function, &[self])
    }

    /// Returns these values with the gradient of a function of the arguments. Integers have no gradient.
    pub(crate) fn with_gradient(
        &self,
        by: By,
        function: Function,
        arguments: &[&LazyBuffer],
    ) -> LazyBuffer {
        if !self.dtype().is_float() {
            return self.clone();
        }
        let all = std::iter::once(self).chain(arguments.iter().copied());
        LazyBuffer::of_all(by, all, |node_refs| {
            let value = node_refs[0];
            Ok((Op::Function(function), value.dtype, value.shape.clone()))
        })
    }
}
