//! What a builder hands out: values, places in memory, variables.

use std::ops;

use super::{Builder, Memory, Op, Scope, Stmt, Type, ValueId};
use crate::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// A value of the function that is being built.
#[derive(Clone, Copy, Debug)]
pub struct Val<'k> {
    builder: &'k Builder,
    id: ValueId,
    of: Type,
}

/// A value, or a number that becomes one of the type that is called for.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'k> {
    /// A value.
    Val(Val<'k>),
    /// A whole number; where nothing calls for a type, of this one.
    Int(i64, DType),
    /// A float; where nothing calls for a type, of this one.
    Float(f64, DType),
}

/// A buffer, or an array.
#[derive(Clone, Copy, Debug)]
pub struct Place<'k> {
    builder: &'k Builder,
    memory: Memory,
    dtype: DType,
}

/// A variable of each thread.
#[derive(Clone, Copy, Debug)]
pub struct Var<'k>(Place<'k>);

impl<'k> Val<'k> {
    pub(super) fn new(builder: &'k Builder, id: ValueId, of: Type) -> Self {
        Self { builder, id, of }
    }

    /// Its type.
    pub fn of(self) -> Type {
        self.of
    }

    /// Which of its function's values it is.
    pub fn id(self) -> ValueId {
        self.id
    }

    pub(super) fn builder(self) -> &'k Builder {
        self.builder
    }

    /// Something done to it.
    pub fn unary(self, op: UnaryOp) -> Self {
        self.builder.value(self.of, Op::Unary(op, self.id))
    }

    /// Something done to it and another.
    pub fn binary(self, op: BinaryOp, other: impl Into<Operand<'k>>) -> Self {
        let other = self.with(other);
        self.builder.value(self.of, Op::Binary(op, self.id, other))
    }

    /// It compared with another: a `bool`.
    pub fn compare(self, op: CompareOp, other: impl Into<Operand<'k>>) -> Self {
        let other = self.with(other);
        let of = self.of.with(DType::Bool);
        self.builder.value(of, Op::Compare(op, self.id, other))
    }

    /// Is it less?
    pub fn lt(self, other: impl Into<Operand<'k>>) -> Self {
        self.compare(CompareOp::Lt, other)
    }

    /// Is it the same?
    pub fn eq(self, other: impl Into<Operand<'k>>) -> Self {
        self.compare(CompareOp::Eq, other)
    }

    /// The smaller.
    pub fn min(self, other: impl Into<Operand<'k>>) -> Self {
        self.binary(BinaryOp::Min, other)
    }

    /// The greater.
    pub fn max(self, other: impl Into<Operand<'k>>) -> Self {
        self.binary(BinaryOp::Max, other)
    }

    /// Of a `bool`: the first where it is true, the second elsewhere.
    pub fn select(self, a: Val<'k>, b: impl Into<Operand<'k>>) -> Self {
        let b = a.with(b);
        let a_id = self.builder.own(a);
        self.builder.value(a.of, Op::Select(self.id, a_id, b))
    }

    /// It as a value of another type.
    pub fn cast(self, dtype: DType) -> Self {
        if dtype == self.of.dtype {
            return self;
        }
        self.builder.value(self.of.with(dtype), Op::Cast(self.id))
    }

    /// Its bits as another type of the same size.
    pub fn bits(self, dtype: DType) -> Self {
        if dtype == self.of.dtype {
            return self;
        }
        self.builder.value(self.of.with(dtype), Op::Bits(self.id))
    }

    /// `self * a + b`, rounded once.
    pub fn fma(self, a: impl Into<Operand<'k>>, b: impl Into<Operand<'k>>) -> Self {
        let (a, b) = (self.with(a), self.with(b));
        self.builder.value(self.of, Op::Fma(self.id, a, b))
    }

    /// One lane of it.
    pub fn lane(self, lane: u8) -> Self {
        let of = Type::one(self.of.dtype);
        self.builder.value(of, Op::Lane(self.id, lane))
    }

    /// It in each of so many lanes.
    pub fn splat(self, lanes: u8) -> Self {
        if lanes == 1 {
            return self;
        }
        let dtype = self.of.dtype;
        self.builder
            .value(Type { dtype, lanes }, Op::Splat(self.id))
    }

    /// Those of all threads of the cube made one, which all know. All of them come here.
    pub fn reduce(self, op: ReduceOp) -> Self {
        self.builder.reduce(Scope::Cube, op, self)
    }

    /// Those of the threads that differ along x alone made one.
    pub fn reduce_row(self, op: ReduceOp) -> Self {
        self.builder.reduce(Scope::Row, op, self)
    }

    /// The other, as a value of this one's type.
    fn with(self, other: impl Into<Operand<'k>>) -> ValueId {
        let other = other.into().typed(self.builder, self.of);
        self.builder.own(other)
    }
}

impl<'k> Operand<'k> {
    /// As a value; a number becomes one of this type.
    pub(super) fn typed(self, builder: &'k Builder, of: Type) -> Val<'k> {
        let bits = match (self, of.dtype) {
            (Operand::Val(value), _) => return value,
            (Operand::Int(x, _), DType::F32) => u64::from((x as f32).to_bits()),
            (Operand::Int(x, _), DType::F64) => (x as f64).to_bits(),
            (Operand::Float(x, _), DType::F32) => u64::from((x as f32).to_bits()),
            (Operand::Float(x, _), DType::F64) => x.to_bits(),
            // A number that the type has not is refused by the verifier: its bits are too many, or its type.
            (Operand::Int(x, _), dtype) => match dtype.size() {
                8 => x as u64,
                bytes => {
                    let mask = (1 << (8 * bytes)) - 1;
                    let fits = x >= -(mask / 2 + 1) && x <= mask;
                    (if fits { x & mask } else { x }) as u64
                }
            },
            (Operand::Float(x, natural), _) => {
                return Operand::Float(x, natural).natural(builder);
            }
        };
        builder.bits(of, bits)
    }

    /// As a value of the type that it says itself.
    pub(super) fn natural(self, builder: &'k Builder) -> Val<'k> {
        match self {
            Operand::Val(value) => value,
            Operand::Int(_, dtype) => self.typed(builder, dtype.into()),
            Operand::Float(x, DType::F64) => builder.bits(DType::F64, x.to_bits()),
            Operand::Float(x, _) => builder.bits(DType::F32, u64::from((x as f32).to_bits())),
        }
    }
}

impl<'k> From<Val<'k>> for Operand<'k> {
    fn from(value: Val<'k>) -> Self {
        Operand::Val(value)
    }
}

macro_rules! numbers {
    ($($from:ty => $variant:ident($dtype:ident)),*) => {
        $(impl From<$from> for Operand<'_> {
            fn from(value: $from) -> Self {
                Operand::$variant(value.into(), DType::$dtype)
            }
        })*
    };
}

// A number without a type is an `i32` in Rust, and here an index: an `i64`.
numbers!(i32 => Int(I64), u32 => Int(U32), i64 => Int(I64), f32 => Float(F32), f64 => Float(F64));

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),*) => {
        $(impl<'k, T: Into<Operand<'k>>> ops::$trait<T> for Val<'k> {
            type Output = Val<'k>;

            fn $method(self, other: T) -> Val<'k> {
                self.binary(BinaryOp::$op, other)
            }
        })*
    };
}

operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem, BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor);

impl<'k> ops::Neg for Val<'k> {
    type Output = Val<'k>;

    fn neg(self) -> Val<'k> {
        self.unary(UnaryOp::Neg)
    }
}

impl<'k> ops::Not for Val<'k> {
    type Output = Val<'k>;

    fn not(self) -> Val<'k> {
        self.unary(UnaryOp::Not)
    }
}

impl<'k> Place<'k> {
    pub(super) fn new(builder: &'k Builder, memory: Memory, dtype: DType) -> Self {
        Self {
            builder,
            memory,
            dtype,
        }
    }

    /// The type of its elements.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The element at this index.
    pub fn get(self, at: impl Into<Operand<'k>>) -> Val<'k> {
        self.get_wide(at, 1)
    }

    /// So many neighbours from this index on, which is a multiple of their number.
    pub fn get_wide(self, at: impl Into<Operand<'k>>, lanes: u8) -> Val<'k> {
        let at = self.index(at);
        let dtype = self.dtype;
        let op = Op::Load(self.memory, Some(at));
        self.builder.value(Type { dtype, lanes }, op)
    }

    /// Writes the element at this index; of a wide value, all neighbours from there on.
    pub fn set(self, at: impl Into<Operand<'k>>, value: impl Into<Operand<'k>>) {
        let at = Some(self.index(at));
        let value = self.element(value);
        let to = self.memory;
        self.builder.push(Stmt::Store { to, at, value });
    }

    /// Adds to the element at this index at once, whoever else does.
    pub fn add(self, at: impl Into<Operand<'k>>, value: impl Into<Operand<'k>>) {
        let at = self.index(at);
        let value = self.element(value);
        let to = self.memory;
        self.builder.push(Stmt::AtomicAdd { to, at, value });
    }

    fn index(self, at: impl Into<Operand<'k>>) -> ValueId {
        let at = at.into().typed(self.builder, DType::I64.into());
        self.builder.own(at)
    }

    fn element(self, value: impl Into<Operand<'k>>) -> ValueId {
        let value = value.into().typed(self.builder, self.dtype.into());
        self.builder.own(value)
    }
}

impl<'k> Var<'k> {
    pub(super) fn new(place: Place<'k>) -> Self {
        Self(place)
    }

    /// What it is now.
    pub fn get(self) -> Val<'k> {
        let Place {
            builder,
            memory,
            dtype,
        } = self.0;
        builder.value(dtype.into(), Op::Load(memory, None))
    }

    /// Makes it this.
    pub fn set(self, value: impl Into<Operand<'k>>) {
        let value = self.0.element(value);
        let (to, at) = (self.0.memory, None);
        self.0.builder.push(Stmt::Store { to, at, value });
    }
}

impl Builder {
    /// A constant of this type, by its bits.
    pub fn bits(&self, of: impl Into<Type>, bits: u64) -> Val<'_> {
        self.value(of.into(), Op::Const(bits))
    }

    /// The value of an operation: one that is known, where it is the same.
    pub(super) fn value(&self, of: Type, op: Op) -> Val<'_> {
        Val::new(self, self.value_id(of, op), of)
    }

    /// A value's id; notes one of another builder's.
    pub(super) fn own(&self, value: Val<'_>) -> ValueId {
        self.note(value.builder());
        value.id()
    }

    pub(super) fn reduce<'k>(&'k self, scope: Scope, op: ReduceOp, value: Val<'k>) -> Val<'k> {
        self.value(value.of(), Op::Reduce(scope, op, self.own(value)))
    }
}
