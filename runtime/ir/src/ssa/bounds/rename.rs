//! Copies of operations with other operands.

use crate::ssa::{AtomicOp, Op, ValueId};

impl Op {
    /// Returns the operation with other operands, for which `f` is called in order.
    pub(super) fn renamed(&self, mut f: impl FnMut(ValueId) -> ValueId) -> Self {
        match self {
            Op::Const(_) | Op::Scalar(_) | Op::Position(..) | Op::Load(_, None) => self.clone(),
            Op::Load(memory, Some(at)) => Op::Load(*memory, Some(f(*at))),
            Op::Lane(a, lane) => Op::Lane(f(*a), *lane),
            Op::Splat(a) => Op::Splat(f(*a)),
            Op::Pack(lanes) => Op::Pack(lanes.iter().map(|lane| f(*lane)).collect()),
            Op::Unary(op, a) => Op::Unary(*op, f(*a)),
            Op::Binary(op, a, b) => Op::Binary(*op, f(*a), f(*b)),
            Op::Compare(op, a, b) => Op::Compare(*op, f(*a), f(*b)),
            Op::Select(condition, a, b) => Op::Select(f(*condition), f(*a), f(*b)),
            Op::Cast(a) => Op::Cast(f(*a)),
            Op::Bits(a) => Op::Bits(f(*a)),
            Op::Fma(a, b, c) => Op::Fma(f(*a), f(*b), f(*c)),
            Op::Random(seed, counter) => Op::Random(f(*seed), f(*counter)),
            Op::Reduce(scope, op, a) => Op::Reduce(*scope, *op, f(*a)),
            Op::Atomic(op, memory, at) => {
                let at = f(*at);
                let op = match *op {
                    AtomicOp::Load => AtomicOp::Load,
                    AtomicOp::Swap(a) => AtomicOp::Swap(f(a)),
                    AtomicOp::Update(op, a) => AtomicOp::Update(op, f(a)),
                    AtomicOp::CompareExchange(a, b) => AtomicOp::CompareExchange(f(a), f(b)),
                };
                Op::Atomic(op, *memory, at)
            }
            Op::Shuffle(from, width, a, by) => Op::Shuffle(*from, *width, f(*a), f(*by)),
        }
    }
}
