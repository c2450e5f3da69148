//! Indices that rise or fall evenly with the index of a loop, and the test before the loop that all of them are within bounds.
//!
//! Integers wrap, so such an index is `first + slope * distance` modulo 2^64, where `distance` is how far the loop's index is
//! behind its first one, at most `span`. It stays below a limit, without wrapping, if `first` does and, as integers,
//! `slope * span < limit - first`; if it falls, `-slope * span <= first`. The product is computed without overflow: both factors
//! are small, or the test fails. A cast from a narrower type is even as long as the narrower value does not wrap, which is
//! one more limit.

use std::collections::{HashMap, HashSet};

use super::Guards;
use super::range::is_integer;
use crate::ssa::{Block, Memory, Op, Stmt, Type, ValueId, statements};
use crate::{BinaryOp, CompareOp, DType, UnaryOp};

/// The most operations of an index.
const OPERATIONS_MAX: u32 = 64;
/// What slopes that are constants, and the span of a loop with a slope other than one, are below.
const SLOPE_MAX: i64 = 1 << 31;

/// How much a value rises when the index of the loop rises by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slope {
    Constant(i64),
    /// Computed before the loop.
    Computed,
}

/// What a value of the loop is to be below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// The elements of a memory from which on an access of this many lanes is within bounds.
    Memory(Memory, u8),
    /// A power of two.
    Bits(u32),
}

/// A value of the loop that is to be below a limit.
struct Even {
    value: ValueId,
    slope: Slope,
    limit: Limit,
}

/// A loop of which the copy without checks is written.
pub(super) struct Run {
    index: ValueId,
    /// The values that the loop defines, and the locals that it stores to.
    inside: HashSet<ValueId>,
    stored: HashSet<u16>,
    /// What has to hold for this copy.
    even: Vec<Even>,
}

impl Run {
    pub(super) fn new(index: ValueId, body: &Block) -> Self {
        let values = statements(body).filter_map(|stmt| match stmt {
            Stmt::Let { value, .. } => Some(*value),
            _ => None,
        });
        Self {
            index,
            inside: values.collect(),
            stored: super::facts::stored(body).collect(),
            even: Vec::new(),
        }
    }

    /// Returns whether both copies would be the same.
    pub(super) fn is_needless(&self) -> bool {
        self.even.is_empty()
    }
}

impl Slope {
    const NONE: Self = Slope::Constant(0);

    fn plus(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Slope::Constant(a), Slope::Constant(b)) => Self::of(a + b),
            _ => Some(Slope::Computed),
        }
    }

    /// Returns the slope of a product with a constant, or with another number that is the same in all iterations.
    fn times(self, factor: Option<i64>) -> Option<Self> {
        match (self, factor) {
            (Self::NONE, _) => Some(self),
            (Slope::Constant(a), Some(b)) => Self::of(a.checked_mul(b)?),
            _ => Some(Slope::Computed),
        }
    }

    fn of(slope: i64) -> Option<Self> {
        (-SLOPE_MAX < slope && slope < SLOPE_MAX).then_some(Slope::Constant(slope))
    }
}

impl Guards<'_> {
    /// Returns whether an access is within bounds because the loop's other copy runs otherwise.
    pub(super) fn is_within_by_test(&mut self, memory: Memory, at: ValueId, lanes: u8) -> bool {
        let Some(mut run) = self.run.take() else {
            return false;
        };
        let (mut casts, mut left) = (Vec::new(), OPERATIONS_MAX);
        let slope = self.slope(&run, at, &mut casts, &mut left);
        if let Some(slope) = slope {
            let limit = Limit::Memory(memory, lanes);
            let access = Even {
                value: at,
                slope,
                limit,
            };
            for even in casts.into_iter().chain([access]) {
                let is_same = |other: &Even| {
                    other.limit == even.limit
                        && self.facts.number(other.value) == self.facts.number(even.value)
                };
                if !run.even.iter().any(is_same) {
                    run.even.push(even);
                }
            }
        }
        self.run = Some(run);
        slope.is_some()
    }

    /// Returns the slope of a value if it is even, with the casts that have to be.
    fn slope(
        &self,
        run: &Run,
        value: ValueId,
        casts: &mut Vec<Even>,
        left: &mut u32,
    ) -> Option<Slope> {
        *left = left.checked_sub(1)?;
        if value == run.index {
            return Some(Slope::Constant(1));
        }
        if !run.inside.contains(&value) {
            return Some(Slope::NONE);
        }
        let (op, of) = (self.facts.op(value)?, self.of(value));
        if let (Op::Select(..), Some(given)) = (op, self.facts.given(value)) {
            return self.slope(run, given, casts, left);
        }
        let mut slope = |a: ValueId| self.slope(run, a, casts, left);
        let is_integer = of.lanes == 1 && is_integer(of.dtype);
        match op {
            Op::Load(Memory::Local(local), None) if of.lanes == 1 => {
                match self.facts.given(value) {
                    Some(given) => slope(given),
                    None => (!run.stored.contains(local)).then_some(Slope::NONE),
                }
            }
            Op::Cast(a) | Op::Bits(a) if is_integer && self.is_integer(*a) => {
                let slope = slope(*a)?;
                let from = self.of(*a).dtype;
                if slope != Slope::NONE && from.size() < of.dtype.size() {
                    let limit = Limit::Bits(8 * from.size() as u32 - u32::from(from.is_signed()));
                    casts.push(Even {
                        value,
                        slope,
                        limit,
                    });
                }
                Some(slope)
            }
            Op::Unary(UnaryOp::Neg, a) if is_integer => slope(*a)?.times(Some(-1)),
            Op::Binary(BinaryOp::Add, a, b) if is_integer => slope(*a)?.plus(slope(*b)?),
            Op::Binary(BinaryOp::Sub, a, b) if is_integer => {
                slope(*a)?.plus(slope(*b)?.times(Some(-1))?)
            }
            Op::Binary(BinaryOp::Mul, a, b) if is_integer => match (slope(*a)?, slope(*b)?) {
                (a, Slope::NONE) => a.times(self.number(*b)),
                (Slope::NONE, b) => b.times(self.number(*a)),
                _ => None,
            },
            Op::Binary(BinaryOp::Shl, a, b) if is_integer => match (slope(*a)?, slope(*b)?) {
                (Slope::NONE, Slope::NONE) => Some(Slope::NONE),
                (a, _) => match self.facts.constant(*b)? {
                    by @ 0..31 => a.times(Some(1 << by)),
                    _ => None,
                },
            },
            // Of operands that are the same in all iterations.
            op if op.is_pure() => {
                let mut is_same = true;
                op.each_operand(|a| is_same = is_same && slope(a) == Some(Slope::NONE));
                is_same.then_some(Slope::NONE)
            }
            _ => None,
        }
    }

    fn is_integer(&self, value: ValueId) -> bool {
        let of = self.of(value);
        of.lanes == 1 && is_integer(of.dtype)
    }

    /// Returns the number that a constant is, as one of a signed type.
    fn number(&self, value: ValueId) -> Option<i64> {
        let bits = self.facts.constant(value)?;
        let unused = 64 - 8 * self.of(value).dtype.size();
        Some((bits << unused).cast_signed() >> unused)
    }

    /// Computes whether the copy without checks may run, before the loop. If the loop has no iteration, either may.
    pub(super) fn test(&mut self, run: &Run, bounds: [ValueId; 3], out: &mut Block) -> ValueId {
        let [start, end, _] = bounds.map(|bound| self.names[bound as usize]);
        let step = self.facts.constant(bounds[2]);
        let one = self.whole(1, out);
        let [first, behind] = [start, end].map(|bound| self.unsigned(bound, out));
        let distance = self.whole_of(BinaryOp::Sub, behind, first, out);
        let mut span = self.whole_of(BinaryOp::Sub, distance, one, out);
        if let Some(step @ 2..) = step {
            let step = self.whole(step, out);
            let steps = self.whole_of(BinaryOp::Div, span, step, out);
            span = self.whole_of(BinaryOp::Mul, steps, step, out);
        }
        let of_index = Type::one(DType::I64);
        let next = self.emit(of_index, Op::Const(1), out);
        let second = self.emit(of_index, Op::Binary(BinaryOp::Add, start, next), out);
        let (mut at_first, mut at_second) = (HashMap::new(), HashMap::new());
        let mut conditions = Vec::new();
        for even in &run.even {
            let low = self.again(run, even.value, (start, &mut at_first), out);
            let low = self.unsigned(low, out);
            let limit = match even.limit {
                Limit::Memory(memory, lanes) => self.limit(memory, lanes),
                Limit::Bits(bits) => self.whole(1 << bits, out),
            };
            conditions.push(self.compare(CompareOp::Lt, low, limit, out));
            let room = self.whole_of(BinaryOp::Sub, limit, low, out);
            let most = self.whole(SLOPE_MAX.cast_unsigned(), out);
            let small = |guards: &mut Self, value, out: &mut _| {
                guards.compare(CompareOp::Lt, value, most, out)
            };
            let way = match even.slope {
                Slope::NONE => continue,
                Slope::Constant(1 | -1) => span,
                Slope::Constant(slope) => {
                    conditions.push(small(self, span, out));
                    let slope = self.whole(slope.unsigned_abs(), out);
                    self.whole_of(BinaryOp::Mul, span, slope, out)
                }
                Slope::Computed => {
                    let next = self.again(run, even.value, (second, &mut at_second), out);
                    let next = self.unsigned(next, out);
                    let slope = self.whole_of(BinaryOp::Sub, next, low, out);
                    let both = self.whole_of(BinaryOp::Or, slope, span, out);
                    conditions.push(small(self, both, out));
                    self.whole_of(BinaryOp::Mul, span, slope, out)
                }
            };
            let (op, least) = match even.slope {
                Slope::Constant(..0) => (CompareOp::Le, low),
                _ => (CompareOp::Lt, room),
            };
            conditions.push(self.compare(op, way, least, out));
        }
        let all = conditions
            .into_iter()
            .reduce(|a, b| self.emit(DType::Bool.into(), Op::Binary(BinaryOp::And, a, b), out));
        all.unwrap_or_else(|| self.emit(DType::Bool.into(), Op::Const(1), out))
    }

    /// Computes a value of the loop again, for another index of it. The copies so far are kept with the index.
    fn again(
        &mut self,
        run: &Run,
        value: ValueId,
        (index, copies): (ValueId, &mut HashMap<ValueId, ValueId>),
        out: &mut Block,
    ) -> ValueId {
        if value == run.index {
            return index;
        }
        if !run.inside.contains(&value) {
            return self.names[value as usize];
        }
        if let Some(copy) = copies.get(&value) {
            return *copy;
        }
        let copy = match (self.facts.given(value), self.facts.op(value)) {
            (Some(given), _) => self.again(run, given, (index, &mut *copies), out),
            (None, Some(op)) => {
                let op = op.renamed(|a| self.again(run, a, (index, &mut *copies), out));
                self.emit(self.of(value), op, out)
            }
            // The index of another loop: no value of it is even.
            (None, None) => index,
        };
        copies.insert(value, copy);
        copy
    }

    fn whole(&mut self, bits: u64, out: &mut Block) -> ValueId {
        self.emit(DType::U64.into(), Op::Const(bits), out)
    }

    fn whole_of(&mut self, op: BinaryOp, a: ValueId, b: ValueId, out: &mut Block) -> ValueId {
        self.emit(DType::U64.into(), Op::Binary(op, a, b), out)
    }

    fn compare(&mut self, op: CompareOp, a: ValueId, b: ValueId, out: &mut Block) -> ValueId {
        self.emit(DType::Bool.into(), Op::Compare(op, a, b), out)
    }

    /// Returns an integer as `u64`; a negative one is large.
    fn unsigned(&mut self, value: ValueId, out: &mut Block) -> ValueId {
        match self.to.values[value as usize].dtype {
            DType::U64 => value,
            _ => self.emit(Type::one(DType::U64), Op::Cast(value), out),
        }
    }
}
