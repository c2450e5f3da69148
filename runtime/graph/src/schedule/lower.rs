//! From a group to a nest: places become accesses, whose strides and offsets are launch words.

use std::collections::HashMap;

use millstream_ir::nest::{
    Access, AccessId, Buffer, BufferMode, Level, Nest, Op as Ir, Scatter, Store, Stride, Value,
    ValueId, Word,
};

use crate::schedule::axes::{Affine, Axes, AxisId};
use crate::schedule::group::{Group, ReachId, Sink};
use crate::schedule::item::WordValue;
use crate::schedule::walk::{Local, Walk};
use crate::size::Size;

/// A loop of a nest: an axis of the group, or several that are walked as one by the fastest of them; none for length 1.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) axis: Option<AxisId>,
    pub(crate) length: Size,
}

/// How a buffer is walked, before words are given out.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Walked {
    pub(crate) buffer: u16,
    pub(crate) place: Affine,
}

/// A nest while it is made.
pub(crate) struct NestBuilder<'a> {
    pub(super) walk: &'a Walk,
    pub(super) axes: &'a Axes,
    /// A node that is stored to in the buffer of another: the two are one buffer.
    same: Option<(Local, Local)>,
    /// The buffers, as nodes whose buffer it is.
    pub(crate) buffers: Vec<Local>,
    modes: Vec<BufferMode>,
    pub(crate) walked: Vec<Walked>,
    pub(super) values: Vec<Value>,
    /// The value of each reach.
    pub(super) of_reach: HashMap<ReachId, ValueId>,
    /// Words behind those of lengths and accesses, which are given out last: values name them by their place here.
    pub(super) words: Vec<WordValue>,
    /// Axes whose index is a value.
    pub(super) indexed: Vec<AxisId>,
    stores: Vec<Store>,
    /// Nodes that are read.
    pub(crate) reads: Vec<Local>,
}

/// A nest, and what a launch of it brings.
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
            same: None,
            buffers: Vec::new(),
            modes: Vec::new(),
            walked: Vec::new(),
            values: Vec::new(),
            of_reach: HashMap::new(),
            words: Vec::new(),
            indexed: Vec::new(),
            stores: Vec::new(),
            reads: Vec::new(),
        }
    }

    /// The buffer of a node, as one that is touched so.
    pub(crate) fn buffer(&mut self, node: Local, mode: BufferMode) -> u16 {
        let node = match self.same {
            Some((stored, base)) if stored == node => base,
            _ => node,
        };
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

    /// An access of a node's buffer.
    pub(crate) fn access(
        &mut self,
        node: Local,
        place: &Affine,
        mode: BufferMode,
    ) -> Option<AccessId> {
        let buffer = self.buffer(node, mode);
        let place = self.axes.resolve(place)?;
        let walked = Walked { buffer, place };
        let found = self.walked.iter().position(|known| *known == walked);
        Some(match found {
            Some(index) => index as AccessId,
            None => {
                self.walked.push(walked);
                (self.walked.len() - 1) as AccessId
            }
        })
    }

    /// Stores a value of the group where it belongs.
    pub(crate) fn store(&mut self, sink: &Sink) -> Option<()> {
        let dtype = self.walk.node(sink.node).dtype;
        let value = self.stored(sink.value, dtype)?;
        let mode = if sink.stores_in_part(self.walk) {
            BufferMode::Update
        } else {
            BufferMode::Write
        };
        let access = self.access(sink.node, &sink.address, mode)?;
        let scatter = match &sink.scatter {
            None => None,
            Some((index, stride, length, adds)) => {
                let index = *self.of_reach.get(index)?;
                let stride = if stride.is(1) {
                    Stride::One
                } else {
                    Stride::Word(self.word(WordValue::Size(stride.clone())))
                };
                let len = self.word(WordValue::Size(length.clone()));
                // Values go over, or are added to, what another item fills the buffer with: that comes first.
                self.reads.push(sink.node);
                Some(Scatter {
                    index,
                    stride,
                    len,
                    adds: *adds,
                })
            }
        };
        let moves = self.walked[usize::from(access)]
            .place
            .terms
            .iter()
            .any(|(axis, _)| self.axes.inner().contains(axis));
        // A store of no elements may not move although its value does.
        let level = if moves || scatter.is_some() || self.is_inner(value) {
            Level::Inner
        } else {
            Level::Outer
        };
        self.stores.push(Store {
            access,
            value,
            level,
            scatter,
        });
        Some(())
    }

    /// Whether a value differs within a row.
    fn is_inner(&self, value: ValueId) -> bool {
        let inner = self.axes.inner();
        let order = || self.axes.outer().into_iter().chain(inner.iter().copied());
        let moves = |access: AccessId| {
            let place = &self.walked[usize::from(access)].place;
            place.terms.iter().any(|(axis, _)| inner.contains(axis))
        };
        let mut known: Vec<bool> = Vec::with_capacity(usize::from(value) + 1);
        for value in &self.values[..=usize::from(value)] {
            let of_operands = || value.op.operands().iter().any(|id| known[usize::from(*id)]);
            let is_inner = match &value.op {
                Ir::Reduce(..) => false,
                Ir::Index(place) => order()
                    .nth(usize::from(*place))
                    .is_some_and(|axis| inner.contains(&axis)),
                Ir::Load(access) => moves(*access),
                Ir::Gather { access, .. } => moves(*access) || of_operands(),
                _ => of_operands(),
            };
            known.push(is_inner);
        }
        known.last().copied().unwrap_or(false)
    }

    /// Does it load from a buffer that it stores to, elsewhere than where it stores?
    fn reads_what_it_stores(&self) -> bool {
        let Some(store) = self.stores.first() else {
            return false;
        };
        let stored = &self.walked[usize::from(store.access)];
        let loaded = |value: &Value| match &value.op {
            Ir::Load(access) => {
                self.walked[usize::from(*access)] != *stored || store.scatter.is_some()
            }
            Ir::Gather { .. } => true,
            _ => false,
        };
        let of_the_same = |value: &&Value| match &value.op {
            Ir::Load(access) | Ir::Gather { access, .. } => {
                self.walked[usize::from(*access)].buffer == stored.buffer
            }
            _ => false,
        };
        self.values.iter().filter(of_the_same).any(loaded)
    }

    /// Loops over these axes, of which those that every access walks as one are one.
    pub(crate) fn loops(&self, axes: &[AxisId], others: &[Walked]) -> Option<Vec<Loop>> {
        let mut loops: Vec<Loop> = Vec::with_capacity(axes.len());
        for axis in axes {
            let length = self.axes.length(*axis).clone();
            if let Some(before) = loops.last_mut()
                && let Some(slow) = before.axis
                && !self.indexed.contains(axis)
                && !self.indexed.contains(&slow)
            {
                let mut together = true;
                for walked in self.walked.iter().chain(others) {
                    let step = walked.place.factor(*axis).times(&length)?;
                    together &= walked.place.factor(slow) == step;
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

    /// The nest over these loops.
    pub(crate) fn finish(mut self, outer: &[Loop], inner: &[Loop]) -> Lowered {
        let order: Vec<AxisId> = self
            .axes
            .outer()
            .into_iter()
            .chain(self.axes.inner())
            .collect();
        let loops: Vec<&Loop> = outer.iter().chain(inner).collect();
        let mut words: Vec<WordValue> = loops
            .iter()
            .map(|it| WordValue::Size(it.length.clone()))
            .collect();
        let mut accesses: Vec<Access> = Vec::with_capacity(self.walked.len());
        for (index, walked) in self.walked.iter().enumerate() {
            // What is walked alike has the same words.
            let alike = self.walked[..index]
                .iter()
                .position(|known| known.place == walked.place);
            accesses.push(match alike {
                Some(known) => Access {
                    buffer: walked.buffer,
                    ..accesses[known].clone()
                },
                None => accessed(walked, &loops, &mut words),
            });
        }
        // The words of values come behind.
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
        let nest = Nest {
            outer: outer.len(),
            inner: inner.len(),
            words: words.len(),
            buffers: buffers.collect(),
            accesses,
            values: self.values,
            stores: self.stores,
        };
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

/// An access over loops, with words for what must be known when it is launched.
fn accessed(walked: &Walked, loops: &[&Loop], words: &mut Vec<WordValue>) -> Access {
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

/// The nest of a group that is no product. `base` is the node whose buffer the sink's is, if there is one.
pub(crate) fn lower_nest(walk: &Walk, group: &Group, base: Option<Local>) -> Option<Lowering> {
    let mut builder = NestBuilder::new(walk, &group.axes);
    builder.same = base.map(|base| (group.sink.node, base));
    builder.members(&group.members)?;
    for sink in group.sinks() {
        builder.store(sink)?;
    }
    if builder.reads_what_it_stores() {
        return Some(Lowering::Conflict);
    }
    let outer = builder.loops(&group.axes.outer(), &[])?;
    let inner = builder.loops(&group.axes.inner(), &[])?;
    Some(Lowering::Nest(Box::new(builder.finish(&outer, &inner))))
}

/// What became of a group.
pub(crate) enum Lowering {
    /// A nest.
    Nest(Box<Lowered>),
    /// It loads elements of the buffer that it stores to from other places than it stores them to: its value needs a buffer of
    /// its own first.
    Conflict,
}
