//! What the threads of a cube do together.

use super::{Expr, Index, Operation, Statement, Value, Var};

/// What the threads of a cube do together: a statement of the kernel's body, or within another such one.
#[derive(Clone, Debug)]
pub enum Together {
    /// Each thread stores its own element of a shared array, between two barriers.
    Store(usize, Value),
    /// Stores as `Store` and loads an element, in a helper function of the array.
    Exchange(Var, usize, Value, Index),
    /// Atomic operations on a shared array of counters, between barriers.
    Tally(Tally),
    /// `let a = cube_sum(..)`, `subgroup_sum::<W>(..)`. Without a width it is of the cube.
    Reduce(Var, Fold, Option<usize>, Expr),
    /// `let a = shuffle::<W>(.., ..)`.
    Shuffle(Var, Shuffle, usize, Expr, Expr),
    /// A loop of this number of iterations, which is the same for all threads.
    For(Var, Expr, Vec<Statement>),
    /// A condition that is the same for all threads.
    If(Expr, Vec<Statement>),
}

/// Each thread stores its counter, changes that of another one, and loads that of a third one.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Tally {
    pub var: Var,
    /// The array, by its number in the kernel.
    pub array: usize,
    pub first: Expr,
    pub operation: Operation,
    pub at: Index,
    pub value: Expr,
    pub from: Index,
}

/// What a reduction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the reductions")]
pub enum Fold {
    Sum,
    Product,
    Min,
    Max,
}

/// Which thread's value a thread gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the shuffles")]
pub enum Shuffle {
    Lane,
    Xor,
    Down,
    Up,
}
