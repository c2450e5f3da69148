//! The meaning of every operation: the reference for all devices.
//!
//! A value is represented by its bits in the low part of a `u64` whose other bits are zero; a bool is 0 or 1. A
//! function is chosen once, by operation and type, and then works on bits, so an interpreter chooses once for each
//! statement. [`Number`] is the same value as a number, for casts and for tests.
//!
//! ```
//! use millstream_ir::{BinaryOp, DType, scalar};
//!
//! let divide = scalar::binary(BinaryOp::Div, DType::I32).unwrap();
//! assert_eq!(divide(7, 2), 3);
//! assert_eq!(divide(7, 0), 0);
//! ```
//!
//! | operation | accuracy |
//! | --- | --- |
//! | integers and bools | exact |
//! | `+ - * / %`, roots, `floor`, `ceil`, casts of floats | exact: rounded once, to nearest, ties to even |
//! | `exp`, `sin` and similar functions, powers | `f64`, rounded once; a device may differ by [`UnaryOp::units`] |
//! | sums and products of floats, matrix products | `f64`, in order, rounded once; a device may reorder |
//! | NaN | is NaN; sign and payload are not defined |
//! | minimum or maximum of 0.0 and -0.0 | either |
//!
//! [`arith`] has the exact operations on Rust types.
//!
//! Halves are only stored, compared and cast; programs cast to `f32` before they compute. The CPU's executor of SSA
//! functions uses these functions; the tile interpreter and GPUs have their own, which tests compare with these.
//! `docs/guide/operations.md` describes how to add an operation.

/// Evaluates an expression in which a name stands for the Rust type of a dtype.
macro_rules! with_type {
    ($dtype:expr, $name:ident => $body:expr) => {
        with_type!(@ $dtype, $name, $body, F64 f64, I64 i64, U64 u64, F32 f32, I32 i32, U32 u32, F16 f16, Bf16 bf16,
            I16 i16, U16 u16, I8 i8, U8 u8, Bool bool)
    };
    (@ $dtype:expr, $name:ident, $body:expr, $($variant:ident $rust:ident),*) => {
        match $dtype {
            $(DType::$variant => {
                type $name = $rust;
                $body
            })*
        }
    };
}

pub mod arith;
mod element;
mod functions;
mod number;

use half::{bf16, f16};
pub use number::Number;

use crate::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// Conversions between numbers and elements of a type.
impl Number {
    /// Returns the value of these bits in a type.
    pub fn of(dtype: DType, bits: u64) -> Self {
        with_type!(dtype, T => T::of(bits).value())
    }

    /// Returns the first element of these bytes.
    ///
    /// # Panics
    /// If there are fewer bytes than an element has.
    pub fn load(dtype: DType, bytes: &[u8]) -> Self {
        Self::of(dtype, load(dtype, bytes))
    }

    /// Returns the bits of this value, [cast](crate::scalar::cast) to a type.
    pub fn bits(self, dtype: DType) -> u64 {
        with_type!(dtype, T => T::near(self).bits())
    }

    /// Returns the bits of this number in a type that can represent it: floats take any number, rounded; integers take
    /// integers in their range. `None` for bools.
    pub fn exact_bits(self, dtype: DType) -> Option<u64> {
        let bits = self.bits(dtype);
        let has = match Number::of(dtype, bits) {
            Number::Float(_) => true,
            Number::Whole(_) if dtype == DType::Bool => false,
            Number::Whole(near) => near == self.whole() && self.float().fract() == 0.0,
        };
        has.then_some(bits)
    }
}

/// A function of the bits of one value.
pub type Unary = fn(u64) -> u64;
/// A function of the bits of two values.
pub type Binary = fn(u64, u64) -> u64;
/// A function of the bits of three values.
pub type Ternary = fn(u64, u64, u64) -> u64;

/// Returns the function of an operation on values of this type. `None` if [`UnaryOp::takes`] refuses the type.
pub fn unary(op: UnaryOp, dtype: DType) -> Option<Unary> {
    with_type!(dtype, T => T::unary(op))
}

/// Returns the function of an operation on two values of this type. `None` if [`BinaryOp::takes`] refuses the type.
pub fn binary(op: BinaryOp, dtype: DType) -> Option<Binary> {
    with_type!(dtype, T => T::binary(op))
}

/// Returns the function that compares two values of this type.
pub fn compare(op: CompareOp, dtype: DType) -> Binary {
    fn of<T: Element>(op: CompareOp) -> Binary {
        match op {
            CompareOp::Eq => |a, b| u64::from(T::of(a) == T::of(b)),
            CompareOp::Ne => |a, b| u64::from(T::of(a) != T::of(b)),
            CompareOp::Lt => |a, b| u64::from(T::of(a) < T::of(b)),
            CompareOp::Le => |a, b| u64::from(T::of(a) <= T::of(b)),
            CompareOp::Gt => |a, b| u64::from(T::of(a) > T::of(b)),
            CompareOp::Ge => |a, b| u64::from(T::of(a) >= T::of(b)),
        }
    }
    with_type!(dtype, T => of::<T>(op))
}

/// Returns the function of a cast. Floats to integers truncate towards zero, saturate, and map NaN to 0; integers to
/// narrower ones keep the low bits; to `bool` everything but zero is true; conversions to floats round once.
pub fn cast(from: DType, to: DType) -> Unary {
    fn into<A: Element>(to: DType) -> Unary {
        with_type!(to, B => |bits| B::near(A::of(bits).value()).bits())
    }
    with_type!(from, A => into::<A>(to))
}

/// Returns `yes` if the condition, a bool, is true, otherwise `no`.
pub fn select(condition: u64, yes: u64, no: u64) -> u64 {
    if condition == 0 { no } else { yes }
}

/// Returns the function `a * b + c`, rounded once. `None` except for `f64` and `f32`.
pub fn fma(dtype: DType) -> Option<Ternary> {
    match dtype {
        DType::F64 => Some(|a, b, c| f64::of(a).mul_add(f64::of(b), f64::of(c)).bits()),
        DType::F32 => Some(|a, b, c| f32::of(a).mul_add(f32::of(b), f32::of(c)).bits()),
        _ => None,
    }
}

/// Returns the operation that combines two partial results of a reduction. `None` for those that return an index.
pub const fn combines(op: ReduceOp) -> Option<BinaryOp> {
    match op {
        ReduceOp::Sum => Some(BinaryOp::Add),
        ReduceOp::Prod => Some(BinaryOp::Mul),
        ReduceOp::Min => Some(BinaryOp::Min),
        ReduceOp::Max => Some(BinaryOp::Max),
        ReduceOp::ArgMin | ReduceOp::ArgMax => None,
    }
}

/// Returns the bits of the neutral element, for example the greatest value for a minimum. For floats these are the
/// infinities.
pub fn neutral(op: ReduceOp, dtype: DType) -> u64 {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Prod => Number::Whole(1).bits(dtype),
        ReduceOp::Min | ReduceOp::ArgMin if dtype == DType::Bool => 1,
        ReduceOp::Max | ReduceOp::ArgMax if dtype == DType::Bool => 0,
        // The cast saturates at the ends of the range.
        ReduceOp::Min | ReduceOp::ArgMin => Number::Float(f64::INFINITY).bits(dtype),
        ReduceOp::Max | ReduceOp::ArgMax => Number::Float(f64::NEG_INFINITY).bits(dtype),
    }
}

/// Returns the low bits of a word as a value of this type. For bools everything but zero is true.
pub fn of_word(dtype: DType, word: u64) -> u64 {
    let bits = word & (u64::MAX >> (64 - 8 * dtype.size()));
    match dtype {
        DType::Bool => u64::from(bits != 0),
        _ => bits,
    }
}

/// Returns the bits of the first element of these bytes.
///
/// # Panics
/// If there are fewer bytes than an element has.
pub fn load(dtype: DType, bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..dtype.size()].copy_from_slice(&bytes[..dtype.size()]);
    of_word(dtype, u64::from_le_bytes(word))
}

/// Stores an element at the start of these bytes.
///
/// # Panics
/// If there are fewer bytes than an element has.
pub fn store(dtype: DType, bits: u64, bytes: &mut [u8]) {
    bytes[..dtype.size()].copy_from_slice(&bits.to_le_bytes()[..dtype.size()]);
}

/// Returns the first of the four words of Philox4x32-10 for a counter in their low half.
///
/// Inlined always: callers compile it with the instructions of their processor.
#[inline(always)]
pub fn random(seed: u64, counter: u64) -> u64 {
    let mut x = [counter as u32, (counter >> 32) as u32, 0, 0];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let [low, high] =
            [(0xd251_1f53_u64, x[0]), (0xcd9e_8d57, x[2])].map(|(by, word)| by * u64::from(word));
        x = [
            (high >> 32) as u32 ^ x[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ x[3] ^ key[1],
            low as u32,
        ];
        key = [
            key[0].wrapping_add(0x9e37_79b9),
            key[1].wrapping_add(0xbb67_ae85),
        ];
    }
    x[0].into()
}

/// A Rust type that represents an element type.
trait Element: Copy + PartialOrd {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn value(self) -> Number;
    /// Casts a value to this type.
    fn near(value: Number) -> Self;

    fn unary(_op: UnaryOp) -> Option<Unary> {
        None
    }

    fn binary(_op: BinaryOp) -> Option<Binary> {
        None
    }
}
