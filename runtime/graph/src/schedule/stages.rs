//! Reductions of few long rows, rewritten in two stages before anything is fused.
//!
//! ```text
//!  sum [1] of x [16 M]     becomes     sum [1] of reshape [1024] of sum [1024, 1] of parts [1024, 16 Ki] of x
//!
//!  argmax [1] of x         becomes     min [1] of where(best == max(best), place + where the part begins, none)
//!                                        best  [1024, 1] = max    of parts [1024, 16 Ki] of x
//!                                        place [1024, 1] = argmax of parts [1024, 16 Ki] of x
//! ```
//! *Parts* are a view, `p * step + i` along an axis, so the first stage is fused with what feeds it, and the second with what
//! follows. What the parts come to is kept in the type that it is computed in: `f32` for halves.
//!
//! Where nothing divides the axis, parts overlap, which changes no maximum and no first index. Parts of sums and products do not, and
//! some of them have one element more, of those that are left behind the last: it is computed once a part, and so costs nothing.
//! Where further axes are reduced behind the one that is cut, those of an overlap count as zero or one.

use std::collections::HashMap;

use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp};
use smallvec::SmallVec;

use crate::lazy::node::{NodeId, Op};
use crate::literal::Literal;
use crate::schedule::axes::runs;
use crate::schedule::parts::{Parts, Share, Windows};
use crate::schedule::walk::{Local, Seen, Walk};
use crate::shape::Shape;
use crate::size::Size;

/// The same walk, with long rows reduced in two stages.
pub(crate) fn in_stages(mut walk: Walk, parts: &Parts) -> Walk {
    let locals = 0..walk.nodes.len() as Local;
    let plans = locals.filter_map(|local| Some((local, Plan::of(&walk, local, parts)?)));
    let plans: HashMap<Local, Plan> = plans.collect();
    if plans.is_empty() {
        return walk;
    }
    let old = std::mem::take(&mut walk.nodes);
    let held = std::mem::take(&mut walk.held);
    // Where each node is now.
    let mut places: Vec<Local> = Vec::with_capacity(old.len());
    for (local, mut node) in old.into_iter().enumerate() {
        let is_held = held.get(local).copied();
        let place = |operand: &Local| places[*operand as usize];
        node.operands = node.operands.iter().map(place).collect();
        if let Some(plan) = plans.get(&(local as Local)) {
            let first = walk.nodes.len();
            let mut stages = Stages {
                nodes: &mut walk.nodes,
                forced: &mut walk.forced,
                id: node.id,
            };
            stages.rewrite(&mut node, plan, place(&plan.source));
            let made = walk.nodes.len() - first;
            walk.held.extend(is_held.into_iter().cycle().take(made));
        }
        places.push(walk.nodes.len() as Local);
        walk.nodes.push(node);
        walk.held.extend(is_held);
    }
    for root in &mut walk.roots {
        *root = places[*root as usize];
    }
    walk
}

/// How one reduction is done in two stages.
#[derive(Debug)]
struct Plan {
    /// What is reduced: the operand, or what it is a reshape of.
    source: Local,
    /// For each axis of the source that is reduced: its length, what becomes of it, and which axis of the second stage its
    /// parts are on.
    reduced: Vec<Option<(i64, Share, usize)>>,
}

impl Plan {
    /// How a node is reduced in two stages, if it is.
    fn of(walk: &Walk, local: Local, parts: &Parts) -> Option<Self> {
        let node = walk.node(local);
        if !matches!(node.op, Op::Reduce(_)) {
            return None;
        }
        let mut source = node.operands[0];
        let axes = walk.node(source).shape.iter().zip(node.shape.iter());
        // The axis of the second stage for each axis that is reduced.
        let onto = axes.enumerate();
        let onto = onto.map(|(axis, (from, to))| (from != to).then_some(axis));
        let mut onto: Vec<Option<usize>> = onto.collect();
        // A row of a reshaped buffer, cut, may be no part of the buffer's axes: then the buffer's own are cut, if they can be.
        while matches!(walk.node(source).op, Op::Reshape) {
            let under = walk.node(source).operands[0];
            let (shape, of) = (&walk.node(source).shape, &walk.node(under).shape);
            let Some(through) = through(shape, of, &onto) else {
                break;
            };
            (source, onto) = (under, through);
        }
        let shape = &walk.node(source).shape;
        let axes = shape.iter().zip(&onto);
        let kept = axes.clone().filter(|(_, onto)| onto.is_none());
        let rows = Size::product(kept.map(|(length, _)| length))?.max()?;
        let abreast = axes.clone().rev().take_while(|(_, onto)| onto.is_none());
        let abreast = Size::product(abreast.map(|(length, _)| length))?.max()?;
        let row = axes.filter(|(_, onto)| onto.is_some());
        let row: Vec<i64> = row
            .map(|(length, _)| length.known())
            .collect::<Option<_>>()?;
        let mut shares = row.iter().zip(parts.shares(rows, abreast, &row)?);
        let reduced = onto.into_iter().map(|onto| {
            let onto = onto?;
            shares.next().map(|(length, share)| (*length, share, onto))
        });
        Some(Self {
            source,
            reduced: reduced.collect(),
        })
    }

    /// The axis that is cut, where a reduction takes what is left behind equal parts one by one.
    fn rest(&self, op: ReduceOp) -> Option<(usize, Windows)> {
        let (axis, windows) = self.cut()?;
        let is_last = self.reduced[axis + 1..].iter().all(Option::is_none);
        let counts = matches!(op, ReduceOp::Sum | ReduceOp::Prod);
        (counts && is_last && windows.overlap() > 0).then_some((axis, windows))
    }

    /// The axis that is cut.
    fn cut(&self) -> Option<(usize, Windows)> {
        let mut axes = self.reduced.iter().enumerate();
        axes.find_map(|(axis, reduced)| match reduced {
            Some((_, Share::Cut(windows), _)) => Some((axis, *windows)),
            _ => None,
        })
    }
}

/// Which axes of `from` are reduced, and onto what, where those of `to`, a shape of as many elements, are; none if an axis of the one
/// is both reduced and not in the other.
fn through(to: &Shape, from: &Shape, onto: &[Option<usize>]) -> Option<Vec<Option<usize>>> {
    let mut through = vec![None; from.rank()];
    for (mine, theirs) in runs(to, from)? {
        let first = onto[*mine.first()?];
        if mine
            .iter()
            .any(|axis| onto[*axis].is_some() != first.is_some())
        {
            return None;
        }
        for axis in theirs {
            through[axis] = first;
        }
    }
    Some(through)
}

/// Adds the nodes of one reduction.
struct Stages<'a> {
    nodes: &'a mut Vec<Seen>,
    forced: &'a mut Vec<Local>,
    /// The node that they are made for.
    id: NodeId,
}

impl Stages<'_> {
    fn add(&mut self, op: Op, operands: &[Local], shape: &Shape, dtype: DType) -> Local {
        self.nodes.push(Seen {
            op,
            operands: SmallVec::from_slice(operands),
            shape: shape.clone(),
            dtype,
            id: self.id,
            written: 0,
        });
        (self.nodes.len() - 1) as Local
    }

    /// Makes a node the second stage of what it was.
    fn rewrite(&mut self, node: &mut Seen, plan: &Plan, source: Local) {
        let Op::Reduce(op) = node.op else { return };
        let seen = &self.nodes[source as usize];
        let (dtype, whole) = (seen.dtype, seen.shape.clone());
        let of_parts = match plan.cut() {
            None => source,
            Some((axis, windows)) => {
                let length = match plan.rest(op) {
                    Some(_) => windows.step,
                    None => windows.length,
                };
                let windows = Windows { length, ..windows };
                self.windows(source, &whole, dtype, axis, windows, op)
            }
        };
        // The shape of what comes of the parts: with an axis of length 1 for that of their elements.
        let mut partial: Vec<Size> = Vec::with_capacity(whole.rank() + 1);
        let mut second: Vec<Size> = node.shape.to_vec();
        for (length, reduced) in whole.iter().zip(&plan.reduced) {
            let Some((length, share, onto)) = reduced else {
                partial.push(length.clone());
                continue;
            };
            let parts = share.parts(*length);
            partial.push(Size::fixed(parts));
            if matches!(share, Share::Cut(_)) {
                partial.push(Size::ONE);
            }
            // Known, and no more than the elements of the row: they were counted.
            let before = second[*onto].known().unwrap_or(1);
            second[*onto] = Size::fixed(before * parts);
        }
        let (partial, second) = (Shape::new(partial), Shape::new(second));
        let (narrow, dtype) = (dtype, dtype.computed());
        let best = match op {
            ReduceOp::ArgMax => ReduceOp::Max,
            ReduceOp::ArgMin => ReduceOp::Min,
            op => op,
        };
        let mut values = self.add(Op::Reduce(best), &[of_parts], &partial, dtype);
        if let Some((axis, windows)) = plan.rest(op) {
            let rest = self.rest(source, &whole, narrow, axis, windows, op, &partial);
            let both = match op {
                ReduceOp::Prod => BinaryOp::Mul,
                _ => BinaryOp::Add,
            };
            values = self.add(Op::Binary(both), &[values, rest], &partial, dtype);
            // Of the first stage, where what is reduced is computed.
            self.forced.push(values);
        }
        let values = self.add(Op::Reshape, &[values], &second, dtype);
        if best == op {
            node.operands = SmallVec::from_slice(&[values]);
            return;
        }
        let places = self.add(Op::Reduce(op), &[of_parts], &partial, DType::I64);
        let places = self.begun(places, &partial, plan);
        let places = self.add(Op::Reshape, &[places], &second, DType::I64);
        // The first place of those that are as good as any.
        let found = self.add(Op::Reduce(best), &[values], &node.shape, dtype);
        let found = self.add(Op::Broadcast, &[found], &second, dtype);
        let mut is_best = self.compare(CompareOp::Eq, [values, found], &second);
        if dtype.is_float() {
            // NaN is what is found where one is, and equals nothing.
            let is_nan = self.compare(CompareOp::Ne, [values, values], &second);
            let or = Op::Binary(BinaryOp::Or);
            is_best = self.add(or, &[is_best, is_nan], &second, DType::Bool);
        }
        let none = self.number(i64::MAX, &second);
        let chosen = self.add(Op::Select, &[is_best, places, none], &second, DType::I64);
        node.op = Op::Reduce(ReduceOp::Min);
        node.operands = SmallVec::from_slice(&[chosen]);
    }

    /// The parts of an axis. Those of sums and products have each element once.
    fn windows(
        &mut self,
        source: Local,
        whole: &Shape,
        dtype: DType,
        axis: usize,
        windows: Windows,
        op: ReduceOp,
    ) -> Local {
        let mut shape = whole.to_vec();
        shape[axis] = Size::fixed(windows.parts);
        shape.insert(axis + 1, Size::fixed(windows.length));
        let shape = Shape::new(shape);
        let step = windows.step;
        let parts = self.add(Op::Parts { axis, step }, &[source], &shape, dtype);
        if windows.overlap() == 0 || !matches!(op, ReduceOp::Sum | ReduceOp::Prod) {
            return parts;
        }
        let part = self.add(Op::Index(axis), &[], &shape, DType::I64);
        let place = self.add(Op::Index(axis + 1), &[], &shape, DType::I64);
        let last = self.number(windows.parts - 1, &shape);
        let is_last = self.compare(CompareOp::Eq, [part, last], &shape);
        let (length, step) = (
            self.number(windows.length, &shape),
            self.number(step, &shape),
        );
        let end = self.add(Op::Select, &[is_last, length, step], &shape, DType::I64);
        let is_own = self.compare(CompareOp::Lt, [place, end], &shape);
        let neutral = self.neutral(op, &shape, dtype);
        self.add(Op::Select, &[is_own, parts, neutral], &shape, dtype)
    }

    /// One of the elements behind equal parts for each of the last parts, and for the others what changes nothing.
    #[expect(
        clippy::too_many_arguments,
        reason = "what is reduced, how it is cut, and what comes out"
    )]
    fn rest(
        &mut self,
        source: Local,
        whole: &Shape,
        dtype: DType,
        axis: usize,
        windows: Windows,
        op: ReduceOp,
        partial: &Shape,
    ) -> Local {
        let Windows {
            parts,
            step,
            length,
        } = windows;
        let mut shape = whole.to_vec();
        shape[axis] = Size::fixed(parts);
        // As many of the axis' last elements as there are parts: those that are no rest are in parts already.
        let start = Size::fixed((parts - 1) * step + length - parts);
        let last = self.add(
            Op::Narrow { axis, start },
            &[source],
            &Shape::new(shape),
            dtype,
        );
        let last = self.add(Op::Reshape, &[last], partial, dtype);
        let part = self.add(Op::Index(axis), &[], partial, DType::I64);
        let first = self.number(parts - windows.overlap(), partial);
        let has_one = self.compare(CompareOp::Ge, [part, first], partial);
        let neutral = self.neutral(op, partial, dtype);
        self.add(Op::Select, &[has_one, last, neutral], partial, dtype)
    }

    /// What changes no sum, or no product.
    fn neutral(&mut self, op: ReduceOp, shape: &Shape, dtype: DType) -> Local {
        let neutral = u32::from(op == ReduceOp::Prod);
        // So small a whole number is its own bits.
        let bits = Literal::from(neutral).bits(dtype);
        let bits = bits.unwrap_or(u64::from(neutral));
        self.add(Op::Const(bits), &[], shape, dtype)
    }

    /// Places within parts as places within the row: where each part begins is added.
    fn begun(&mut self, mut places: Local, shape: &Shape, plan: &Plan) -> Local {
        // Elements from one index of an axis to the next, from the fastest axis.
        let mut stride = 1;
        let mut begins: Vec<(usize, i64)> = Vec::new();
        let cut = plan.cut().map(|(axis, _)| axis);
        for (axis, reduced) in plan.reduced.iter().enumerate().rev() {
            let Some((length, share, _)) = reduced else {
                continue;
            };
            // Behind the axis that is cut, there is one more.
            let of_shape = axis + usize::from(cut.is_some_and(|cut| cut < axis));
            match share {
                Share::Each => begins.push((of_shape, stride)),
                Share::Cut(windows) => begins.push((of_shape, stride * windows.step)),
                Share::All => {}
            }
            stride *= length;
        }
        for (axis, by) in begins {
            let part = self.add(Op::Index(axis), &[], shape, DType::I64);
            let by = self.number(by, shape);
            let begin = self.add(Op::Binary(BinaryOp::Mul), &[part, by], shape, DType::I64);
            places = self.add(
                Op::Binary(BinaryOp::Add),
                &[places, begin],
                shape,
                DType::I64,
            );
        }
        places
    }

    fn number(&mut self, value: i64, shape: &Shape) -> Local {
        self.add(Op::Const(value as u64), &[], shape, DType::I64)
    }

    fn compare(&mut self, op: CompareOp, sides: [Local; 2], shape: &Shape) -> Local {
        self.add(Op::Compare(op), &sides, shape, DType::Bool)
    }
}
