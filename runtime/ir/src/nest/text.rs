//! Nests as text, one line for each value.
//!
//! ```text
//! nest outer 1 inner 1 words 4
//!   buffer 0 f32 read
//!   buffer 1 f32 write
//!   access 0 = buffer 0 [w2 1]
//!   access 1 = buffer 1 [w2 1]
//!   %0 f32 = load 0
//!   %1 f32 = reduce max %0
//!   %2 f32 = sub %0 %1
//!   store inner 1 %2
//! ```

use std::fmt;

use crate::nest::{Access, BufferMode, Level, Nest, Op, Scatter, Store, Stride};

impl BufferMode {
    /// All modes.
    pub const ALL: [BufferMode; 3] = [BufferMode::Read, BufferMode::Write, BufferMode::Update];

    /// Returns the name, as texts show it.
    pub const fn name(self) -> &'static str {
        match self {
            BufferMode::Read => "read",
            BufferMode::Write => "write",
            BufferMode::Update => "update",
        }
    }
}

impl fmt::Display for Stride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stride::Zero => f.write_str("0"),
            Stride::One => f.write_str("1"),
            Stride::Word(word) => write!(f, "w{word}"),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {}", self.buffer)?;
        if let Some(word) = self.offset {
            write!(f, " + w{word}")?;
        }
        f.write_str(" [")?;
        for (index, stride) in self.strides.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            write!(f, "{space}{stride}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Const(bits) => write!(f, "const {bits:#x}"),
            Op::Word(word) => write!(f, "word w{word}"),
            Op::Index(axis) => write!(f, "index {axis}"),
            Op::Load(access) => write!(f, "load {access}"),
            Op::Gather {
                access,
                index,
                stride,
                len,
            } => write!(f, "gather {access} %{index} {stride} w{len}"),
            Op::Unary(op, a) => write!(f, "{op} %{a}"),
            Op::Binary(op, a, b) => write!(f, "{op} %{a} %{b}"),
            Op::Compare(op, a, b) => write!(f, "{op} %{a} %{b}"),
            Op::Select(condition, a, b) => write!(f, "select %{condition} %{a} %{b}"),
            Op::Cast(a) => write!(f, "cast %{a}"),
            Op::Random { seed, counter } => write!(f, "random w{seed} %{counter}"),
            Op::Reduce(op, a) => write!(f, "reduce {op} %{a}"),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Outer => "outer",
            Level::Inner => "inner",
        };
        write!(f, "store {level} {} %{}", self.access, self.value)?;
        if let Some(Scatter {
            index,
            stride,
            len,
            adds,
        }) = &self.scatter
        {
            let how = if *adds { "add" } else { "set" };
            write!(f, " scatter {how} %{index} {stride} w{len}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outer, inner, words) = (self.outer, self.inner, self.words);
        writeln!(f, "nest outer {outer} inner {inner} words {words}")?;
        for (index, buffer) in self.buffers.iter().enumerate() {
            let mode = buffer.mode.name();
            writeln!(f, "  buffer {index} {} {mode}", buffer.dtype)?;
        }
        for (index, access) in self.accesses.iter().enumerate() {
            writeln!(f, "  access {index} = {access}")?;
        }
        for (index, value) in self.values.iter().enumerate() {
            writeln!(f, "  %{index} {} = {}", value.dtype, value.op)?;
        }
        for store in &self.stores {
            writeln!(f, "  {store}")?;
        }
        Ok(())
    }
}
