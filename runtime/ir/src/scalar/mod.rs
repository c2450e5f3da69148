//! What every operation means: the one reference for all devices.
//!
//! A value is its bits, in the low part of a `u64` whose other bits are zero; a truth value is 0 or 1. A function is chosen once, by
//! operation and type, and then works on bits, so that an interpreter chooses once for each statement. [`Number`] is the same value as a
//! number, for casts and for tests.
//!
//! ```
//! use millstream_ir::{BinaryOp, DType, scalar};
//!
//! let divide = scalar::binary(BinaryOp::Div, DType::I32).unwrap();
//! assert_eq!(divide(7, 2), 3);
//! assert_eq!(divide(7, 0), 0);
//! ```
//!
//! | what | how exact it is |
//! | --- | --- |
//! | integers and truth values | to the bit |
//! | `+ - * / %`, roots, `floor`, `ceil`, casts of floats | to the bit: rounded once, to nearest, ties to even |
//! | `exp`, `sin` and their like, powers | computed in `f64` and rounded once; a device may be [`UnaryOp::units`] away |
//! | sums and products of floats, [`reduce`] and [`dot`] | in `f64`, one after the other, rounded once; a device adds in its own order |
//! | NaN | that it is one: its sign and payload are not defined |
//! | the smaller or greater of 0.0 and -0.0 | either |
//!
//! Halves are stored, compared and cast. Nothing is computed in them: what computes casts to `f32` first. The CPU's executor of SSA
//! functions computes with these functions; the tile interpreter and GPUs have their own, which tests compare with these.
//! `docs/guide/operations.md` walks through adding an operation.

/// An expression in which a name is the Rust type of a dtype.
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

mod element;
mod functions;
mod number;

use element::Element;
use half::{bf16, f16};
pub use number::Number;

use crate::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// Numbers as elements of a type, and back.
impl Number {
    /// The value that these bits are of a type.
    pub fn of(dtype: DType, bits: u64) -> Self {
        with_type!(dtype, T => T::of(bits).value())
    }

    /// The element that these bytes begin with.
    ///
    /// # Panics
    /// If there are fewer bytes than an element has.
    pub fn load(dtype: DType, bytes: &[u8]) -> Self {
        Self::of(dtype, load(dtype, bytes))
    }

    /// The bits of this value, [cast](crate::scalar::cast) to a type.
    pub fn bits(self, dtype: DType) -> u64 {
        with_type!(dtype, T => T::near(self).bits())
    }

    /// The bits of this number as a type has it: rounded to a float, but only whole numbers in its range as an integer. Truth values are
    /// no numbers.
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

/// An operation on a value of this type. None where [`UnaryOp::takes`] refuses the type.
pub fn unary(op: UnaryOp, dtype: DType) -> Option<Unary> {
    with_type!(dtype, T => T::unary(op))
}

/// An operation on two values of this type. None where [`BinaryOp::takes`] refuses the type.
pub fn binary(op: BinaryOp, dtype: DType) -> Option<Binary> {
    with_type!(dtype, T => T::binary(op))
}

/// A comparison of two values of this type.
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

/// A cast. Floats become integers cut towards zero, those beyond the range its end, NaN 0; integers become narrower ones by their low
/// bits; anything becomes a truth value by whether it is not zero; what a float has no room for is rounded once.
pub fn cast(from: DType, to: DType) -> Unary {
    fn into<A: Element>(to: DType) -> Unary {
        with_type!(to, B => |bits| B::near(A::of(bits).value()).bits())
    }
    with_type!(from, A => into::<A>(to))
}

/// The second value where the first, a truth value, is true, and the third elsewhere.
pub fn select(condition: u64, yes: u64, no: u64) -> u64 {
    if condition == 0 { no } else { yes }
}

/// `a * b + c`, rounded once. None but for `f64` and `f32`.
pub fn fma(dtype: DType) -> Option<Ternary> {
    match dtype {
        DType::F64 => Some(|a, b, c| f64::of(a).mul_add(f64::of(b), f64::of(c)).bits()),
        DType::F32 => Some(|a, b, c| f32::of(a).mul_add(f32::of(b), f32::of(c)).bits()),
        _ => None,
    }
}

/// By which operation a reduction makes one of two partial results. None for those that find an index.
pub const fn combines(op: ReduceOp) -> Option<BinaryOp> {
    match op {
        ReduceOp::Sum => Some(BinaryOp::Add),
        ReduceOp::Prod => Some(BinaryOp::Mul),
        ReduceOp::Min => Some(BinaryOp::Min),
        ReduceOp::Max => Some(BinaryOp::Max),
        ReduceOp::ArgMin | ReduceOp::ArgMax => None,
    }
}

/// A reduction of values of this type. Sums and products of floats are those of `f64`, rounded once.
///
/// # Panics
/// Where [`ReduceOp::takes`] refuses the type.
pub fn reduce(op: ReduceOp, dtype: DType, values: impl Iterator<Item = u64>) -> u64 {
    assert!(op.takes(dtype), "{op} of {dtype}");
    let Some(by) = combines(op) else {
        return first_best(op, dtype, values);
    };
    let is_added = matches!(op, ReduceOp::Sum | ReduceOp::Prod);
    let wide = if is_added { widest(dtype) } else { dtype };
    let (widen, narrow) = (cast(dtype, wide), cast(wide, dtype));
    let of_none = match op {
        ReduceOp::Sum => Number::Whole(0).bits(wide),
        ReduceOp::Prod => Number::Whole(1).bits(wide),
        // Whatever is beyond the range is the range's end.
        ReduceOp::Min if dtype == DType::Bool => 1,
        ReduceOp::Min => Number::Float(f64::INFINITY).bits(wide),
        _ if dtype == DType::Bool => 0,
        _ => Number::Float(f64::NEG_INFINITY).bits(wide),
    };
    let by = binary(by, wide).expect("what is reduced is computed in");
    narrow(values.map(widen).fold(of_none, by))
}

/// The index of the first value that no other is better than, or of the first NaN; of none 0.
fn first_best(op: ReduceOp, dtype: DType, values: impl Iterator<Item = u64>) -> u64 {
    let is_better = match op {
        ReduceOp::ArgMin => compare(CompareOp::Lt, dtype),
        _ => compare(CompareOp::Gt, dtype),
    };
    let differs = compare(CompareOp::Ne, dtype);
    let is_nan = |bits| differs(bits, bits) == 1;
    let better = |best: (usize, u64), next: (usize, u64)| {
        let is_taken = !is_nan(best.1) && (is_nan(next.1) || is_better(next.1, best.1) == 1);
        if is_taken { next } else { best }
    };
    let best = values.enumerate().reduce(better);
    best.map_or(0, |(index, _)| index as u64)
}

/// The sum of products of pairs, as a product of matrices has it. That of floats is that of `f64`, rounded once.
///
/// # Panics
/// For truth values.
pub fn dot(dtype: DType, pairs: impl Iterator<Item = (u64, u64)>) -> u64 {
    let wide = widest(dtype);
    let (widen, narrow) = (cast(dtype, wide), cast(wide, dtype));
    let [times, plus] = [BinaryOp::Mul, BinaryOp::Add]
        .map(|op| binary(op, wide).unwrap_or_else(|| panic!("a product of {dtype}")));
    let products = pairs.map(|(a, b)| times(widen(a), widen(b)));
    narrow(products.fold(0, plus))
}

/// The type that sums of this type are computed in.
const fn widest(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

/// The low bits of a word, as a value of this type. Whatever is not zero is true.
pub fn of_word(dtype: DType, word: u64) -> u64 {
    let bits = word & (u64::MAX >> (64 - 8 * dtype.size()));
    match dtype {
        DType::Bool => u64::from(bits != 0),
        _ => bits,
    }
}

/// The element that these bytes begin with.
///
/// # Panics
/// If there are fewer bytes than an element has.
pub fn load(dtype: DType, bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..dtype.size()].copy_from_slice(&bytes[..dtype.size()]);
    of_word(dtype, u64::from_le_bytes(word))
}

/// Stores an element where these bytes begin.
///
/// # Panics
/// If there are fewer bytes than an element has.
pub fn store(dtype: DType, bits: u64, bytes: &mut [u8]) {
    bytes[..dtype.size()].copy_from_slice(&bits.to_le_bytes()[..dtype.size()]);
}

/// Philox4x32-10: the first of the four words, for a counter in their low half.
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
