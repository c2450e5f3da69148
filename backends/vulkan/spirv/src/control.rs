//! Statements: branches and loops with merge blocks, and barriers.

use millstream_ir::DType;
use millstream_ir::ssa::{Block, Memory, Op as Operation, Stmt, ValueId, statements};
use spirv::{LoopControl, Op, Word};

use crate::LowerError;
use crate::body::Body;

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
        for array in &function.shared {
            let shared = match self.call {
                Some(_) => self.unit.scratch(array),
                None => self.unit.shared(array),
            };
            self.shared.push(shared);
        }
        if self.call.is_none() {
            self.load_parameters();
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
                unroll,
                body,
            } => {
                let bounds = [start, end, step].map(|bound| self.get(*bound, 0));
                let control = match *unroll && indexes_locals(body) {
                    true => LoopControl::UNROLL,
                    false => LoopControl::NONE,
                };
                self.repeat(*index, bounds, control, body)
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
        condition: Word,
        then: &Block,
        otherwise: &Block,
    ) -> Result<(), LowerError> {
        let emit = &mut self.unit.emit;
        let [first, second, merge] = [0; 3].map(|_| emit.id());
        let second = if otherwise.is_empty() { merge } else { second };
        emit.selection(merge);
        emit.branch_if(condition, first, second);
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

    /// ```text
    ///  before ──► head: is there an index? ──no──► merge
    ///               ▲        │ yes
    ///               │        ▼
    ///             next ◄── body
    /// ```
    /// The sum of the last index and the step may exceed `i64`, so the distance to the end is compared.
    fn repeat(
        &mut self,
        value: ValueId,
        [start, end, step]: [Word; 3],
        control: LoopControl,
        body: &Block,
    ) -> Result<(), LowerError> {
        let emit = &mut self.unit.emit;
        let (whole, bool) = (emit.of(DType::I64), emit.bool());
        let [head, inside, next, merge, index, following] = [0; 6].map(|_| emit.id());
        let zero = emit.u64(0);
        let mut starts = emit.op(Op::SLessThan, bool, &[start, end]);
        if emit.bits_of(step).is_none() {
            let rises = emit.op(Op::SGreaterThan, bool, &[step, zero]);
            starts = emit.op(Op::LogicalAnd, bool, &[starts, rises]);
        }
        // Whether another index follows, as a value that the head gets from both predecessors.
        let [goes, goes_on] = [0; 2].map(|_| emit.id());
        let before = emit.label();
        emit.branch(head);
        emit.open(head);
        emit.phi(index, whole, [(start, before), (following, next)]);
        emit.phi(goes, bool, [(starts, before), (goes_on, next)]);
        emit.looping(merge, next, control);
        emit.branch_if(goes, inside, merge);
        emit.open(inside);
        self.set(value, vec![index]);
        self.block(body)?;
        let emit = &mut self.unit.emit;
        emit.branch(next);
        emit.open(next);
        let left = emit.op(Op::ISub, whole, &[end, index]);
        emit.op_as(goes_on, Op::UGreaterThan, bool, &[left, step]);
        emit.op_as(following, Op::IAdd, whole, &[index, step]);
        emit.branch(head);
        emit.open(merge);
        Ok(())
    }
}

/// Returns `true` if a block accesses local arrays by index. Unrolled, its indices are constants, and drivers keep the
/// arrays in registers. Other loops are the driver's to unroll: routines would make them long.
fn indexes_locals(block: &Block) -> bool {
    statements(block).any(|stmt| match stmt {
        Stmt::Let {
            op: Operation::Load(memory, Some(_)),
            ..
        } => matches!(memory, Memory::Local(_)),
        Stmt::Store { to, at, .. } => at.is_some() && matches!(to, Memory::Local(_)),
        _ => false,
    })
}
