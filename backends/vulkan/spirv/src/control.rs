//! Statements: branches and loops with merge blocks, and barriers.

use millstream_ir::DType;
use millstream_ir::ssa::{Block, Stmt, ValueId};
use spirv::Op;

use crate::LowerError;
use crate::body::{Body, Lane, Role};

/// A loop.
struct Loop<'f> {
    index: ValueId,
    start: Lane,
    end: Lane,
    step: Lane,
    body: &'f Block,
}

impl Body<'_> {
    /// Lowers the statements of the function, whose first block is open.
    pub(crate) fn statements(&mut self) -> Result<(), LowerError> {
        let function = self.function;
        for local in &function.locals {
            let emit = &mut self.unit.emit;
            let element = emit.of(local.dtype);
            let of = match local.len {
                0 | 1 => element,
                len => emit.array(element, len),
            };
            let variable = emit.local(of);
            self.locals.push(variable);
        }
        if matches!(self.role, Role::Main(_)) {
            self.load_interface();
        }
        self.block(&function.body)
    }

    fn block(&mut self, block: &Block) -> Result<(), LowerError> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), LowerError> {
        match stmt {
            Stmt::Let { value, op } => self.define(*value, op),
            Stmt::Store { to, at, value } => self.store(*to, *at, *value),
            Stmt::AtomicAdd { to, at, value } => self.atomic_add(*to, *at, *value),
            Stmt::If {
                condition,
                then,
                otherwise,
            } => self.branch(self.get(*condition, 0), then, otherwise),
            Stmt::For {
                index,
                start,
                end,
                step,
                body,
                ..
            } => {
                if let Some(indices) = self.unrolling.indices(self.function, stmt) {
                    return self.repeat(*index, &indices, body);
                }
                let [start, end, step] = [start, end, step].map(|bound| self.get(*bound, 0));
                self.rolled(&Loop {
                    index: *index,
                    start,
                    end,
                    step,
                    body,
                })
            }
            Stmt::Barrier => {
                self.unit.emit.barrier();
                Ok(())
            }
            other => Err(self.unsupported(format!("{other:?}"))),
        }
    }

    fn branch(
        &mut self,
        condition: Lane,
        then: &Block,
        otherwise: &Block,
    ) -> Result<(), LowerError> {
        match condition.bits {
            Some(0) => return self.block(otherwise),
            Some(_) => return self.block(then),
            None => {}
        }
        let emit = &mut self.unit.emit;
        let [first, second, merge] = [0; 3].map(|_| emit.id());
        let second = if otherwise.is_empty() { merge } else { second };
        emit.selection(merge);
        emit.branch_if(condition.id, first, second);
        emit.open(first);
        self.block(then)?;
        self.unit.emit.branch(merge);
        if !otherwise.is_empty() {
            self.unit.emit.open(second);
            self.block(otherwise)?;
            self.unit.emit.branch(merge);
        }
        self.unit.emit.open(merge);
        Ok(())
    }

    /// Lowers a loop to straight code.
    fn repeat(&mut self, index: ValueId, indices: &[i64], body: &Block) -> Result<(), LowerError> {
        for at in indices {
            let at = self.constant(DType::I64, *at as u64);
            self.set(index, vec![at]);
            self.block(body)?;
        }
        Ok(())
    }

    /// ```text
    ///  before ──► head: is there an index? ──no──► merge
    ///               ▲        │ yes
    ///               │        ▼
    ///             next ◄── body
    /// ```
    /// The sum of the last index and the step may exceed `i64`, so the distance to the end is compared.
    fn rolled(&mut self, of: &Loop<'_>) -> Result<(), LowerError> {
        let emit = &mut self.unit.emit;
        let (whole, bool) = (emit.of(DType::I64), emit.bool());
        let [head, inside, next, merge, index, following] = [0; 6].map(|_| emit.id());
        let zero = emit.u64(0);
        let mut starts = emit.op(Op::SLessThan, bool, &[of.start.id, of.end.id]);
        if of.step.bits.is_none() {
            let rises = emit.op(Op::SGreaterThan, bool, &[of.step.id, zero]);
            starts = emit.op(Op::LogicalAnd, bool, &[starts, rises]);
        }
        // Whether another index follows, as a value that the head gets from both predecessors.
        let [goes, goes_on] = [0; 2].map(|_| emit.id());
        let before = emit.label();
        emit.branch(head);
        emit.open(head);
        emit.phi(index, whole, [(of.start.id, before), (following, next)]);
        emit.phi(goes, bool, [(starts, before), (goes_on, next)]);
        emit.looping(merge, next);
        emit.branch_if(goes, inside, merge);
        emit.open(inside);
        self.set(of.index, vec![index.into()]);
        self.block(of.body)?;
        let emit = &mut self.unit.emit;
        emit.branch(next);
        emit.open(next);
        let left = emit.op(Op::ISub, whole, &[of.end.id, index]);
        emit.op_as(goes_on, Op::UGreaterThan, bool, &[left, of.step.id]);
        emit.op_as(following, Op::IAdd, whole, &[index, of.step.id]);
        emit.branch(head);
        emit.open(merge);
        Ok(())
    }
}
