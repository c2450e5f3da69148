//! Reverse-mode gradients: lazy buffers that compute how a sum depends on what it is computed from.
//!
//! The nodes that lie between the result and what is asked for are visited from the result down, each after everything
//! that uses it. By then its *adjoint* is complete: the gradient by that node. A [rule](rules) for each operation adds its
//! part to the adjoints of the operands. All of it are nodes of the same graph, fused and scheduled as any others; what a
//! caller does not ask for is never computed. Walks are loops with lists, so a chain of a million nodes needs no stack.

mod rules;

use std::collections::{HashMap, HashSet};
use std::panic::Location;

use crate::error::Why;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::Graph;
use crate::lazy::node::{Node, NodeId, Op};
use crate::literal::Literal;

impl LazyBuffer {
    /// The gradients of the sum of all elements by each of these buffers, in their shapes. What the result does not depend
    /// on has zeros.
    ///
    /// ```
    /// # use millstream_graph::{DType, Graph, Schedule};
    /// let graph = Graph::new();
    /// let x = graph.input("x", DType::F32, [64, 784]);
    /// let w = graph.input("w", DType::F32, [784, 10]);
    /// let loss = x.matmul(&w).square().mean(..);
    /// let [dw] = loss.grad([&w]);
    /// let step = w.set(&(&w - &dw * 0.1));
    /// assert_eq!(dw.shape(), w.shape());
    /// # Schedule::create(&[&loss, &step]).unwrap();
    /// ```
    ///
    /// Where a function has a corner, the gradient is one of those at its sides, or between them: zero for [`abs`](Self::abs)
    /// and [`relu`](Self::relu)
    /// at 0; equal shares for elements that tie in a minimum or maximum. Whole numbers have none: no gradient goes through
    /// an index, a comparison or a cast to them.
    ///
    /// # Errors
    /// The buffers are refused where this one or one of them is refused, no float, or of another graph, and where a kernel of
    /// the user ([`Call`](crate::Call)) lies between them: its gradient is unknown.
    #[track_caller]
    pub fn grad<const N: usize>(&self, of: [&LazyBuffer; N]) -> [LazyBuffer; N] {
        let at = Location::caller();
        let mut all = self.gradients(&of, at).into_iter();
        std::array::from_fn(|_| all.next().unwrap_or_else(|| self.clone()))
    }

    /// As [`LazyBuffer::grad`], by any number of buffers.
    ///
    /// # Errors
    /// As [`LazyBuffer::grad`].
    #[track_caller]
    pub fn grad_all(&self, of: &[&LazyBuffer]) -> Vec<LazyBuffer> {
        self.gradients(of, Location::caller())
    }

    fn gradients(&self, of: &[&LazyBuffer], at: &'static Location<'static>) -> Vec<LazyBuffer> {
        let refuse_all = |refused: LazyBuffer| vec![refused; of.len()];
        for buffer in of.iter().copied().chain([self]) {
            if buffer.error().is_some() {
                return refuse_all(buffer.clone());
            }
            if !buffer.dtype().is_float() {
                let operand = (buffer.dtype(), buffer.shape());
                let why = Why::DType(buffer.dtype());
                return refuse_all(LazyBuffer::refused("grad", [operand], why, at));
            }
        }
        let Some(graph) = self.graph() else {
            return refuse_all(self.clone());
        };
        let ids: Vec<Option<NodeId>> = of
            .iter()
            .map(|buffer| buffer.held().ok().filter(|held| held.graph.is(graph)))
            .map(|held| held.map(|held| held.id))
            .collect();
        if ids.iter().any(Option::is_none) {
            let operand = (self.dtype(), self.shape());
            return refuse_all(LazyBuffer::refused("grad", [operand], Why::Graphs, at));
        }
        let wanted: HashSet<NodeId> = ids.iter().copied().flatten().collect();
        let backward = Backward {
            result: self,
            graph,
            wanted: &wanted,
            at,
        };
        match backward.run() {
            Ok(adjoints) => {
                let gradient = |(buffer, id): (&&LazyBuffer, &Option<NodeId>)| {
                    let adjoint = id.and_then(|id| adjoints.get(&id).cloned());
                    adjoint.unwrap_or_else(|| graph.zeros(buffer.dtype(), buffer.shape()))
                };
                of.iter().zip(&ids).map(gradient).collect()
            }
            Err(refused) => refuse_all(refused),
        }
    }

    /// The values without how they came to be: no gradient goes through.
    #[track_caller]
    pub fn detach(&self) -> LazyBuffer {
        LazyBuffer::of("detach", [self], Location::caller(), |[held]| {
            Ok((Op::Detach, held.dtype(), held.shape().clone()))
        })
    }
}

/// A node on the way, as it was when the gradient was asked for: another thread may realize it meanwhile.
#[derive(Clone)]
struct Known {
    node: Node,
    /// What it computes.
    buffer: LazyBuffer,
}

/// A walk from a result back to what it is computed from.
struct Backward<'a> {
    result: &'a LazyBuffer,
    graph: &'a Graph,
    wanted: &'a HashSet<NodeId>,
    at: &'static Location<'static>,
}

impl Backward<'_> {
    /// The adjoints of the wanted nodes that the result depends on.
    fn run(self) -> Result<HashMap<NodeId, LazyBuffer>, LazyBuffer> {
        let Some(root) = self.result.held().ok().map(|held| held.id) else {
            return Err(self.result.clone());
        };
        let (uses, known) = self.between(root);
        let mut adjoints: HashMap<NodeId, LazyBuffer> = HashMap::new();
        let mut found = HashMap::new();
        let (dtype, shape) = (self.result.dtype(), self.result.shape());
        let one = self.graph.full(dtype, shape, Literal::Int(1));
        adjoints.insert(root, one);
        let is_wanted = |id: &NodeId| uses.contains_key(id);
        for id in in_order(root, &uses, &known) {
            let Some(adjoint) = adjoints.remove(&id) else {
                continue;
            };
            if self.wanted.contains(&id) {
                found.insert(id, adjoint.clone());
            }
            let Known { node, buffer } = &known[&id];
            let operands: Vec<&LazyBuffer> =
                node.operands.iter().map(|id| &known[id].buffer).collect();
            let rule = rules::Rule {
                graph: self.graph,
                node,
                operands: &operands,
                result: buffer,
                adjoint: &adjoint,
                at: self.at,
            };
            for (operand, part) in rule.parts(&|operand| is_wanted(&node.operands[operand]))? {
                let id = node.operands[operand];
                let sum = match adjoints.remove(&id) {
                    Some(known) => known + part,
                    None => part,
                };
                adjoints.insert(id, sum);
            }
        }
        Ok(found)
    }

    /// The floats that the result depends on and that depend on what is wanted, with how many of those use each; and what they
    /// and their operands are.
    fn between(&self, root: NodeId) -> (HashMap<NodeId, usize>, HashMap<NodeId, Known>) {
        let mut arena = self.graph.lock();
        let mut depends: HashMap<NodeId, bool> = HashMap::new();
        // A node, and how many of its operands have been looked at.
        let mut pending: Vec<(NodeId, usize)> = vec![(root, 0)];
        while let Some((id, seen)) = pending.pop() {
            if depends.contains_key(&id) {
                continue;
            }
            let node = arena.node(id);
            let passes = passes(node);
            if let Some(operand) = node.operands.get(seen).filter(|_| passes) {
                pending.push((id, seen + 1));
                pending.push((*operand, 0));
                continue;
            }
            let through = passes && node.operands.iter().any(|operand| depends[operand]);
            let is_it = through || self.wanted.contains(&id);
            depends.insert(id, node.dtype.is_float() && is_it);
        }
        depends.retain(|_, depends| *depends);
        let mut uses: HashMap<NodeId, usize> = depends.keys().map(|id| (*id, 0)).collect();
        let mut all: HashSet<NodeId> = depends.keys().copied().collect();
        for id in depends.keys() {
            let node = arena.node(*id);
            all.extend(&node.operands);
            for operand in node.operands.iter().filter(|_| passes(node)) {
                if let Some(uses) = uses.get_mut(operand) {
                    *uses += 1;
                }
            }
        }
        let know = |id: NodeId| {
            let node = arena.held_node(id);
            let buffer = LazyBuffer::of_held_node(self.graph, id, &node);
            (id, Known { node, buffer })
        };
        let known = all.into_iter().map(know).collect();
        (uses, known)
    }
}

/// Whether a gradient goes through a node.
fn passes(node: &Node) -> bool {
    node.dtype.is_float() && !matches!(node.op, Op::Detach)
}

/// The nodes that are used so, each after all that use it.
fn in_order(
    root: NodeId,
    uses: &HashMap<NodeId, usize>,
    known: &HashMap<NodeId, Known>,
) -> Vec<NodeId> {
    let mut missing = uses.clone();
    let mut order = Vec::with_capacity(uses.len());
    let mut ready: Vec<NodeId> = uses
        .contains_key(&root)
        .then_some(root)
        .into_iter()
        .collect();
    while let Some(id) = ready.pop() {
        order.push(id);
        let node = &known[&id].node;
        for operand in node.operands.iter().filter(|_| passes(node)) {
            if let Some(missing) = missing.get_mut(operand) {
                *missing -= 1;
                if *missing == 0 {
                    ready.push(*operand);
                }
            }
        }
    }
    order
}
