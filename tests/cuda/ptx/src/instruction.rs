//! Instructions, as they are run.

use crate::number::{Format, Mode};
pub(super) use crate::operations::{
    Atomic, Binary, Carrying, Comparison, Permutation, Shuffle, Ternary, TestFloat, Unary, Vote,
};

/// How the bits of a register are read. The number is of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Predicate,
    Bits(u8),
    Unsigned(u8),
    Signed(u8),
    Float(Format),
    /// Two narrow floats in four bytes.
    Pair(Format),
    /// Two integers of two bytes each in four; whether they have signs. Of few operations alone.
    IntegerPair {
        signed: bool,
    },
}

impl Type {
    /// By its name in an instruction or a declaration, without the dot.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Type::Predicate,
            "f16" => Type::Float(Format::F16),
            "bf16" => Type::Float(Format::Bf16),
            "tf32" => Type::Float(Format::Tf32),
            "f32" => Type::Float(Format::F32),
            "f64" => Type::Float(Format::F64),
            "f16x2" => Type::Pair(Format::F16),
            "bf16x2" => Type::Pair(Format::Bf16),
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
            Type::Pair(_) | Type::IntegerPair { .. } => 4,
        }
    }

    /// A float, or two.
    pub(super) fn is_float(self) -> bool {
        matches!(self, Type::Float(_) | Type::Pair(_))
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

/// What a thread can be asked about itself and its launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Special {
    Thread(usize),
    Threads(usize),
    Cube(usize),
    Cubes(usize),
    Lane,
    Warp,
    Warps,
    /// The lanes whose number compares so with this one's.
    Lanes(Comparison),
    /// Where dynamic shared memory begins, and how many bytes of it and of all there are.
    SharedDynamicStart,
    SharedDynamicBytes,
    SharedBytes,
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Register(usize),
    Value(u64),
    Special(Special),
}

/// Which memory an address is of. Constants are in global memory here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Space {
    /// Any of the others: the address tells.
    Generic,
    Global,
    Shared,
    /// Of the kernel.
    Parameter,
    /// A thread's own, with the parameters of functions.
    Local,
}

/// A place in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: Source,
    pub(super) offset: u64,
}

/// What lanes of a warp do together.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meeting {
    Barrier,
    Shuffle {
        how: Shuffle,
        target: usize,
        /// Whether the lane was within bounds.
        valid: Option<usize>,
        a: Source,
        by: Source,
        bounds: Source,
    },
    Vote {
        how: Vote,
        target: usize,
        a: Source,
        negated: bool,
    },
    MatchAny {
        ty: Type,
        target: usize,
        a: Source,
    },
    MatchAll {
        ty: Type,
        target: usize,
        valid: Option<usize>,
        a: Source,
    },
    Reduce {
        op: Binary,
        ty: Type,
        target: usize,
        a: Source,
    },
    Elect {
        target: Option<usize>,
        valid: usize,
    },
}

/// A comparison, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compare {
    pub(super) how: Comparison,
    pub(super) ty: Type,
    pub(super) flush: bool,
    pub(super) a: Source,
    pub(super) b: Source,
    /// Joined with a predicate.
    pub(super) with: Option<(Binary, Source, bool)>,
    pub(super) target: usize,
    /// Where the opposite goes.
    pub(super) opposite: Option<usize>,
    /// What true is, where it is no predicate.
    pub(super) truth: u64,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Load {
        space: Space,
        ty: Type,
        targets: Box<[Option<usize>]>,
        from: Address,
    },
    Store {
        space: Space,
        ty: Type,
        values: Box<[Source]>,
        to: Address,
        /// As an atomic operation is.
        strong: bool,
    },
    Move {
        ty: Type,
        target: usize,
        from: Source,
    },
    /// Parts of so many bytes, the lowest first, become one.
    Pack {
        bytes: u8,
        target: usize,
        parts: Box<[Source]>,
    },
    Unpack {
        bytes: u8,
        targets: Box<[Option<usize>]>,
        from: Source,
    },
    Unary {
        op: Unary,
        ty: Type,
        mode: Mode,
        target: usize,
        a: Source,
    },
    Binary {
        op: Binary,
        ty: Type,
        mode: Mode,
        target: usize,
        a: Source,
        b: Source,
    },
    Ternary {
        op: Ternary,
        ty: Type,
        mode: Mode,
        target: usize,
        a: Source,
        b: Source,
        c: Source,
    },
    /// Bits of `a` put into `b` at a place, so many.
    InsertBits {
        ty: Type,
        target: usize,
        a: Source,
        b: Source,
        place: Source,
        count: Source,
    },
    Carrying {
        op: Carrying,
        ty: Type,
        /// Whether the carry is added, and whether it is set.
        takes: bool,
        sets: bool,
        target: usize,
        a: Source,
        b: Source,
        c: Source,
    },
    Compare(Box<Compare>),
    /// What kind of a float it is.
    Test {
        how: TestFloat,
        ty: Type,
        target: usize,
        a: Source,
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
        mode: Mode,
        /// Negative is 0.
        relu: bool,
        target: usize,
        a: Source,
    },
    /// Two floats become one word: `a` is the upper one.
    ConvertPair {
        to: Format,
        mode: Mode,
        relu: bool,
        target: usize,
        a: Source,
        b: Source,
    },
    /// Is an address of a space?
    IsSpace {
        space: Space,
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
    Meet {
        meeting: Meeting,
        lanes: Source,
    },
    ActiveLanes {
        target: usize,
    },
    /// What is of one cube meets.
    Barrier {
        id: Source,
        vote: Option<(Vote, usize, Source, bool)>,
    },
    Fence,
    Branch {
        to: usize,
    },
    Switch {
        index: Source,
        targets: Box<[usize]>,
    },
    /// Within a thread's own memory: from, to, bytes.
    Carry(Box<[(usize, usize, usize)]>),
    Call {
        to: usize,
    },
    Return,
    Exit,
    Trap,
    Nothing,
}

/// An instruction, and when it is done.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    /// Only where this register is true, or, with `false`, where it is not.
    pub(super) guard: Option<(usize, bool)>,
    pub(super) action: Action,
    pub(super) line: u32,
}
