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

use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, scalar};
use smallvec::{SmallVec, smallvec};

use crate::lazy::node::Op;
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
            let source = place(&plan.source);
            Stages(&mut walk).rewrite(&mut node, plan, source);
        }
        places.push(walk.add(node));
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
struct Stages<'a>(&'a mut Walk);

impl Stages<'_> {
    fn add(&mut self, op: Op, operands: &[Local], shape: &Shape, dtype: DType) -> Local {
        self.0.add(WalkNode {
            op,
            operands: SmallVec::from_slice(operands),
            shape: shape.clone(),
            dtype,
            written: 0,
        })
    }

    /// Adds a node with the shape and, unless it is a comparison, the type of its last operand.
    fn like<const N: usize>(&mut self, op: Op, operands: [Local; N]) -> Local {
        let last = self.0.node(operands[N - 1]);
        let (shape, dtype) = (last.shape.clone(), last.dtype);
        let dtype = match op {
            Op::Compare(_) => DType::Bool,
            _ => dtype,
        };
        self.add(op, &operands, &shape, dtype)
    }

    /// Adds a view of another shape.
    fn view(&mut self, op: Op, of: Local, shape: &Shape) -> Local {
        let dtype = self.0.node(of).dtype;
        self.add(op, &[of], shape, dtype)
    }

    fn index(&mut self, axis: usize, shape: &Shape) -> Local {
        self.add(Op::Index(axis), &[], shape, DType::I64)
    }

    fn number(&mut self, value: i64, shape: &Shape) -> Local {
        self.add(Op::Const(value as u64), &[], shape, DType::I64)
    }

    /// Turns a reduction into the second stage of itself.
    fn rewrite(&mut self, node: &mut WalkNode, plan: &Plan, source: Local) {
        let Op::Reduce(op) = node.op else { return };
        let seen = self.0.node(source);
        let (dtype, whole) = (seen.dtype.computed(), seen.shape.clone());
        let of_parts = match plan.cut() {
            None => source,
            Some((axis, windows)) => {
                let length = match plan.rest(op) {
                    Some(_) => windows.step,
                    None => windows.length,
                };
                self.windows(source, axis, Windows { length, ..windows }, op)
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
        let best = match op {
            ReduceOp::ArgMax => ReduceOp::Max,
            ReduceOp::ArgMin => ReduceOp::Min,
            op => op,
        };
        let mut values = self.add(Op::Reduce(best), &[of_parts], &partial, dtype);
        if let Some((axis, windows)) = plan.rest(op) {
            let rest = self.rest(source, axis, windows, op, &partial);
            let both = match op {
                ReduceOp::Prod => BinaryOp::Mul,
                _ => BinaryOp::Add,
            };
            values = self.add(Op::Binary(both), &[values, rest], &partial, dtype);
            // Keep the addition in the first stage, which computes the operands.
            self.0.apart.insert(values);
        }
        let values = self.view(Op::Reshape, values, &second);
        if best == op {
            node.operands = smallvec![values];
            return;
        }
        let places = self.add(Op::Reduce(op), &[of_parts], &partial, DType::I64);
        let places = self.with_part_starts(places, &partial, plan);
        let places = self.view(Op::Reshape, places, &second);
        // The first index of those with the best value.
        let found = self.add(Op::Reduce(best), &[values], &node.shape, dtype);
        let found = self.view(Op::Broadcast, found, &second);
        let mut is_best = self.like(Op::Compare(CompareOp::Eq), [values, found]);
        if dtype.is_float() {
            // If an element is NaN the best value is NaN, which equals nothing.
            let is_nan = self.like(Op::Compare(CompareOp::Ne), [values, values]);
            is_best = self.like(Op::Binary(BinaryOp::Or), [is_best, is_nan]);
        }
        let none = self.number(i64::MAX, &second);
        let chosen = self.like(Op::Select, [is_best, places, none]);
        node.op = Op::Reduce(ReduceOp::Min);
        node.operands = smallvec![chosen];
    }

    /// Adds the parts of an axis. Parts of sums and products contain each element once.
    fn windows(&mut self, source: Local, axis: usize, windows: Windows, op: ReduceOp) -> Local {
        let mut shape = self.0.node(source).shape.to_vec();
        shape[axis] = Size::fixed(windows.parts);
        shape.insert(axis + 1, Size::fixed(windows.length));
        let shape = Shape::new(shape);
        let step = windows.step;
        let parts = self.view(Op::Parts { axis, step }, source, &shape);
        if windows.overlap() == 0 || !matches!(op, ReduceOp::Sum | ReduceOp::Prod) {
            return parts;
        }
        let (part, place) = (self.index(axis, &shape), self.index(axis + 1, &shape));
        let last = self.number(windows.parts - 1, &shape);
        let is_last = self.like(Op::Compare(CompareOp::Eq), [part, last]);
        let length = self.number(windows.length, &shape);
        let step = self.number(step, &shape);
        let end = self.like(Op::Select, [is_last, length, step]);
        let is_own = self.like(Op::Compare(CompareOp::Lt), [place, end]);
        self.masked(is_own, parts, op)
    }

    /// Adds, for each of the last parts, one element of the remainder behind equal parts, and for the other parts the
    /// neutral element.
    fn rest(
        &mut self,
        source: Local,
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
        let mut shape = self.0.node(source).shape.to_vec();
        shape[axis] = Size::fixed(parts);
        // As many of the last elements of the axis as there are parts; those that belong to a part already are masked.
        let start = Size::fixed((parts - 1) * step + length - parts);
        let last = self.view(Op::Narrow { axis, start }, source, &Shape::new(shape));
        let last = self.view(Op::Reshape, last, partial);
        let part = self.index(axis, partial);
        let first = self.number(parts - windows.overlap(), partial);
        let has_one = self.like(Op::Compare(CompareOp::Ge), [part, first]);
        self.masked(has_one, last, op)
    }

    /// Adds values of which those that are not kept are the neutral element of a sum or product.
    fn masked(&mut self, is_kept: Local, values: Local, op: ReduceOp) -> Local {
        let node = self.0.node(values);
        let (shape, dtype) = (node.shape.clone(), node.dtype);
        let neutral = self.add(Op::Const(scalar::neutral(op, dtype)), &[], &shape, dtype);
        self.like(Op::Select, [is_kept, values, neutral])
    }

    /// Turns indices within parts into indices within the row: adds the start of each part.
    fn with_part_starts(&mut self, mut places: Local, shape: &Shape, plan: &Plan) -> Local {
        // The stride of each axis within the row, from the fastest axis.
        let mut stride = 1;
        let cut = plan.cut().map(|(axis, _)| axis);
        for (axis, reduced) in plan.reduced.iter().enumerate().rev() {
            let Some((length, share, _)) = reduced else {
                continue;
            };
            let step = match share {
                Share::Each => Some(1),
                Share::Cut(windows) => Some(windows.step),
                Share::All => None,
            };
            if let Some(step) = step {
                // Behind the cut axis the shape has one axis more.
                let axis = axis + usize::from(cut.is_some_and(|cut| cut < axis));
                let (part, by) = (self.index(axis, shape), self.number(stride * step, shape));
                let start = self.like(Op::Binary(BinaryOp::Mul), [part, by]);
                places = self.like(Op::Binary(BinaryOp::Add), [places, start]);
            }
            stride *= length;
        }
        places
    }
}
