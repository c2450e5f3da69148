//! What it costs to compute a node where it is needed, beside loading it from a buffer.

use millstream_ir::UnaryOp;

use crate::lazy::node::Op;
use crate::schedule::walk::{Local, Seen, Walk};

/// An elementwise node that is needed in several places is computed in each of them, rather than stored and loaded, if it takes
/// at most this many cheap operations and one load.
pub(super) const CHEAP_FLOPS: u32 = 4;

/// Elements that a kernel computes again are few if there are so many times as many at one of its places.
pub(super) const FEW_TIMES: i64 = 8;

/// What an operation that is no single instruction costs, in cheap operations.
const DEAR_FLOPS: u32 = 10;

/// What it takes to compute an element of a node in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) flops: u32,
    pub(super) loads: u32,
}

impl Cost {
    /// Is computing it again no more than loading it?
    pub(super) fn is_cheap(&self) -> bool {
        self.flops <= CHEAP_FLOPS && self.loads <= 1
    }
}

/// Which nodes must be buffers because they are made once, of what is held, and read by each run. What is cheap is computed again
/// by the kernel that reads it, as always.
pub(super) fn frontier(walk: &Walk, costs: &[Cost]) -> Vec<bool> {
    let mut forced = vec![false; walk.nodes.len()];
    for (local, node) in walk.nodes.iter().enumerate() {
        if walk.is_held(local as Local) {
            continue;
        }
        for operand in &node.operands {
            let mut made = *operand;
            while walk.is_held(made) && walk.node(made).is_view() {
                made = walk.node(made).operands[0];
            }
            let seen = walk.node(made);
            let is_made = walk.is_held(made) && !seen.is_buffer() && !seen.is_generated();
            forced[made as usize] |= is_made && !costs[made as usize].is_cheap();
        }
    }
    forced
}

/// What it takes to compute an element of each node where it is needed.
pub(super) fn costs(walk: &Walk) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Vec::with_capacity(walk.nodes.len());
    for node in &walk.nodes {
        // The same operand twice is computed once.
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

/// What a node itself costs, in cheap operations. What is never computed again costs more than can be counted.
fn own_flops(node: &Seen) -> u32 {
    match &node.op {
        _ if node.is_view() || node.is_buffer() => 0,
        Op::Const(_) | Op::Scalar(_) | Op::Index(_) | Op::Length(_) => 0,
        Op::Random(_) => DEAR_FLOPS,
        Op::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not) => 1,
        Op::Unary(_) => DEAR_FLOPS,
        Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast => 1,
        _ => u32::MAX,
    }
}
