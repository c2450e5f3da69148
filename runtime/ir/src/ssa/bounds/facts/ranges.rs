//! The ranges of values: of an operation by those of its operands, and of variables that only fall in a loop.

use super::Facts;
use crate::BinaryOp;
use crate::ssa::bounds::range::{Range, is_integer};
use crate::ssa::{Block, Memory, Op, Position, Stmt, Type, ValueId, statements};

/// How many operations behind an index are looked at.
const OPERATIONS_MAX: u32 = 64;

impl Facts<'_> {
    /// Passes the head of a loop: forgets what its body changes, except that a variable that only falls stays at most what it
    /// is, such as `half` with `half /= 2`.
    pub(in crate::ssa::bounds) fn enter(&mut self, body: &Block) {
        for stmt in statements(body) {
            let Stmt::Store {
                to: Memory::Local(local),
                at,
                value,
            } = stmt
            else {
                continue;
            };
            let falls = at.is_none() && self.falls(*local, *value);
            let local = usize::from(*local);
            let held = self.held[local].map(|held| (self.range(held), self.of(held)));
            let held =
                held.filter(|(range, of)| is_integer(of.dtype) && range.is_natural(of.dtype));
            let known = held.map(|(range, _)| range.most).or(self.most[local]);
            self.most[local] = known.filter(|_| falls);
            if !falls {
                self.held[local] = None;
            }
        }
        self.forget(body);
    }

    /// Returns whether a value is a variable, divided by a constant.
    fn falls(&self, local: u16, value: ValueId) -> bool {
        let is_load = |a: ValueId| matches!(self.op(a), Some(Op::Load(Memory::Local(of), None)) if *of == local);
        match self.op(value) {
            Some(Op::Binary(BinaryOp::Div | BinaryOp::Shr, a, by)) => {
                let by = self.op(*by);
                is_load(*a) && matches!(by, Some(Op::Const(by @ 1..)) if *by < 1 << 31)
            }
            _ => false,
        }
    }

    /// Returns the range of the result of an operation, by the ranges of its operands as they are now known. `left` limits the
    /// operations behind them that are looked at.
    pub(super) fn range_of_op(&self, of: Type, op: &Op, left: &mut u32) -> Range {
        let all = Range::all(of.dtype);
        if of.lanes > 1 {
            return all;
        }
        match op {
            Op::Const(bits) => Range::new(*bits, *bits),
            Op::Position(position, axis) => {
                let threads = u64::from(self.function.threads[*axis as usize]);
                match position {
                    Position::Thread => Range::new(0, threads - 1),
                    Position::Threads => Range::new(threads, threads),
                    Position::Cube | Position::Cubes => Range::new(0, u32::MAX.into()),
                }
            }
            Op::Binary(op, a, b) => {
                let [of_a, of_b] = [a, b].map(|a| self.range_now(*a, left));
                let range = Range::binary(*op, of.dtype, of_a, of_b);
                match *op == BinaryOp::Sub && self.is_at_most(*b, *a) {
                    true => range.and(Range::new(0, of_a.most)),
                    false => range,
                }
            }
            Op::Select(_, a, b) if is_integer(of.dtype) => {
                self.range_now(*a, left).or(self.range_now(*b, left))
            }
            Op::Bits(a) if self.has_bits(*a, of.dtype) => self.range_now(*a, left),
            Op::Cast(a) if self.of(*a).lanes == 1 => {
                let range = self.range_now(*a, left);
                range.cast(self.of(*a).dtype, of.dtype)
            }
            _ => all,
        }
    }

    /// Returns the range of a value, with what has become known of the values that it was computed from.
    fn range_now(&self, value: ValueId, left: &mut u32) -> Range {
        let range = self.range(value);
        match (left.checked_sub(1), self.op(value)) {
            (Some(fewer), Some(op)) => {
                *left = fewer;
                range.and(self.range_of_op(self.of(value), op, left))
            }
            _ => range,
        }
    }

    /// Returns what an index is known not to exceed.
    pub(in crate::ssa::bounds) fn most(&self, index: ValueId) -> u64 {
        self.range_now(index, &mut OPERATIONS_MAX.clone()).most
    }

    /// Returns whether an integer is known to be at most another one, and not negative.
    fn is_at_most(&self, a: ValueId, b: ValueId) -> bool {
        let [a, b] = [a, b].map(|value| self.number(value));
        let less = |distance| self.less.contains(&(a, b, distance));
        less(0) || less(1)
    }
}
