//! Random atomic operations.

use super::Maker;
use crate::number::Ty;
use crate::tree::{Atomic, Commuting, ELEMENTS_MIN, Mode, Operation, Shape, Statement};

impl Maker<'_> {
    /// Returns an operation whose result is dropped, if there are atomics.
    pub(super) fn atomic(&mut self) -> Option<Statement> {
        let is_atomic = |it: &usize| {
            let mode = self.buffers[*it].mode;
            matches!(mode, Mode::Atomic(_) | Mode::AtomicOwn)
        };
        let buffers: Vec<_> = (0..self.buffers.len()).filter(is_atomic).collect();
        let buffer = *buffers.get(self.dice.below(buffers.len()))?;
        let Shape::One(of) = self.buffers[buffer].of else {
            return None;
        };
        let Mode::Atomic(together) = self.buffers[buffer].mode else {
            let operation = match self.dice.percent(25) {
                true => Operation::Store,
                false => self.operation(),
            };
            return Some(Statement::Atomic(self.own(buffer, of, operation, 2)));
        };
        let operation = match together {
            Commuting::Sum => self.dice.of(&[Operation::Add, Operation::Sub]),
            Commuting::Only(operation) => operation,
        };
        let values = vec![self.expr(of, 2)];
        let index = Some(self.index(false, ELEMENTS_MIN, None));
        Some(Statement::Atomic(Atomic {
            buffer,
            operation,
            index,
            values,
        }))
    }

    /// Returns an operation on the thread's own element that gives a type, if there is one.
    pub(super) fn atomic_of(&mut self, ty: Ty, depth: usize) -> Option<Atomic> {
        let buffer = self
            .buffers
            .iter()
            .position(|it| it.mode == Mode::AtomicOwn && it.of == Shape::One(ty))?;
        let operation = self.operation();
        Some(self.own(buffer, ty, operation, depth))
    }

    fn operation(&mut self) -> Operation {
        self.dice.of(&[
            Operation::Add,
            Operation::Sub,
            Operation::Min,
            Operation::Max,
            Operation::And,
            Operation::Or,
            Operation::Xor,
            Operation::Swap,
            Operation::Exchange,
            Operation::Load,
        ])
    }

    fn own(&mut self, buffer: usize, of: Ty, operation: Operation, depth: usize) -> Atomic {
        let operands = match operation {
            Operation::Load => 0,
            Operation::Exchange => 2,
            _ => 1,
        };
        let values = (0..operands).map(|_| self.expr(of, depth)).collect();
        Atomic {
            buffer,
            operation,
            index: None,
            values,
        }
    }
}
