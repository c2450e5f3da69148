//! What instructions compute: the operations, by how many values they take.

/// Operations of one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unary {
    Abs,
    Neg,
    Not,
    /// Is it 0?
    LogicNot,
    Popc,
    Clz,
    Reverse,
    /// The place of the highest bit; `true`: how far it is from the top.
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

/// Operations of two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binary {
    Add,
    Sub,
    MulLow,
    MulHigh,
    MulWide,
    Div,
    Rem,
    /// `nan`: one that is no number is the answer.
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

/// Operations of three values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ternary {
    MadLow,
    MadHigh,
    MadWide,
    Fma,
    /// `max(fma, 0)`
    FmaRelu,
    /// The bits of `a`, from `b`, as many as `c`.
    ExtractBits,
    /// Bits of two words side by side; `left`, and whether more than 32 places are 32.
    Funnel {
        left: bool,
        clamp: bool,
    },
    /// Bytes of two words, chosen by a third.
    Permute(Permutation),
    /// Any function of three bits.
    Logic(u8),
    /// The sum of the products of four bytes each; whether those of `a` and `b` have signs.
    Dot4 {
        signed: [bool; 2],
    },
    SumOfDifferences,
}

/// How `prmt` chooses.
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

/// How two values are compared. Of floats, what is not `OrNan` is false where one is no number.
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

/// What an atomic operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Atomic {
    Exchange,
    CompareAndSwap,
    /// Counts up to a bound, then from 0.
    Increment,
    /// Counts down from a bound.
    Decrement,
    Compute(Binary),
}

/// Additions and subtractions of numbers that are wider than a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carrying {
    Add,
    Sub,
    MadLow,
    MadHigh,
}

/// From which lane a shuffle takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// What the lanes of a warp, or the threads of a cube, tell each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Vote {
    All,
    Any,
    Uniform,
    /// Which.
    Ballot,
    /// How many.
    Count,
}

/// A question about a float.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TestFloat {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}
