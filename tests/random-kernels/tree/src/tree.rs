//! Expressions, statements, helper functions, kernels.

use crate::number::{Binary, Compare, Ty, Unary};

/// A variable, by its number in its function.
pub type Var = usize;
/// A loop, by its number in its function.
pub type LoopId = usize;

/// An expression and its type.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The type.
    pub ty: Ty,
    /// What it is.
    pub kind: Kind,
}

/// What an expression is.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the expressions of Rust")]
pub enum Kind {
    Literal(u64),
    Name(Var),
    /// A part of a tuple.
    Part(Var, usize),
    /// An element of an array.
    Element(Var, Index),
    /// The number of the thread, as `i` or as `thread()`.
    Thread(bool),
    /// The number of threads.
    Threads,
    /// The number of elements of a buffer.
    Len(usize),
    /// An element of a buffer that the kernel reads.
    Load(usize, Index),
    /// The thread's own element of a buffer.
    Own(usize),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Compare(Compare, Box<Expr>, Box<Expr>),
    /// `a << b` if it is true, else `a >> b`.
    Shift(bool, Box<Expr>, Box<Expr>),
    /// `a && b` if it is true, else `a || b`.
    Lazy(bool, Box<Expr>, Box<Expr>),
    Cast(Box<Expr>),
    If(Box<Expr>, Block, Block),
    Match(Box<Expr>, Vec<Arm>),
    Call(Call),
}

/// An index, which is in bounds.
#[derive(Clone, Debug)]
pub enum Index {
    /// `i`, of a buffer with an element for each thread.
    Thread,
    /// `value as usize % len`.
    Usize(Box<Expr>),
    /// `value % m` of an unsigned type.
    Rest(Box<Expr>, u64),
    /// `value & m` of a signed type.
    Masked(Box<Expr>, u64),
}

/// Statements and a value; none behind a jump.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Block {
    pub statements: Vec<Statement>,
    pub value: Option<Box<Expr>>,
}

/// An arm of a `match`.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Arm {
    pub pattern: Pattern,
    pub guard: Option<Expr>,
    pub block: Block,
}

/// A pattern of integers.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// One of these.
    Literals(Vec<u64>),
    /// From the first to the last, which is part of it if the flag is set.
    Range(Option<u64>, Option<u64>, bool),
    /// A name.
    Bind(Var),
    /// `_`.
    Any,
}

/// A call of a helper function.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function, by its number.
    pub helper: usize,
    /// The values.
    pub values: Vec<Expr>,
    /// The buffer, if the function takes one.
    pub buffer: Option<usize>,
}

/// What a variable holds at first.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the expressions of Rust")]
pub enum Value {
    One(Expr),
    Tuple(Vec<Expr>),
    Array(Vec<Expr>),
    Repeat(Expr, usize),
    /// Of a function that returns a tuple.
    Call(Call),
}

/// A place that is assigned to.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as of expressions")]
pub enum Place {
    Name(Var),
    Part(Var, usize),
    Element(Var, Index),
    Own(usize),
}

/// The range of a loop.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Range {
    pub start: Expr,
    pub end: Expr,
    pub kind: RangeKind,
}

/// How a loop runs over its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the ranges of Rust")]
pub enum RangeKind {
    HalfOpen,
    Closed,
    Reversed,
    Steps(u64),
}

/// A statement.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the statements of Rust")]
pub enum Statement {
    Let(Var, Value),
    /// `let (a, b) = ..`.
    Apart(Vec<Var>, Value),
    /// `let a; if .. { a = ..; } else { a = ..; }`.
    Later(Var, Expr, Expr, Expr),
    /// With an operator as in `+=`.
    Assign(Place, Option<Operator>, Expr),
    If(Expr, Vec<Statement>, Option<Vec<Statement>>),
    Match(Expr, Vec<Arm>),
    For(LoopId, Var, Range, Vec<Statement>),
    /// At most this number of times, which the variable counts.
    While(LoopId, Var, u64, Option<Expr>, Vec<Statement>),
    /// Likewise.
    Loop(LoopId, Var, u64, Vec<Statement>),
    Break(LoopId),
    Continue(LoopId),
    Return(Vec<Expr>),
}

/// The operator of an assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the operators of Rust")]
pub enum Operator {
    Binary(Binary),
    Shift(bool),
}

/// What a variable is.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The name, which another variable may have as well.
    pub name: String,
    /// The shape.
    pub shape: Shape,
    /// Whether it is `mut`.
    pub is_mut: bool,
    /// Whether its type is written.
    pub is_typed: bool,
}

/// The shape of a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the types of Rust")]
pub enum Shape {
    One(Ty),
    Tuple(Vec<Ty>),
    Array(Ty, usize),
}

/// A helper function.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Helper {
    /// The first of them are the parameters.
    pub variables: Vec<Variable>,
    pub params: usize,
    pub buffer: Option<Ty>,
    pub returns: Vec<Ty>,
    pub body: Vec<Statement>,
    pub values: Vec<Expr>,
}

/// A kernel.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Kernel {
    pub seed: u64,
    pub helpers: Vec<Helper>,
    /// The first of them are the scalars.
    pub variables: Vec<Variable>,
    pub scalars: Vec<Ty>,
    pub buffers: Vec<Buffer>,
    pub body: Vec<Statement>,
}

/// A buffer of a kernel.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Buffer {
    pub of: Ty,
    pub mode: Mode,
}

/// How a kernel uses a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// `&[T]`, at any index.
    Read,
    /// `&[T]`, with an element for each thread.
    Along,
    /// `&mut [T]`, at the number of the thread.
    Own,
    /// `&mut [T]`, at the number of the thread from the end.
    Reversed,
    /// `#[whole] &mut [T]`, at the number of the thread, from the first statement on.
    Whole,
}

/// The fewest elements of a buffer, and of threads.
pub const ELEMENTS_MIN: usize = 16;
