//! Arithmetic: elementwise methods and operators, broadcast as in NumPy.

use std::ops;
use std::panic::Location;

use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};

use crate::error::Why;
use crate::lazy::buffer::{LazyBuffer, Operand};
use crate::lazy::node::Op;
use crate::literal::Literal;
use crate::shape::Shape;

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $method:ident => $op:ident),* $(,)?) => {
        /// One value in, one out.
        impl LazyBuffer {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $method(&self) -> LazyBuffer {
                self.unary(UnaryOp::$op)
            }
        )*}

        #[cfg(test)]
        const UNARY_METHODS: &[(&str, UnaryOp)] = &[$((stringify!($method), UnaryOp::$op)),*];
    };
}

unary_methods! {
    /// Absolute values.
    abs => Abs,
    /// Square roots.
    sqrt => Sqrt,
    /// e to the power of each.
    exp => Exp,
    /// Natural logarithms.
    log => Log,
    /// Sines.
    sin => Sin,
    /// Cosines.
    cos => Cos,
    /// Hyperbolic tangents.
    tanh => Tanh,
    /// Error functions.
    erf => Erf,
    /// The greatest whole numbers that are not above.
    floor => Floor,
    /// The smallest whole numbers that are not below.
    ceil => Ceil,
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $method:ident => $op:ident),* $(,)?) => {
        /// Two values in, one out. Numbers become what the buffer is.
        impl LazyBuffer {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $method(&self, other: impl Into<Operand>) -> LazyBuffer {
                self.binary(stringify!($method), BinaryOp::$op, other.into(), Location::caller())
            }
        )*}
    };
}

binary_methods! {
    /// The smaller of each; NaN if either is.
    minimum => Min,
    /// The greater of each; NaN if either is.
    maximum => Max,
    /// Powers.
    pow => Pow,
}

macro_rules! compare_methods {
    ($($(#[$doc:meta])* $method:ident => $op:ident),* $(,)?) => {
        /// Two values in, a truth value out.
        impl LazyBuffer {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $method(&self, other: impl Into<Operand>) -> LazyBuffer {
                self.compare(stringify!($method), CompareOp::$op, other.into(), Location::caller())
            }
        )*}
    };
}

compare_methods! {
    /// Where they are equal.
    equals => Eq,
    /// Where they differ; NaN differs from everything.
    differs => Ne,
    /// Where this is less.
    less => Lt,
    /// Where this is less or equal.
    less_equal => Le,
    /// Where this is greater.
    greater => Gt,
    /// Where this is greater or equal.
    greater_equal => Ge,
}

/// What several operations make.
impl LazyBuffer {
    /// `yes` where this, of truth values, is true, and `no` elsewhere. Numbers become what the other is; two of them are floats.
    ///
    /// ```
    /// # use millstream_graph::{DType, Graph};
    /// let x = Graph::new().input("x", DType::F32, [8]);
    /// let relu = x.greater(0.0).select(&x, 0.0);
    /// assert_eq!(relu.dtype(), DType::F32);
    /// ```
    #[track_caller]
    pub fn select(&self, yes: impl Into<Operand>, no: impl Into<Operand>) -> LazyBuffer {
        let at = Location::caller();
        let (yes, no) = match (yes.into(), no.into()) {
            (Operand::Buffer(yes), Operand::Buffer(no)) => (yes, no),
            (Operand::Buffer(yes), Operand::Number(no)) => {
                let no = yes.number("select", no, at);
                (yes, no)
            }
            (Operand::Number(yes), Operand::Buffer(no)) => (no.number("select", yes, at), no),
            (Operand::Number(yes), Operand::Number(no)) => match self.graph() {
                Some(graph) => (
                    graph.constant(DType::F32, yes),
                    graph.constant(DType::F32, no),
                ),
                None => return self.clone(),
            },
        };
        let shape = match self.shape().broadcast(&yes.shape()) {
            Some(shape) => shape.broadcast(&no.shape()),
            None => None,
        };
        let expand = |buffer: &LazyBuffer| match &shape {
            Some(shape) => buffer.expand(shape, at),
            None => buffer.clone(),
        };
        let parts = [&expand(self), &expand(&yes), &expand(&no)];
        LazyBuffer::of("select", parts, at, |[condition, yes, no]| {
            let shape = shape.clone().ok_or(Why::Broadcast)?;
            if condition.dtype() != DType::Bool {
                let (what, expected, given) = ("the condition", DType::Bool, condition.dtype());
                return Err(Why::Expected {
                    what,
                    expected,
                    given,
                });
            }
            if yes.dtype() != no.dtype() {
                return Err(Why::DTypes);
            }
            Ok((Op::Select, yes.dtype(), shape))
        })
    }

    /// The elements as another type. Floats become integers cut towards zero, those beyond the range its ends, NaN zero; integers
    /// become narrower ones by their low bits; anything becomes a truth value by whether it is not zero.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> LazyBuffer {
        let at = Location::caller();
        if self.dtype() == dtype {
            return self.same_values("cast", at);
        }
        LazyBuffer::of("cast", [self], at, |[held]| {
            Ok((Op::Cast, dtype, held.shape().clone()))
        })
    }

    /// One over each.
    #[track_caller]
    pub fn recip(&self) -> LazyBuffer {
        let at = Location::caller();
        self.number("recip", Literal::Int(1), at)
            .binary("recip", BinaryOp::Div, self.into(), at)
    }

    /// Each times itself.
    #[track_caller]
    pub fn square(&self) -> LazyBuffer {
        self.binary("square", BinaryOp::Mul, self.into(), Location::caller())
    }

    /// Each, or zero where it is negative.
    #[track_caller]
    pub fn relu(&self) -> LazyBuffer {
        let zero = Operand::Number(Literal::Int(0));
        self.binary("relu", BinaryOp::Max, zero, Location::caller())
    }

    /// Each, or the limit that it is beyond. NaN stays NaN.
    #[track_caller]
    pub fn clamp(&self, least: impl Into<Operand>, most: impl Into<Operand>) -> LazyBuffer {
        self.maximum(least).minimum(most)
    }

    /// `1 / (1 + exp(-x))`.
    #[track_caller]
    pub fn sigmoid(&self) -> LazyBuffer {
        ((-self).exp() + 1.0).recip()
    }

    /// `x * sigmoid(x)`.
    #[track_caller]
    pub fn silu(&self) -> LazyBuffer {
        self / ((-self).exp() + 1.0)
    }

    /// `x / 2 * (1 + erf(x / sqrt(2)))`: the Gaussian error linear unit, exactly.
    #[track_caller]
    pub fn gelu(&self) -> LazyBuffer {
        let half = self * 0.5;
        half * ((self * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0)
    }

    /// The Gaussian error linear unit by a hyperbolic tangent, as most models were trained: `x * sigmoid(2 u)` with
    /// `u = sqrt(2 / pi) * (x + 0.044715 x^3)`.
    #[track_caller]
    pub fn gelu_tanh(&self) -> LazyBuffer {
        let cube = self * self * self;
        let scale = -2.0 * (2.0 / std::f64::consts::PI).sqrt();
        let power = (cube * 0.044_715 + self) * scale;
        self / (power.exp() + 1.0)
    }
}

/// Operations by their word, as programs that translate other graphs have them.
impl LazyBuffer {
    /// An operation on each.
    ///
    /// ```
    /// # use millstream_graph::{DType, Graph};
    /// use millstream_ir::UnaryOp;
    ///
    /// let x = Graph::new().input("x", DType::F32, [8]);
    /// let root = x.unary(UnaryOp::from_name("sqrt").unwrap());
    /// assert_eq!(root.dtype(), DType::F32);
    /// ```
    #[track_caller]
    pub fn unary(&self, op: UnaryOp) -> LazyBuffer {
        LazyBuffer::of(op.name(), [self], Location::caller(), |[held]| {
            if !op.takes(held.dtype().computed()) {
                return Err(Why::DType(held.dtype()));
            }
            Ok((Op::Unary(op), held.dtype(), held.shape().clone()))
        })
    }

    pub(crate) fn binary(
        &self,
        name: &'static str,
        op: BinaryOp,
        other: Operand,
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        let (left, right, shape) = self.broadcast_with(name, other, at);
        LazyBuffer::of(name, [&left, &right], at, |[left, right]| {
            let shape = shape.ok_or(Why::Broadcast)?;
            if left.dtype() != right.dtype() {
                return Err(Why::DTypes);
            }
            if !op.takes(left.dtype().computed()) {
                return Err(Why::DType(left.dtype()));
            }
            Ok((Op::Binary(op), left.dtype(), shape))
        })
    }

    pub(crate) fn compare(
        &self,
        name: &'static str,
        op: CompareOp,
        other: Operand,
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        let (left, right, shape) = self.broadcast_with(name, other, at);
        LazyBuffer::of(name, [&left, &right], at, |[left, right]| {
            let shape = shape.ok_or(Why::Broadcast)?;
            if left.dtype() != right.dtype() {
                return Err(Why::DTypes);
            }
            Ok((Op::Compare(op), DType::Bool, shape))
        })
    }

    /// Both sides in the shape that both are broadcast to, if there is one.
    fn broadcast_with(
        &self,
        name: &'static str,
        other: Operand,
        at: &'static Location<'static>,
    ) -> (LazyBuffer, LazyBuffer, Option<Shape>) {
        let other = match other {
            Operand::Buffer(buffer) => buffer,
            Operand::Number(number) => self.number(name, number, at),
        };
        match self.shape().broadcast(&other.shape()) {
            Some(shape) if self.error().is_none() && other.error().is_none() => (
                self.expand(&shape, at),
                other.expand(&shape, at),
                Some(shape),
            ),
            shape => (self.clone(), other, shape),
        }
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl<R: Into<Operand>> ops::$trait<R> for &LazyBuffer {
            type Output = LazyBuffer;

            #[track_caller]
            fn $method(self, other: R) -> LazyBuffer {
                self.binary(stringify!($method), BinaryOp::$op, other.into(), Location::caller())
            }
        }

        impl<R: Into<Operand>> ops::$trait<R> for LazyBuffer {
            type Output = LazyBuffer;

            #[track_caller]
            fn $method(self, other: R) -> LazyBuffer {
                self.binary(stringify!($method), BinaryOp::$op, other.into(), Location::caller())
            }
        }
    )*};
}

operators! {
    Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem,
    BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor, Shl shl Shl, Shr shr Shr
}

macro_rules! number_operators {
    ($($rust:ty),*; $ops:tt) => {$( number_operators!(@ $rust $ops); )*};
    (@ $rust:ty [$($trait:ident $method:ident $op:ident),*]) => {$(
        impl ops::$trait<&LazyBuffer> for $rust {
            type Output = LazyBuffer;

            #[track_caller]
            fn $method(self, other: &LazyBuffer) -> LazyBuffer {
                let (name, at) = (stringify!($method), Location::caller());
                let left = other.number(name, self.into(), at);
                left.binary(name, BinaryOp::$op, other.into(), at)
            }
        }

        impl ops::$trait<LazyBuffer> for $rust {
            type Output = LazyBuffer;

            #[track_caller]
            fn $method(self, other: LazyBuffer) -> LazyBuffer {
                let (name, at) = (stringify!($method), Location::caller());
                let left = other.number(name, self.into(), at);
                left.binary(name, BinaryOp::$op, other.into(), at)
            }
        }
    )*};
}

number_operators! {
    f64, f32, i64, i32, u64, u32, u8;
    [Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem]
}

macro_rules! unary_operators {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl ops::$trait for &LazyBuffer {
            type Output = LazyBuffer;

            #[track_caller]
            fn $method(self) -> LazyBuffer {
                self.unary(UnaryOp::$op)
            }
        }

        impl ops::$trait for LazyBuffer {
            type Output = LazyBuffer;

            #[track_caller]
            fn $method(self) -> LazyBuffer {
                self.unary(UnaryOp::$op)
            }
        }
    )*};
}

unary_operators! { Neg neg Neg, Not not Not }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unary_operation_has_a_method_of_its_name_or_a_sign() {
        for (method, op) in UNARY_METHODS {
            assert_eq!(*method, op.name());
        }
        let signs = [UnaryOp::Neg, UnaryOp::Not];
        let methods = UNARY_METHODS.iter().map(|(_, op)| *op);
        let mut all: Vec<UnaryOp> = methods.chain(signs).collect();
        all.sort();
        assert_eq!(all, UnaryOp::ALL);
    }
}
