//! Expressions, statements, helper functions, kernels.

mod together;

use crate::method::Method;
use crate::number::{Binary, Compare, Ty, Unary};

pub use together::{Fold, Shuffle, Tally, Together};

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
    /// A number that is held somewhere.
    Place(Place),
    /// The number of the thread, as `i` or as `thread()`.
    Thread(bool),
    /// The number of threads.
    Threads,
    /// The number of elements of a buffer.
    Len(usize),
    /// The number of the thread in its cube.
    ThreadInCube,
    /// The number of the cube.
    Cube,
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
    Method(Method, Vec<Expr>),
    /// What an element of atomics was before an operation.
    Atomic(Atomic),
}

/// An atomic operation on an element.
#[derive(Clone, Debug)]
pub struct Atomic {
    /// The buffer.
    pub buffer: usize,
    /// The operation.
    pub operation: Operation,
    /// The index, of the thread's own element none.
    pub index: Option<Index>,
    /// The operands.
    pub values: Vec<Expr>,
}

/// What an atomic operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the operations of Rust")]
pub enum Operation {
    Add,
    Sub,
    Min,
    Max,
    And,
    Or,
    Xor,
    Swap,
    Exchange,
    Load,
    Store,
}

/// An index, which is in bounds.
#[derive(Clone, Debug)]
pub enum Index {
    /// `i`, of a buffer with an element for each thread.
    Thread,
    /// `value as usize % len`: of an array, or of the buffer.
    Usize(Box<Expr>, Option<usize>),
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
    /// The values; the first is what a method is called on.
    pub values: Vec<Value>,
    /// The buffer, if the function takes one.
    pub buffer: Option<usize>,
}

/// A value of any shape.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the expressions of Rust")]
pub enum Value {
    One(Expr),
    Copy(Place),
    Tuple(Vec<Value>),
    Array(Vec<Value>),
    Repeat(Box<Value>, usize),
    /// A struct, whose fields that are not named are those of another one.
    Struct(usize, Vec<(usize, Value)>, Option<Box<Value>>),
    If(Box<Expr>, Box<Value>, Box<Value>),
    /// Of a function that returns this shape.
    Call(Call),
}

/// A place that holds a value: a part of a variable, of an element of a buffer or of a table.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Place {
    pub root: Root,
    pub steps: Vec<Step>,
}

/// Where a place begins.
#[derive(Clone, Debug)]
pub enum Root {
    /// A variable.
    Variable(Var),
    /// An element of a buffer that the kernel reads.
    Load(usize, Index),
    /// The thread's own element of a buffer.
    Own(usize),
    /// A constant, by its number in the kernel.
    Table(usize),
    /// An element of an array that the threads of a cube share.
    Shared(usize, Index),
}

/// A step into a value.
#[derive(Clone, Debug)]
pub enum Step {
    /// A part of a tuple.
    Part(usize),
    /// A field of a struct.
    Field(usize),
    /// An element of an array.
    At(Index),
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
    Later(Var, Expr, Value, Value),
    Assign(Place, Value),
    /// With an operator as in `+=`.
    Change(Place, Operator, Expr),
    /// Its result is dropped.
    Atomic(Atomic),
    /// What all threads of a cube do.
    Together(Together),
    If(Expr, Vec<Statement>, Option<Vec<Statement>>),
    Match(Expr, Vec<Arm>),
    For(LoopId, Var, Range, Vec<Statement>),
    /// At most this number of times, which the variable counts.
    While(LoopId, Var, u64, Option<Expr>, Vec<Statement>),
    /// Likewise.
    Loop(LoopId, Var, u64, Vec<Statement>),
    Break(LoopId),
    Continue(LoopId),
    Return(Option<Value>),
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

/// The shape of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the types of Rust")]
pub enum Shape {
    One(Ty),
    Tuple(Vec<Shape>),
    Array(Box<Shape>, usize),
    /// By its number in the kernel.
    Struct(usize),
}

/// A struct.
#[derive(Clone, Debug)]
pub struct Struct {
    /// The shapes of the fields.
    pub fields: Vec<Shape>,
    /// Whether a buffer may have such elements: `#[repr(C)]`, and no padding.
    pub is_element: bool,
}

impl Shape {
    /// Returns the types of the numbers, in the order of memory.
    pub fn numbers(&self, structs: &[Struct]) -> Vec<Ty> {
        let of_all = |parts: &[Self]| {
            let parts = parts.iter().flat_map(|part| part.numbers(structs));
            parts.collect()
        };
        match self {
            Self::One(of) => vec![*of],
            Self::Tuple(parts) => of_all(parts),
            Self::Array(of, len) => of.numbers(structs).repeat(*len),
            Self::Struct(id) => of_all(&structs[*id].fields),
        }
    }

    /// Returns the number of numbers.
    pub fn size(&self, structs: &[Struct]) -> usize {
        let of_all = |parts: &[Self]| parts.iter().map(|part| part.size(structs)).sum();
        match self {
            Self::One(_) => 1,
            Self::Tuple(parts) => of_all(parts),
            Self::Array(of, len) => len * of.size(structs),
            Self::Struct(id) => of_all(&structs[*id].fields),
        }
    }
}

/// A helper function.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Helper {
    /// Set if it is a method of this struct.
    pub method_of: Option<usize>,
    /// The first of them are the parameters.
    pub variables: Vec<Variable>,
    pub params: usize,
    pub buffer: Option<Buffer>,
    pub returns: Shape,
    pub body: Vec<Statement>,
    pub value: Value,
}

/// A kernel.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Kernel {
    pub seed: u64,
    /// The threads of a cube, if they work together.
    pub cube: Option<usize>,
    /// The elements of the shared arrays, which have one for each thread.
    pub shared: Vec<Shape>,
    /// The types of the shared arrays of atomics, likewise.
    pub tallies: Vec<Ty>,
    pub structs: Vec<Struct>,
    pub tables: Vec<Table>,
    pub helpers: Vec<Helper>,
    /// The first of them are the scalars.
    pub variables: Vec<Variable>,
    pub scalars: Vec<Shape>,
    pub buffers: Vec<Buffer>,
    pub body: Vec<Statement>,
}

/// A constant.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Table {
    pub shape: Shape,
    pub bits: Vec<u64>,
}

/// A buffer of a kernel.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Buffer {
    pub of: Shape,
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
    /// `&[Atomic<T>]`, at any index, by operations whose order does not count.
    Atomic(Commuting),
    /// `&[Atomic<T>]`, at the number of the thread.
    AtomicOwn,
}

/// Atomic operations whose order does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commuting {
    /// Additions and subtractions.
    Sum,
    /// Nothing but this one.
    Only(Operation),
}

/// The fewest elements of a buffer, and of threads.
pub const ELEMENTS_MIN: usize = 16;
