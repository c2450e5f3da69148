//! Functions as text.

use std::fmt;

use super::{Array, Block, Function, Memory, Op, Stmt, Table, Type, ValueId};
use crate::DType;
use crate::scalar::Number;

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lanes {
            1 => write!(f, "{}", self.dtype),
            lanes => write!(f, "{}x{lanes}", self.dtype),
        }
    }
}

impl Function {
    /// Returns a statement without its blocks, and the line of the source file that it comes from, for messages.
    pub(super) fn quoted(&self, stmt: &Stmt, line: u32) -> String {
        let text = Head(self, stmt).to_string();
        format!("`{}`{}", text.trim_end_matches(" {"), self.place(line))
    }

    /// Returns a line of the source file for messages, as ` at src/lib.rs:12`; empty if the line is 0: unknown.
    pub fn place(&self, line: u32) -> String {
        match (line, &*self.file) {
            (0, _) => String::new(),
            (line, "") => format!(" at line {line}"),
            (line, file) => format!(" at {file}:{line}"),
        }
    }
}

/// An element of memory.
struct Element<'a>(&'a Function, Memory, Option<ValueId>);

impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Element(function, memory, at) = self;
        match function.memory(*memory) {
            Some((name, _)) => f.write_str(name)?,
            None => write!(f, "{memory:?}")?,
        }
        at.map_or(Ok(()), |at| write!(f, "[%{at}]"))
    }
}

/// A string in quotes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let string = self.0.replace('\\', "\\\\").replace('"', "\\\"");
        write!(f, "\"{string}\"")
    }
}

/// A constant, displayed so that parsing returns the same bits.
struct Bits(u64, Option<DType>);

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bits(bits, dtype) = *self;
        let fits = |dtype: &DType| dtype.size() == 8 || bits >> (8 * dtype.size()) == 0;
        match dtype.filter(fits) {
            Some(DType::F64) if f64::from_bits(bits).is_finite() => {
                write!(f, "{:?}", f64::from_bits(bits))
            }
            Some(DType::F32) if f32::from_bits(bits as u32).is_finite() => {
                write!(f, "{:?}", f32::from_bits(bits as u32))
            }
            Some(DType::Bool) if bits < 2 => write!(f, "{}", bits == 1),
            Some(dtype) if !dtype.is_float() && dtype != DType::Bool => {
                write!(f, "{}", Number::of(dtype, bits).whole())
            }
            _ => write!(f, "{bits:#x}"),
        }
    }
}

/// Writes the operation of a value of this type.
fn write_op(
    f: &mut fmt::Formatter<'_>,
    function: &Function,
    of: Option<Type>,
    op: &Op,
) -> fmt::Result {
    match op {
        Op::Const(bits) => write!(f, "const {}", Bits(*bits, of.map(|of| of.dtype))),
        Op::Scalar(index) => match function.scalars.get(usize::from(*index)) {
            Some(scalar) => write!(f, "scalar {}", scalar.name),
            None => write!(f, "scalar {index}"),
        },
        Op::Position(position, axis) => write!(f, "{position} {axis}"),
        Op::Load(memory, at) => write!(f, "load {}", Element(function, *memory, *at)),
        Op::Lane(a, lane) => write!(f, "lane %{a} {lane}"),
        Op::Splat(a) => write!(f, "splat %{a}"),
        Op::Pack(values) => {
            f.write_str("pack")?;
            values.iter().try_for_each(|value| write!(f, " %{value}"))
        }
        Op::Unary(op, a) => write!(f, "{op} %{a}"),
        Op::Binary(op, a, b) => write!(f, "{op} %{a} %{b}"),
        Op::Compare(op, a, b) => write!(f, "{op} %{a} %{b}"),
        Op::Select(condition, a, b) => write!(f, "select %{condition} %{a} %{b}"),
        Op::Cast(a) => write!(f, "cast %{a}"),
        Op::Bits(a) => write!(f, "bits %{a}"),
        Op::Fma(a, b, c) => write!(f, "fma %{a} %{b} %{c}"),
        Op::Random(seed, counter) => write!(f, "random %{seed} %{counter}"),
        Op::Reduce(scope, op, a) => write!(f, "reduce {scope} {op} %{a}"),
        Op::Atomic(op, memory, at) => {
            let element = Element(function, *memory, Some(*at));
            write!(f, "atomic {} {element}", op.name())?;
            op.operands()
                .try_for_each(|operand| write!(f, " %{operand}"))
        }
        Op::Shuffle(from, width, a, by) => write!(f, "shuffle {from} {width} %{a} %{by}"),
    }
}

/// The first line of a statement.
struct Head<'a>(&'a Function, &'a Stmt);

impl fmt::Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Head(function, stmt) = *self;
        match stmt {
            Stmt::Let { value, op } => {
                let of = function.values.get(*value as usize).copied();
                write!(f, "%{value}: ")?;
                match of {
                    Some(of) => write!(f, "{of}")?,
                    None => f.write_str("?")?,
                }
                f.write_str(" = ")?;
                write_op(f, function, of, op)
            }
            Stmt::Store { to, at, value } => {
                write!(f, "store {} = %{value}", Element(function, *to, *at))
            }
            Stmt::If { condition, .. } => write!(f, "if %{condition} {{"),
            Stmt::For {
                index,
                start,
                end,
                step,
                unroll,
                ..
            } => {
                let unroll = if *unroll { " unroll" } else { "" };
                write!(
                    f,
                    "for %{index} in %{start} .. %{end} step %{step}{unroll} {{"
                )
            }
            Stmt::Loop { .. } => f.write_str("loop {"),
            Stmt::Break => f.write_str("break"),
            Stmt::Continue => f.write_str("continue"),
            Stmt::Return => f.write_str("return"),
            Stmt::Barrier => f.write_str("barrier"),
            Stmt::Say(say) => {
                let verb = if say.fails { "fail" } else { "print" };
                write!(f, "{verb} {}", Quoted(&say.text))?;
                say.values
                    .iter()
                    .try_for_each(|value| write!(f, ", %{value}"))
            }
            Stmt::Line(line) => write!(f, "line {line}"),
        }
    }
}

fn block(
    f: &mut fmt::Formatter<'_>,
    function: &Function,
    body: &Block,
    depth: usize,
) -> fmt::Result {
    for stmt in body {
        let indent = "  ".repeat(depth);
        writeln!(f, "{indent}{}", Head(function, stmt))?;
        match stmt {
            Stmt::If {
                then, otherwise, ..
            } => {
                block(f, function, then, depth + 1)?;
                if !otherwise.is_empty() {
                    writeln!(f, "{indent}}} else {{")?;
                    block(f, function, otherwise, depth + 1)?;
                }
                writeln!(f, "{indent}}}")?;
            }
            Stmt::For { body, .. } | Stmt::Loop { body } => {
                block(f, function, body, depth + 1)?;
                writeln!(f, "{indent}}}")?;
            }
            _ => {}
        }
    }
    Ok(())
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.threads;
        let checked = if self.checked { " checked" } else { "" };
        let contract = if self.contract { " contract" } else { "" };
        writeln!(
            f,
            "kernel {} threads {x} {y} {z}{checked}{contract}",
            self.name
        )?;
        if !self.file.is_empty() {
            writeln!(f, "  file {}", Quoted(&self.file))?;
        }
        for param in &self.params {
            write!(f, "  {} {}: {}", param.mode, param.name, param.dtype)?;
            match param
                .len
                .map(|len| (self.scalars.get(usize::from(len)), len))
            {
                None => {}
                Some((Some(scalar), _)) => write!(f, "[{}]", scalar.name)?,
                Some((None, len)) => write!(f, "[{len}]")?,
            }
            match param.each {
                1 => writeln!(f)?,
                each => writeln!(f, " each {each}")?,
            }
        }
        for scalar in &self.scalars {
            writeln!(f, "  scalar {}: {}", scalar.name, scalar.dtype)?;
        }
        for (kind, arrays) in [("shared", &self.shared), ("local", &self.locals)] {
            for Array { name, dtype, len } in arrays {
                match len {
                    1 => writeln!(f, "  {kind} {name}: {dtype}")?,
                    len => writeln!(f, "  {kind} {name}: {dtype}[{len}]")?,
                }
            }
        }
        for Table { name, dtype, bits } in &self.tables {
            write!(f, "  table {name}: {dtype}[{}] =", bits.len())?;
            for bits in bits {
                write!(f, " {}", Bits(*bits, Some(*dtype)))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{{")?;
        block(f, self, &self.body, 1)?;
        writeln!(f, "}}")
    }
}
