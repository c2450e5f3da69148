//! The operations of instructions, by the number of their operands.

use crate::number::Format;

/// The type of the bits of a register. Numbers are sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Predicate,
    Bits(u8),
    Unsigned(u8),
    Signed(u8),
    Float(Format),
}

impl Type {
    /// Returns the type with a name in an instruction or a declaration, without the dot.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Type::Predicate,
            "f16" => Type::Float(Format::F16),
            "bf16" => Type::Float(Format::Bf16),
            "f32" => Type::Float(Format::F32),
            "f64" => Type::Float(Format::F64),
            _ => {
                let (kind, bits) = name.split_at_checked(1)?;
                let bytes = match bits {
                    "8" => 1,
                    "16" => 2,
                    "32" => 4,
                    "64" => 8,
                    _ => return None,
                };
                match kind {
                    "b" => Type::Bits(bytes),
                    "u" => Type::Unsigned(bytes),
                    "s" => Type::Signed(bytes),
                    _ => return None,
                }
            }
        })
    }

    pub(super) fn bytes(self) -> u8 {
        match self {
            Type::Predicate => 1,
            Type::Bits(bytes) | Type::Unsigned(bytes) | Type::Signed(bytes) => bytes,
            Type::Float(format) => format.bytes(),
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Type::Float(_))
    }

    /// Returns the integer type of twice the width.
    pub(super) fn doubled(self) -> Self {
        match self {
            Type::Unsigned(bytes) => Type::Unsigned(bytes * 2),
            Type::Signed(bytes) => Type::Signed(bytes * 2),
            other => other,
        }
    }
}

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
