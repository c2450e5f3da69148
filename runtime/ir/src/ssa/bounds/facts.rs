//! What is known about values where the statements are that a walk has reached: which are equal, ranges of integers, and
//! which is less than another, by the conditions around and before.
//!
//! Values that are always equal have one *number*: equal operations on equal operands, the same bits as another integer type of
//! 64 bits, and what a variable is known to hold. A number means one value until the walk enters another iteration of the
//! loop that defines it. Ranges and comparisons are those of bits, without sign. They are forgotten at the end of the block
//! whose condition tells them.

mod ranges;

use std::collections::HashMap;

use super::range::{Range, is_integer};
use crate::ssa::{Block, Function, Memory, Op, Stmt, Type, ValueId, statements};
use crate::{BinaryOp, CompareOp, DType, UnaryOp};

/// The number of a value.
pub(super) type Number = u32;

/// How deep conditions are followed.
const DEPTH_MAX: u32 = 16;

/// A condition that another one implies, and whether it is true then.
type Implied = (ValueId, bool);

pub(super) struct Facts<'f> {
    function: &'f Function,
    /// The operation of each value.
    ops: Vec<Option<&'f Op>>,
    /// The number of each value that the walk has passed.
    numbers: Vec<Number>,
    /// The numbers of operations on numbers, with the types of the result and of the first operand.
    known: HashMap<(Type, Option<DType>, Op), Number>,
    /// The range of each number.
    ranges: Vec<Range>,
    /// Ranges before they were narrowed.
    wider: Vec<(Number, Range)>,
    /// Pairs of which the first plus this distance, 0 or 1, is at most the second.
    less: Vec<(Number, Number, u64)>,
    /// The value that each variable holds.
    held: Vec<Option<ValueId>>,
    /// What each variable is known not to exceed.
    most: Vec<Option<u64>>,
    /// The value that each load of a variable, or selection, is known to give.
    given: Vec<Option<ValueId>>,
    /// What the value of a variable implies if it is true, and if it is false: of `a && b` and `a || b`.
    implied: Vec<Option<(bool, [Implied; 2])>>,
    /// The same of loads of such variables.
    of_load: HashMap<ValueId, (bool, [Implied; 2])>,
}

/// What was known where a block begins.
pub(super) struct Scope {
    wider: usize,
    less: usize,
    held: Vec<Option<ValueId>>,
    most: Vec<Option<u64>>,
    implied: Vec<Option<(bool, [Implied; 2])>>,
}

impl<'f> Facts<'f> {
    pub(super) fn new(function: &'f Function) -> Self {
        let (values, locals) = (function.values.len(), function.locals.len());
        let mut ops = vec![None; values];
        for stmt in statements(&function.body) {
            if let Stmt::Let { value, op } = stmt {
                ops[*value as usize] = Some(op);
            }
        }
        Self {
            function,
            ops,
            numbers: vec![0; values],
            known: HashMap::new(),
            ranges: vec![],
            wider: vec![],
            less: vec![],
            held: vec![None; locals],
            most: vec![None; locals],
            given: vec![None; values],
            implied: vec![None; locals],
            of_load: HashMap::new(),
        }
    }

    /// Returns the operation that defines a value; `None` for the index of a loop.
    pub(super) fn op(&self, value: ValueId) -> Option<&'f Op> {
        self.ops[value as usize]
    }

    /// Returns the bits of a constant.
    pub(super) fn constant(&self, value: ValueId) -> Option<u64> {
        match self.op(value)? {
            Op::Const(bits) => Some(*bits),
            _ => None,
        }
    }

    /// Returns the value that a load of a variable, or a selection, is known to give.
    pub(super) fn given(&self, load: ValueId) -> Option<ValueId> {
        self.given[load as usize]
    }

    pub(super) fn number(&self, value: ValueId) -> Number {
        self.numbers[value as usize]
    }

    pub(super) fn range(&self, value: ValueId) -> Range {
        self.ranges[self.number(value) as usize]
    }

    /// Returns the number of a launch word.
    pub(super) fn word(&mut self, word: u16) -> Number {
        let of = Type::one(self.function.scalars[usize::from(word)].dtype);
        self.numbered((of, None, Op::Scalar(word)))
    }

    pub(super) fn range_of(&self, number: Number) -> Range {
        self.ranges[number as usize]
    }

    pub(super) fn is_less(&self, a: Number, b: Number) -> bool {
        self.less.contains(&(a, b, 1))
    }

    fn of(&self, value: ValueId) -> Type {
        self.function.values[value as usize]
    }

    /// Starts a block.
    pub(super) fn open(&self) -> Scope {
        Scope {
            wider: self.wider.len(),
            less: self.less.len(),
            held: self.held.clone(),
            most: self.most.clone(),
            implied: self.implied.clone(),
        }
    }

    /// Ends a block, whose stores the caller [forgets](Self::forget) then.
    pub(super) fn close(&mut self, scope: Scope) {
        for (number, range) in self.wider.drain(scope.wider..).rev() {
            self.ranges[number as usize] = range;
        }
        self.less.truncate(scope.less);
        (self.held, self.implied) = (scope.held, scope.implied);
        // Of what is known on both ways from here.
        for (most, before) in self.most.iter_mut().zip(scope.most) {
            *most = most.zip(before).map(|(most, before)| most.max(before));
        }
    }

    /// Forgets what the variables hold that a block stores to.
    pub(super) fn forget(&mut self, block: &Block) {
        for local in stored(block) {
            self.held[local as usize] = None;
            self.implied[local as usize] = None;
        }
    }

    /// Passes a store. One with an index may be out of bounds, and store nothing.
    pub(super) fn store(&mut self, to: Memory, at: Option<ValueId>, value: ValueId) {
        if let Memory::Local(local) = to {
            let local = usize::from(local);
            let is_one = self.function.locals[local].len == 1 && self.of(value).lanes == 1;
            let is_variable = is_one && at.is_none();
            self.held[local] = is_variable.then_some(value);
            let most = self.range(value).most;
            self.most[local] = self.most[local].filter(|known| is_variable && most <= *known);
            self.implied[local] = None;
        }
    }

    /// Passes the definition of a value.
    pub(super) fn define(&mut self, value: ValueId, op: &Op) {
        let of = self.of(value);
        let number = match op {
            Op::Load(Memory::Local(local), None)
                if of.lanes == 1 && self.function.locals[usize::from(*local)].len == 1 =>
            {
                let local = usize::from(*local);
                match self.implied[local] {
                    Some(implied) => self.of_load.insert(value, implied),
                    None => self.of_load.remove(&value),
                };
                self.given[value as usize] = self.held[local];
                match self.held[local] {
                    Some(held) => self.number(held),
                    None => {
                        self.held[local] = Some(value);
                        let number = self.fresh(of);
                        if let Some(most) = self.most[local] {
                            self.narrow(number, Range::new(0, most));
                        }
                        number
                    }
                }
            }
            Op::Cast(a) | Op::Bits(a) if of.lanes == 1 && self.has_bits(*a, of.dtype) => {
                self.number(*a)
            }
            Op::Select(condition, a, _) if of.lanes == 1 => {
                let holds = self.holds(*condition);
                self.given[value as usize] = holds.then_some(*a);
                match holds {
                    true => self.number(*a),
                    false => self.numbered((of, None, op.renamed(|a| self.number(a)))),
                }
            }
            op if op.is_pure() && of.lanes == 1 => {
                let (mut operand, mut wide) = (None, false);
                op.each_operand(|a| {
                    operand.get_or_insert(self.of(a).dtype);
                    wide |= self.of(a).lanes > 1;
                });
                match wide {
                    true => self.fresh(of),
                    false => self.numbered((of, operand, op.renamed(|a| self.number(a)))),
                }
            }
            _ => self.fresh(of),
        };
        self.numbers[value as usize] = number;
        let range = self.range_of_op(of, op, &mut 0);
        self.narrow(number, range);
    }

    /// Returns whether a condition is known to hold: that an integer is less than another.
    fn holds(&self, condition: ValueId) -> bool {
        let Some(Op::Compare(CompareOp::Lt, a, b)) = self.op(condition) else {
            return false;
        };
        let of = self.of(*a);
        let [a, b] = [self.number(*a), self.number(*b)];
        let [range_a, range_b] = [a, b].map(|number| self.range_of(number));
        let is_natural = range_a.is_natural(of.dtype) && range_b.is_natural(of.dtype);
        let is_integer = is_integer(of.dtype) && of.lanes == 1;
        is_integer && is_natural && (range_a.most < range_b.least || self.is_less(a, b))
    }

    /// Passes the head of a loop.
    pub(super) fn index(&mut self, index: ValueId, start: ValueId, end: ValueId) {
        let number = self.fresh(Type::one(DType::I64));
        self.numbers[index as usize] = number;
        let (first, last) = (self.range(start), self.range(end));
        if first.is_natural(DType::I64) {
            let most = if last.is_natural(DType::I64) {
                last.most
            } else {
                i64::MAX as u64
            };
            self.narrow(number, Range::new(first.least, most.saturating_sub(1)));
            self.narrow(self.number(end), Range::new(1, i64::MAX as u64));
            self.less_than(number, end, DEPTH_MAX);
        }
    }

    /// Says that a variable holds `a && b` or, if it holds what `a || b` is, the negation.
    pub(super) fn imply(&mut self, local: u16, if_it_is: bool, implied: [Implied; 2]) {
        self.implied[usize::from(local)] = Some((if_it_is, implied));
    }

    /// Says whether a condition holds, up to the end of the block.
    pub(super) fn assume(&mut self, condition: ValueId, holds: bool) {
        self.follow(condition, holds, DEPTH_MAX);
    }

    fn follow(&mut self, condition: ValueId, holds: bool, depth: u32) {
        let Some(depth) = depth.checked_sub(1) else {
            return;
        };
        if let Some((if_it_is, implied)) = self.of_load.get(&condition).copied()
            && if_it_is == holds
        {
            for (a, holds) in implied {
                self.follow(a, holds, depth);
            }
        }
        if let Some(given) = self.given(condition) {
            return self.follow(given, holds, depth);
        }
        match self.op(condition) {
            Some(Op::Unary(UnaryOp::Not, a)) => self.follow(*a, !holds, depth),
            Some(Op::Binary(op, a, b))
                if (*op, holds) == (BinaryOp::And, true)
                    || (*op, holds) == (BinaryOp::Or, false) =>
            {
                for a in [*a, *b] {
                    self.follow(a, holds, depth);
                }
            }
            Some(Op::Compare(op, a, b))
                if is_integer(self.of(*a).dtype) && self.of(*a).lanes == 1 =>
            {
                match (*op, holds) {
                    (CompareOp::Lt, true) | (CompareOp::Ge, false) => self.order(*a, *b, 1, depth),
                    (CompareOp::Gt, true) | (CompareOp::Le, false) => self.order(*b, *a, 1, depth),
                    (CompareOp::Le, true) | (CompareOp::Gt, false) => self.order(*a, *b, 0, depth),
                    (CompareOp::Ge, true) | (CompareOp::Lt, false) => self.order(*b, *a, 0, depth),
                    (CompareOp::Eq, true) | (CompareOp::Ne, false) => {
                        let both = self.range(*a).and(self.range(*b));
                        for value in [*a, *b] {
                            self.narrow(self.number(value), both);
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Says that `a` plus `distance`, 0 or 1, is at most `b`. Of signed numbers nothing follows if `a` may be negative.
    fn order(&mut self, a: ValueId, b: ValueId, distance: u64, depth: u32) {
        let dtype = self.of(a).dtype;
        if !self.range(a).is_natural(dtype) {
            return;
        }
        let most = match self.range(b) {
            range if range.is_natural(dtype) => range.most,
            _ => Range::all(dtype).most >> 1,
        };
        let least = self.range(a).least.saturating_add(distance);
        self.narrow(self.number(b), Range::new(least, most));
        match distance {
            1 => self.less_than(self.number(a), b, depth),
            _ => self.less.push((self.number(a), self.number(b), distance)),
        }
        let most = most.saturating_sub(distance);
        self.narrow(self.number(a), Range::new(0, most));
    }

    /// Says that a number is less than a value, and so than what is at least that value.
    fn less_than(&mut self, number: Number, bound: ValueId, depth: u32) {
        self.less.push((number, self.number(bound), 1));
        let Some(depth) = depth.checked_sub(1) else {
            return;
        };
        let dtype = self.of(bound).dtype;
        let natural = |value: ValueId| self.range(value).is_natural(dtype);
        match self.op(bound) {
            Some(Op::Cast(a) | Op::Bits(a)) if self.has_bits(*a, dtype) => {
                self.less_than(number, *a, depth);
            }
            Some(Op::Load(..)) => {
                if let Some(given) = self.given(bound) {
                    self.less_than(number, given, depth);
                }
            }
            // If the lesser of both is not negative, neither is.
            Some(Op::Binary(BinaryOp::Min, a, b)) if natural(bound) => {
                for a in [*a, *b] {
                    self.less_than(number, a, depth);
                }
            }
            Some(Op::Binary(BinaryOp::Div | BinaryOp::Shr | BinaryOp::Rem, a, b))
                if natural(*a) && natural(*b) =>
            {
                self.less_than(number, *a, depth);
            }
            _ => {}
        }
    }

    fn has_bits(&self, a: ValueId, dtype: DType) -> bool {
        let from = self.of(a);
        let is_same = from.dtype.size() == dtype.size() && from.lanes == 1;
        is_same && is_integer(from.dtype) && is_integer(dtype)
    }

    fn fresh(&mut self, of: Type) -> Number {
        self.ranges.push(Range::all(of.dtype));
        (self.ranges.len() - 1) as Number
    }

    fn numbered(&mut self, key: (Type, Option<DType>, Op)) -> Number {
        if let Some(number) = self.known.get(&key) {
            return *number;
        }
        let number = self.fresh(key.0);
        self.known.insert(key, number);
        number
    }

    fn narrow(&mut self, number: Number, range: Range) {
        let before = self.ranges[number as usize];
        let narrow = before.and(range);
        if narrow != before {
            self.wider.push((number, before));
            self.ranges[number as usize] = narrow;
        }
    }
}

/// Returns the locals that a block stores to.
pub(super) fn stored(block: &Block) -> impl Iterator<Item = u16> {
    statements(block).filter_map(|stmt| match stmt {
        Stmt::Store {
            to: Memory::Local(local),
            ..
        } => Some(*local),
        _ => None,
    })
}
