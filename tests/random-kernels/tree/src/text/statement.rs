//! The text of statements.

use std::fmt::Result;

use super::expression::operator;
use super::{Text, list};
use crate::tree::{LoopId, Operator, RangeKind, Statement};

impl Text<'_> {
    pub(super) fn statements(&mut self, statements: &[Statement]) -> Result {
        statements.iter().try_for_each(|it| self.statement(it))
    }

    /// Returns statements in braces.
    pub(super) fn body(&mut self, statements: &[Statement]) -> String {
        let inside = self.nested(|it| it.statements(statements));
        format!("{{\n{inside}{:1$}}}", "", 4 * self.depth)
    }

    pub(super) fn jump(&mut self, it: &Statement) -> String {
        let to = |id: &LoopId| match self.loops.last() == Some(id) {
            true => String::new(),
            false => format!(" 'l{id}"),
        };
        match it {
            Statement::Break(id) => format!("break{}", to(id)),
            Statement::Continue(id) => format!("continue{}", to(id)),
            Statement::Return(None) => "return".to_owned(),
            Statement::Return(Some(value)) => format!("return {}", self.value(value)),
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

    pub(super) fn statement(&mut self, it: &Statement) -> Result {
        match it {
            Statement::Let(var, value) => {
                let value = self.value(value);
                let variable = &self.variables[*var];
                let of = variable
                    .is_typed
                    .then(|| format!(": {}", self.shape_of(*var)));
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
                let of = self.shape_of(*var);
                self.line(&format!("let {name}: {of};"))?;
                let (condition, a, b) = (self.expr(condition), self.value(a), self.value(b));
                self.line(&format!(
                    "if {condition} {{ {name} = {a}; }} else {{ {name} = {b}; }}"
                ))
            }
            Statement::Assign(place, value) => {
                let (value, place) = (self.value(value), self.place(place));
                self.line(&format!("{place} = {value};"))
            }
            Statement::Change(place, op, value) => {
                let (value, place) = (self.expr(value), self.place(place));
                let op = match op {
                    Operator::Binary(op) => operator(*op),
                    Operator::Shift(true) => "<<",
                    Operator::Shift(false) => ">>",
                };
                self.line(&format!("{place} {op}= {value};"))
            }
            Statement::Together(together) => self.together(together),
            Statement::Atomic(atomic) => {
                let atomic = self.atomic(atomic);
                self.line(&format!("{atomic};"))
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
                let (of, value) = (value.ty, self.matched(value));
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
                let (name, of) = (self.name(*counter), self.shape_of(*counter));
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
                let (name, of) = (self.name(*counter), self.shape_of(*counter));
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
