//! The operations of instructions, by the number of their operands.

use crate::instruction::Type;

/// Operations with one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unary {
    Abs,
    Neg,
    Not,
    Clz,
    Sqrt,
    Rcp,
    Ex2,
}

/// Operations with two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binary {
    Add,
    Sub,
    MulLow,
    MulHigh,
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    CopySign,
}

/// Operations with three operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ternary {
    MadLow,
    MadWide,
    Fma,
    /// Selects bytes of two words by a third.
    Permute,
}

/// A comparison: the set of the orders of its operands for which it is true, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Comparison(pub(super) u8);

impl Comparison {
    pub(super) const LESS: u8 = 1;
    pub(super) const EQUAL: u8 = 2;
    pub(super) const GREATER: u8 = 4;
    /// One of the operands is NaN.
    pub(super) const UNORDERED: u8 = 8;
}

/// What a lane computes from up to three operands, without other effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compute {
    Move,
    Unary(Unary),
    Binary(Binary),
    Ternary(Ternary),
    Compare(Comparison),
    /// The first operand if the third is true, else the second.
    Select,
    /// Converts to this type.
    Convert(Type),
}

/// Extended-precision operations with a carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carrying {
    Add,
    Sub,
    MadLow,
    MadHigh,
}

/// The modes of a shuffle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shuffle {
    Down,
    Index,
}
