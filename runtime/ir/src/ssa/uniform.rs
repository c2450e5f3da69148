//! Uniformity analysis: finds the values that are provably equal in all threads of a cube, and rejects barriers and
//! reductions that only some threads may reach.
//!
//! The analysis is conservative. The index of a thread diverges. A value with a divergent operand diverges; so does a
//! local that is stored under divergent control flow, and a load from memory that other threads write. A reduction over
//! the cube is uniform.

use super::{Block, Function, Memory, Op, Position, Scope, Stmt};
use crate::ProgramError;
use crate::nest::BufferMode;

/// Checks that all threads of a cube reach every barrier and reduction.
pub(super) fn check(function: &Function) -> Result<(), ProgramError> {
    let mut analysis = Analysis {
        function,
        values: vec![true; function.values.len()],
        locals: vec![true; function.locals.len()],
        changed: true,
        divergent_barrier: None,
    };
    // Each round marks at least one more local or value as divergent, or is the last and knows all of them.
    while analysis.changed {
        (analysis.changed, analysis.divergent_barrier) = (false, None);
        analysis.block(&function.body, true);
    }
    match analysis.divergent_barrier {
        None => Ok(()),
        Some(stmt) => Err(ProgramError::new(format!(
            "only some threads of a cube may reach `{}`: conditions and bounds around it must be the same for all",
            function.line(stmt)
        ))),
    }
}

struct Analysis<'a> {
    function: &'a Function,
    /// Whether each value is uniform. Scopes are checked already, so no value is missing.
    values: Vec<bool>,
    /// Whether the content of each local is uniform.
    locals: Vec<bool>,
    /// Whether this round has marked a value or local as divergent.
    changed: bool,
    /// The first barrier or reduction that only some threads may reach, as far as this round knows.
    divergent_barrier: Option<&'a Stmt>,
}

impl<'a> Analysis<'a> {
    fn same(&self, value: u32) -> bool {
        self.values[value as usize]
    }

    fn block(&mut self, body: &'a Block, converged: bool) {
        for stmt in body {
            let meets = matches!(stmt, Stmt::Barrier) || matches!(stmt.op(), Some(Op::Reduce(..)));
            if meets && !converged {
                self.divergent_barrier.get_or_insert(stmt);
            }
            match stmt {
                Stmt::Let { value, op } => {
                    let same = self.op(op);
                    mark_divergent(&mut self.values[*value as usize], same, &mut self.changed);
                }
                Stmt::Store {
                    to: Memory::Local(local),
                    at,
                    value,
                } => {
                    let same =
                        converged && self.same(*value) && at.is_none_or(|index| self.same(index));
                    let local = &mut self.locals[usize::from(*local)];
                    mark_divergent(local, same, &mut self.changed);
                }
                Stmt::Store { .. } | Stmt::AtomicAdd { .. } | Stmt::Barrier => {}
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let converged = converged && self.same(*condition);
                    self.block(then, converged);
                    self.block(otherwise, converged);
                }
                Stmt::For {
                    index,
                    start,
                    end,
                    step,
                    body,
                    ..
                } => {
                    // Whether all threads run the same iterations.
                    let uniform = [start, end, step].into_iter().all(|it| self.same(*it));
                    let index = &mut self.values[*index as usize];
                    mark_divergent(index, uniform, &mut self.changed);
                    self.block(body, converged && uniform);
                }
            }
        }
    }

    fn op(&self, op: &Op) -> bool {
        let mut same = true;
        op.each_operand(|value| same &= self.same(value));
        match op {
            Op::Position(Position::Thread, _) | Op::Reduce(Scope::Row, ..) => false,
            Op::Reduce(Scope::Cube, ..) => true,
            Op::Load(Memory::Local(local), _) => same && self.locals[usize::from(*local)],
            Op::Load(Memory::Param(param), _) => {
                same && self.function.params[usize::from(*param)].mode == BufferMode::Read
            }
            Op::Load(Memory::Shared(_), _) => false,
            _ => same,
        }
    }
}

/// Marks a value or local as divergent.
fn mark_divergent(uniform: &mut bool, same: bool, changed: &mut bool) {
    *changed |= *uniform && !same;
    *uniform &= same;
}
