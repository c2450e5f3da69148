//! Decoded instructions.

use crate::number::Mode;
pub(super) use crate::operations::{
    Binary, Carrying, Comparison, Compute, Shuffle, Ternary, Type, Unary,
};

/// Special registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Special {
    Thread(usize),
    Threads(usize),
    Cube(usize),
    Cubes(usize),
    /// The offset of dynamic shared memory.
    SharedDynamicStart,
}

/// A source operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Register(usize),
    Value(u64),
    Special(Special),
}

/// A state space. Constants are in global memory here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Space {
    /// Any of the others, determined by the address.
    Generic,
    Global,
    Shared,
    /// The parameters of the kernel.
    Parameter,
    /// Local memory of a thread, including the parameters of functions.
    Local,
}

/// An address operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: Source,
    pub(super) offset: u64,
}

/// A collective of the lanes of a warp.
#[derive(Clone, Copy, Debug)]
pub(super) enum Collective {
    Barrier,
    Shuffle {
        how: Shuffle,
        target: usize,
        /// The predicate that receives whether the source lane is in range.
        valid: Option<usize>,
        a: Source,
        by: Source,
        bounds: Source,
    },
}

/// The action of an instruction.
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
    },
    /// A computation of each lane on its own. The type is that of the operands.
    Compute {
        op: Compute,
        ty: Type,
        mode: Mode,
        target: usize,
        operands: [Source; 3],
    },
    /// Combines parts of `bytes` bytes, the lowest first.
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
    /// Inserts `count` bits of `a` into `b` at bit `place`.
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
        /// Whether the carry is an operand.
        carry_in: bool,
        /// Whether the carry is set.
        carry_out: bool,
        target: usize,
        a: Source,
        b: Source,
        c: Source,
    },
    /// An atomic addition.
    Atomic {
        space: Space,
        ty: Type,
        target: Option<usize>,
        at: Address,
        a: Source,
    },
    Collective {
        collective: Collective,
        lanes: Source,
    },
    /// A barrier of a block.
    Barrier {
        id: Source,
    },
    Branch {
        to: usize,
    },
    /// Copies within local memory: from, to, bytes.
    CopyLocal(Box<[(usize, usize, usize)]>),
    Call {
        to: usize,
    },
    Return,
    Exit,
    Trap,
}

/// An instruction with its guard and line.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    /// The predicate register and the value for which the instruction runs.
    pub(super) guard: Option<(usize, bool)>,
    pub(super) action: Action,
    pub(super) line: u32,
}
