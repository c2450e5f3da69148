//! Gathers that are read in runs, like accesses.
//!
//! Most indices advance by a constant step along the fastest axis: the rows of a `take` have the same index, and a
//! rolled index counts up. Such indices need not be computed lane by lane. This module decides which gathers may be
//! read so, from the operations of their index; whether their runs are long is known per launch
//! ([`crate::launch::Launch::may_have_long_runs`]).

use millstream_ir::nest::{Op, ValueId};
use millstream_ir::{BinaryOp, DType};

use super::{Builder, Class};
use crate::plan::{Gathered, InputKind, Scope, Step};
use crate::prepare_error::{CompileError, unsupported};

/// Indices with more steps are not analysed.
pub(crate) const STEPS_MAX: usize = 16;

impl Builder<'_> {
    /// Returns `true` if this gather is read in runs.
    pub(super) fn is_in_runs(&self, id: ValueId) -> bool {
        match self.nest.values[usize::from(id)].op {
            Op::Gather { index, .. } => {
                let steps = self.steps(index, &mut Vec::new());
                self.way.runs && !self.is_uniform(id) && steps.is_some()
            }
            _ => false,
        }
    }

    /// Emits a gather that is read in runs.
    pub(super) fn gather_in_runs(&mut self, id: ValueId) -> Result<(), CompileError> {
        let value = &self.nest.values[usize::from(id)];
        let unsupported = || unsupported(self.nest, usize::from(id));
        let Op::Gather {
            access,
            index,
            stride,
            len,
        } = value.op
        else {
            return Err(unsupported());
        };
        let mut steps = Vec::new();
        self.steps(index, &mut steps).ok_or_else(unsupported)?;
        for step in &mut steps {
            match step {
                Step::Index(axis) => {
                    let (scope, _) = self.scope_of_axis(*axis);
                    *axis = self.unplaced_input(InputKind::Index(*axis), 8, scope, true);
                }
                Step::Load(access, dtype) => {
                    let (kind, (scope, _)) = (InputKind::Elements(*access), self.scope_of(*access));
                    *access = self.unplaced_input(kind, dtype.size(), scope, true);
                }
                _ => {}
            }
        }
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

    /// Appends the steps of a value, with axes and accesses in place of inputs. Returns the number of the last one, or
    /// `None` if steps cannot express the value.
    fn steps(&self, id: ValueId, steps: &mut Vec<Step>) -> Option<u8> {
        use BinaryOp::{Add, Mul, Rem, Sub};
        use DType::{I16, I32, I64, U32};
        let value = |id: ValueId| &self.nest.values[usize::from(id)];
        let step = match value(id).op {
            _ if value(id).dtype != I64 => return None,
            Op::Const(bits) => Step::Const(bits as i64),
            Op::Word(word) => Step::Word(word),
            Op::Index(axis) => Step::Index(axis),
            Op::Load(access) => Step::Load(access, I64),
            Op::Cast(of) => match (&value(of).op, value(of).dtype) {
                (Op::Load(access), dtype @ (I32 | U32 | I16)) => Step::Load(*access, dtype),
                _ => return None,
            },
            Op::Binary(op @ (Add | Sub | Mul | Rem), a, b) => {
                let a = self.steps(a, steps)?;
                Step::Binary(op, a, self.steps(b, steps)?)
            }
            _ => return None,
        };
        steps.push(step);
        (steps.len() <= STEPS_MAX).then(|| steps.len() as u8 - 1)
    }
}
