//! Turns groups into items: programs with their bindings, and kernels of users.

use std::sync::Arc;

use millstream_ir::nest::Store;
use millstream_ir::{Nest, Program};
use smallvec::smallvec;

use crate::error::ScheduleError;
use crate::lazy::callee::Custom;
use crate::lazy::node::Op;
use crate::schedule::expression;
use crate::schedule::group::{Group, Sink};
use crate::schedule::item::{Item, ItemKind, Work, Written};
use crate::schedule::lower::{Lowered, lower_nest};
use crate::schedule::product::lower_product;
use crate::schedule::walk::{Local, Walk};
use crate::size::Size;

/// Returns the item of a group, or `None` if the group loads elements of the buffer that it stores to from other places
/// than it stores them to: its value needs a buffer of its own.
pub(super) fn lower(walk: &Walk, group: &Group) -> Result<Option<Item>, ScheduleError> {
    let made = match &walk.node(group.sink().node).op {
        Op::Custom(custom) => call(group, custom),
        _ if group.product.is_some() => lower_product(walk, group),
        _ => match lower_nest(walk, group) {
            Some(None) => return Ok(None),
            Some(Some(lowered)) => nest(walk, group, lowered),
            None => None,
        },
    };
    made.map(Some).ok_or_else(|| too_large(walk, group))
}

fn too_large(walk: &Walk, group: &Group) -> ScheduleError {
    ScheduleError::TooLarge(walk.node(group.sink().node).shape.to_string())
}

fn nest(walk: &Walk, group: &Group, lowered: Lowered) -> Option<Item> {
    let sink = walk.node(group.sink().node);
    let kind = match sink.op {
        Op::Set(_) => ItemKind::Set,
        Op::Copy => ItemKind::Copy,
        _ => ItemKind::Kernel,
    };
    let nest = &lowered.nest;
    let axes = group.axes.all();
    let elements = Size::product(axes.iter().map(|axis| group.axes.length(*axis)))?;
    let work = nest.values.len() as i64;
    let stores = group.sinks.iter().zip(&nest.stores);
    let writes = stores.map(|(sink, store)| written(nest, sink, store));
    Some(Item {
        kind,
        flops: elements.times(&Size::fixed(work))?,
        expression: expression::nest(nest, &lowered.words),
        writes: writes.collect(),
        bindings: lowered.buffers,
        merged: None,
        words: lowered.words,
        reads: lowered.reads,
        work: Work::Program(Arc::new(Program::Nest(lowered.nest))),
    })
}

/// Returns what one store of a nest writes.
fn written(nest: &Nest, sink: &Sink, store: &Store) -> Written {
    let stored = nest.accesses[usize::from(store.access)].buffer;
    Written {
        node: sink.node,
        binding: usize::from(stored),
        overwrites: !sink.partial && sink.scatter.is_none() && !loads(nest, stored),
    }
}

/// Returns `true` if the nest loads from a buffer.
fn loads(nest: &Nest, buffer: u16) -> bool {
    let mut loaded = nest.values.iter().filter_map(|value| value.op.access());
    loaded.any(|access| nest.accesses[usize::from(access)].buffer == buffer)
}

fn call(group: &Group, custom: &Arc<Custom>) -> Option<Item> {
    // Through reshapes: they have the same buffer.
    let bindings = group.arguments.iter();
    let bindings = bindings.map(|use_id| Some(group.loaded(*use_id)?.node));
    let mut bindings: Vec<Local> = bindings.collect::<Option<_>>()?;
    let reads = if custom.in_place {
        bindings[..bindings.len() - 1].to_vec()
    } else {
        let reads = bindings.clone();
        bindings.push(group.sink().node);
        reads
    };
    let kind = match (&custom.program, custom.in_place) {
        (Some(_), _) => ItemKind::Ssa,
        (None, true) => ItemKind::CustomInPlace,
        (None, false) => ItemKind::Custom,
    };
    Some(Item {
        kind,
        expression: custom.kernel.name().to_string(),
        flops: Size::ZERO,
        writes: smallvec![Written {
            node: group.sink().node,
            binding: bindings.len() - 1,
            overwrites: !custom.in_place,
        }],
        words: custom.scalars.clone(),
        reads,
        bindings,
        merged: None,
        work: Work::Custom(custom.clone()),
    })
}
