//! The instructions that compute, each in one row of a table: its name, types and operands, and its function.
//!
//! Functions take and return the bits of registers. A narrow value in a register has zero upper bits, unless it is a
//! signed one that was loaded or converted, which is sign-extended; functions trim what they read.

use std::cmp::Ordering;

use crate::number::{
    Mode, Operation, canonical_nan, compute, convert as narrowed, flush_and_saturate, from_integer,
    to_integer, to_integral,
};
use crate::types::{Format, Type};

/// What a computation depends on besides its operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// The type of the operands.
    pub(super) ty: Type,
    /// The type of the result of a conversion.
    pub(super) to: Type,
    pub(super) mode: Mode,
    /// The orders of the operands for which a comparison is true, a bit each.
    pub(super) orders: u8,
    /// Whether the second operand must not be 0.
    pub(super) divides: bool,
}

impl Context {
    pub(super) fn plain(ty: Type) -> Self {
        Self {
            ty,
            to: ty,
            mode: Mode::default(),
            orders: 0,
            divides: false,
        }
    }

    /// Computes with floats, or returns `None` for other types.
    #[inline]
    fn float(&self, operation: Operation, values: [u64; 3]) -> Option<u64> {
        match self.ty {
            Type::Float(format) => Some(compute(operation, format, self.mode, values)),
            _ => None,
        }
    }
}

/// What an instruction computes from up to four operands.
pub(super) type Function = fn(&Context, [u64; 4]) -> u64;

/// The types that an instruction takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    All,
    Integers,
    Floats,
}

/// The modifiers that an instruction takes for floats.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Modifiers {
    None,
    /// Rounding, `.ftz` and `.sat`.
    Mode,
    /// The same, and `.approx` or `.full`, which is computed exactly here.
    Approximate,
}

/// The type of an operand.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    Same,
    /// The integer type of twice the width.
    Double,
    Word,
    Predicate,
}

/// An instruction that computes.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) types: Types,
    pub(super) modifiers: Modifiers,
    pub(super) operands: &'static [Operand],
    pub(super) function: Function,
}

macro_rules! rows {
    ($($name:literal $types:ident $modifiers:ident ($($operand:ident)*) $function:expr;)*) => {
        &[$(Row {
            name: $name,
            types: Types::$types,
            modifiers: Modifiers::$modifiers,
            operands: &[$(Operand::$operand),*],
            function: $function,
        }),*]
    };
}

pub(super) const ROWS: &[Row] = rows! {
    "mov"      All      None        (Same)      |of, [a, ..]| trim(of.ty, a);
    "abs"      All      Mode        (Same)      absolute;
    "neg"      All      Mode        (Same)      negated;
    "sqrt"     Floats   Approximate (Same)      |of, [a, ..]| of.float(Operation::Sqrt, [a, 0, 0]).unwrap_or(a);
    "rcp"      Floats   Approximate (Same)      reciprocal;
    "ex2"      Floats   Approximate (Same)      power_of_two;
    "not"      Integers None        (Same)      not;
    "clz"      Integers None        (Same)      |of, [a, ..]| u64::from(trim(of.ty, a).leading_zeros() + width(of.ty) - 64);
    "popc"     Integers None        (Same)      |of, [a, ..]| trim(of.ty, a).count_ones().into();
    "brev"     Integers None        (Same)      |of, [a, ..]| trim(of.ty, a).reverse_bits() >> (64 - width(of.ty));
    "add"      All      Mode        (Same Same) add;
    "sub"      All      Mode        (Same Same) subtract;
    "div"      All      Approximate (Same Same) divide;
    "rem"      Integers None        (Same Same) |of, [a, b, ..]| of_integers(of, a, b, |a, b| a.checked_rem(b).unwrap_or(0));
    "min"      All      None        (Same Same) |of, [a, b, ..]| min_or_max(of.ty, a, b, Ordering::Less);
    "max"      All      None        (Same Same) |of, [a, b, ..]| min_or_max(of.ty, a, b, Ordering::Greater);
    "and"      Integers None        (Same Same) |of, [a, b, ..]| trim(of.ty, a & b);
    "or"       Integers None        (Same Same) |of, [a, b, ..]| trim(of.ty, a | b);
    "xor"      Integers None        (Same Same) |of, [a, b, ..]| trim(of.ty, a ^ b);
    "shl"      Integers None        (Same Word) |of, [a, by, ..]| trim(of.ty, a.checked_shl(by as u32).unwrap_or(0));
    // The amount is an unsigned 32-bit number, clamped to the width.
    "shr"      Integers None        (Same Word) |of, [a, by, ..]| trim(of.ty, (integer(of.ty, a) >> (by as u32).min(64)) as u64);
    "copysign" Floats   None        (Same Same) copy_sign;
    "mul"      Floats   Mode        (Same Same) |of, [a, b, ..]| of.float(Operation::Mul, [a, b, 0]).unwrap_or(a);
    "mul.lo"   Integers None        (Same Same) |of, [a, b, ..]| trim(of.ty, a.wrapping_mul(b));
    "mul.hi"   Integers None        (Same Same) |of, [a, b, ..]| high(of.ty, a, b);
    "mul.wide" Integers None        (Same Same) |of, [a, b, ..]| wide(of.ty, a, b, 0);
    "mad"      Floats   Mode        (Same Same Same)   fused;
    "fma"      Floats   Mode        (Same Same Same)   fused;
    "mad.lo"   Integers None        (Same Same Same)   |of, [a, b, c, _]| trim(of.ty, a.wrapping_mul(b).wrapping_add(c));
    "mad.wide" Integers None        (Same Same Double) |of, [a, b, c, _]| wide(of.ty, a, b, c);
    "prmt"     Integers None        (Same Same Word)   permute;
    "shf.l.wrap"  Integers None     (Same Same Word)   |of, [low, high, by, _]| (pair(of.ty, low, high) << (by & 31)) >> 32;
    "shf.l.clamp" Integers None     (Same Same Word)   |of, [low, high, by, _]| (pair(of.ty, low, high) << by.min(32)) >> 32;
    "shf.r.wrap"  Integers None     (Same Same Word)   |of, [low, high, by, _]| trim(of.ty, pair(of.ty, low, high) >> (by & 31));
    "shf.r.clamp" Integers None     (Same Same Word)   |of, [low, high, by, _]| trim(of.ty, pair(of.ty, low, high) >> by.min(32));
    "bfi"      Integers None        (Same Same Word Word) insert;
    "selp"     All      None        (Same Same Predicate) |of, [a, b, which, _]| trim(of.ty, if which != 0 { a } else { b });
};

/// Atomic operations: the name, the number of operands, and what is stored, from the bits before and the operands.
pub(super) const ATOMICS: &[(&str, usize, Function)] = &[
    ("add", 1, add),
    ("min", 1, |of, [a, b, ..]| {
        min_or_max(of.ty, a, b, Ordering::Less)
    }),
    ("max", 1, |of, [a, b, ..]| {
        min_or_max(of.ty, a, b, Ordering::Greater)
    }),
    ("and", 1, |_, [a, b, ..]| a & b),
    ("or", 1, |_, [a, b, ..]| a | b),
    ("xor", 1, |_, [a, b, ..]| a ^ b),
    ("exch", 1, |_, [_, new, ..]| new),
    (
        "cas",
        2,
        |_, [before, expected, new, _]| {
            if before == expected { new } else { before }
        },
    ),
];

/// Clears the bits above the width of the type.
#[inline]
pub(super) fn trim(ty: Type, bits: u64) -> u64 {
    match ty.bytes() {
        8 => bits,
        bytes => bits & ((1 << (u32::from(bytes) * 8)) - 1),
    }
}

fn width(ty: Type) -> u32 {
    u32::from(ty.bytes()) * 8
}

/// Returns the numeric value of the bits, sign-extended for signed types.
#[inline]
fn integer(ty: Type, bits: u64) -> i128 {
    let bits = trim(ty, bits);
    match ty {
        Type::Signed(bytes) => {
            let unused = 64 - u32::from(bytes) * 8;
            i128::from(((bits << unused) as i64) >> unused)
        }
        _ => i128::from(bits),
    }
}

/// Sign-extends a narrow signed value to the register.
#[inline]
pub(super) fn sign_extended(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::Signed(_) => integer(ty, bits) as u64,
        _ => bits,
    }
}

fn of_integers(of: &Context, a: u64, b: u64, function: impl Fn(i128, i128) -> i128) -> u64 {
    trim(of.ty, function(integer(of.ty, a), integer(of.ty, b)) as u64)
}

fn absolute(of: &Context, [a, ..]: [u64; 4]) -> u64 {
    match of.ty {
        Type::Float(format) => {
            let a = if of.mode.flush { format.flushed(a) } else { a };
            let bits = format.absolute(canonical_nan(format, a));
            flush_and_saturate(format, of.mode, bits)
        }
        ty => trim(ty, integer(ty, a).unsigned_abs() as u64),
    }
}

fn negated(of: &Context, [a, ..]: [u64; 4]) -> u64 {
    match of.ty {
        Type::Float(format) => {
            let a = if of.mode.flush { format.flushed(a) } else { a };
            let bits = canonical_nan(format, format.negated(a));
            flush_and_saturate(format, of.mode, bits)
        }
        ty => trim(ty, a.wrapping_neg()),
    }
}

fn reciprocal(of: &Context, [a, ..]: [u64; 4]) -> u64 {
    let one = match of.ty {
        Type::Float(format) => format.one(),
        _ => 1,
    };
    of.float(Operation::Div, [one, a, 0]).unwrap_or(a)
}

/// More precise than the approximation of the hardware.
fn power_of_two(of: &Context, [a, ..]: [u64; 4]) -> u64 {
    let Type::Float(format) = of.ty else { return a };
    let a = if of.mode.flush { format.flushed(a) } else { a };
    let bits = format.of_f64(format.to_f64(a).exp2());
    flush_and_saturate(format, of.mode, canonical_nan(format, bits))
}

fn not(of: &Context, [a, ..]: [u64; 4]) -> u64 {
    match of.ty {
        Type::Predicate => 1 - (a & 1),
        ty => trim(ty, !a),
    }
}

#[inline]
pub(super) fn add(of: &Context, [a, b, ..]: [u64; 4]) -> u64 {
    let sum = of.float(Operation::Add, [a, b, 0]);
    sum.unwrap_or_else(|| trim(of.ty, a.wrapping_add(b)))
}

pub(super) fn subtract(of: &Context, [a, b, ..]: [u64; 4]) -> u64 {
    match of.ty {
        Type::Float(format) => {
            // A NaN keeps its sign.
            let negated = match format.is_nan(b) {
                true => b,
                false => format.negated(b),
            };
            add(of, [a, negated, 0, 0])
        }
        ty => trim(ty, a.wrapping_sub(b)),
    }
}

fn divide(of: &Context, [a, b, ..]: [u64; 4]) -> u64 {
    let integers = || of_integers(of, a, b, |a, b| a.checked_div(b).unwrap_or(0));
    let quotient = of.float(Operation::Div, [a, b, 0]);
    quotient.unwrap_or_else(integers)
}

/// Returns the minimum or maximum; `-0` is less than `0`. A NaN operand is ignored.
fn min_or_max(ty: Type, a: u64, b: u64, preferred: Ordering) -> u64 {
    let order = match ty {
        Type::Float(format) => match (format.is_nan(a), format.is_nan(b)) {
            (true, true) => return format.nan(),
            (true, false) => return b,
            (false, true) => return a,
            (false, false) => format.to_f64(a).total_cmp(&format.to_f64(b)),
        },
        _ => integer(ty, a).cmp(&integer(ty, b)),
    };
    trim(ty, if order == preferred { a } else { b })
}

fn copy_sign(of: &Context, [a, b, ..]: [u64; 4]) -> u64 {
    match of.ty {
        Type::Float(format) => format.with_sign_of(b, a),
        _ => a,
    }
}

/// Returns the upper half of a product.
fn high(ty: Type, a: u64, b: u64) -> u64 {
    let (a, b) = (integer(ty, a), integer(ty, b));
    let bits = match ty {
        // The product of two unsigned 64-bit values needs all 128 bits.
        Type::Signed(_) => (a.wrapping_mul(b) >> width(ty)) as u64,
        _ => ((a as u128 * b as u128) >> width(ty)) as u64,
    };
    trim(ty, bits)
}

/// Returns a product of twice the width plus `c`.
fn wide(ty: Type, a: u64, b: u64, c: u64) -> u64 {
    let product = integer(ty, a).wrapping_mul(integer(ty, b)) as u64;
    trim(ty.doubled(), product.wrapping_add(c))
}

fn fused(of: &Context, [a, b, c, _]: [u64; 4]) -> u64 {
    of.float(Operation::Fma, [a, b, c]).unwrap_or(a)
}

/// Inserts `count` bits of `a` into `b` at `place`.
fn insert(of: &Context, [a, b, place, count]: [u64; 4]) -> u64 {
    let (place, count) = (place as u32 & 0xFF, count as u32 & 0xFF);
    (0..count)
        .take_while(|at| place + at < width(of.ty))
        .fold(trim(of.ty, b), |all, at| {
            all & !(1 << (place + at)) | (a >> at & 1) << (place + at)
        })
}

/// Selects four bytes of two words by four bits each: three for the byte, one to replicate its sign.
fn permute(_: &Context, [a, b, selector, _]: [u64; 4]) -> u64 {
    let both = trim(Type::Bits(4), b) << 32 | trim(Type::Bits(4), a);
    (0..4)
        .map(|place| {
            let from = (selector >> (place * 4)) as u32 & 15;
            let chosen = both >> ((from & 7) * 8) & 0xFF;
            let chosen = match from & 8 {
                0 => chosen,
                _ if chosen >= 0x80 => 0xFF,
                _ => 0,
            };
            chosen << (place * 8)
        })
        .sum()
}

/// Returns two words as one.
fn pair(ty: Type, low: u64, high: u64) -> u64 {
    trim(ty, high) << 32 | trim(ty, low)
}

/// Combines two parts, the lower one first.
pub(super) fn pack(of: &Context, [low, high, ..]: [u64; 4]) -> u64 {
    trim(of.ty, high) << width(of.ty) | trim(of.ty, low)
}

/// The orders of two operands, a bit each.
pub(super) const LESS: u8 = 1;
pub(super) const EQUAL: u8 = 2;
pub(super) const GREATER: u8 = 4;
/// One of the operands is NaN.
pub(super) const UNORDERED: u8 = 8;

pub(super) fn compare(of: &Context, [a, b, ..]: [u64; 4]) -> u64 {
    let order = match of.ty {
        Type::Float(format) => format.to_f64(a).partial_cmp(&format.to_f64(b)),
        ty => Some(integer(ty, a).cmp(&integer(ty, b))),
    };
    let found = match order {
        Some(Ordering::Less) => LESS,
        Some(Ordering::Equal) => EQUAL,
        Some(Ordering::Greater) => GREATER,
        None => UNORDERED,
    };
    u64::from(of.orders & found != 0)
}

pub(super) fn convert(of: &Context, [a, ..]: [u64; 4]) -> u64 {
    let (to, rounding) = (of.to, of.mode.rounding);
    let bits = match (of.ty, to) {
        (Type::Float(from), Type::Float(format)) => {
            let bits = match of.mode.integral {
                true => to_integral(from, rounding, a),
                false => a,
            };
            flush_and_saturate(format, of.mode, narrowed(format, from, rounding, bits))
        }
        // Values out of range saturate, and NaN is 0.
        (Type::Float(from), _) => {
            let (least, greatest) = limits(to);
            to_integer(from, rounding, a).clamp(least, greatest) as u64
        }
        (from, Type::Float(format)) => from_integer(format, rounding, integer(from, a)),
        (from, _) => integer(from, a) as u64,
    };
    sign_extended(to, trim(to, bits))
}

/// Returns the least and the greatest value of an integer type.
fn limits(ty: Type) -> (i128, i128) {
    let bits = width(ty);
    match ty {
        Type::Signed(_) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// A computation of extended precision: returns the result and the carry, or the borrow of a subtraction.
pub(super) type Carrying = fn(Type, [u64; 3], u64) -> (u64, u64);

pub(super) fn add_carrying(ty: Type, [a, b, _]: [u64; 3], carry: u64) -> (u64, u64) {
    let full = u128::from(trim(ty, a)) + u128::from(trim(ty, b)) + u128::from(carry);
    (trim(ty, full as u64), (full >> width(ty)) as u64)
}

pub(super) fn subtract_carrying(ty: Type, [a, b, _]: [u64; 3], borrow: u64) -> (u64, u64) {
    let full = i128::from(trim(ty, a)) - i128::from(trim(ty, b)) - i128::from(borrow);
    (trim(ty, full as u64), u64::from(full < 0))
}

pub(super) fn low_carrying(ty: Type, [a, b, c]: [u64; 3], carry: u64) -> (u64, u64) {
    add_carrying(ty, [a.wrapping_mul(b), c, 0], carry)
}

pub(super) fn high_carrying(ty: Type, [a, b, c]: [u64; 3], carry: u64) -> (u64, u64) {
    add_carrying(ty, [high(ty, a, b), c, 0], carry)
}

/// Returns the context of atomic operations. Additions of `f32` in global memory flush subnormals; all others do not.
pub(super) fn atomic_context(ty: Type, is_global: bool) -> Context {
    let mut of = Context::plain(ty);
    of.mode.flush = ty == Type::Float(Format::F32) && is_global;
    of
}

#[cfg(test)]
mod tests;
