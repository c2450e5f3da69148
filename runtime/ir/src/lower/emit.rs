//! Emits the values and stores of a nest at one index.

use std::ops::Range;

use crate::nest::{Access, AccessId, Nest, Op, Scatter, Stride, ValueId, Word};
use crate::ssa::{Builder, MemoryRef, Val, Var};
use crate::{BinaryOp, CompareOp, DType, scalar};

/// Emits code for a nest.
pub(super) struct Emit<'k, 'n> {
    pub(super) k: &'k Builder,
    pub(super) nest: &'n Nest,
    /// The launch words of the nest, `u64`.
    pub(super) words: &'n [Val<'k>],
    /// The buffers of the nest.
    pub(super) buffers: Vec<MemoryRef<'k>>,
    /// The number of elements of a thread: neighbours along the last outer axis, whose index is that of the first.
    pub(super) lanes: u8,
    /// The value that a load through access 0 returns, if it is not in memory: an element of a product.
    pub(super) product: Option<Val<'k>>,
}

/// The values that are computed so far, by id.
pub(super) type Values<'k> = Vec<Option<Val<'k>>>;

impl<'k> Emit<'k, '_> {
    /// Returns a word in this type.
    pub(super) fn word(&self, word: Word, dtype: DType) -> Val<'k> {
        let bits = self.words[usize::from(word)];
        match dtype {
            DType::Bool => bits.cast(DType::U8).cast(DType::Bool),
            // The low bits, reinterpreted.
            _ => bits.cast(dtype.unsigned()).bits(dtype),
        }
    }

    /// Returns a word as `i64`.
    pub(super) fn number(&self, word: Word) -> Val<'k> {
        self.word(word, DType::I64)
    }

    /// Returns the product of the lengths of some axes.
    pub(super) fn volume(&self, axes: Range<usize>) -> Val<'k> {
        let one = self.k.constant(1);
        axes.fold(one, |volume, axis| match axis {
            _ if volume.id() == one.id() => self.number(axis as Word),
            _ => volume * self.number(axis as Word),
        })
    }

    /// As [`unravel`], for axes of the nest.
    pub(super) fn unravel(&self, axes: Range<usize>, nth: Val<'k>) -> Vec<Val<'k>> {
        unravel(axes, nth, |axis| self.number(axis as Word))
    }

    fn stride(&self, index: Val<'k>, stride: Stride) -> Option<Val<'k>> {
        match stride {
            Stride::Zero => None,
            Stride::One => Some(index),
            Stride::Word(word) => Some(index * self.number(word)),
        }
    }

    /// Returns the place of an access at an index.
    fn place(&self, access: &Access, at: &[Val<'k>]) -> Val<'k> {
        let offset = access.offset.map(|word| self.number(word));
        let steps = access.strides.iter().zip(at);
        let steps = steps.filter_map(|(stride, index)| self.stride(*index, *stride));
        let place = offset.into_iter().chain(steps).reduce(|a, b| a + b);
        place.unwrap_or_else(|| self.k.constant(0))
    }

    /// Returns `true` if an access depends on the axis of the lanes.
    fn is_wide(&self, access: &Access) -> bool {
        let last = self.nest.outer.checked_sub(1);
        let moves = last.is_some_and(|axis| access.strides[axis] != Stride::Zero);
        self.lanes > 1 && moves
    }

    fn load(&self, access: AccessId, at: &[Val<'k>]) -> Val<'k> {
        if let (0, Some(product)) = (access, self.product) {
            return product;
        }
        let access = &self.nest.accesses[usize::from(access)];
        let buffer = self.buffers[usize::from(access.buffer)];
        let lanes = if self.is_wide(access) { self.lanes } else { 1 };
        buffer.get_wide(self.place(access, at), lanes)
    }

    /// Applies `f` lane by lane, if one of these values has several lanes or `wide` is set.
    fn by_lane(
        &self,
        values: &[Val<'k>],
        wide: bool,
        f: impl Fn(&[Val<'k>], u8) -> Val<'k>,
    ) -> Val<'k> {
        let lanes = values.iter().map(|value| value.of().lanes).max();
        let lanes = if wide { self.lanes } else { lanes.unwrap_or(1) };
        if lanes == 1 {
            return f(values, 0);
        }
        let lane_of = |value: &Val<'k>, lane| match value.of().lanes {
            1 => *value,
            _ => value.lane(lane),
        };
        let made = (0..lanes).map(|lane| {
            let values = values.iter().map(|value| lane_of(value, lane));
            f(&values.collect::<Vec<_>>(), lane)
        });
        self.k.pack(&made.collect::<Vec<_>>())
    }

    /// Returns whether an index is within a gathered or scattered axis.
    fn within(&self, index: Val<'k>, len: Word) -> Val<'k> {
        let zero = self.k.constant(0);
        index.compare(CompareOp::Ge, zero) & index.lt(self.number(len))
    }

    fn gather(
        &self,
        (access, stride, len): (AccessId, Stride, Word),
        index: Val<'k>,
        at: &[Val<'k>],
    ) -> Val<'k> {
        let access = &self.nest.accesses[usize::from(access)];
        let buffer = self.buffers[usize::from(access.buffer)];
        let base = self.place(access, at);
        let wide = self.is_wide(access);
        self.by_lane(&[index], wide, |values, lane| {
            let index = values[0];
            let zero = self.k.bits(buffer.dtype(), 0);
            let found: Var<'k> = self.k.var("gathered", zero);
            // Do not load out of range: the buffer may be empty.
            self.k.when(self.within(index, len), || {
                let base = if wide { base + i64::from(lane) } else { base };
                let step = self.stride(index, stride);
                found.set(buffer.get(step.map_or(base, |step| base + step)));
            });
            found.get()
        })
    }

    /// Emits a value at an index, from the values before it. Reductions are emitted elsewhere.
    pub(super) fn value(&self, id: ValueId, at: &[Val<'k>], known: &Values<'k>) -> Val<'k> {
        let value = &self.nest.values[usize::from(id)];
        // The check of the nest and the plan guarantee that the operand exists.
        let of =
            |id: &ValueId| known[usize::from(*id)].unwrap_or_else(|| self.k.bits(DType::Bool, 0));
        match &value.op {
            Op::Const(bits) => self
                .k
                .bits(value.dtype, scalar::of_word(value.dtype, *bits)),
            Op::Word(word) => self.word(*word, value.dtype),
            Op::Index(axis) => self.index(usize::from(*axis), at),
            Op::Load(access) => self.load(*access, at),
            Op::Gather {
                access,
                index,
                stride,
                len,
            } => self.gather((*access, *stride, *len), of(index), at),
            Op::Unary(op, a) => of(a).unary(*op),
            Op::Binary(op, a, b) => {
                let [a, b] = self.same_lanes([of(a), of(b)]);
                a.binary(*op, b)
            }
            Op::Compare(op, a, b) => {
                let [a, b] = self.same_lanes([of(a), of(b)]);
                a.compare(*op, b)
            }
            Op::Select(condition, a, b) => {
                let [condition, a, b] = self.same_lanes([of(condition), of(a), of(b)]);
                condition.select(a, b)
            }
            Op::Cast(a) => of(a).cast(value.dtype),
            Op::Random { seed, counter } => {
                let counter = of(counter);
                let seed = self.word(*seed, DType::U64).splat(counter.of().lanes);
                self.k.random(seed, counter)
            }
            // The result is known before any value that uses it.
            Op::Reduce(..) => of(&id),
        }
    }

    fn index(&self, axis: usize, at: &[Val<'k>]) -> Val<'k> {
        if self.lanes == 1 || axis + 1 != self.nest.outer {
            return at[axis];
        }
        let lanes: Vec<Val<'k>> = (0..self.lanes)
            .map(|lane| self.k.constant(i64::from(lane)))
            .collect();
        at[axis].splat(self.lanes) + self.k.pack(&lanes)
    }

    /// Widens values to the number of lanes of the widest.
    pub(super) fn same_lanes<const N: usize>(&self, values: [Val<'k>; N]) -> [Val<'k>; N] {
        let lanes = values.iter().map(|value| value.of().lanes).max();
        let lanes = lanes.unwrap_or(1);
        values.map(|value| match value.of().lanes == lanes {
            true => value,
            false => value.splat(lanes),
        })
    }

    /// Emits a store at an index.
    pub(super) fn store(&self, store: usize, at: &[Val<'k>], known: &Values<'k>) {
        let store = &self.nest.stores[store];
        let access = &self.nest.accesses[usize::from(store.access)];
        let buffer = self.buffers[usize::from(access.buffer)];
        let zero = || self.k.bits(buffer.dtype(), 0);
        let value = known[usize::from(store.value)].unwrap_or_else(zero);
        let place = self.place(access, at);
        match &store.scatter {
            None => {
                let wide = self.is_wide(access) && value.of().lanes == 1;
                buffer.set(place, if wide { value.splat(self.lanes) } else { value });
            }
            Some(scatter) => {
                let index = known[usize::from(scatter.index)].unwrap_or_else(zero);
                self.scatter(scatter, buffer, place, (index, value));
            }
        }
    }

    /// Emits a scatter. Nests that scatter have one element for each thread.
    fn scatter(
        &self,
        scatter: &Scatter,
        buffer: MemoryRef<'k>,
        place: Val<'k>,
        (index, value): (Val<'k>, Val<'k>),
    ) {
        self.k.when(self.within(index, scatter.len), || {
            let step = self.stride(index, scatter.stride);
            let at = step.map_or(place, |step| place + step);
            let value = match scatter.adds {
                true => self.sum(buffer.get(at), value),
                false => value,
            };
            buffer.set(at, value);
        });
    }

    /// Returns the sum of two elements of memory: halves are added as `f32`, bools as a logical or.
    fn sum(&self, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        match a.of().dtype {
            half @ (DType::F16 | DType::Bf16) => {
                (a.cast(DType::F32) + b.cast(DType::F32)).cast(half)
            }
            DType::Bool => a.binary(BinaryOp::Or, b),
            _ => a + b,
        }
    }
}

/// Returns the index along each of some axes for a flat index, the last axis fastest.
pub(super) fn unravel<'k>(
    axes: Range<usize>,
    nth: Val<'k>,
    len: impl Fn(usize) -> Val<'k>,
) -> Vec<Val<'k>> {
    let mut rest = nth;
    let mut indices = Vec::with_capacity(axes.len());
    for axis in axes.clone().rev() {
        if axis == axes.start {
            indices.push(rest);
            break;
        }
        let len = len(axis);
        let above = rest / len;
        indices.push(rest - above * len);
        rest = above;
    }
    indices.reverse();
    indices
}
