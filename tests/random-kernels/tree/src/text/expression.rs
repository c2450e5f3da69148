//! The text of expressions.

use super::Text;
use super::literal::{bare, literal, shape};
use crate::method::Method;
use crate::number::{Binary, Compare, Ty, Unary};
use crate::tree::{
    Arm, Atomic, Block, Call, Expr, Index, Kind, Mode, Operation, Pattern, Place, Root, Shape,
    Statement, Step, Value,
};

pub(super) fn operator(op: Binary) -> &'static str {
    match op {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div => "/",
        Binary::Rem => "%",
        Binary::And => "&",
        Binary::Or => "|",
        Binary::Xor => "^",
        Binary::Min => "min",
        Binary::Max => "max",
    }
}

/// Returns the name of an atomic operation.
pub(super) fn atomic(of: Operation) -> &'static str {
    match of {
        Operation::Add => "fetch_add",
        Operation::Sub => "fetch_sub",
        Operation::Min => "fetch_min",
        Operation::Max => "fetch_max",
        Operation::And => "fetch_and",
        Operation::Or => "fetch_or",
        Operation::Xor => "fetch_xor",
        Operation::Swap => "swap",
        Operation::Exchange => "compare_exchange",
        Operation::Load => "load",
        Operation::Store => "store",
    }
}

impl Text<'_> {
    pub(super) fn index(&mut self, index: &Index, len: &str) -> String {
        match index {
            Index::Thread => "i".to_owned(),
            Index::Usize(value, of_array) => {
                let len = of_array.map_or(len.to_owned(), |len| format!("{len}_usize"));
                match value.ty {
                    Ty::Usize => format!("{} % {len}", self.expr(value)),
                    _ => format!("({} as usize) % {len}", self.expr(value)),
                }
            }
            Index::Rest(value, m) => format!("{} % {m}_{}", self.expr(value), value.ty.name()),
            Index::Masked(value, m) => format!("{} & {m}_{}", self.expr(value), value.ty.name()),
        }
    }

    fn own(&self, buffer: usize) -> String {
        let name = self.buffer(buffer);
        match self.kernel.buffers[buffer].mode {
            Mode::Reversed => format!("{name}[{name}.len() - 1_usize - i]"),
            _ => format!("{name}[i]"),
        }
    }

    pub(super) fn place(&mut self, it: &Place) -> String {
        let mut text = match &it.root {
            Root::Variable(var) => self.name(*var).to_owned(),
            Root::Load(buffer, index) => {
                let name = self.buffer(*buffer);
                let index = self.index(index, &format!("{name}.len()"));
                format!("{name}[{index}]")
            }
            Root::Own(buffer) => self.own(*buffer),
            Root::Table(table) => format!("T{}_{table}", self.kernel.seed),
            Root::Shared(array, index) => {
                let index = self.index(index, &format!("m{array}.len()"));
                format!("m{array}[{index}]")
            }
        };
        for step in &it.steps {
            text += &match step {
                Step::Part(part) => format!(".{part}"),
                Step::Field(field) => format!(".f{field}"),
                Step::At(index) => format!("[{}]", self.index(index, "")),
            };
        }
        text
    }

    pub(super) fn expr(&mut self, it: &Expr) -> String {
        match &it.kind {
            Kind::Literal(bits) => literal(it.ty, *bits),
            Kind::Place(place) => self.place(place),
            Kind::Thread(true) => "i".to_owned(),
            Kind::Thread(false) => "thread()".to_owned(),
            Kind::Threads => "threads()".to_owned(),
            Kind::ThreadInCube => "thread_in_cube()".to_owned(),
            Kind::Cube => "cube()".to_owned(),
            Kind::Len(buffer) => format!("{}.len()", self.buffer(*buffer)),
            Kind::Unary(op, a) => {
                let a = self.expr(a);
                match op {
                    Unary::Neg => format!("(-({a}))"),
                    Unary::Not => format!("(!{a})"),
                    Unary::Abs => format!("({a}).abs()"),
                    Unary::Floor => format!("({a}).floor()"),
                    Unary::Ceil => format!("({a}).ceil()"),
                }
            }
            Kind::Binary(op @ (Binary::Min | Binary::Max), a, b) => {
                let least = format!("({}).{}({})", self.expr(a), operator(*op), self.expr(b));
                // Of two zeros any may be the less, so the result has no sign.
                match it.ty.is_float() {
                    true => format!("{least}.abs()"),
                    false => least,
                }
            }
            Kind::Binary(op, a, b) => {
                format!("({} {} {})", self.expr(a), operator(*op), self.expr(b))
            }
            Kind::Compare(op, a, b) => {
                let op = match op {
                    Compare::Eq => "==",
                    Compare::Ne => "!=",
                    Compare::Lt => "<",
                    Compare::Le => "<=",
                    Compare::Gt => ">",
                    Compare::Ge => ">=",
                };
                format!("({} {op} {})", self.expr(a), self.expr(b))
            }
            Kind::Shift(is_left, a, b) => {
                let op = if *is_left { "<<" } else { ">>" };
                format!("({} {op} {})", self.expr(a), self.expr(b))
            }
            Kind::Lazy(is_and, a, b) => {
                let op = if *is_and { "&&" } else { "||" };
                format!("({} {op} {})", self.expr(a), self.expr(b))
            }
            Kind::Cast(a) => format!("({} as {})", self.expr(a), it.ty.name()),
            Kind::If(condition, a, b) => {
                let condition = self.expr(condition);
                format!("(if {condition} {} else {})", self.block(a), self.block(b))
            }
            Kind::Match(value, arms) => {
                let (of, value) = (value.ty, self.matched(value));
                format!("(match {value} {})", self.arms(of, arms))
            }
            Kind::Call(call) => self.call(call),
            Kind::Method(method, operands) => self.method(*method, operands),
            Kind::Atomic(atomic) => self.atomic(atomic),
        }
    }

    /// Returns what is matched: of a variable a copy, so that a guard may assign to the variable.
    pub(super) fn matched(&mut self, value: &Expr) -> String {
        let text = self.expr(value);
        match &value.kind {
            Kind::Place(Place {
                root: Root::Variable(var),
                ..
            }) if self.variables[*var].is_mut => format!("{{ {text} }}"),
            _ => text,
        }
    }

    fn method(&mut self, method: Method, operands: &[Expr]) -> String {
        let texts = operands.iter().enumerate().map(|(at, operand)| {
            let text = self.expr(operand);
            match method.sees_bits(at) {
                true => format!("known_{}({text})", operand.ty.name()),
                false => text,
            }
        });
        let (texts, of, name) = (texts.collect::<Vec<_>>(), operands[0].ty, method.name());
        let (first, others) = (&texts[0], texts[1..].join(", "));
        match method {
            Method::FromBits if of == Ty::U32 => format!("f32::from_bits({first})"),
            Method::FromBits => format!("f64::from_bits({first})"),
            // As of `min` and `max`.
            Method::Clamp if of.is_float() => format!("({first}).clamp({others}).abs()"),
            _ => format!("({first}).{name}({others})"),
        }
    }

    pub(super) fn atomic(&mut self, it: &Atomic) -> String {
        let name = self.buffer(it.buffer);
        let place = match &it.index {
            Some(index) => format!("{name}[{}]", self.index(index, &format!("{name}.len()"))),
            None => self.own(it.buffer),
        };
        let operation = atomic(it.operation);
        let values: Vec<_> = it.values.iter().map(|value| self.expr(value)).collect();
        format!("{place}.{operation}({})", values.join(", "))
    }

    fn call(&mut self, call: &Call) -> String {
        let mut values: Vec<_> = call.values.iter().map(|value| self.value(value)).collect();
        values.extend(call.buffer.map(|buffer| self.buffer(buffer)));
        let is_method = self.kernel.helpers[call.helper].method_of.is_some();
        match is_method {
            true => format!(
                "({}).h{}({})",
                values[0],
                call.helper,
                values[1..].join(", ")
            ),
            false => {
                let values = values.join(", ");
                format!("h{}_{}({values})", self.kernel.seed, call.helper)
            }
        }
    }

    pub(super) fn value(&mut self, value: &Value) -> String {
        let list = |it: &mut Self, values: &[Value]| {
            let values: Vec<_> = values.iter().map(|value| it.value(value)).collect();
            values.join(", ")
        };
        match value {
            Value::One(value) => self.expr(value),
            Value::Copy(place) => self.place(place),
            Value::Tuple(parts) => format!("({})", list(self, parts)),
            Value::Array(parts) => format!("[{}]", list(self, parts)),
            Value::Repeat(value, len) => format!("[{}; {len}]", self.value(value)),
            Value::Struct(id, fields, base) => {
                let mut parts: Vec<_> = fields
                    .iter()
                    .map(|(field, value)| format!("f{field}: {}", self.value(value)))
                    .collect();
                parts.extend(base.as_ref().map(|base| format!("..{}", self.value(base))));
                let name = shape(self.kernel, &Shape::Struct(*id));
                format!("{name} {{ {} }}", parts.join(", "))
            }
            Value::If(condition, a, b) => {
                let condition = self.expr(condition);
                let (a, b) = (self.value(a), self.value(b));
                format!("(if {condition} {{ {a} }} else {{ {b} }})")
            }
            Value::Call(call) => self.call(call),
        }
    }

    pub(super) fn block(&mut self, block: &Block) -> String {
        let inside = self.nested(|it| {
            let (last, before) = match (&block.value, block.statements.split_last()) {
                (None, Some((last, before))) => (Some(last), before),
                _ => (None, &block.statements[..]),
            };
            it.statements(before)?;
            match (&block.value, last) {
                (Some(value), _) => {
                    let value = it.expr(value);
                    it.line(&value)
                }
                // A jump is a value, too.
                (
                    None,
                    Some(
                        jump
                        @ (Statement::Break(_) | Statement::Continue(_) | Statement::Return(_)),
                    ),
                ) => {
                    let jump = it.jump(jump);
                    it.line(&jump)
                }
                (None, Some(last)) => it.statement(last),
                (None, None) => Ok(()),
            }
        });
        format!("{{\n{inside}{:1$}}}", "", 4 * self.depth)
    }

    pub(super) fn arms(&mut self, of: Ty, arms: &[Arm]) -> String {
        let inside = self.nested(|it| {
            for arm in arms {
                let pattern = match &arm.pattern {
                    Pattern::Literals(any) => any
                        .iter()
                        .map(|bits| bare(of, *bits))
                        .collect::<Vec<_>>()
                        .join(" | "),
                    Pattern::Range(start, end, is_closed) => {
                        let [start, end] =
                            [start, end].map(|it| it.map_or(String::new(), |bits| bare(of, bits)));
                        let dots = if *is_closed { "..=" } else { ".." };
                        format!("{start}{dots}{end}")
                    }
                    Pattern::Bind(var) => it.name(*var).to_owned(),
                    Pattern::Any => "_".to_owned(),
                };
                let guard = arm
                    .guard
                    .as_ref()
                    .map(|guard| format!(" if {}", it.expr(guard)));
                let block = it.block(&arm.block);
                it.line(&format!(
                    "{pattern}{} => {block}",
                    guard.unwrap_or_default()
                ))?;
            }
            Ok(())
        });
        format!("{{\n{inside}{:1$}}}", "", 4 * self.depth)
    }
}
