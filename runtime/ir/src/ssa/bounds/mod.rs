//! The checks of a [checked](Function::checked) function as statements, for devices that do not notice an access out of bounds.
//!
//! ```text
//!   %8: f32 = load x[%7]             store guard_f32 = %zero
//!                                    %20: u64 = bits %7
//!                              ►     %21: bool = lt %20 %x_len
//!                                    if %21 {
//!                                      %22: f32 = load x[%7]
//!                                      store guard_f32 = %22
//!                                    }
//!                                    %8: f32 = load guard_f32
//! ```
//! An access has no check (`guard`) if it is known to be within bounds, by ranges and conditions (`facts`). An innermost loop whose other
//! accesses rise or fall evenly (`affine`) is written twice: without their checks, which runs if a test before the loop finds
//! all of them within bounds, and with them.
//!
//! The walk is over values of the source, of which facts are known; `names` has those of the result.

mod affine;
mod facts;
mod guard;
mod range;
mod rename;

use std::borrow::Cow;
use std::collections::HashMap;

use affine::Run;
use facts::Facts;

use super::{Block, Function, Memory, Op, Stmt, Type, ValueId, statements};

/// The most statements of a loop that is written twice.
const TWICE_MAX: usize = 256;

impl Function {
    /// Returns the function with its checks as statements, if it is [checked](Function::checked): the result is not, and
    /// accesses nothing out of bounds. Parameters and launch words stay. The function is valid.
    pub fn with_checks(&self) -> Cow<'_, Self> {
        if !self.checked {
            return Cow::Borrowed(self);
        }
        let mut guards = Guards {
            from: self,
            used: self.used(),
            facts: Facts::new(self),
            names: (0..self.values.len() as ValueId).collect(),
            is_named: vec![false; self.values.len()],
            first: Block::new(),
            zeros: HashMap::new(),
            limits: HashMap::new(),
            loaded: HashMap::new(),
            run: None,
            to: Function {
                checked: false,
                body: Block::new(),
                ..self.clone()
            },
        };
        let body = guards.block(&self.body, None);
        guards.to.body = guards.first;
        guards.to.body.extend(body);
        Cow::Owned(guards.to)
    }
}

struct Guards<'f> {
    from: &'f Function,
    /// Whether each value of the source is used.
    used: Vec<bool>,
    facts: Facts<'f>,
    /// The result so far, without its body.
    to: Function,
    /// The value of the result that is the same as each value of the source, and whether that is defined already.
    names: Vec<ValueId>,
    is_named: Vec<bool>,
    /// Statements before all others: zeros, and what accesses are compared with.
    first: Block,
    zeros: HashMap<Type, ValueId>,
    limits: HashMap<(Memory, u8), ValueId>,
    /// The variables for what loads give.
    loaded: HashMap<Type, u16>,
    run: Option<Run>,
}

impl<'f> Guards<'f> {
    /// Returns the type of a value of the source.
    fn of(&self, value: ValueId) -> Type {
        self.from.values[value as usize]
    }

    fn new_value(&mut self, of: Type) -> ValueId {
        self.to.values.push(of);
        (self.to.values.len() - 1) as ValueId
    }

    /// Adds the definition of a new value.
    fn emit(&mut self, of: Type, op: Op, out: &mut Block) -> ValueId {
        let value = self.new_value(of);
        out.push(Stmt::Let { value, op });
        value
    }

    /// Returns the value of the result for one of the source that is defined now: the same, unless this is the second copy.
    fn name(&mut self, value: ValueId) -> ValueId {
        if std::mem::replace(&mut self.is_named[value as usize], true) {
            self.names[value as usize] = self.new_value(self.of(value));
        }
        self.names[value as usize]
    }

    fn named(&self, value: ValueId) -> ValueId {
        self.names[value as usize]
    }

    /// Writes a block that a condition is known to lead to.
    fn block(&mut self, block: &'f Block, condition: Option<(ValueId, bool)>) -> Block {
        let (scope, mut out) = (self.facts.open(), Block::new());
        if let Some((condition, holds)) = condition {
            self.facts.assume(condition, holds);
        }
        for stmt in block {
            self.stmt(stmt, &mut out);
        }
        self.facts.close(scope);
        out
    }

    fn stmt(&mut self, stmt: &'f Stmt, out: &mut Block) {
        match stmt {
            Stmt::Let { value, op } => self.define(*value, op, out),
            Stmt::Store { to, at, value } => {
                let guard = self.guard(*to, *at, self.of(*value).lanes, out);
                let store = Stmt::Store {
                    to: *to,
                    at: at.map(|at| self.named(at)),
                    value: self.named(*value),
                };
                match guard {
                    Some(condition) => out.push(when(condition, vec![store])),
                    None => out.push(store),
                }
                self.facts.store(*to, *at, *value);
            }
            Stmt::If {
                condition,
                then,
                otherwise,
            } => {
                let written = Stmt::If {
                    condition: self.named(*condition),
                    then: self.block(then, Some((*condition, true))),
                    otherwise: self.block(otherwise, Some((*condition, false))),
                };
                out.push(written);
                self.join(*condition, then, otherwise);
            }
            Stmt::For { .. } => self.repeat(stmt, out),
            Stmt::Loop { body } => {
                self.facts.enter(body);
                let written = self.block(body, None);
                out.push(Stmt::Loop { body: written });
                self.facts.forget(body);
            }
            Stmt::Say(say) => {
                let mut say = say.clone();
                for value in &mut say.values {
                    *value = self.named(*value);
                }
                out.push(Stmt::Say(say));
            }
            Stmt::Break | Stmt::Continue | Stmt::Return | Stmt::Barrier | Stmt::Line(_) => {
                out.push(stmt.clone());
            }
        }
    }

    /// Says what is known behind both blocks of an `if`.
    fn join(&mut self, condition: ValueId, then: &'f Block, otherwise: &'f Block) {
        self.facts.forget(then);
        self.facts.forget(otherwise);
        let leaves = |block: &Block| block.last().is_some_and(Stmt::is_terminator);
        if leaves(then) {
            self.facts.assume(condition, false);
        } else if leaves(otherwise) {
            self.facts.assume(condition, true);
        }
        // `a && b` and `a || b`, as a variable.
        if let (Some((local, a)), Some((other, b))) = (last_store(then), last_store(otherwise))
            && local == other
        {
            match (self.facts.constant(a), self.facts.constant(b)) {
                (_, Some(0)) => {
                    let implied = [(condition, true), (a, true)];
                    self.facts.imply(local, true, implied);
                }
                (Some(1), _) => {
                    let implied = [(condition, false), (b, false)];
                    self.facts.imply(local, false, implied);
                }
                _ => {}
            }
        }
    }

    fn define(&mut self, value: ValueId, op: &'f Op, out: &mut Block) {
        let of = self.of(value);
        let access = match op {
            Op::Load(memory, at) => Some((*memory, *at)),
            Op::Atomic(_, memory, at) => Some((*memory, Some(*at))),
            _ => None,
        };
        let guard = access.and_then(|(memory, at)| self.guard(memory, at, of.lanes, out));
        let op_of_names = op.renamed(|a| self.named(a));
        self.facts.define(value, op);
        if let (Op::Select(..), Some(given)) = (op, self.facts.given(value)) {
            self.names[value as usize] = self.named(given);
            self.is_named[value as usize] = true;
            return;
        }
        let name = self.name(value);
        let Some(condition) = guard else {
            out.push(Stmt::Let {
                value: name,
                op: op_of_names,
            });
            return;
        };
        if !self.used[value as usize] {
            let value = name;
            let op = op_of_names;
            out.push(when(condition, vec![Stmt::Let { value, op }]));
            return;
        }
        let (variable, zero) = (self.loaded(of), self.zero(of));
        let store = |value| Stmt::Store {
            to: variable,
            at: None,
            value,
        };
        out.push(store(zero));
        let mut within = Block::new();
        let accessed = self.emit(of, op_of_names, &mut within);
        within.push(store(accessed));
        out.push(when(condition, within));
        out.push(Stmt::Let {
            value: name,
            op: Op::Load(variable, None),
        });
    }

    /// Writes a `for`, twice if that saves checks.
    fn repeat(&mut self, stmt: &'f Stmt, out: &mut Block) {
        let Stmt::For {
            index,
            start,
            end,
            step,
            body,
            ..
        } = stmt
        else {
            return;
        };
        self.facts.enter(body);
        if self.run.is_none() && is_worthwhile(body) {
            self.run = Some(Run::new(*index, body));
            let mut fast = Block::new();
            self.copy(stmt, &mut fast);
            match self.run.take() {
                Some(run) if !run.is_needless() => {
                    let condition = self.test(&run, [*start, *end, *step], out);
                    let mut slow = Block::new();
                    self.copy(stmt, &mut slow);
                    if let Some(Stmt::For { unroll, .. }) = slow.last_mut() {
                        *unroll = false;
                    }
                    out.push(Stmt::If {
                        condition,
                        then: fast,
                        otherwise: slow,
                    });
                }
                _ => out.append(&mut fast),
            }
        } else {
            self.copy(stmt, out);
        }
        self.facts.forget(body);
    }

    /// Writes a copy of a `for`.
    fn copy(&mut self, stmt: &'f Stmt, out: &mut Block) {
        let Stmt::For {
            index,
            start,
            end,
            step,
            unroll,
            body,
        } = stmt
        else {
            return;
        };
        let scope = self.facts.open();
        self.facts.index(*index, *start, *end);
        let copy = Stmt::For {
            index: self.name(*index),
            start: self.named(*start),
            end: self.named(*end),
            step: self.named(*step),
            unroll: *unroll,
            body: self.block(body, None),
        };
        self.facts.close(scope);
        out.push(copy);
    }
}

fn when(condition: ValueId, then: Block) -> Stmt {
    Stmt::If {
        condition,
        then,
        otherwise: Block::new(),
    }
}

/// Returns the variable that the last statement of a block stores to, and the value.
fn last_store(block: &Block) -> Option<(u16, ValueId)> {
    let last = block
        .iter()
        .rev()
        .find(|stmt| !matches!(stmt, Stmt::Line(_)));
    match last {
        Some(Stmt::Store {
            to: Memory::Local(local),
            at: None,
            value,
        }) => Some((*local, *value)),
        _ => None,
    }
}

/// Returns whether a loop may be written twice: it is innermost and short, and no threads need meet in one of the copies, nor
/// leave the function from there, behind which they could not meet.
fn is_worthwhile(body: &Block) -> bool {
    let mut statements = statements(body);
    let is_plain = statements.all(|stmt| {
        let meets = stmt.op().is_some_and(Op::meets);
        !meets && !matches!(stmt, Stmt::For { .. } | Stmt::Return | Stmt::Barrier)
    });
    is_plain && self::statements(body).count() <= TWICE_MAX
}
