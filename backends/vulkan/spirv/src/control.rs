//! Statements: branches and loops with merge blocks, and barriers.

use millstream_ir::DType;
use millstream_ir::ssa::{Block, Memory, Op as Operation, Stmt, ValueId, statements};
use spirv::{LoopControl, Op, Word};

use crate::LowerError;
use crate::body::{Body, Loop};
use crate::emit::Emit;

/// The most copies of a statement that unrolled loops make, all loops around it together. A longer array would hardly fit
/// into registers, and longer code takes drivers long to compile.
const UNROLLED_MAX: u64 = 64;

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
        for table in &function.tables {
            let emit = &mut self.unit.emit;
            let element = emit.of(table.dtype);
            let of = emit.array(element, table.bits.len() as u32);
            let bits = table.bits.iter();
            let elements: Vec<Word> = bits.map(|bits| emit.constant(table.dtype, *bits)).collect();
            let variable = emit.table(of, &elements);
            self.tables.push(variable);
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
        // The end of the function returns.
        let body = &function.body[..];
        let body = body.strip_suffix(&[Stmt::Return]).unwrap_or(body);
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    /// Lowers a block, which goes on at `after`, unless its last statement leaves it.
    fn block(&mut self, block: &Block, after: Word) -> Result<(), LowerError> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))?;
        if !block.last().is_some_and(Stmt::is_terminator) {
            self.unit.emit.branch(after);
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), LowerError> {
        match stmt {
            Stmt::Let { value, op } => self.define(*value, op),
            Stmt::Store { to, at, value } => self.store(*to, *at, *value),
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
                let count = iterations(bounds.map(|bound| self.bits_of(bound)));
                let around = self.copies;
                let copies = count.map(|count| around.saturating_mul(count.max(1)));
                let copies = copies
                    .filter(|copies| *unroll && *copies <= UNROLLED_MAX && indexes_locals(body));
                let control = match copies {
                    Some(_) => LoopControl::UNROLL,
                    None => LoopControl::NONE,
                };
                self.copies = copies.unwrap_or(around);
                self.repeat(*index, bounds, (count.is_some(), control), body)?;
                self.copies = around;
                Ok(())
            }
            Stmt::Loop { body } => self.endless(body),
            Stmt::Break | Stmt::Continue => {
                let Some(Loop { next, merge }) = self.loops.last().copied() else {
                    return Err(self.unsupported(format!("{stmt:?} outside of a loop")));
                };
                let to = if *stmt == Stmt::Break { merge } else { next };
                self.unit.emit.branch(to);
                Ok(())
            }
            Stmt::Return => {
                self.unit.emit.leave();
                Ok(())
            }
            // Only the CPU and the simulator check assertions; kernels that print are refused.
            Stmt::Say(_) => Ok(()),
            Stmt::Barrier => {
                self.unit.emit.barrier();
                Ok(())
            }
            Stmt::Line(_) => Ok(()),
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
        self.block(then, merge)?;
        if !otherwise.is_empty() {
            self.unit.emit.open(second);
            self.block(otherwise, merge)?;
        }
        self.unit.emit.open(merge);
        Ok(())
    }

    /// Lowers a loop that a statement of its block leaves.
    fn endless(&mut self, body: &Block) -> Result<(), LowerError> {
        let emit = &mut self.unit.emit;
        let [head, inside, next, merge] = [0; 4].map(|_| emit.id());
        emit.branch(head);
        emit.open(head);
        emit.looping(merge, next, LoopControl::NONE);
        emit.branch(inside);
        emit.open(inside);
        self.loops.push(Loop { next, merge });
        self.block(body, next)?;
        self.loops.pop();
        let emit = &mut self.unit.emit;
        emit.open(next);
        emit.branch(head);
        emit.open(merge);
        Ok(())
    }

    /// ```text
    ///  before ──► head: is there an index? ──no──► merge
    ///               ▲        │ yes
    ///               │        ▼
    ///             next ◄── body
    /// ```
    /// If the loop is counted ([`iterations`]), the head compares the index with the end: drivers know the number of
    /// iterations of no other form, and unroll no loop without it. Otherwise the sum of the last index and the step may
    /// exceed `i64`, so the distance to the end is compared.
    fn repeat(
        &mut self,
        value: ValueId,
        [start, end, step]: [Word; 3],
        (is_counted, control): (bool, LoopControl),
        body: &Block,
    ) -> Result<(), LowerError> {
        let emit = &mut self.unit.emit;
        let (whole, bool) = (emit.of(DType::I64), emit.bool());
        let [head, inside, next, merge, index, following] = [0; 6].map(|_| emit.id());
        // Whether another index follows, as a value that the head gets from both predecessors.
        let [goes, goes_on] = [0; 2].map(|_| emit.id());
        let starts = match is_counted {
            true => None,
            false => Some(emit.starts([start, end, step])),
        };
        let before = emit.label();
        emit.branch(head);
        emit.open(head);
        emit.phi(index, whole, [(start, before), (following, next)]);
        match starts {
            Some(starts) => emit.phi(goes, bool, [(starts, before), (goes_on, next)]),
            None => emit.op_as(goes, Op::SLessThan, bool, &[index, end]),
        }
        emit.looping(merge, next, control);
        emit.branch_if(goes, inside, merge);
        emit.open(inside);
        self.set(value, vec![index]);
        self.loops.push(Loop { next, merge });
        self.block(body, next)?;
        self.loops.pop();
        let emit = &mut self.unit.emit;
        emit.open(next);
        if !is_counted {
            let left = emit.op(Op::ISub, whole, &[end, index]);
            emit.op_as(goes_on, Op::UGreaterThan, bool, &[left, step]);
        }
        emit.op_as(following, Op::IAdd, whole, &[index, step]);
        emit.branch(head);
        emit.open(merge);
        Ok(())
    }
}

impl Emit {
    /// Returns whether a loop has a first index. Checked functions have no constant step below 1.
    fn starts(&mut self, [start, end, step]: [Word; 3]) -> Word {
        let (bool, zero) = (self.bool(), self.u64(0));
        let starts = self.op(Op::SLessThan, bool, &[start, end]);
        if self.bits_of(step).is_some() {
            return starts;
        }
        let rises = self.op(Op::SGreaterThan, bool, &[step, zero]);
        self.op(Op::LogicalAnd, bool, &[starts, rises])
    }
}

/// Returns the number of iterations of a loop with constant bounds if the index behind its last one is no more than an
/// `i64` can be.
fn iterations(bounds: [Option<u64>; 3]) -> Option<u64> {
    let [start, end, step] = bounds.map(|bits| bits.map(u64::cast_signed));
    let (start, end, step) = (start?, end?, step?);
    end.checked_add(step)?;
    let distance = (i128::from(end) - i128::from(start)).max(0);
    (step > 0).then(|| distance.unsigned_abs().div_ceil(step.unsigned_abs().into()) as u64)
}

/// Returns `true` if a block accesses local arrays by index. Unrolled, its indices are constants, and drivers keep the
/// arrays in registers. Other loops are the driver's to unroll: routines would make them long.
fn indexes_locals(block: &Block) -> bool {
    statements(block).any(|stmt| match stmt {
        Stmt::Let {
            op: Operation::Load(memory, Some(_)),
            ..
        } => matches!(memory, Memory::Local(_) | Memory::Table(_)),
        Stmt::Store { to, at, .. } => at.is_some() && matches!(to, Memory::Local(_)),
        _ => false,
    })
}
