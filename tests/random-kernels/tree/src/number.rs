//! The types of numbers, and what each operation gives. A value is its bits, in the low end of a `u64`.
//!
//! Integers are computed as `i128` and cut to their bits, which is another way than that of any device.

use crate::dice::Dice;

/// A type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the types of Rust")]
pub enum Ty {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    Isize,
    Usize,
    F32,
    F64,
    Bool,
}

use Ty::{Bool, F32, F64, I8, I16, I32, I64, Isize, U8, U16, U32, U64, Usize};

/// The integers.
pub const INTEGERS: &[Ty] = &[I8, U8, I16, U16, I32, U32, I64, U64, Isize, Usize];
/// The types of buffers.
pub const ELEMENTS: &[Ty] = &[I8, U8, I16, U16, I32, U32, I64, U64, F32, F64];
/// All types.
pub const ALL: &[Ty] = &[
    I8, U8, I16, U16, I32, U32, I64, U64, Isize, Usize, F32, F64, Bool,
];

/// An operation with one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "operations of Rust")]
pub enum Unary {
    Neg,
    Not,
    Abs,
    Floor,
    Ceil,
}

/// An operation with two operands of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "operations of Rust")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Min,
    Max,
}

/// A comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "operations of Rust")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Ty {
    /// Returns the name in Rust.
    pub fn name(self) -> &'static str {
        match self {
            I8 => "i8",
            U8 => "u8",
            I16 => "i16",
            U16 => "u16",
            I32 => "i32",
            U32 => "u32",
            I64 => "i64",
            U64 => "u64",
            Isize => "isize",
            Usize => "usize",
            F32 => "f32",
            F64 => "f64",
            Bool => "bool",
        }
    }

    fn width(self) -> u32 {
        match self {
            Bool => 1,
            I8 | U8 => 8,
            I16 | U16 => 16,
            I32 | U32 | F32 => 32,
            _ => 64,
        }
    }

    /// Returns the number of bytes in memory.
    pub fn bytes(self) -> usize {
        self.width().div_ceil(8) as usize
    }

    /// Whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64 | Isize)
    }

    /// Whether it is a float.
    pub fn is_float(self) -> bool {
        matches!(self, F32 | F64)
    }

    /// Whether it is an integer.
    pub fn is_int(self) -> bool {
        !self.is_float() && self != Bool
    }

    /// Returns the bits of an integer, cut to the type.
    pub fn cut(self, value: i128) -> u64 {
        value as u64 & (u64::MAX >> (64 - self.width()))
    }

    /// Returns an integer or a `bool` as a number.
    pub fn int(self, bits: u64) -> i128 {
        let unused = 64 - self.width();
        match self.is_signed() {
            true => i128::from((bits << unused).cast_signed() >> unused),
            false => i128::from(bits),
        }
    }

    pub(crate) fn float(self, bits: u64) -> f64 {
        match self {
            F32 => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        }
    }

    /// Returns the bits of a float, which is rounded to the type. An operation of `f32` that is computed in `f64` and rounded
    /// is the same for sums, products and quotients: `f64` has more than twice the bits.
    pub(crate) fn rounded(self, value: f64) -> u64 {
        match self {
            F32 => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        }
    }

    /// Returns a random value: often one at the edge of the type.
    pub fn random(self, dice: &mut Dice) -> u64 {
        if self == Bool {
            return dice.bits() & 1;
        }
        if self.is_float() {
            let value = match dice.below(12) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => 0.0,
                4 => -0.0,
                5 => f64::from(f32::MIN_POSITIVE) / 8.0,
                6 => -1e30,
                7 => (dice.bits().cast_signed() as f64) / 1e3,
                _ => (dice.below(4001) as f64 - 2000.0) / 8.0,
            };
            return self.rounded(value);
        }
        let edge = match dice.below(10) {
            0 => 0,
            1 => 1,
            2 => -1,
            3 => self.greatest(),
            4 => self.least(),
            5 | 6 => i128::from(dice.bits()),
            _ => dice.below(16) as i128 - if self.is_signed() { 8 } else { 0 },
        };
        self.cut(edge)
    }

    /// Returns a random literal, of floats none that is zero: Mesa's driver for the processor takes `x + 0.0` for `x`, which
    /// differs if `x` is `-0.0`.
    pub fn literal(self, dice: &mut Dice) -> u64 {
        let bits = self.random(dice);
        match self.is_float() && self.compare(Compare::Eq, bits, 0) {
            true => U8.cast(1, self),
            false => bits,
        }
    }

    /// Returns the unsigned integer of the same size.
    pub(crate) fn unsigned(self) -> Self {
        match self {
            I8 => U8,
            I16 => U16,
            I32 => U32,
            I64 => U64,
            Isize => Usize,
            of => of,
        }
    }

    /// Returns the bits of an integer, or of the end of the type that it is beyond.
    pub(crate) fn saturated(self, value: i128) -> u64 {
        self.cut(value.clamp(self.least(), self.greatest()))
    }

    fn greatest(self) -> i128 {
        (1_i128 << (self.width() - u32::from(self.is_signed()))) - 1
    }

    fn least(self) -> i128 {
        if self.is_signed() {
            -self.greatest() - 1
        } else {
            0
        }
    }

    /// Returns whether two results are equal: of floats, all NaN are.
    pub fn agree(self, a: u64, b: u64) -> bool {
        a == b || self.is_float() && self.float(a).is_nan() && self.float(b).is_nan()
    }

    /// Computes an operation.
    pub fn unary(self, op: Unary, a: u64) -> u64 {
        if self.is_float() {
            let a = self.float(a);
            return self.rounded(match op {
                Unary::Neg | Unary::Not => -a,
                Unary::Abs => a.abs(),
                Unary::Floor => a.floor(),
                Unary::Ceil => a.ceil(),
            });
        }
        let int = self.int(a);
        match op {
            Unary::Neg => self.cut(-int),
            Unary::Not => self.cut(!int),
            Unary::Abs => self.cut(int.abs()),
            Unary::Floor | Unary::Ceil => a,
        }
    }

    /// Computes an operation.
    pub fn binary(self, op: Binary, a: u64, b: u64) -> u64 {
        if self.is_float() {
            let (x, y) = (self.float(a), self.float(b));
            return self.rounded(match op {
                Binary::Sub => x - y,
                Binary::Mul => x * y,
                Binary::Div => x / y,
                Binary::Rem => x % y,
                Binary::Min | Binary::Max if x.is_nan() || y.is_nan() => f64::NAN,
                // Without a sign: see the text.
                Binary::Min => x.min(y).abs(),
                Binary::Max => x.max(y).abs(),
                _ => x + y,
            });
        }
        let (x, y) = (self.int(a), self.int(b));
        self.cut(match op {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x.wrapping_mul(y),
            Binary::Div => x.checked_div(y).unwrap_or(0),
            Binary::Rem => x.checked_rem(y).unwrap_or(0),
            Binary::And => x & y,
            Binary::Or => x | y,
            Binary::Xor => x ^ y,
            Binary::Min => x.min(y),
            Binary::Max => x.max(y),
        })
    }

    /// Shifts by a number of another type: by none of the bits that are left if it is negative or too large.
    pub fn shift(self, is_left: bool, a: u64, (of, by): (Ty, u64)) -> u64 {
        let (a, by) = (self.int(a), of.int(by));
        let is_inside = (0..i128::from(self.width())).contains(&by);
        self.cut(match (is_left, is_inside) {
            (true, true) => a << by,
            (true, false) => 0,
            (false, true) => a >> by,
            (false, false) => a >> 127,
        })
    }

    /// Compares two values.
    pub fn compare(self, op: Compare, a: u64, b: u64) -> bool {
        let order = match self.is_float() {
            true => self.float(a).partial_cmp(&self.float(b)),
            false => Some(self.int(a).cmp(&self.int(b))),
        };
        match op {
            Compare::Eq => order.is_some_and(std::cmp::Ordering::is_eq),
            Compare::Ne => !order.is_some_and(std::cmp::Ordering::is_eq),
            Compare::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
            Compare::Le => order.is_some_and(std::cmp::Ordering::is_le),
            Compare::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
            Compare::Ge => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }

    /// Casts to another type, as `as` does.
    pub fn cast(self, a: u64, to: Ty) -> u64 {
        match (self.is_float(), to.is_float()) {
            (false, false) => to.cut(self.int(a)),
            (false, true) => match to {
                // Rounded once.
                F32 => u64::from((self.int(a) as f32).to_bits()),
                _ => (self.int(a) as f64).to_bits(),
            },
            (true, true) => to.rounded(self.float(a)),
            (true, false) => to.cut((self.float(a) as i128).clamp(to.least(), to.greatest())),
        }
    }
}
