//! Which values are the same for all threads of a cube, as far as that can be seen without running: what is not, may be.
//!
//! A thread's index differs. What is computed from what differs, differs; so does what is written where threads part, and what
//! is read from memory that others write. A reduction over the cube is the same for all.

use super::{Block, Function, Memory, Op, Position, Scope, SsaError, Stmt};
use crate::nest::BufferMode;

/// Refuses to let threads meet where not all come by.
pub(super) fn check(function: &Function) -> Result<(), SsaError> {
    let mut analysis = Analysis {
        function,
        values: vec![true; function.values.len()],
        locals: vec![true; function.locals.len()],
        changed: true,
    };
    // Each round finds at least one more local or value that differs, or is the last.
    while analysis.changed {
        analysis.changed = false;
        analysis.block(&function.body, true);
    }
    analysis.meets(&function.body, true)
}

struct Analysis<'a> {
    function: &'a Function,
    /// Is the value the same for all threads? The function's scopes are right: no value is missing.
    values: Vec<bool>,
    /// Is what the local holds?
    locals: Vec<bool>,
    changed: bool,
}

impl Analysis<'_> {
    fn same(&self, value: u32) -> bool {
        self.values[value as usize]
    }

    fn block(&mut self, body: &Block, together: bool) {
        for stmt in body {
            match stmt {
                Stmt::Let { value, op } => {
                    let same = self.op(op);
                    lower(&mut self.values[*value as usize], same, &mut self.changed);
                }
                Stmt::Store {
                    to: Memory::Local(local),
                    at,
                    value,
                } => {
                    let same =
                        together && self.same(*value) && at.is_none_or(|index| self.same(index));
                    let local = &mut self.locals[usize::from(*local)];
                    lower(local, same, &mut self.changed);
                }
                Stmt::Store { .. } | Stmt::AtomicAdd { .. } | Stmt::Barrier => {}
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let together = together && self.same(*condition);
                    self.block(then, together);
                    self.block(otherwise, together);
                }
                Stmt::For { index, body, .. } => {
                    let turns = self.turns(stmt);
                    lower(&mut self.values[*index as usize], turns, &mut self.changed);
                    self.block(body, together && turns);
                }
            }
        }
    }

    /// Do all threads make the same turns of a loop?
    fn turns(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::For {
                start, end, step, ..
            } => self.same(*start) && self.same(*end) && self.same(*step),
            _ => true,
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

    fn meets(&self, body: &Block, together: bool) -> Result<(), SsaError> {
        for stmt in body {
            match stmt {
                Stmt::Barrier
                | Stmt::Let {
                    op: Op::Reduce(..), ..
                } if !together => {
                    let place = self.function.line(stmt);
                    return Err(SsaError::Divergent { place });
                }
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let together = together && self.same(*condition);
                    self.meets(then, together)?;
                    self.meets(otherwise, together)?;
                }
                Stmt::For { body, .. } => self.meets(body, together && self.turns(stmt))?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Notes that something differs.
fn lower(noted: &mut bool, same: bool, changed: &mut bool) {
    if *noted && !same {
        *noted = false;
        *changed = true;
    }
}
