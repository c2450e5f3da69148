//! The handles of a builder: values, places in memory, variables.

use std::ops;

use super::{AtomicOp, Builder, Memory, Op, Scope, Shuffle, Stmt, Type, ValueId};
use crate::scalar::Number;
use crate::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// A value of the function under construction.
#[derive(Clone, Copy, Debug)]
pub struct Val<'k> {
    builder: &'k Builder,
    id: ValueId,
    of: Type,
}

/// A value, or a number, which takes the type of its context.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'k> {
    /// A value.
    Val(Val<'k>),
    /// An integer; of this type if the context has none.
    Int(i64, DType),
    /// A float; of this type if the context has none.
    Float(f64, DType),
}

/// A buffer or an array.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRef<'k> {
    builder: &'k Builder,
    memory: Memory,
    dtype: DType,
}

/// A variable of each thread.
#[derive(Clone, Copy, Debug)]
pub struct Var<'k>(MemoryRef<'k>);

impl<'k> Val<'k> {
    pub(super) fn new(builder: &'k Builder, id: ValueId, of: Type) -> Self {
        Self { builder, id, of }
    }

    /// Returns the type.
    pub fn of(self) -> Type {
        self.of
    }

    /// Returns the id in the function.
    pub fn id(self) -> ValueId {
        self.id
    }

    pub(super) fn builder(self) -> &'k Builder {
        self.builder
    }

    /// Applies an operation.
    pub fn unary(self, op: UnaryOp) -> Self {
        self.builder.value(self.of, Op::Unary(op, self.id))
    }

    /// Applies an operation with another operand.
    pub fn binary(self, op: BinaryOp, other: impl Into<Operand<'k>>) -> Self {
        let other = self.with(other);
        self.builder.value(self.of, Op::Binary(op, self.id, other))
    }

    /// Compares with another value; the result is a `bool`.
    pub fn compare(self, op: CompareOp, other: impl Into<Operand<'k>>) -> Self {
        let other = self.with(other);
        let of = self.of.with(DType::Bool);
        self.builder.value(of, Op::Compare(op, self.id, other))
    }

    /// Returns whether it is less.
    pub fn lt(self, other: impl Into<Operand<'k>>) -> Self {
        self.compare(CompareOp::Lt, other)
    }

    /// Returns whether it is equal.
    pub fn eq(self, other: impl Into<Operand<'k>>) -> Self {
        self.compare(CompareOp::Eq, other)
    }

    /// Returns the smaller value.
    pub fn min(self, other: impl Into<Operand<'k>>) -> Self {
        self.binary(BinaryOp::Min, other)
    }

    /// Returns the greater value.
    pub fn max(self, other: impl Into<Operand<'k>>) -> Self {
        self.binary(BinaryOp::Max, other)
    }

    /// Returns `a` if this `bool` is true, otherwise `b`.
    pub fn select(self, a: Val<'k>, b: impl Into<Operand<'k>>) -> Self {
        let b = a.with(b);
        let a_id = self.builder.checked_id(a);
        self.builder.value(a.of, Op::Select(self.id, a_id, b))
    }

    /// Casts the value to another type.
    pub fn cast(self, dtype: DType) -> Self {
        if dtype == self.of.dtype {
            return self;
        }
        self.builder.value(self.of.with(dtype), Op::Cast(self.id))
    }

    /// Reinterprets the bits as another type of the same size.
    pub fn bits(self, dtype: DType) -> Self {
        if dtype == self.of.dtype {
            return self;
        }
        self.builder.value(self.of.with(dtype), Op::Bits(self.id))
    }

    /// Returns `self * a + b`, rounded once.
    pub fn fma(self, a: impl Into<Operand<'k>>, b: impl Into<Operand<'k>>) -> Self {
        let (a, b) = (self.with(a), self.with(b));
        self.builder.value(self.of, Op::Fma(self.id, a, b))
    }

    /// Returns one lane.
    pub fn lane(self, lane: u8) -> Self {
        let of = Type::one(self.of.dtype);
        self.builder.value(of, Op::Lane(self.id, lane))
    }

    /// Returns the value in each of `lanes` lanes.
    pub fn splat(self, lanes: u8) -> Self {
        if lanes == 1 {
            return self;
        }
        let dtype = self.of.dtype;
        self.builder
            .value(Type { dtype, lanes }, Op::Splat(self.id))
    }

    /// Reduces the values of all threads of the cube; all get the result. All threads must reach it.
    pub fn reduce(self, op: ReduceOp) -> Self {
        self.builder.reduce(Scope::Cube, op, self)
    }

    /// Reduces the values of a [subgroup](Scope::Subgroup) of this many threads. All threads of the cube must reach it.
    pub fn reduce_subgroup(self, width: u32, op: ReduceOp) -> Self {
        self.builder.reduce(Scope::Subgroup(width), op, self)
    }

    /// Returns this value as another thread of a subgroup of `width` threads has it. All threads of the cube must reach it.
    pub fn shuffle(self, from: Shuffle, width: u32, by: impl Into<Operand<'k>>) -> Self {
        let by = by.into().typed(self.builder, DType::I64.into());
        let (value, by) = (self.builder.checked_id(self), self.builder.checked_id(by));
        self.builder
            .value(self.of, Op::Shuffle(from, width, value, by))
    }

    /// Returns the other operand as a value of this value's type.
    fn with(self, other: impl Into<Operand<'k>>) -> ValueId {
        let other = other.into().typed(self.builder, self.of);
        self.builder.checked_id(other)
    }
}

impl<'k> Operand<'k> {
    /// Returns the operand as a value. A number takes this type: a whole number is converted to a float, and refused by the
    /// check if it is not finite there; a float takes `f32` and `f64`, and is refused for others.
    pub(super) fn typed(self, builder: &'k Builder, of: Type) -> Val<'k> {
        let bits = match self {
            Operand::Val(value) => return value,
            Operand::Int(x, _) if of.dtype.is_float() => {
                let bits = Number::Whole(x.into()).bits(of.dtype);
                let is_infinite = of.dtype == DType::F16 && bits & 0x7c00 == 0x7c00;
                // The check refuses bits that the type does not have.
                if is_infinite { x as u64 } else { bits }
            }
            Operand::Int(x, _) => {
                // The check refuses bits that the type does not have.
                let mask = u64::MAX >> (64 - 8 * of.dtype.size());
                let half = (mask / 2) as i64;
                let fits = x >= -half - 1 && (x <= half || x as u64 <= mask);
                if fits { x as u64 & mask } else { x as u64 }
            }
            Operand::Float(x, _) if matches!(of.dtype, DType::F32 | DType::F64) => {
                Number::Float(x).bits(of.dtype)
            }
            Operand::Float(..) => return self.natural(builder),
        };
        builder.bits(of, bits)
    }

    /// Returns the operand as a value of its own type.
    pub(super) fn natural(self, builder: &'k Builder) -> Val<'k> {
        match self {
            Operand::Val(value) => value,
            Operand::Int(_, dtype) => self.typed(builder, dtype.into()),
            Operand::Float(_, DType::F64) => self.typed(builder, DType::F64.into()),
            Operand::Float(..) => self.typed(builder, DType::F32.into()),
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

// An untyped integer is an `i32` in Rust; here it is an index, an `i64`.
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

impl<'k> MemoryRef<'k> {
    pub(super) fn new(builder: &'k Builder, memory: Memory, dtype: DType) -> Self {
        Self {
            builder,
            memory,
            dtype,
        }
    }

    /// Returns the type of the elements.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// Loads the element at this index.
    pub fn get(self, at: impl Into<Operand<'k>>) -> Val<'k> {
        self.get_wide(at, 1)
    }

    /// Loads `lanes` neighbours from this index on, which is a multiple of `lanes`.
    pub fn get_wide(self, at: impl Into<Operand<'k>>, lanes: u8) -> Val<'k> {
        let at = self.index(at);
        let dtype = self.dtype;
        let op = Op::Load(self.memory, Some(at));
        self.builder.value(Type { dtype, lanes }, op)
    }

    /// Stores an element at this index; of a wide value all lanes from there on.
    pub fn set(self, at: impl Into<Operand<'k>>, value: impl Into<Operand<'k>>) {
        let at = Some(self.index(at));
        let value = self.element(value);
        let to = self.memory;
        self.builder.push(Stmt::Store { to, at, value });
    }

    /// Adds to the element at this index atomically. Returns what it was before.
    pub fn add(self, at: impl Into<Operand<'k>>, value: impl Into<Operand<'k>>) -> Val<'k> {
        self.fetch(BinaryOp::Add, at, value)
    }

    /// Replaces the element at this index atomically by the result of an operation on it and a value. Returns what it was
    /// before.
    pub fn fetch(
        self,
        op: BinaryOp,
        at: impl Into<Operand<'k>>,
        value: impl Into<Operand<'k>>,
    ) -> Val<'k> {
        let at = self.index(at);
        self.atomic(AtomicOp::Update(op, self.element(value)), at)
    }

    /// Replaces the element at this index atomically. Returns what it was before.
    pub fn swap(self, at: impl Into<Operand<'k>>, value: impl Into<Operand<'k>>) -> Val<'k> {
        let at = self.index(at);
        self.atomic(AtomicOp::Swap(self.element(value)), at)
    }

    /// Replaces the element at this index atomically by `new` if it is `expected`. Returns what it was before.
    pub fn compare_exchange(
        self,
        at: impl Into<Operand<'k>>,
        expected: impl Into<Operand<'k>>,
        new: impl Into<Operand<'k>>,
    ) -> Val<'k> {
        let at = self.index(at);
        let (expected, new) = (self.element(expected), self.element(new));
        self.atomic(AtomicOp::CompareExchange(expected, new), at)
    }

    /// Loads the element at this index atomically.
    pub fn get_atomic(self, at: impl Into<Operand<'k>>) -> Val<'k> {
        let at = self.index(at);
        self.atomic(AtomicOp::Load, at)
    }

    fn atomic(self, op: AtomicOp, at: ValueId) -> Val<'k> {
        let op = Op::Atomic(op, self.memory, at);
        self.builder.value(self.dtype.into(), op)
    }

    fn index(self, at: impl Into<Operand<'k>>) -> ValueId {
        let at = at.into().typed(self.builder, DType::I64.into());
        self.builder.checked_id(at)
    }

    fn element(self, value: impl Into<Operand<'k>>) -> ValueId {
        let value = value.into().typed(self.builder, self.dtype.into());
        self.builder.checked_id(value)
    }
}

impl<'k> Var<'k> {
    pub(super) fn new(place: MemoryRef<'k>) -> Self {
        Self(place)
    }

    /// Loads the variable.
    pub fn get(self) -> Val<'k> {
        let MemoryRef {
            builder,
            memory,
            dtype,
        } = self.0;
        builder.value(dtype.into(), Op::Load(memory, None))
    }

    /// Stores to the variable.
    pub fn set(self, value: impl Into<Operand<'k>>) {
        let value = self.0.element(value);
        let (to, at) = (self.0.memory, None);
        self.0.builder.push(Stmt::Store { to, at, value });
    }
}

impl Builder {
    /// Returns a constant of this type from its bits.
    pub fn bits(&self, of: impl Into<Type>, bits: u64) -> Val<'_> {
        self.value(of.into(), Op::Const(bits))
    }

    /// Returns the value of an operation; an equal one if that is computed already.
    pub(super) fn value(&self, of: Type, op: Op) -> Val<'_> {
        Val::new(self, self.value_id(of, op), of)
    }

    /// Returns the id of a value. Records an error if the value belongs to another builder.
    pub(super) fn checked_id(&self, value: Val<'_>) -> ValueId {
        self.check_owner(value.builder());
        value.id()
    }

    /// Returns a memory's place in the function. Records an error if it belongs to another builder.
    pub(super) fn checked_memory(&self, memory: MemoryRef<'_>) -> Option<Memory> {
        self.check_owner(memory.builder).then_some(memory.memory)
    }

    pub(super) fn reduce<'k>(&'k self, scope: Scope, op: ReduceOp, value: Val<'k>) -> Val<'k> {
        self.value(value.of(), Op::Reduce(scope, op, self.checked_id(value)))
    }
}
