//! Uniformity analysis: finds the values that are provably equal in all threads of a cube, and rejects barriers and
//! reductions that only some threads may reach.
//!
//! The analysis is conservative. The index of a thread diverges. A value with a divergent operand diverges; so does a
//! local that is stored under divergent control flow, a load from memory that other threads write, and the value of an atomic
//! operation. A reduction over the cube is uniform.
//!
//! Control flow diverges
//! - in the branches of a divergent condition, and in a loop with divergent bounds;
//! - behind a `continue` that only some threads execute, until the end of the iteration;
//! - everywhere in a loop that only some threads leave by `break` or `return`: the others run more iterations;
//! - behind a `return` that only some threads execute, for good.
//!
//! Behind a loop the threads meet again, unless some have returned. A `break`, `continue` or `return` that is reached by
//! all threads, or by none, divides none of them from the others.
//!
//! The same analysis finds what is equal in all threads of a launch: there the position of a cube diverges, too, and a
//! reduction over it.

use super::{Block, Function, Memory, Op, Position, Scope, Stmt, statements};
use crate::ProgramError;
use crate::nest::BufferMode;

/// Checks that all threads of a cube reach every barrier and reduction.
pub(super) fn check(function: &Function) -> Result<(), ProgramError> {
    match Analysis::of(function, Threads::OfCube).divergent_barrier {
        None => Ok(()),
        Some((stmt, line)) => Err(ProgramError::new(format!(
            "only some threads of a cube may reach {}: conditions and bounds around it, and those of a `break`, `continue` or `return` before it, must be the same for all; put only loads and stores into the branch",
            function.quoted(stmt, line)
        ))),
    }
}

impl Function {
    /// Returns for each local whether its content is provably equal in all threads of a cube. The function is
    /// [checked](Function::check).
    pub fn uniform_locals(&self) -> Vec<bool> {
        Analysis::of(self, Threads::OfCube).locals
    }

    /// Returns for each local whether its content is provably equal in all threads of a launch that execute a statement at
    /// the same time. The function is [checked](Function::check).
    pub fn launch_uniform_locals(&self) -> Vec<bool> {
        Analysis::of(self, Threads::OfLaunch).locals
    }
}

/// The threads whose values are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    OfCube,
    OfLaunch,
}

/// What some threads of a cube have left in a block, while others have not.
#[derive(Clone, Copy, Default)]
struct Left {
    /// The iteration of the innermost loop.
    iteration: bool,
    /// The innermost loop.
    repeated: bool,
    /// The function.
    function: bool,
}

impl Left {
    fn add(&mut self, other: Self) {
        self.iteration |= other.iteration;
        self.repeated |= other.repeated;
        self.function |= other.function;
    }

    fn nothing(self) -> bool {
        !(self.iteration || self.repeated || self.function)
    }
}

struct Analysis<'a> {
    function: &'a Function,
    threads: Threads,
    /// Whether each value is uniform. Scopes are checked already, so no value is missing.
    values: Vec<bool>,
    /// Whether the content of each local is uniform.
    locals: Vec<bool>,
    /// Whether all threads that enter each loop leave it in the same iteration. In order of their heads.
    loops: Vec<bool>,
    /// Whether this round has marked a value, local or loop as divergent.
    changed: bool,
    /// The first barrier or reduction that only some threads may reach, as far as this round knows, and its line.
    divergent_barrier: Option<(&'a Stmt, u32)>,
    /// The line of the source file.
    line: u32,
    /// The number of loops that this round has entered.
    entered: usize,
}

impl<'a> Analysis<'a> {
    /// Analyses a function.
    fn of(function: &'a Function, threads: Threads) -> Self {
        let loops = statements(&function.body);
        let loops = loops.filter(|stmt| matches!(stmt, Stmt::For { .. } | Stmt::Loop { .. }));
        let mut analysis = Self {
            function,
            threads,
            values: vec![true; function.values.len()],
            locals: vec![true; function.locals.len()],
            loops: vec![true; loops.count()],
            changed: true,
            divergent_barrier: None,
            line: 0,
            entered: 0,
        };
        // Each round marks at least one more local, value or loop as divergent, or is the last and knows all of them.
        while analysis.changed {
            (analysis.changed, analysis.divergent_barrier) = (false, None);
            (analysis.line, analysis.entered) = (0, 0);
            analysis.block(&function.body, true);
        }
        analysis
    }

    fn same(&self, value: u32) -> bool {
        self.values[value as usize]
    }

    /// Analyses a block, which all threads of a cube enter together if `entry` is true.
    fn block(&mut self, body: &'a Block, entry: bool) -> Left {
        let mut left = Left::default();
        for stmt in body {
            let converged = entry && left.nothing();
            let meets = matches!(stmt, Stmt::Barrier) || stmt.op().is_some_and(Op::meets);
            if meets && !converged {
                self.divergent_barrier.get_or_insert((stmt, self.line));
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
                Stmt::Store { .. } | Stmt::Barrier | Stmt::Say(_) => {}
                Stmt::Line(line) => self.line = *line,
                Stmt::Break => left.repeated |= !converged,
                Stmt::Continue => left.iteration |= !converged,
                Stmt::Return => left.function |= !converged,
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let converged = converged && self.same(*condition);
                    left.add(self.block(then, converged));
                    left.add(self.block(otherwise, converged));
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
                    left.function |= self.repeated(body, converged && uniform);
                }
                Stmt::Loop { body } => left.function |= self.repeated(body, converged),
            }
        }
        left
    }

    /// Analyses the block of a loop. Returns whether some threads may have returned from it, while others have not.
    fn repeated(&mut self, body: &'a Block, converged: bool) -> bool {
        let index = self.entered;
        self.entered += 1;
        let left = self.block(body, converged && self.loops[index]);
        let together = !(left.repeated || left.function);
        mark_divergent(&mut self.loops[index], together, &mut self.changed);
        left.function
    }

    fn op(&self, op: &Op) -> bool {
        let mut same = true;
        op.each_operand(|value| same &= self.same(value));
        match op {
            Op::Position(Position::Thread, _)
            | Op::Reduce(Scope::Subgroup(_), ..)
            | Op::Atomic(..) => false,
            Op::Position(Position::Cube, _) | Op::Reduce(Scope::Cube, ..) => {
                self.threads == Threads::OfCube
            }
            // Of a value that all threads have, whichever thread it comes from.
            Op::Shuffle(_, _, value, _) => self.same(*value),
            Op::Load(Memory::Local(local), _) => same && self.locals[usize::from(*local)],
            Op::Load(Memory::Param(param), _) => {
                same && self.function.params[usize::from(*param)].mode == BufferMode::Read
            }
            Op::Load(Memory::Shared(_), _) => false,
            _ => same,
        }
    }
}

/// Marks a value, local or loop as divergent.
fn mark_divergent(uniform: &mut bool, same: bool, changed: &mut bool) {
    *changed |= *uniform && !same;
    *uniform &= same;
}
