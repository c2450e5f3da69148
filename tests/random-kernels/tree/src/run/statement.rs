//! Statements.

use super::{Frame, Jump};
use crate::tree::{LoopId, Operator, Range, RangeKind, Shape, Statement, Var};

impl Frame<'_> {
    pub(super) fn statements(&mut self, statements: &[Statement]) -> Result<(), Jump> {
        statements.iter().try_for_each(|it| self.statement(it))
    }

    pub(super) fn statement(&mut self, it: &Statement) -> Result<(), Jump> {
        match it {
            Statement::Let(var, value) => self.values[*var] = self.value(value)?,
            Statement::Apart(vars, value) => {
                let parts = self.value(value)?;
                let mut parts = parts.into_iter();
                for var in vars {
                    let size = self.variables[*var].shape.size(&self.kernel.structs);
                    self.values[*var] = parts.by_ref().take(size).collect();
                }
            }
            Statement::Later(var, condition, a, b) => {
                let chosen = if self.expr(condition)? != 0 { a } else { b };
                self.values[*var] = self.value(chosen)?;
            }
            Statement::Assign(place, value) => {
                let bits = self.value(value)?;
                let place = self.place(place)?;
                self.held_mut(&place).copy_from_slice(&bits);
            }
            Statement::Change(place, operator, value) => {
                let bits = self.expr(value)?;
                let place = self.place(place)?;
                let Shape::One(of) = *place.shape else {
                    unreachable!("a number");
                };
                let held = &mut self.held_mut(&place)[0];
                *held = match operator {
                    Operator::Binary(op) => of.binary(*op, *held, bits),
                    Operator::Shift(is_left) => of.shift(*is_left, *held, (value.ty, bits)),
                };
            }
            Statement::Together(_) => unreachable!("all threads run it"),
            Statement::Atomic(atomic) => drop(self.atomic(atomic)?),
            Statement::If(condition, then, otherwise) => match self.expr(condition)? != 0 {
                true => self.statements(then)?,
                false => self.statements(otherwise.as_deref().unwrap_or_default())?,
            },
            Statement::Match(value, arms) => {
                let value = (value.ty, self.expr(value)?);
                self.arms(value, arms)?;
            }
            Statement::For(id, var, range, body) => self.for_loop(*id, *var, range, body)?,
            Statement::While(id, counter, most, condition, body) => {
                self.values[*counter] = vec![0];
                while self.values[*counter][0] < *most {
                    if let Some(condition) = condition
                        && self.expr(condition)? == 0
                    {
                        break;
                    }
                    self.values[*counter][0] += 1;
                    if !self.iteration(*id, body)? {
                        break;
                    }
                }
            }
            Statement::Loop(id, counter, most, body) => {
                self.values[*counter] = vec![0];
                while self.values[*counter][0] < *most {
                    self.values[*counter][0] += 1;
                    if !self.iteration(*id, body)? {
                        break;
                    }
                }
            }
            Statement::Break(id) => return Err(Jump::Break(*id)),
            Statement::Continue(id) => return Err(Jump::Continue(*id)),
            Statement::Return(value) => {
                let value = value.as_ref().map(|value| self.value(value));
                return Err(Jump::Return(value.transpose()?.unwrap_or_default()));
            }
        }
        Ok(())
    }

    /// Runs one iteration of a loop. Returns whether the loop goes on.
    fn iteration(&mut self, id: LoopId, body: &[Statement]) -> Result<bool, Jump> {
        match self.statements(body) {
            Err(Jump::Break(of)) if of == id => Ok(false),
            Err(Jump::Continue(of)) if of == id => Ok(true),
            other => other.map(|()| true),
        }
    }

    fn for_loop(
        &mut self,
        id: LoopId,
        var: Var,
        range: &Range,
        body: &[Statement],
    ) -> Result<(), Jump> {
        let of = range.start.ty;
        let (start, end) = (self.expr(&range.start)?, self.expr(&range.end)?);
        let (start, end) = (of.int(start), of.int(end));
        let all: Vec<i128> = match range.kind {
            RangeKind::HalfOpen => (start..end).collect(),
            RangeKind::Closed => (start..=end).collect(),
            RangeKind::Reversed => (start..end).rev().collect(),
            RangeKind::Steps(step) => (start..end).step_by(step as usize).collect(),
        };
        for number in all {
            self.values[var] = vec![of.cut(number)];
            if !self.iteration(id, body)? {
                break;
            }
        }
        Ok(())
    }
}
