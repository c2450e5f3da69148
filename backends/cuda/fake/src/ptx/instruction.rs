//! Instructions, as they are run.

/// How the bits of a register are read. The number is of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Predicate,
    Bits(u8),
    Unsigned(u8),
    Signed(u8),
    Float(u8),
}

impl Type {
    /// By its name in an instruction or a declaration, without the dot.
    pub(super) fn named(name: &str) -> Option<Self> {
        if name == "pred" {
            return Some(Type::Predicate);
        }
        let (kind, bits) = name.split_at_checked(1)?;
        let bytes = match bits {
            "8" => 1,
            "16" => 2,
            "32" => 4,
            "64" => 8,
            _ => return None,
        };
        match kind {
            "b" => Some(Type::Bits(bytes)),
            "u" => Some(Type::Unsigned(bytes)),
            "s" => Some(Type::Signed(bytes)),
            // Halves and quarters of floats are not known.
            "f" if bytes >= 4 => Some(Type::Float(bytes)),
            _ => None,
        }
    }

    pub(super) fn bytes(self) -> u8 {
        match self {
            Type::Predicate => 1,
            Type::Bits(bytes)
            | Type::Unsigned(bytes)
            | Type::Signed(bytes)
            | Type::Float(bytes) => bytes,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Type::Float(_))
    }

    /// Twice as wide.
    pub(super) fn doubled(self) -> Self {
        match self {
            Type::Unsigned(bytes) => Type::Unsigned(bytes * 2),
            Type::Signed(bytes) => Type::Signed(bytes * 2),
            other => other,
        }
    }
}

/// What a thread can be asked about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Special {
    Thread(usize),
    Threads(usize),
    Cube(usize),
    Cubes(usize),
    Lane,
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Register(usize),
    Value(u64),
    Special(Special),
}

/// Which memory an address is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Space {
    /// Either of the two: the address tells.
    Generic,
    Global,
    Shared,
    Parameter,
}

/// A place in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: Source,
    pub(super) offset: u64,
}

/// Operations of one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unary {
    Abs,
    Neg,
    Not,
    Sqrt,
    Rsqrt,
    Rcp,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Popc,
    Clz,
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
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// Operations of three values: a product, and one that is added to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ternary {
    MadLow,
    MadHigh,
    MadWide,
    Fma,
}

/// How two values are compared. Of floats, all but `NotEqualOrNan` are false where one is no number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    NotEqualOrNan,
}

/// How a float becomes an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

/// What an atomic operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Atomic {
    Exchange,
    CompareAndSwap,
    Compute(Binary),
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Load {
        space: Space,
        ty: Type,
        targets: Vec<usize>,
        from: Address,
    },
    Store {
        space: Space,
        ty: Type,
        values: Vec<Source>,
        to: Address,
    },
    Move {
        ty: Type,
        target: usize,
        from: Source,
    },
    Unary {
        op: Unary,
        ty: Type,
        target: usize,
        a: Source,
    },
    Binary {
        op: Binary,
        ty: Type,
        target: usize,
        a: Source,
        b: Source,
    },
    Ternary {
        op: Ternary,
        ty: Type,
        target: usize,
        a: Source,
        b: Source,
        c: Source,
    },
    Compare {
        how: Comparison,
        ty: Type,
        target: usize,
        a: Source,
        b: Source,
    },
    Select {
        ty: Type,
        target: usize,
        a: Source,
        b: Source,
        which: Source,
    },
    Convert {
        to: Type,
        from: Type,
        rounding: Rounding,
        target: usize,
        a: Source,
    },
    Atomic {
        op: Atomic,
        space: Space,
        ty: Type,
        target: Option<usize>,
        at: Address,
        a: Source,
        b: Source,
    },
    Branch {
        to: usize,
    },
    Barrier,
    Exit,
}

/// An instruction, and when it is done.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    /// Only where this register is true, or, with `false`, where it is not.
    pub(super) guard: Option<(usize, bool)>,
    pub(super) action: Action,
    pub(super) line: u32,
}
