//! One step of a schedule: a program or a kernel, what it is bound to, and the words of its launch.

use std::sync::Arc;

use millstream_ir::Program;
use smallvec::SmallVec;

use crate::lazy::callee::Custom;
pub(crate) use crate::lazy::scalar::WordValue;
use crate::schedule::walk::Local;
use crate::size::Size;

/// What an item is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ItemKind {
    /// A fused kernel.
    Kernel,
    /// A product of matrices, perhaps with what is done to each of its elements.
    Matmul,
    /// A kernel of a user.
    Custom,
    /// A kernel of a user that changes its last argument.
    CustomInPlace,
    /// A hand-written SSA kernel.
    Ssa,
    /// A copy, because a buffer is overwritten before its last reader.
    Copy,
    /// A fused kernel that stores into a buffer that is there.
    Set,
}

impl ItemKind {
    /// Its word in texts.
    pub const fn name(self) -> &'static str {
        match self {
            ItemKind::Kernel => "kernel",
            ItemKind::Matmul => "matmul",
            ItemKind::Custom => "custom",
            ItemKind::CustomInPlace => "custom in place",
            ItemKind::Ssa => "ssa",
            ItemKind::Copy => "copy",
            ItemKind::Set => "set",
        }
    }
}

impl std::fmt::Display for ItemKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What runs.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A program for any device.
    Program(Arc<Program>),
    /// A kernel of a user.
    Custom(Arc<Custom>),
}

/// One step of a schedule.
#[derive(Clone, Debug)]
pub struct Item {
    pub(crate) kind: ItemKind,
    pub(crate) work: Work,
    /// What is bound, in order: the buffers of these nodes.
    pub(crate) bindings: Vec<Local>,
    pub(crate) words: Vec<WordValue>,
    /// Versions of buffers that are read.
    pub(crate) reads: Vec<Local>,
    /// What is written: one buffer at least, each another.
    pub(crate) writes: SmallVec<[Written; 1]>,
    /// What it does, as an expression.
    pub(crate) expression: String,
    /// Cheap operations that it does, about.
    pub(crate) flops: Size,
}

/// A buffer that an item writes.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The version of it that is made, or added to.
    pub(crate) node: Local,
    /// Which of the bindings it is.
    pub(crate) binding: usize,
    /// Whether all that the buffer holds in a run is written, and none of it read: nothing that was there before is needed.
    pub(crate) overwrites: bool,
    /// The bindings whose memory it may take, if nothing reads them any more.
    pub(crate) in_place: Vec<usize>,
}

impl Item {
    /// The versions that are made, or added to.
    pub(crate) fn written(&self) -> impl Iterator<Item = Local> + '_ {
        self.writes.iter().map(|written| written.node)
    }

    /// Whether it makes this version, or adds to it.
    pub(crate) fn makes(&self, node: Local) -> bool {
        self.written().any(|written| written == node)
    }

    /// Everything that it is bound to, and every version that it makes.
    pub(crate) fn touched(&self) -> impl Iterator<Item = Local> + '_ {
        self.bindings.iter().copied().chain(self.written())
    }

    /// What it is.
    pub fn kind(&self) -> ItemKind {
        self.kind
    }

    /// What it does: for a fused kernel its expression, for others their name.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The program that it runs, if it is no kernel of a user.
    pub fn program(&self) -> Option<&Arc<Program>> {
        match &self.work {
            Work::Program(program) => Some(program),
            Work::Custom(_) => None,
        }
    }
}
