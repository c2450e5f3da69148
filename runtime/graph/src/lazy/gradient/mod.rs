//! Reverse-mode differentiation: lazy buffers that compute the derivatives of a sum.
//!
//! The nodes between the result and the requested buffers are visited from the result down, each after all its users.
//! Then its *adjoint*, the derivative of the sum by this node, is complete. A [rule](rules) for each operation adds to
//! the adjoints of the operands. Adjoints are nodes of the same graph, fused and scheduled like others; derivatives
//! that are not requested are not computed. The traversals are iterative, so a chain of a million nodes needs no stack.

mod rules;

use std::collections::{HashMap, HashSet};
use std::f64::consts::PI;

use rules::{OperandAdjoints, Rule};
use smallvec::smallvec;

use super::buffer::LazyBuffer;
use super::graph::Graph;
use super::node::{Function, Node, NodeId, Op};
use crate::error::{By, why};
use crate::literal::Literal;

impl LazyBuffer {
    /// Returns the gradients of the sum of all elements by each of these buffers, in their shapes.
    ///
    /// **The gradient by a buffer that this one does not depend on is zero, and no error.** If a gradient is zero and
    /// should not be, check that
    ///
    /// - this buffer was made from the buffer itself, not from a view, a cast or a copy of the same values:
    ///   `w.square().grad([&w.reshape([4])])` is zero;
    /// - both mean the same version: after `let next = w.set(..)`, expressions of `next` have a gradient by `next`, and
    ///   none by `w`;
    /// - no [`detach`](Self::detach), cast to integers, comparison or index is between them.
    ///
    /// [`Schedule::takes`](crate::Schedule::takes) tells whether a schedule of the loss uses an input at all.
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
    /// At a corner of a function, and where it overflows, the gradient is that of PyTorch: zero for [`abs`](Self::abs),
    /// [`sign`](Self::sign) and [`relu`](Self::relu) at 0 and for [`clamp`](Self::clamp) at numbers that limit it; equal
    /// shares for tied elements of a minimum or maximum, also with a number.
    /// Integers have no gradient: none passes through an index, a comparison or a cast to integers.
    ///
    /// # Errors
    /// The gradients are refused if this buffer or one of the others is refused, is not of floats, or is of another
    /// graph, and if a kernel of a user ([`Call`](crate::Call)) is between them: its gradient is unknown.
    #[track_caller]
    pub fn grad<const N: usize>(&self, of: [&LazyBuffer; N]) -> [LazyBuffer; N] {
        let mut all = self.gradients(By::new("grad"), &of).into_iter();
        std::array::from_fn(|_| all.next().unwrap_or_else(|| self.clone()))
    }

    /// As [`LazyBuffer::grad`], by any number of buffers.
    ///
    /// # Errors
    /// As [`LazyBuffer::grad`].
    #[track_caller]
    pub fn grad_all(&self, of: &[&LazyBuffer]) -> Vec<LazyBuffer> {
        self.gradients(By::new("grad"), of)
    }

    fn gradients(&self, by: By, of: &[&LazyBuffer]) -> Vec<LazyBuffer> {
        let all = self.try_gradients(by, of);
        all.unwrap_or_else(|refused| vec![refused; of.len()])
    }

    /// Returns the gradients, or the first refused buffer.
    fn try_gradients(&self, by: By, of: &[&LazyBuffer]) -> Result<Vec<LazyBuffer>, LazyBuffer> {
        let refused = |of: &LazyBuffer, why| {
            let operand = (of.dtype(), of.shape());
            LazyBuffer::refused(by, [operand], why)
        };
        for buffer in of.iter().copied().chain([self]) {
            if buffer.error().is_some() {
                return Err(buffer.clone());
            }
            if !buffer.dtype().is_float() {
                return Err(refused(buffer, why::dtype(buffer.dtype())));
            }
        }
        let root = self.node_ref().map_err(|_| self.clone())?;
        let graph = &root.graph;
        let id = |buffer: &&LazyBuffer| {
            let node_ref = buffer.node_ref().ok()?;
            node_ref.graph.is(graph).then_some(node_ref.id)
        };
        let ids = of.iter().map(id).collect::<Option<Vec<NodeId>>>();
        let ids = ids.ok_or_else(|| refused(self, why::GRAPHS))?;
        let backward = Backward {
            result: self,
            graph,
            wanted: ids.iter().copied().collect(),
            by,
        };
        let adjoints = backward.run(root.id)?;
        let gradient = |(buffer, id): (&&LazyBuffer, &NodeId)| match adjoints.get(id) {
            Some(adjoint) => adjoint.clone(),
            None => graph.zeros(buffer.dtype(), buffer.shape()),
        };
        Ok(of.iter().zip(&ids).map(gradient).collect())
    }

    /// Returns the same values without gradient.
    #[track_caller]
    pub fn detach(&self) -> LazyBuffer {
        LazyBuffer::of(By::new("detach"), [self], |[node_ref]| {
            Ok((Op::Detach, node_ref.dtype, node_ref.shape.clone()))
        })
    }
}

/// A node between, in its state when the gradient was requested: another thread may realize it meanwhile.
#[derive(Clone)]
struct Snapshot {
    node: Node,
    /// The lazy buffer of the node.
    buffer: LazyBuffer,
}

/// A backward pass from a result.
struct Backward<'a> {
    result: &'a LazyBuffer,
    graph: &'a Graph,
    wanted: HashSet<NodeId>,
    by: By,
}

impl Backward<'_> {
    /// Returns the adjoints of the wanted nodes that the result depends on.
    fn run(self, root: NodeId) -> Result<HashMap<NodeId, LazyBuffer>, LazyBuffer> {
        let (order, between, known) = self.between(root);
        let mut adjoints: HashMap<NodeId, LazyBuffer> = HashMap::new();
        let mut found = HashMap::new();
        let (dtype, shape) = (self.result.dtype(), self.result.shape());
        let one = self.graph.full(dtype, shape, Literal::Int(1));
        adjoints.insert(root, one);
        for id in order {
            let Some(adjoint) = adjoints.remove(&id) else {
                continue;
            };
            if self.wanted.contains(&id) {
                found.insert(id, adjoint.clone());
            }
            let Snapshot { node, buffer } = &known[&id];
            let operands: Vec<&LazyBuffer> =
                node.operands.iter().map(|id| &known[id].buffer).collect();
            let rule = rules::Rule {
                graph: self.graph,
                node,
                operands: &operands,
                result: buffer,
                adjoint: &adjoint,
                by: self.by,
            };
            let is_wanted = |operand: usize| between.contains(&node.operands[operand]);
            for (operand, part) in rule.operand_adjoints(&is_wanted)? {
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

    /// Returns the float nodes between the result and the wanted nodes, each after all its users; the same as a set; and
    /// these nodes with their operands.
    fn between(&self, root: NodeId) -> (Vec<NodeId>, HashSet<NodeId>, HashMap<NodeId, Snapshot>) {
        let mut arena = self.graph.lock();
        let mut order = arena.needed([root], Node::differentiated);
        let mut between: HashSet<NodeId> = HashSet::new();
        order.retain(|id| {
            let node = arena.node(*id);
            let mut operands = node.differentiated().iter();
            let through = operands.any(|operand| between.contains(operand));
            let is_between = node.dtype.is_float() && (through || self.wanted.contains(id));
            is_between && between.insert(*id)
        });
        order.reverse();
        let operands = order.iter().flat_map(|id| &arena.node(*id).operands);
        let all: HashSet<NodeId> = operands.chain(&order).copied().collect();
        let snapshot = |id: NodeId| {
            let buffer = LazyBuffer::of_node(self.graph, &mut arena, id);
            let node = arena.node(id).clone();
            (id, Snapshot { node, buffer })
        };
        let known = all.into_iter().map(snapshot).collect();
        (order, between, known)
    }
}

// The derivatives of functions that have a gradient of their own, in the forms that overflow least.

impl Rule<'_> {
    /// Returns the adjoints of the arguments of a function. Its value is operand 0, its arguments follow.
    fn function(&self, function: Function) -> OperandAdjoints {
        let (g, y, x) = (self.adjoint, self.result, self.operand(1));
        let zero = self.zeros(y.shape());
        let of_x = match function {
            // The result exists already. NaN passes its gradient.
            Function::Relu => y.less_equal(0.0).select(&zero, g),
            Function::Clamp => {
                let within = x.greater(self.operand(2)) & x.less(self.operand(3));
                within.select(g, &zero)
            }
            Function::Sigmoid => g * ((1.0 - y) * y),
            Function::Silu => {
                let sigmoid = x.sigmoid();
                g * (&sigmoid * (&x * (1.0 - &sigmoid) + 1.0))
            }
            Function::GeluTanh => {
                // `y = x s`, where `s` is the sigmoid of `2 u`; see `gelu_tanh`.
                let factor = 2.0 * (2.0 / PI).sqrt();
                let square = x.square();
                let sigmoid = (&x * (&square * 0.044_715 + 1.0) * factor).sigmoid();
                let slope = (square * (3.0 * 0.044_715) + 1.0) * factor;
                // 0 where the sigmoid is constant, although the square may overflow.
                let change = &sigmoid * (1.0 - &sigmoid);
                let of_sigmoid = change.equals(0.0).select(&zero, &x * change * slope);
                g * (sigmoid + of_sigmoid)
            }
            Function::Log1p => g / (x + 1.0),
            Function::Expm1 => g * (y + 1.0),
            Function::Atan2 => {
                let (y, x) = (x, self.operand(2));
                let square = y.square() + x.square();
                // The origin has no angle.
                let inverse = square.equals(0.0).select(&zero, square.recip());
                return smallvec![(1, g * (&x * &inverse)), (2, g * (-y * inverse))];
            }
        };
        smallvec![(1, of_x)]
    }
}
