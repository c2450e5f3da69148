//! The operations of instructions, by the number of their operands.

/// Operations with one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unary {
    Abs,
    Neg,
    Not,
    /// 1 if the value is 0, otherwise 0.
    LogicNot,
    Popc,
    Clz,
    Reverse,
    /// The index of the highest bit; with `true`, its distance from the top.
    HighestBit(bool),
    Sqrt,
    Rsqrt,
    Rcp,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
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
    /// With `nan`, a NaN operand gives NaN.
    Min {
        nan: bool,
    },
    Max {
        nan: bool,
    },
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
    MadHigh,
    MadWide,
    Fma,
    /// `max(fma, 0)`
    FmaRelu,
    /// `c` bits of `a`, starting at bit `b`.
    ExtractBits,
    /// A shift of two concatenated words; `clamp` limits the amount to 32.
    Funnel {
        left: bool,
        clamp: bool,
    },
    /// Selects bytes of two words by a third.
    Permute(Permutation),
    /// A bitwise function of three words, given by its truth table.
    Logic(u8),
    /// The dot product of four bytes each; `signed` for the bytes of `a` and `b`.
    Dot4 {
        signed: [bool; 2],
    },
    SumOfDifferences,
}

/// The modes of `prmt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Permutation {
    Each,
    Forward4,
    Backward4,
    Replicate8,
    ClampLeft,
    ClampRight,
    Replicate16,
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

/// Atomic operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Atomic {
    Exchange,
    CompareAndSwap,
    /// Increments up to a bound, then wraps to 0.
    Increment,
    /// Decrements down to 0, then wraps to a bound.
    Decrement,
    Compute(Binary),
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
    Up,
    Down,
    Butterfly,
    Index,
}

/// Votes of the lanes of a warp or the threads of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Vote {
    All,
    Any,
    Uniform,
    /// The mask of lanes with a true predicate.
    Ballot,
    /// The number of true predicates.
    Count,
}

/// Tests of a float.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TestFloat {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}
