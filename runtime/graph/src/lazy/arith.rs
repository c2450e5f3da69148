//! Arithmetic: elementwise methods and operators, broadcast as in NumPy.

use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};
use std::ops;

use crate::error::{By, Why, why};
use crate::lazy::buffer::{LazyBuffer, Operand};
use crate::lazy::node::Op;
use crate::literal::Literal;

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $method:ident => $op:ident),* $(,)?) => {
        /// Operations on one buffer.
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
    /// Returns the absolute value of each element.
    abs => Abs,
    /// Returns the square root of each element.
    sqrt => Sqrt,
    /// Returns `e` to the power of each element.
    exp => Exp,
    /// Returns the natural logarithm of each element.
    log => Log,
    /// Returns the sine of each element.
    sin => Sin,
    /// Returns the cosine of each element.
    cos => Cos,
    /// Returns the hyperbolic tangent of each element.
    tanh => Tanh,
    /// Returns the error function of each element.
    erf => Erf,
    /// Rounds each element down to an integer.
    floor => Floor,
    /// Rounds each element up to an integer.
    ceil => Ceil,
}

macro_rules! methods_of_two {
    ($(#[$about:meta])* $apply:ident $ops:ident: $($(#[$doc:meta])* $method:ident => $op:ident),* $(,)?) => {
        $(#[$about])*
        impl LazyBuffer {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $method(&self, other: impl Into<Operand>) -> LazyBuffer {
                self.$apply(By::new(stringify!($method)), $ops::$op, other.into())
            }
        )*}
    };
}

methods_of_two! {
    /// Operations on two buffers. A number takes the type of the buffer.
    binary BinaryOp:
    /// Returns the smaller of two elements; NaN if either is.
    minimum => Min,
    /// Returns the greater of two elements; NaN if either is.
    maximum => Max,
    /// Raises each element to a power.
    pow => Pow,
}

methods_of_two! {
    /// Comparisons, which return `bool`.
    compare CompareOp:
    /// Compares elements for equality.
    equals => Eq,
    /// Compares elements for inequality; NaN differs from everything.
    differs => Ne,
    /// Returns where this is less.
    less => Lt,
    /// Returns where this is less or equal.
    less_equal => Le,
    /// Returns where this is greater.
    greater => Gt,
    /// Returns where this is greater or equal.
    greater_equal => Ge,
}

/// Combinations of operations.
impl LazyBuffer {
    /// Returns `yes` where this buffer, of `bool`, is true, and `no` elsewhere. A number takes the type of the other
    /// operand; two numbers are `f32`.
    ///
    /// ```
    /// # use millstream_graph::{DType, Graph};
    /// let x = Graph::new().input("x", DType::F32, [8]);
    /// let relu = x.greater(0.0).select(&x, 0.0);
    /// assert_eq!(relu.dtype(), DType::F32);
    /// ```
    #[track_caller]
    pub fn select(&self, yes: impl Into<Operand>, no: impl Into<Operand>) -> LazyBuffer {
        let by = By::new("select");
        let (yes, no) = (yes.into(), no.into());
        let typed = match (&yes, &no, self.graph()) {
            (Operand::Buffer(typed), ..) | (_, Operand::Buffer(typed), _) => typed.clone(),
            (.., Some(graph)) => graph.constant(DType::F32, 0),
            (.., None) => return self.clone(),
        };
        let [yes, no] = [yes, no].map(|operand| operand.like(by, &typed));
        let parts = broadcast(by, [self, &yes, &no]);
        LazyBuffer::of(by, parts.each_ref(), |[condition, yes, no]| {
            if condition.shape != yes.shape || yes.shape != no.shape {
                return Err(why::BROADCAST);
            }
            if condition.dtype != DType::Bool {
                return Err(why::expected("the condition", DType::Bool, condition.dtype));
            }
            if yes.dtype != no.dtype {
                return Err(why::DTYPES);
            }
            Ok((Op::Select, yes.dtype, yes.shape.clone()))
        })
    }

    /// Casts the elements to another type. Floats to integers truncate towards zero, saturate, and map NaN to 0;
    /// integers to narrower ones keep the low bits; to `bool` everything but zero is true.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> LazyBuffer {
        let by = By::new("cast");
        if self.dtype() == dtype {
            return self.same_values(by);
        }
        LazyBuffer::of(by, [self], |[node_ref]| {
            Ok((Op::Cast, dtype, node_ref.shape.clone()))
        })
    }

    /// Returns the reciprocal of each element.
    #[track_caller]
    pub fn recip(&self) -> LazyBuffer {
        let by = By::new("recip");
        let one = self.number(by, Literal::Int(1));
        one.binary(by, BinaryOp::Div, self.into())
    }

    /// Returns the square of each element.
    #[track_caller]
    pub fn square(&self) -> LazyBuffer {
        self.binary(By::new("square"), BinaryOp::Mul, self.into())
    }
}

/// Operations by name, for programs that translate other graphs.
impl LazyBuffer {
    /// Applies an operation to each element.
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
        LazyBuffer::of(By::new(op.name()), [self], |[node_ref]| {
            if !op.takes(node_ref.dtype.computed()) {
                return Err(why::dtype(node_ref.dtype));
            }
            Ok((Op::Unary(op), node_ref.dtype, node_ref.shape.clone()))
        })
    }

    pub(crate) fn binary(&self, by: By, op: BinaryOp, other: Operand) -> Self {
        self.of_two(by, other, |dtype| match op.takes(dtype.computed()) {
            true => Ok((Op::Binary(op), dtype)),
            false => Err(why::dtype(dtype)),
        })
    }

    fn compare(&self, by: By, op: CompareOp, other: Operand) -> Self {
        self.of_two(by, other, |_| Ok((Op::Compare(op), DType::Bool)))
    }

    /// Returns what `op` makes of two operands of one type, which are broadcast to their common shape.
    fn of_two(
        &self,
        by: By,
        other: Operand,
        op: impl FnOnce(DType) -> Result<(Op, DType), Why>,
    ) -> Self {
        let parts = broadcast(by, [self, &other.like(by, self)]);
        LazyBuffer::of(by, parts.each_ref(), |[left, right]| {
            if left.shape != right.shape {
                return Err(why::BROADCAST);
            }
            if left.dtype != right.dtype {
                return Err(why::DTYPES);
            }
            let (op, dtype) = op(left.dtype)?;
            Ok((op, dtype, left.shape.clone()))
        })
    }
}

/// Broadcasts buffers to their common shape, if they have one.
fn broadcast<const N: usize>(by: By, buffers: [&LazyBuffer; N]) -> [LazyBuffer; N] {
    let mut shapes = buffers.iter().map(|buffer| buffer.shape());
    let first = shapes.next();
    let common = first.and_then(|first| shapes.try_fold(first, |all, next| all.broadcast(&next)));
    buffers.map(|buffer| match &common {
        Some(shape) => buffer.expand(by, shape),
        None => buffer.clone(),
    })
}

macro_rules! operators {
    ($($this:ty),*; $ops:tt) => {$( operators!(@ $this $ops); )*};
    (@ $this:ty [$($trait:ident $method:ident $op:ident),*]) => {$(
        impl<R: Into<Operand>> ops::$trait<R> for $this {
            type Output = LazyBuffer;

            #[track_caller]
            fn $method(self, other: R) -> LazyBuffer {
                self.binary(By::new(stringify!($method)), BinaryOp::$op, other.into())
            }
        }
    )*};
}

operators! {
    LazyBuffer, &LazyBuffer;
    [Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem,
     BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor, Shl shl Shl, Shr shr Shr]
}

macro_rules! number_operators {
    ($($number:ty),*; $ops:tt) => {$(
        number_operators!(@ $number, LazyBuffer, $ops);
        number_operators!(@ $number, &LazyBuffer, $ops);
    )*};
    (@ $number:ty, $other:ty, [$($trait:ident $method:ident $op:ident),*]) => {$(
        impl ops::$trait<$other> for $number {
            type Output = LazyBuffer;

            #[track_caller]
            fn $method(self, other: $other) -> LazyBuffer {
                let by = By::new(stringify!($method));
                other.number(by, self.into()).binary(by, BinaryOp::$op, other.into())
            }
        }
    )*};
}

number_operators! {
    f64, f32, i64, i32, u64, u32, u8;
    [Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem]
}

macro_rules! unary_operators {
    ($($this:ty),*) => {$(
        impl ops::Neg for $this {
            type Output = LazyBuffer;

            #[track_caller]
            fn neg(self) -> LazyBuffer {
                self.unary(UnaryOp::Neg)
            }
        }

        impl ops::Not for $this {
            type Output = LazyBuffer;

            #[track_caller]
            fn not(self) -> LazyBuffer {
                self.unary(UnaryOp::Not)
            }
        }
    )*};
}

unary_operators! { LazyBuffer, &LazyBuffer }

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
