//! The operations of instructions, by the number of their operands.

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

/// Comparisons. For floats, those without `OrNan` are false if an operand is NaN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    EqualOrNan,
    NotEqualOrNan,
    LessOrNan,
    LessOrEqualOrNan,
    GreaterOrNan,
    GreaterOrEqualOrNan,
    BothNumbers,
    OneNan,
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
