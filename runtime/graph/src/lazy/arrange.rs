//! Rearranging elements along an axis: padding, reversal, repetition, rotation; and running sums.

use millstream_ir::DType;

use crate::error::{By, why};
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::axis_of;
use crate::lazy::reduce::Over;
use crate::literal::Literal;
use crate::shape::Shape;
use crate::size::Size;

/// The number of elements of a running sum that are added one by one; longer sums are composed of such blocks.
const BLOCK: i64 = 64;

impl LazyBuffer {
    /// Adds `before` and `after` elements of a value at the ends of an axis.
    #[track_caller]
    pub fn pad(
        &self,
        axis: isize,
        before: impl Into<Size>,
        after: impl Into<Size>,
        value: impl Into<Literal>,
    ) -> LazyBuffer {
        let (before, after, value) = (before.into(), after.into(), value.into());
        let by = By::new("pad");
        LazyBuffer::composed(by, &[self], || {
            let shape = self.shape();
            let place = axis_of(axis, shape.rank())?;
            let value = self.number(by, value);
            let edge = |length: Size| {
                let mut lengths = shape.to_vec();
                lengths[place] = length;
                value.broadcast_to(lengths)
            };
            Ok(LazyBuffer::cat([&edge(before), self, &edge(after)], axis))
        })
    }

    /// Reverses the elements along an axis.
    #[track_caller]
    pub fn flip(&self, axis: isize) -> LazyBuffer {
        self.moved(By::new("flip"), axis, |index, last| last - index)
    }

    /// Rotates the elements along an axis by `by` places: `result[i] = self[i - by]`, with indices modulo the length.
    #[track_caller]
    pub fn roll(&self, axis: isize, by: isize) -> LazyBuffer {
        let length = axis_of(axis, self.rank()).ok();
        let length = length.and_then(|axis| self.shape()[axis].known());
        let called = By::new("roll");
        self.moved(called, axis, |index, last| match length {
            Some(length) => {
                let from = (-(by as i64)).rem_euclid(length.max(1));
                (index + from) % length.max(1)
            }
            // A remainder has the sign of the dividend.
            None => {
                let length = last + 1;
                ((index - by as i64) % &length + &length) % &length
            }
        })
    }

    /// Gathers elements along an axis, by an index that `from` computes from the index there and the last one.
    fn moved(
        &self,
        by: By,
        axis: isize,
        from: impl FnOnce(LazyBuffer, LazyBuffer) -> LazyBuffer,
    ) -> LazyBuffer {
        LazyBuffer::composed(by, &[self], || {
            let Some(graph) = self.graph() else {
                return Ok(self.clone());
            };
            let shape = self.shape();
            let place = axis_of(axis, shape.rank())?;
            let last = match shape[place].known() {
                Some(length) => graph.constant(DType::I64, length - 1),
                None => graph.length_value(&shape[place]) - 1,
            };
            Ok(self.gather(axis, &from(graph.index(&shape, axis), last)))
        })
    }

    /// Repeats each element along an axis `times` times, one after the other.
    #[track_caller]
    pub fn repeat(&self, axis: isize, times: impl Into<Size>) -> LazyBuffer {
        let times = times.into();
        LazyBuffer::composed(By::new("repeat"), &[self], || {
            let shape = self.shape();
            let place = axis_of(axis, shape.rank())?;
            let length = shape[place].times(&times).ok_or(why::TOO_LARGE)?;
            let (mut apart, mut merged) = (shape.to_vec(), shape.to_vec());
            apart.insert(place + 1, times);
            merged[place] = length;
            let single = self.unsqueeze(place as isize + 1);
            Ok(single.broadcast_to(apart).reshape(merged))
        })
    }

    /// Returns running sums along an axis: `result[i] = self[0] + .. + self[i]`. Sums of integers wrap.
    ///
    /// With a known length it takes about 64 additions for each element, in passes over ever fewer sums of blocks; with
    /// a symbolic length, half the maximum.
    #[track_caller]
    pub fn cumsum(&self, axis: isize) -> LazyBuffer {
        LazyBuffer::composed(By::new("cumsum"), &[self], || {
            let rank = self.rank();
            let (place, last) = (axis_of(axis, rank)? as isize, rank as isize - 1);
            if self.dtype() == DType::Bool {
                return Err(why::dtype(DType::Bool));
            }
            Ok(self.widened(|wide| {
                let sums = wide.transpose(place, last).running_sums();
                sums.transpose(place, last)
            }))
        })
    }

    /// Returns running sums along the last axis.
    #[track_caller]
    fn running_sums(&self) -> LazyBuffer {
        let (shape, last) = (self.shape(), self.rank() as isize - 1);
        let length = match shape.last().and_then(Size::known) {
            Some(length) if length > BLOCK => length,
            _ => return self.masked_sums(),
        };
        let blocks = (length + BLOCK - 1) / BLOCK;
        let whole = self.pad(last, 0, blocks * BLOCK - length, 0);
        let sums = whole.split_axis(last, [blocks, BLOCK]).masked_sums();
        let of_blocks = sums.narrow(last + 1, BLOCK - 1, 1).squeeze(last + 1);
        // The sums of all blocks before each block.
        let before = of_blocks.narrow(last, 0, blocks - 1).running_sums();
        let before = before.pad(last, 1, 0, 0).unsqueeze(last + 1);
        (sums + before)
            .merge_axes(last, last + 1)
            .narrow(last, 0, length)
    }

    /// Computes each running sum along the last axis independently. Elements behind a sum are masked, not multiplied by
    /// zero, so infinities do not spread.
    #[track_caller]
    fn masked_sums(&self) -> LazyBuffer {
        let (shape, rank) = (self.shape(), self.rank());
        let (Some(graph), Some(length)) = (self.graph(), shape.last()) else {
            return self.clone();
        };
        let square = Shape::from([&shape[..], std::slice::from_ref(length)].concat());
        let row = graph.index(&square, rank as isize - 1);
        let column = graph.index(&square, rank as isize);
        let columns = self.unsqueeze(rank as isize - 1);
        let seen = column.less_equal(&row).select(&columns, 0);
        seen.sum(Over::from(-1).dropped())
    }
}
