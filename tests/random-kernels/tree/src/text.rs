//! The text of a kernel, in Rust.

use std::fmt::{Result, Write};

use crate::number::{Binary, Compare, Ty, Unary};
use crate::tree::{
    Arm, Block, Buffer, Call, Expr, Index, Kernel, Kind, LoopId, Mode, Operator, Pattern, Place,
    RangeKind, Shape, Statement, Value, Var, Variable,
};

/// Returns the items of a kernel: its helper functions, and the kernel, whose name is `k` and the seed.
pub fn text(kernel: &Kernel) -> String {
    let mut text = Text {
        out: String::new(),
        kernel,
        variables: &[],
        loops: Vec::new(),
        depth: 0,
        in_helper: false,
    };
    text.items().expect("a string has room");
    text.out
}

struct Text<'a> {
    out: String,
    kernel: &'a Kernel,
    variables: &'a [Variable],
    loops: Vec<LoopId>,
    depth: usize,
    in_helper: bool,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> Result {
        self.out.push_str(text);
        Ok(())
    }
}

fn list<T>(of: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> String {
    of.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

fn shape(of: &Shape) -> String {
    match of {
        Shape::One(of) => of.name().to_owned(),
        Shape::Tuple(parts) => format!("({})", list(parts, |of| of.name().to_owned())),
        Shape::Array(of, len) => format!("[{}; {len}]", of.name()),
    }
}

fn literal(of: Ty, bits: u64) -> String {
    let name = of.name();
    let text = match of {
        Ty::Bool => return (bits != 0).to_string(),
        Ty::F32 => float(
            f32::from_bits(bits as u32).into(),
            format!("{:?}", f32::from_bits(bits as u32)),
            name,
        ),
        Ty::F64 => float(
            f64::from_bits(bits),
            format!("{:?}", f64::from_bits(bits)),
            name,
        ),
        _ => format!("{}_{name}", of.int(bits)),
    };
    match text.starts_with('-') {
        true => format!("({text})"),
        false => text,
    }
}

fn float(value: f64, text: String, name: &str) -> String {
    match value {
        it if it.is_nan() => format!("{name}::NAN"),
        f64::INFINITY => format!("{name}::INFINITY"),
        f64::NEG_INFINITY => format!("{name}::NEG_INFINITY"),
        _ => format!("{text}_{name}"),
    }
}

/// Returns a literal as patterns have it.
fn bare(of: Ty, bits: u64) -> String {
    literal(of, bits).replace(['(', ')'], "")
}

fn operator(op: Binary) -> &'static str {
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

impl<'a> Text<'a> {
    fn items(&mut self) -> Result {
        let (kernel, seed) = (self.kernel, self.kernel.seed);
        for (index, helper) in kernel.helpers.iter().enumerate() {
            (self.variables, self.in_helper) = (&helper.variables, true);
            let mut params: Vec<String> = helper.variables[..helper.params]
                .iter()
                .map(|param| format!("{}: {}", param.name, shape(&param.shape)))
                .collect();
            params.extend(helper.buffer.map(|of| format!("x: &[{}]", of.name())));
            let returns = match &helper.returns[..] {
                [of] => of.name().to_owned(),
                parts => format!("({})", list(parts, |of| of.name().to_owned())),
            };
            writeln!(
                self,
                "#[kernel]\npub fn h{seed}_{index}({}) -> {returns} {{",
                params.join(", ")
            )?;
            self.depth = 1;
            self.statements(&helper.body)?;
            let values = self.values(&helper.values);
            self.line(&values)?;
            writeln!(self, "}}\n")?;
        }
        (self.variables, self.in_helper) = (&kernel.variables, false);
        let scalars = kernel.scalars.iter().enumerate();
        let mut params: Vec<String> = scalars
            .map(|(index, of)| format!("s{index}: {}", of.name()))
            .collect();
        params.extend(
            kernel
                .buffers
                .iter()
                .enumerate()
                .map(|(index, Buffer { of, mode })| {
                    let (of, name) = (of.name(), self.buffer(index));
                    match mode {
                        Mode::Read | Mode::Along => format!("{name}: &[{of}]"),
                        Mode::Own | Mode::Reversed => format!("{name}: &mut [{of}]"),
                        Mode::Whole => format!("#[whole] {name}: &mut [{of}]"),
                    }
                }),
        );
        writeln!(
            self,
            "#[kernel]\npub fn k{seed}({}) {{\n    let i = thread();",
            params.join(", ")
        )?;
        self.depth = 1;
        self.statements(&kernel.body)?;
        writeln!(self, "}}")
    }

    fn buffer(&self, index: usize) -> String {
        if self.in_helper {
            return "x".to_owned();
        }
        match self.kernel.buffers[index].mode {
            Mode::Read | Mode::Along => format!("x{index}"),
            _ => format!("y{index}"),
        }
    }

    fn line(&mut self, text: &str) -> Result {
        let depth = self.depth;
        writeln!(self, "{:1$}{text}", "", 4 * depth)
    }

    fn name(&self, var: Var) -> &'a str {
        let variables: &'a [Variable] = self.variables;
        &variables[var].name
    }

    fn index(&mut self, index: &Index, len: &str) -> String {
        match index {
            Index::Thread => "i".to_owned(),
            Index::Usize(value) => match value.ty {
                Ty::Usize => format!("{} % {len}", self.expr(value)),
                _ => format!("({} as usize) % {len}", self.expr(value)),
            },
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

    fn element(&mut self, var: Var, index: &Index) -> String {
        let Shape::Array(_, len) = &self.variables[var].shape else {
            unreachable!("an array");
        };
        let index = self.index(index, &format!("{len}_usize"));
        format!("{}[{index}]", self.name(var))
    }

    fn expr(&mut self, it: &Expr) -> String {
        match &it.kind {
            Kind::Literal(bits) => literal(it.ty, *bits),
            Kind::Name(var) => self.name(*var).to_owned(),
            Kind::Part(var, part) => format!("{}.{part}", self.name(*var)),
            Kind::Element(var, index) => self.element(*var, index),
            Kind::Thread(true) => "i".to_owned(),
            Kind::Thread(false) => "thread()".to_owned(),
            Kind::Threads => "threads()".to_owned(),
            Kind::Len(buffer) => format!("{}.len()", self.buffer(*buffer)),
            Kind::Load(buffer, index) => {
                let name = self.buffer(*buffer);
                let index = self.index(index, &format!("{name}.len()"));
                format!("{name}[{index}]")
            }
            Kind::Own(buffer) => self.own(*buffer),
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
                let (of, value) = (value.ty, self.expr(value));
                format!("(match {value} {})", self.arms(of, arms))
            }
            Kind::Call(call) => self.call(call),
        }
    }

    fn call(&mut self, call: &Call) -> String {
        let values: Vec<_> = call.values.iter().map(|value| self.expr(value)).collect();
        let buffer = call.buffer.map(|buffer| self.buffer(buffer));
        let arguments: Vec<_> = values.into_iter().chain(buffer).collect();
        format!(
            "h{}_{}({})",
            self.kernel.seed,
            call.helper,
            arguments.join(", ")
        )
    }

    /// Returns what `text` writes.
    fn nested(&mut self, text: impl FnOnce(&mut Self) -> Result) -> String {
        let out = std::mem::take(&mut self.out);
        self.depth += 1;
        text(self).expect("a string has room");
        self.depth -= 1;
        std::mem::replace(&mut self.out, out)
    }

    fn block(&mut self, block: &Block) -> String {
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

    fn arms(&mut self, of: Ty, arms: &[Arm]) -> String {
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

    fn values(&mut self, values: &[Expr]) -> String {
        match values {
            [one] => self.expr(one),
            values => {
                let parts: Vec<_> = values.iter().map(|value| self.expr(value)).collect();
                format!("({})", parts.join(", "))
            }
        }
    }

    fn value(&mut self, value: &Value) -> String {
        match value {
            Value::One(value) => self.expr(value),
            Value::Tuple(parts) => self.values(parts),
            Value::Array(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| self.expr(part)).collect();
                format!("[{}]", parts.join(", "))
            }
            Value::Repeat(value, len) => format!("[{}; {len}]", self.expr(value)),
            Value::Call(call) => self.call(call),
        }
    }

    fn statements(&mut self, statements: &[Statement]) -> Result {
        statements.iter().try_for_each(|it| self.statement(it))
    }

    /// Returns statements in braces.
    fn body(&mut self, statements: &[Statement]) -> String {
        let inside = self.nested(|it| it.statements(statements));
        format!("{{\n{inside}{:1$}}}", "", 4 * self.depth)
    }

    fn jump(&mut self, it: &Statement) -> String {
        let to = |id: &LoopId| match self.loops.last() == Some(id) {
            true => String::new(),
            false => format!(" 'l{id}"),
        };
        match it {
            Statement::Break(id) => format!("break{}", to(id)),
            Statement::Continue(id) => format!("continue{}", to(id)),
            Statement::Return(values) if values.is_empty() => "return".to_owned(),
            Statement::Return(values) => format!("return {}", self.values(values)),
            _ => unreachable!("a jump"),
        }
    }

    fn looped(
        &mut self,
        id: LoopId,
        head: &str,
        first: Option<String>,
        body: &[Statement],
    ) -> Result {
        self.loops.push(id);
        let inside = self.nested(|it| {
            if let Some(first) = first {
                it.line(&first)?;
            }
            it.statements(body)
        });
        self.loops.pop();
        let label =
            match inside.contains(&format!(" 'l{id}\n")) || inside.contains(&format!(" 'l{id};")) {
                true => format!("'l{id}: "),
                false => String::new(),
            };
        self.line(&format!("{label}{head} {{"))?;
        self.out.push_str(&inside);
        self.line("}")
    }

    fn statement(&mut self, it: &Statement) -> Result {
        match it {
            Statement::Let(var, value) => {
                let value = self.value(value);
                let variable = &self.variables[*var];
                let of = variable
                    .is_typed
                    .then(|| format!(": {}", shape(&variable.shape)));
                let is_mut = if variable.is_mut { "mut " } else { "" };
                let (name, of) = (self.name(*var), of.unwrap_or_default());
                self.line(&format!("let {is_mut}{name}{of} = {value};"))
            }
            Statement::Apart(vars, value) => {
                let value = self.value(value);
                let names = list(vars, |var| {
                    let is_mut = if self.variables[*var].is_mut {
                        "mut "
                    } else {
                        ""
                    };
                    format!("{is_mut}{}", self.name(*var))
                });
                self.line(&format!("let ({names}) = {value};"))
            }
            Statement::Later(var, condition, a, b) => {
                let name = self.name(*var);
                let of = shape(&self.variables[*var].shape);
                self.line(&format!("let {name}: {of};"))?;
                let [condition, a, b] = [condition, a, b].map(|it| self.expr(it));
                self.line(&format!(
                    "if {condition} {{ {name} = {a}; }} else {{ {name} = {b}; }}"
                ))
            }
            Statement::Assign(place, op, value) => {
                let value = self.expr(value);
                let place = match place {
                    Place::Name(var) => self.name(*var).to_owned(),
                    Place::Part(var, part) => format!("{}.{part}", self.name(*var)),
                    Place::Element(var, index) => self.element(*var, index),
                    Place::Own(buffer) => self.own(*buffer),
                };
                let op = match op {
                    None => "",
                    Some(Operator::Binary(op)) => operator(*op),
                    Some(Operator::Shift(true)) => "<<",
                    Some(Operator::Shift(false)) => ">>",
                };
                self.line(&format!("{place} {op}= {value};"))
            }
            Statement::If(condition, then, otherwise) => {
                let (condition, then) = (self.expr(condition), self.body(then));
                let otherwise = otherwise
                    .as_ref()
                    .map(|it| format!(" else {}", self.body(it)));
                self.line(&format!(
                    "if {condition} {then}{}",
                    otherwise.unwrap_or_default()
                ))
            }
            Statement::Match(value, arms) => {
                let (of, value) = (value.ty, self.expr(value));
                let arms = self.arms(of, arms);
                self.line(&format!("match {value} {arms}"))
            }
            Statement::For(id, var, range, body) => {
                let (start, end) = (self.expr(&range.start), self.expr(&range.end));
                let range = match range.kind {
                    RangeKind::HalfOpen => format!("{start}..{end}"),
                    RangeKind::Closed => format!("{start}..={end}"),
                    RangeKind::Reversed => format!("({start}..{end}).rev()"),
                    RangeKind::Steps(step) => format!("({start}..{end}).step_by({step})"),
                };
                self.looped(
                    *id,
                    &format!("for {} in {range}", self.name(*var)),
                    None,
                    body,
                )
            }
            Statement::While(id, counter, most, condition, body) => {
                let (name, of) = (self.name(*counter), shape(&self.variables[*counter].shape));
                self.line(&format!("let mut {name} = 0_{of};"))?;
                let condition = condition
                    .as_ref()
                    .map(|it| format!(" && {}", self.expr(it)));
                let head = format!(
                    "while {name} < {most}_{of}{}",
                    condition.unwrap_or_default()
                );
                self.looped(*id, &head, Some(format!("{name} += 1_{of};")), body)
            }
            Statement::Loop(id, counter, most, body) => {
                let (name, of) = (self.name(*counter), shape(&self.variables[*counter].shape));
                self.line(&format!("let mut {name} = 0_{of};"))?;
                let first = format!("if {name} >= {most}_{of} {{ break; }} {name} += 1_{of};");
                self.looped(*id, "loop", Some(first), body)
            }
            jump => {
                let jump = self.jump(jump);
                self.line(&format!("{jump};"))
            }
        }
    }
}
