//! Rewrites reductions of few long rows as two stages, before fusion.
//!
//! ```text
//!  sum [1] of x [16 M]     becomes     sum [1] of reshape [1024] of sum [1024, 1] of parts [1024, 16 Ki] of x
//!
//!  argmax [1] of x         becomes     min [1] of where(best == max(best), place + where the part begins, none)
//!                                        best  [1024, 1] = max    of parts [1024, 16 Ki] of x
//!                                        place [1024, 1] = argmax of parts [1024, 16 Ki] of x
//! ```
//! *Parts* are a view, `p * step + i` along an axis, so the first stage is fused with its operands and the second with
//! its readers. The results of the parts keep the type of the computation: `f32` for halves.
//!
//! If nothing divides the axis, parts overlap, which changes no maximum and no first index. Parts of sums and products
//! must not overlap: they have `step` elements each, and some of them one more, of the remainder behind the last part;
//! this element is computed once for each part, so it costs nothing. If further axes are reduced behind the cut one,
//! the elements of an overlap count as zero or one.
//!
//! Other ways for the remainder cost more. A `select` for every element makes the sum of 16,777,213 elements three
//! times as slow as that of 16,777,216 (two cores, CPU). A kernel of its own needs the operands a second time, so they
//! become buffers; padding is a copy.

use std::collections::HashMap;

use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp};
use smallvec::SmallVec;

use crate::lazy::node::{NodeId, Op};
use crate::literal::Literal;
use crate::schedule::axes::runs;
use crate::schedule::split::{Parts, Share, Windows};
use crate::schedule::walk::{Local, Walk, WalkNode};
use crate::shape::Shape;
use crate::size::Size;

/// Returns the walk with reductions of long rows in two stages.
pub(crate) fn rewrite_long_reductions(mut walk: Walk, parts: &Parts) -> Walk {
    let locals = 0..walk.nodes.len() as Local;
    let plans = locals.filter_map(|local| Some((local, Plan::of(&walk, local, parts)?)));
    let plans: HashMap<Local, Plan> = plans.collect();
    if plans.is_empty() {
        return walk;
    }
    let old = std::mem::take(&mut walk.nodes);
    // The new index of each node.
    let mut places: Vec<Local> = Vec::with_capacity(old.len());
    for (local, mut node) in old.into_iter().enumerate() {
        let place = |operand: &Local| places[*operand as usize];
        node.operands = node.operands.iter().map(place).collect();
        if let Some(plan) = plans.get(&(local as Local)) {
            let mut stages = Stages {
                nodes: &mut walk.nodes,
                apart: &mut walk.apart,
                id: node.id,
            };
            stages.rewrite(&mut node, plan, place(&plan.source));
        }
        places.push(walk.nodes.len() as Local);
        walk.nodes.push(node);
    }
    for root in &mut walk.roots {
        *root = places[*root as usize];
    }
    walk
}

/// How one reduction is split into two stages.
#[derive(Debug)]
struct Plan {
    /// The reduced node: the operand, or the operand of reshapes below it.
    source: Local,
    /// For each reduced axis of the source: its length, how parts divide it, and the axis of the second stage that has
    /// its parts.
    reduced: Vec<Option<(i64, Share, usize)>>,
}

impl Plan {
    /// Returns the plan of a node, if it is a reduction that is split.
    fn of(walk: &Walk, local: Local, parts: &Parts) -> Option<Self> {
        let node = walk.node(local);
        if !matches!(node.op, Op::Reduce(_)) {
            return None;
        }
        let mut source = node.operands[0];
        let axes = walk.node(source).shape.iter().zip(node.shape.iter());
        // The axis of the second stage for each reduced axis.
        let onto = axes.enumerate();
        let onto = onto.map(|(axis, (from, to))| (from != to).then_some(axis));
        let mut onto: Vec<Option<usize>> = onto.collect();
        // A part of a row of a reshaped buffer may be no range of the axes of the buffer: split the axes of the buffer
        // itself if possible.
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
        let adjacent = axes.clone().rev().take_while(|(_, onto)| onto.is_none());
        let adjacent = Size::product(adjacent.map(|(length, _)| length))?.max()?;
        let row = axes.filter(|(_, onto)| onto.is_some());
        let row: Vec<i64> = row
            .map(|(length, _)| length.known())
            .collect::<Option<_>>()?;
        let mut shares = row.iter().zip(parts.shares(rows, adjacent, &row)?);
        let reduced = onto.into_iter().map(|onto| {
            let onto = onto?;
            shares.next().map(|(length, share)| (*length, share, onto))
        });
        Some(Self {
            source,
            reduced: reduced.collect(),
        })
    }

    /// Returns the cut axis, if the remainder behind equal parts is reduced element by element.
    fn rest(&self, op: ReduceOp) -> Option<(usize, Windows)> {
        let (axis, windows) = self.cut()?;
        let is_last = self.reduced[axis + 1..].iter().all(Option::is_none);
        let counts = matches!(op, ReduceOp::Sum | ReduceOp::Prod);
        (counts && is_last && windows.overlap() > 0).then_some((axis, windows))
    }

    /// Returns the cut axis.
    fn cut(&self) -> Option<(usize, Windows)> {
        let mut axes = self.reduced.iter().enumerate();
        axes.find_map(|(axis, reduced)| match reduced {
            Some((_, Share::Cut(windows), _)) => Some((axis, *windows)),
            _ => None,
        })
    }
}

/// Returns, for each axis of `from`, onto which axis it is reduced, given the same for the axes of `to`, a shape with
/// as many elements. `None` if an axis of one shape is reduced only in part.
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
    nodes: &'a mut Vec<WalkNode>,
    apart: &'a mut Vec<Local>,
    /// The id of the node that they are made for.
    id: NodeId,
}

impl Stages<'_> {
    fn add(&mut self, op: Op, operands: &[Local], shape: &Shape, dtype: DType) -> Local {
        self.nodes.push(WalkNode {
            op,
            operands: SmallVec::from_slice(operands),
            shape: shape.clone(),
            dtype,
            id: self.id,
            written: 0,
        });
        (self.nodes.len() - 1) as Local
    }

    /// Turns a reduction into the second stage of itself.
    fn rewrite(&mut self, node: &mut WalkNode, plan: &Plan, source: Local) {
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
        // The shape of the results of the parts: the axis of their elements has length 1.
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
            // Known, and at most the number of elements of the row, which did not overflow.
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
            // Keep the addition in the first stage, which computes the operands.
            self.apart.push(values);
        }
        let values = self.add(Op::Reshape, &[values], &second, dtype);
        if best == op {
            node.operands = SmallVec::from_slice(&[values]);
            return;
        }
        let places = self.add(Op::Reduce(op), &[of_parts], &partial, DType::I64);
        let places = self.with_part_starts(places, &partial, plan);
        let places = self.add(Op::Reshape, &[places], &second, DType::I64);
        // The first index of those with the best value.
        let found = self.add(Op::Reduce(best), &[values], &node.shape, dtype);
        let found = self.add(Op::Broadcast, &[found], &second, dtype);
        let mut is_best = self.compare(CompareOp::Eq, [values, found], &second);
        if dtype.is_float() {
            // If an element is NaN the best value is NaN, which equals nothing.
            let is_nan = self.compare(CompareOp::Ne, [values, values], &second);
            let or = Op::Binary(BinaryOp::Or);
            is_best = self.add(or, &[is_best, is_nan], &second, DType::Bool);
        }
        let none = self.number(i64::MAX, &second);
        let chosen = self.add(Op::Select, &[is_best, places, none], &second, DType::I64);
        node.op = Op::Reduce(ReduceOp::Min);
        node.operands = SmallVec::from_slice(&[chosen]);
    }

    /// Adds the parts of an axis. Parts of sums and products contain each element once.
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

    /// Adds, for each of the last parts, one element of the remainder behind equal parts, and for the other parts the
    /// neutral element.
    #[expect(
        clippy::too_many_arguments,
        reason = "the operand, its split, and the result"
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
        // As many of the last elements of the axis as there are parts; those that belong to a part already are masked.
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

    /// Adds the neutral element of a sum or product.
    fn neutral(&mut self, op: ReduceOp, shape: &Shape, dtype: DType) -> Local {
        let neutral = u32::from(op == ReduceOp::Prod);
        // 0 and 1 of an integer type are their own bits.
        let bits = Literal::from(neutral).bits(dtype);
        let bits = bits.unwrap_or(u64::from(neutral));
        self.add(Op::Const(bits), &[], shape, dtype)
    }

    /// Turns indices within parts into indices within the row: adds the start of each part.
    fn with_part_starts(&mut self, mut places: Local, shape: &Shape, plan: &Plan) -> Local {
        // The stride of each axis within the row, from the fastest axis.
        let mut stride = 1;
        let mut begins: Vec<(usize, i64)> = Vec::new();
        let cut = plan.cut().map(|(axis, _)| axis);
        for (axis, reduced) in plan.reduced.iter().enumerate().rev() {
            let Some((length, share, _)) = reduced else {
                continue;
            };
            // Behind the cut axis the shape has one axis more.
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
