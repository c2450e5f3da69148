//! The cost of recomputing a node wherever it is used, compared with a load from a buffer.

use millstream_ir::UnaryOp;

use crate::lazy::node::Op;
use crate::schedule::walk::{Walk, WalkNode};

/// The most cheap operations, beside one load, of an elementwise node that every use recomputes instead of loading it.
pub(super) const CHEAP_FLOPS: u32 = 4;

/// Recomputed elements are few if the largest use of the node has at least this many times as many.
pub(super) const FEW_RATIO: i64 = 8;

/// The cost of an operation that is not a single instruction, in cheap operations.
const EXPENSIVE_FLOPS: u32 = 10;

/// The cost of computing one element of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) flops: u32,
    pub(super) loads: u32,
}

impl Cost {
    /// Returns `true` if recomputing the node costs no more than loading it.
    pub(super) fn is_cheap(&self) -> bool {
        self.flops <= CHEAP_FLOPS && self.loads <= 1
    }
}

/// Returns the cost of computing one element of each node where it is used.
pub(super) fn costs(walk: &Walk) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Vec::with_capacity(walk.nodes.len());
    for node in &walk.nodes {
        // An operand that is used twice is computed once.
        let operands = node.operands.iter().enumerate();
        let operands = operands.filter(|(place, of)| !node.operands[..*place].contains(of));
        let of = operands.map(|(_, operand)| costs[*operand as usize]);
        let mut sum = Cost { flops: 0, loads: 0 };
        for cost in of {
            sum.flops = sum.flops.saturating_add(cost.flops);
            sum.loads = sum.loads.saturating_add(cost.loads);
        }
        sum.flops = sum.flops.saturating_add(own_flops(node));
        if node.is_buffer() {
            sum.loads = 1;
        }
        costs.push(sum);
    }
    costs
}

/// Returns the cost of a node without its operands, in cheap operations; `u32::MAX` if it is never recomputed.
fn own_flops(node: &WalkNode) -> u32 {
    match &node.op {
        _ if node.is_view() || node.is_buffer() => 0,
        Op::Const(_) | Op::Scalar(_) | Op::Index(_) | Op::Length(_) => 0,
        Op::Random(_) => EXPENSIVE_FLOPS,
        Op::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not) => 1,
        Op::Unary(_) => EXPENSIVE_FLOPS,
        Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast => 1,
        _ => u32::MAX,
    }
}
