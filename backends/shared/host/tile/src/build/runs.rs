//! Gathers that are read in runs, like accesses.
//!
//! Most indices advance by a constant step along the fastest axis: the rows of a `take` have the same index, and a
//! rolled index counts up. Such indices need not be computed lane by lane. This module decides which gathers may be
//! read so, from the operations of their index; whether their runs are long is known per launch
//! ([`crate::launch::Launch::may_have_long_runs`]).

use millstream_ir::nest::{Op, ValueId};
use millstream_ir::{BinaryOp, DType};

use super::{Builder, Class};
use crate::compile_error::{CompileError, unsupported};
use crate::plan::{Gathered, InputKind, Scope, Step};

/// Indices with more steps are not analysed.
pub(crate) const STEPS_MAX: usize = 16;

impl Builder<'_> {
    /// Returns `true` if this gather is read in runs.
    pub(super) fn is_in_runs(&self, id: ValueId) -> bool {
        let Op::Gather { index, .. } = self.nest.values[usize::from(id)].op else {
            return false;
        };
        self.way.runs
            && !self.is_uniform(id)
            && self.steps_of(index).is_some_and(|n| n <= STEPS_MAX)
    }

    /// Returns the number of steps of a value, or `None` if steps cannot express it.
    fn steps_of(&self, id: ValueId) -> Option<usize> {
        let value = &self.nest.values[usize::from(id)];
        let is_whole = value.dtype == DType::I64;
        let steps = match value.op {
            Op::Const(_) | Op::Word(_) | Op::Index(_) | Op::Load(_) if is_whole => 1,
            Op::Cast(of) if is_whole => {
                let of = &self.nest.values[usize::from(of)];
                let is_narrow = matches!(of.dtype, DType::I32 | DType::U32 | DType::I16);
                (is_narrow && matches!(of.op, Op::Load(_))).then_some(1)?
            }
            Op::Binary(op, a, b) if is_whole => {
                use BinaryOp::{Add, Mul, Rem, Sub};
                matches!(op, Add | Sub | Mul | Rem).then_some(())?;
                1 + self.steps_of(a)? + self.steps_of(b)?
            }
            _ => return None,
        };
        (steps <= STEPS_MAX).then_some(steps)
    }

    pub(super) fn gather_in_runs(&mut self, id: ValueId) -> Result<(), CompileError> {
        let value = &self.nest.values[usize::from(id)];
        let Op::Gather {
            access,
            index,
            stride,
            len,
        } = value.op
        else {
            return Err(unsupported(self.nest, usize::from(id)));
        };
        let mut steps = Vec::new();
        self.steps(index, &mut steps)?;
        let indexed = self.plan.indexed.len();
        self.indexed(access, stride, len, false);
        let gathered = self.plan.gathered.len() as u16;
        self.plan.gathered.push(Gathered {
            access,
            indexed,
            steps,
        });
        let scope = match self.shape.class[usize::from(id)] {
            Class::Inner => Scope::Inner,
            _ => Scope::Outer,
        };
        let size = value.dtype.size();
        let slot = self.input(InputKind::Gathered(gathered), size, scope, false);
        self.places[usize::from(id)] = Some(slot);
        Ok(())
    }

    /// Appends the steps of a value, and returns the number of the last one.
    fn steps(&mut self, id: ValueId, steps: &mut Vec<Step>) -> Result<u8, CompileError> {
        let value = &self.nest.values[usize::from(id)];
        let step = match value.op {
            Op::Const(bits) => Step::Const(bits as i64),
            Op::Word(word) => Step::Word(word),
            Op::Index(axis) => {
                let (scope, _) = self.scope_of_axis(axis);
                Step::Index(self.unplaced_input(InputKind::Index(axis), 8, scope, true))
            }
            Op::Load(access) => {
                let (scope, _) = self.scope_of(access);
                let size = value.dtype.size();
                let input = self.unplaced_input(InputKind::Elements(access), size, scope, true);
                Step::Load(input, value.dtype)
            }
            Op::Cast(of) => return self.steps(of, steps),
            Op::Binary(op, a, b) => {
                let a = self.steps(a, steps)?;
                Step::Binary(op, a, self.steps(b, steps)?)
            }
            _ => return Err(unsupported(self.nest, usize::from(id))),
        };
        steps.push(step);
        Ok(steps.len() as u8 - 1)
    }
}
