//! Turns a group into a nest: places become accesses, whose strides and offsets are launch words.

use std::collections::HashMap;

use millstream_ir::nest::{
    Access, AccessId, Buffer, BufferMode, Level, Nest, Op as Ir, Scatter, Store, Stride, Value,
    ValueId, Word,
};

use crate::schedule::axes::{Affine, Axes, AxisId};
use crate::schedule::group::{Group, Sink, UseId};
use crate::schedule::item::WordValue;
use crate::schedule::walk::{Local, Walk};
use crate::size::Size;

/// A loop of a nest: an axis of the group, or several joined ones, named by the fastest; no axis for a loop of length
/// 1.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) axis: Option<AxisId>,
    pub(crate) length: Size,
}

/// An access to a buffer, before launch words are assigned.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PlaceAccess {
    pub(crate) buffer: u16,
    pub(crate) place: Affine,
}

/// A nest under construction.
pub(crate) struct NestBuilder<'a> {
    pub(super) walk: &'a Walk,
    pub(super) axes: &'a Axes,
    /// The nodes that name the buffers.
    pub(crate) buffers: Vec<Local>,
    modes: Vec<BufferMode>,
    pub(crate) places: Vec<PlaceAccess>,
    pub(super) values: Vec<Value>,
    /// The value of each use.
    pub(super) value_of: HashMap<UseId, ValueId>,
    /// The words of values. Values name them by their index here; `finish` puts them behind the words of lengths and
    /// accesses.
    pub(super) words: Vec<WordValue>,
    /// Axes whose index is used as a value. They are not joined with others.
    pub(super) indexed: Vec<AxisId>,
    stores: Vec<Store>,
    /// The nodes that the nest reads.
    pub(crate) reads: Vec<Local>,
}

/// A nest, with the bindings and words of its launch.
pub(crate) struct Lowered {
    pub(crate) nest: Nest,
    pub(crate) buffers: Vec<Local>,
    pub(crate) words: Vec<WordValue>,
    pub(crate) reads: Vec<Local>,
}

impl<'a> NestBuilder<'a> {
    pub(crate) fn new(walk: &'a Walk, axes: &'a Axes) -> Self {
        Self {
            walk,
            axes,
            buffers: Vec::new(),
            modes: Vec::new(),
            places: Vec::new(),
            values: Vec::new(),
            value_of: HashMap::new(),
            words: Vec::new(),
            indexed: Vec::new(),
            stores: Vec::new(),
            reads: Vec::new(),
        }
    }

    /// Returns the buffer of a node. Two different modes make it [`BufferMode::Update`].
    pub(crate) fn buffer(&mut self, node: Local, mode: BufferMode) -> u16 {
        let found = self.buffers.iter().position(|known| *known == node);
        match found {
            Some(index) => {
                if self.modes[index] != mode {
                    self.modes[index] = BufferMode::Update;
                }
                index as u16
            }
            None => {
                self.buffers.push(node);
                self.modes.push(mode);
                (self.buffers.len() - 1) as u16
            }
        }
    }

    /// Returns the access to this place of a node's buffer.
    pub(crate) fn access(&mut self, node: Local, place: &Affine, mode: BufferMode) -> AccessId {
        let buffer = self.buffer(node, mode);
        let place = place.clone();
        let walked = PlaceAccess { buffer, place };
        let found = self.places.iter().position(|known| *known == walked);
        found.unwrap_or_else(|| {
            self.places.push(walked);
            self.places.len() - 1
        }) as AccessId
    }

    /// Stores a value of the group.
    pub(crate) fn store(&mut self, sink: &Sink) -> Option<()> {
        let node = self.walk.node(sink.node);
        let value = self.stored(sink.value, node.dtype)?;
        let mode = if sink.stores_in_part(self.walk) {
            BufferMode::Update
        } else {
            BufferMode::Write
        };
        let access = self.access(node.base().unwrap_or(sink.node), &sink.address, mode);
        let scatter = match &sink.scatter {
            None => None,
            Some((index, stride, length, adds)) => {
                let index = *self.value_of.get(index)?;
                let stride = self.stride(stride);
                let len = self.word(WordValue::Size(length.clone()));
                // A scatter stores over or adds to the content of the buffer, so the item that fills it comes first.
                self.reads.push(sink.node);
                Some(Scatter {
                    index,
                    stride,
                    len,
                    adds: *adds,
                })
            }
        };
        self.stores.push(Store {
            access,
            value,
            // `finish` sets it.
            level: Level::Inner,
            scatter,
        });
        Some(())
    }

    /// Returns `true` if the nest loads other elements of a buffer than it stores to the buffer at the same index.
    fn reads_what_it_stores(&self) -> bool {
        let Some(store) = self.stores.first() else {
            return false;
        };
        let stored = &self.places[usize::from(store.access)];
        self.values.iter().any(|value| {
            let is_gathered = matches!(value.op, Ir::Gather { .. });
            let loaded = value
                .op
                .access()
                .map(|access| &self.places[usize::from(access)]);
            loaded.is_some_and(|loaded| {
                let differs = is_gathered || loaded != stored || store.scatter.is_some();
                loaded.buffer == stored.buffer && differs
            })
        })
    }

    /// Returns loops over these axes. Consecutive axes that every access walks with a common stride become one loop.
    pub(crate) fn loops(&self, axes: &[AxisId], others: &[&Affine]) -> Option<Vec<Loop>> {
        let mut loops: Vec<Loop> = Vec::with_capacity(axes.len());
        for axis in axes {
            let length = self.axes.length(*axis).clone();
            if let Some(before) = loops.last_mut()
                && let Some(slow) = before.axis
                && !self.indexed.contains(axis)
                && !self.indexed.contains(&slow)
            {
                let mut together = true;
                let walked = self.places.iter().map(|walked| &walked.place);
                for place in walked.chain(others.iter().copied()) {
                    let step = place.factor(*axis).times(&length)?;
                    together &= place.factor(slow) == step;
                }
                if together {
                    before.length = before.length.times(&length)?;
                    before.axis = Some(*axis);
                    continue;
                }
            }
            loops.push(Loop {
                axis: Some(*axis),
                length,
            });
        }
        Some(loops)
    }

    /// Builds the nest over these loops.
    pub(crate) fn finish(mut self, outer: &[Loop], inner: &[Loop]) -> Lowered {
        let order = self.axes.all();
        let loops: Vec<&Loop> = outer.iter().chain(inner).collect();
        let mut words: Vec<WordValue> = loops
            .iter()
            .map(|it| WordValue::Size(it.length.clone()))
            .collect();
        let mut accesses: Vec<Access> = Vec::with_capacity(self.places.len());
        for (index, walked) in self.places.iter().enumerate() {
            // Equal places share their words.
            let alike = self.places[..index]
                .iter()
                .position(|known| known.place == walked.place);
            accesses.push(match alike {
                Some(known) => Access {
                    buffer: walked.buffer,
                    ..accesses[known].clone()
                },
                None => access_words(walked, &loops, &mut words),
            });
        }
        // The words of values come last.
        let first = words.len() as Word;
        words.append(&mut self.words);
        for value in &mut self.values {
            match &mut value.op {
                Ir::Word(word) => *word += first,
                Ir::Random { seed, .. } => *seed += first,
                Ir::Gather { stride, len, .. } => {
                    *len += first;
                    shift(stride, first);
                }
                Ir::Index(place) => {
                    let axis = order[usize::from(*place)];
                    let found = loops.iter().position(|it| it.axis == Some(axis));
                    *place = found.unwrap_or(0) as u16;
                }
                _ => {}
            }
        }
        for store in &mut self.stores {
            if let Some(scatter) = &mut store.scatter {
                scatter.len += first;
                shift(&mut scatter.stride, first);
            }
        }
        let modes = self.buffers.iter().zip(&self.modes);
        let buffers = modes.map(|(node, mode)| Buffer {
            dtype: self.walk.node(*node).dtype,
            mode: *mode,
        });
        let mut nest = Nest {
            outer: outer.len(),
            inner: inner.len(),
            words: words.len(),
            buffers: buffers.collect(),
            accesses,
            values: self.values,
            stores: self.stores,
        };
        // The place of a store of no elements may not depend on the inner loops although the value does.
        let levels = nest.levels();
        for at in 0..nest.stores.len() {
            let store = &nest.stores[at];
            let differs = nest
                .access_level(store.access)
                .max(levels[usize::from(store.value)]);
            if store.scatter.is_none() {
                nest.stores[at].level = differs;
            }
        }
        self.reads.sort_unstable();
        self.reads.dedup();
        Lowered {
            nest,
            buffers: self.buffers,
            words,
            reads: self.reads,
        }
    }
}

fn shift(stride: &mut Stride, first: Word) {
    if let Stride::Word(word) = stride {
        *word += first;
    }
}

/// Returns an access over loops. Strides and offsets that are known only at launch become words.
fn access_words(walked: &PlaceAccess, loops: &[&Loop], words: &mut Vec<WordValue>) -> Access {
    let mut word = |size: Size| {
        words.push(WordValue::Size(size));
        (words.len() - 1) as Word
    };
    let constant = &walked.place.constant;
    let offset = (!constant.is(0)).then(|| word(constant.clone()));
    let strides = loops.iter().map(|it| {
        let factor = it.axis.map_or(Size::ZERO, |axis| walked.place.factor(axis));
        match factor.known() {
            Some(0) => Stride::Zero,
            Some(1) => Stride::One,
            _ => Stride::Word(word(factor)),
        }
    });
    let strides = strides.collect();
    Access {
        buffer: walked.buffer,
        offset,
        strides,
    }
}

/// Lowers a group without a product to a nest. Returns `Some(None)` if it loads elements of the buffer that it stores to
/// from other places than it stores them to, and `None` if a size overflows.
pub(crate) fn lower_nest(walk: &Walk, group: &Group) -> Option<Option<Lowered>> {
    let mut builder = NestBuilder::new(walk, &group.axes);
    builder.members(&group.members)?;
    for sink in &group.sinks {
        builder.store(sink)?;
    }
    if builder.reads_what_it_stores() {
        return Some(None);
    }
    let outer = builder.loops(&group.axes.outer(), &[])?;
    let inner = builder.loops(&group.axes.inner(), &[])?;
    Some(Some(builder.finish(&outer, &inner)))
}
