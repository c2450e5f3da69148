//! Turns a group with a product into a [`Matmul`]: two sides, a result, and an epilogue over the axes of the result.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_ir::nest::BufferMode;
use millstream_ir::{Matmul, Program};
use smallvec::smallvec;

use crate::schedule::axes::{Affine, Axes};
use crate::schedule::expression;
use crate::schedule::group::{AccessPattern, Group, Member};
use crate::schedule::item::{Item, ItemKind, WordValue, Work, Written};
use crate::schedule::lower::{Loop, NestBuilder};
use crate::schedule::walk::{Local, Walk};
use crate::size::Size;

/// Returns the item of a group with a product.
pub(super) fn lower_product(walk: &Walk, group: &Group) -> Option<Item> {
    let product = group.product?;
    let node = walk.node(product);
    let rank = node.shape.rank();
    let side = |index: usize| match group.loaded(group.arguments[index])? {
        Member {
            node,
            pattern: AccessPattern::Flat(flat),
            ..
        } => Some((*node, flat)),
        _ => None,
    };
    let ((left_node, left), (right_node, right)) = (side(0)?, side(1)?);
    let (_, map) = Axes::of(&node.shape);
    // The lengths of the group's axes: if the product is narrowed they are shorter than its own.
    let whole = |axis: usize| {
        let axis = map[axis].terms.first().map(|(axis, _)| *axis);
        let length = axis.map_or(Size::ONE, |axis| group.axes.length(axis).clone());
        Loop { axis, length }
    };
    let k = Loop {
        axis: group.axes.inner().first().copied(),
        length: walk.node(node.operands[0]).shape[rank - 1].clone(),
    };
    let n = whole(rank - 1);
    let mut builder = NestBuilder::new(walk, &group.axes);
    let out = &group.sink().address;
    let result = builder.access(group.sink().node, out, BufferMode::Update);
    debug_assert_eq!(result, 0, "the product is the first access of its epilogue");
    let has_epilogue = group.members.iter().any(|member| member.node == product);
    if has_epilogue {
        epilogue(&mut builder, group, product)?;
    }
    // The loops over the rows of the result: batch axes and m. Loops with a common stride in every access are joined.
    let mut rows: Vec<Loop> = (0..rank - 1).map(whole).collect();
    rows.retain(|row| row.axis.is_some());
    let axes: Vec<_> = rows.iter().filter_map(|row| row.axis).collect();
    let mut rows = builder.loops(&axes, &[left, right])?;
    let m_axis = map[rank - 2].terms.first().map(|(axis, _)| *axis);
    // The last loop is m if it includes m, or if the right side does not depend on it.
    let last = rows.last().and_then(|row| row.axis);
    let is_m =
        last.is_some() && (last == m_axis || last.is_some_and(|axis| right.factor(axis).is(0)));
    if !is_m {
        rows.push(Loop {
            axis: None,
            length: Size::ONE,
        });
    }
    let batch = rows.len() - 1;
    let factor = |place: &Affine, it: &Loop| match it.axis {
        Some(axis) => place.factor(axis),
        None => Size::ZERO,
    };
    let lengths = rows.iter().chain([&n, &k]).map(|it| it.length.clone());
    let mut words: Vec<Size> = lengths.collect();
    let (batches, m) = rows.split_at(batch);
    let of_left = batches.iter().chain(m).chain([&k]);
    let of_right = batches.iter().chain([&k, &n]);
    let of_out = batches.iter().chain(m).chain([&n]);
    words.extend(of_left.map(|it| factor(left, it)));
    words.extend(of_right.map(|it| factor(right, it)));
    words.extend(of_out.map(|it| factor(out, it)));
    words.extend([left, right, out].map(|place| place.constant.clone()));
    let flops = Size::product(rows.iter().chain([&n, &k]).map(|it| &it.length))?;
    let mut words: Vec<WordValue> = words.into_iter().map(WordValue::Size).collect();
    let mut bindings = vec![left_node, right_node, group.sink().node];
    let mut reads = vec![left_node, right_node];
    let mut epilogue = None;
    if has_epilogue {
        let outer: Vec<Loop> = rows.iter().chain([&n]).cloned().collect();
        let mut lowered = builder.finish(&outer, &[]);
        words.append(&mut lowered.words);
        bindings.extend_from_slice(&lowered.buffers[1..]);
        reads.append(&mut lowered.reads);
        reads.retain(|read| *read != group.sink().node);
        epilogue = Some(lowered.nest);
    }
    reads.sort_unstable();
    reads.dedup();
    let dtype = node.dtype;
    let matmul = Matmul {
        dtype,
        batch,
        partial: group.sink().stores_in_part(walk),
        epilogue,
    };
    Some(Item {
        kind: ItemKind::Matmul,
        expression: expression::product(&matmul, &words),
        flops: flops.times(&Size::fixed(2))?,
        writes: smallvec![Written {
            node: group.sink().node,
            binding: 2,
            overwrites: !group.sink().partial,
        }],
        bindings,
        merged: None,
        words,
        reads,
        work: Work::Program(Arc::new(Program::Matmul(matmul))),
    })
}

/// Builds the epilogue: it loads the product from the place where the product stores it.
fn epilogue(builder: &mut NestBuilder<'_>, group: &Group, product: Local) -> Option<()> {
    let mut members = group.members.iter();
    let member = members.find(|member| member.node == product)?;
    let value = builder.loaded(group.sink().node, &group.sink().address);
    builder.value_of.insert(member.use_id, value);
    // Sides are values only if the stored value uses them too.
    let mut wanted = HashSet::from([group.sink().value]);
    let mut values = Vec::new();
    for member in &group.members {
        if member.node != product && wanted.contains(&member.use_id) {
            wanted.extend(&member.operands);
            values.push(member.clone());
        }
    }
    builder.members(&values)?;
    builder.store(group.sink())
}
