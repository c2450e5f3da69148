//! Decoded instructions.

use crate::Kind;
use crate::table::{Carrying, Context, Function};
use crate::types::Type;

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

/// A load, a store, or an atomic operation.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) kind: Kind,
    pub(super) space: Space,
    pub(super) ty: Type,
    pub(super) at: Address,
    /// The registers that receive the bits before the access.
    pub(super) targets: Box<[Option<usize>]>,
    /// What is stored; the operands of an atomic operation.
    pub(super) values: Box<[Source]>,
    /// What an atomic operation stores, from the bits before and its operands.
    pub(super) update: Function,
}

/// The modes of a shuffle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shuffle {
    Down,
    Index,
    Up,
    Xor,
}

/// The operations of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reduction {
    Add,
    Min,
    Max,
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
        /// The value, the lane or distance, and the bounds.
        operands: [Source; 3],
    },
    /// Of 32-bit integers, all lanes of the mask.
    Reduce {
        by: Reduction,
        is_signed: bool,
        target: usize,
        operand: Source,
    },
}

/// The action of an instruction.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A computation without other effects.
    Compute {
        function: Function,
        of: Context,
        target: usize,
        operands: [Source; 4],
    },
    /// Splits a value into parts of `bytes` bytes, the lowest first.
    Unpack {
        bytes: u8,
        targets: Box<[Option<usize>]>,
        from: Source,
    },
    Carrying {
        function: Carrying,
        ty: Type,
        /// Whether the carry is an operand.
        carry_in: bool,
        /// Whether the carry is set.
        carry_out: bool,
        target: usize,
        operands: [Source; 3],
    },
    Access(Access),
    Collective {
        collective: Collective,
        lanes: Source,
    },
    /// A barrier of a block.
    Barrier(Source),
    /// Continues with this instruction.
    Branch(usize),
    /// Copies within local memory: from, to, bytes.
    CopyLocal(Box<[(usize, usize, usize)]>),
    /// Continues with this instruction until a return.
    Call(usize),
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
