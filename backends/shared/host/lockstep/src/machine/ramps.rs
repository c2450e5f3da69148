//! Affine values: comparisons, and runs of threads whose values are at equal distances.

use std::ops::Range;

use millstream_ir::CompareOp;

use super::Machine;
use super::active::Active;
use crate::code::{Affine, Operand};

/// Values at equal distances, exact: `base + stride * thread` of the chunk.
#[derive(Clone, Copy)]
pub(super) struct Ramp {
    pub(super) base: i128,
    pub(super) stride: i128,
}

/// Threads of a chunk, and their values modulo 2^64.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) thread: usize,
    pub(super) len: usize,
    pub(super) first: i64,
    pub(super) stride: i64,
}

impl Ramp {
    fn value(self, thread: usize) -> i128 {
        self.base + self.stride * thread as i128
    }

    /// Returns the first thread from `first` on for which a condition is false, which is true for those before it and false
    /// for those behind it.
    fn partition(first: usize, end: usize, holds: impl Fn(usize) -> bool) -> usize {
        // Mostly it is all of them or none.
        if holds(end - 1) {
            return end;
        }
        if !holds(first) {
            return first;
        }
        let (mut first, mut end) = (first, end - 1);
        while end - first > 1 {
            let middle = usize::midpoint(first, end);
            match holds(middle) {
                true => first = middle,
                false => end = middle,
            }
        }
        end
    }

    /// Returns the threads for which a comparison is true, if they follow each other.
    pub(super) fn range(self, op: CompareOp, with: i128, active: Active) -> Option<Range<usize>> {
        let Active { first, end, .. } = active;
        let ramp = match self.stride < 0 {
            // The same with the opposite of all values.
            true => Self {
                base: -self.base,
                stride: -self.stride,
            },
            false => self,
        };
        let (op, with) = match self.stride < 0 {
            true => (mirrored(op), -with),
            false => (op, with),
        };
        let below = || Self::partition(first, end, |thread| ramp.value(thread) < with);
        let up_to = || Self::partition(first, end, |thread| ramp.value(thread) <= with);
        Some(match op {
            CompareOp::Lt => first..below(),
            CompareOp::Le => first..up_to(),
            CompareOp::Gt => up_to()..end,
            CompareOp::Ge => below()..end,
            CompareOp::Eq => below()..up_to(),
            _ => return None,
        })
    }
}

/// Returns the comparison of the opposite values.
fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        op => op,
    }
}

impl Machine<'_> {
    /// Returns the distance of each thread's value from that of the thread before it, if it is the same for all.
    pub(super) fn stride(&self, value: Affine) -> Option<i64> {
        let threads = self.code.function.threads;
        let mut found: Option<(u64, u64)> = None;
        for (threads, stride) in threads.into_iter().zip(value.strides) {
            let (threads, stride) = (u64::from(threads), || self.get(stride));
            if threads == 1 {
                continue;
            }
            found = match found {
                None => Some((stride(), threads)),
                Some((unit, extent)) if stride() == unit.wrapping_mul(extent) => {
                    Some((unit, extent * threads))
                }
                Some(_) => return None,
            };
        }
        Some(found.map_or(0, |(stride, _)| stride as i64))
    }

    /// Returns an affine value as exact numbers, if it is linear and no active thread's value wraps around in `u64` or
    /// `i64`.
    pub(super) fn exact(&self, value: Affine, active: Active, unsigned: bool) -> Option<Ramp> {
        let stride = i128::from(self.stride(value)?);
        let base = i128::from(self.get(value.base) as i64) + stride * self.first as i128;
        let ramp = Ramp { base, stride };
        let least = if unsigned { 0 } else { i64::MIN.into() };
        let range = least..=i128::from(i64::MAX);
        let is_exact = |thread| range.contains(&ramp.value(thread));
        (is_exact(active.first) && is_exact(active.end - 1)).then_some(ramp)
    }

    /// Calls `f` with the runs of threads between the first active one and the end, until it returns `false`. Returns
    /// whether it never does.
    pub(super) fn runs(
        &self,
        value: Affine,
        active: Active,
        mut f: impl FnMut(Run) -> bool,
    ) -> bool {
        let Active { first, end, .. } = active;
        if let Some(stride) = self.stride(value) {
            let base = self.get(value.base) as i64;
            let offset = stride.wrapping_mul((self.first + first) as i64);
            return f(Run {
                thread: first,
                len: end - first,
                first: base.wrapping_add(offset),
                stride,
            });
        }
        // Row by row.
        let row = self.code.function.threads[0] as usize;
        let stride = self.get(value.strides[0]) as i64;
        let mut thread = first;
        while thread < end {
            let len = (row - (self.first + thread) % row).min(end - thread);
            let run = Run {
                thread,
                len,
                first: self.affine(value, thread),
                stride,
            };
            if !f(run) {
                return false;
            }
            thread += len;
        }
        true
    }

    /// Writes an affine value to a column.
    pub(super) fn ramp(&self, to: Operand, value: Affine, active: Active) {
        self.runs(value, active, |run| {
            let d = self.pointer(to, run.thread);
            let (first, stride) = (
                (&raw const run.first).cast(),
                (&raw const run.stride).cast(),
            );
            // SAFETY: the column has an element for each thread.
            unsafe { (self.code.loops.ramp)(d, first, stride, stride, run.len) };
            true
        });
    }
}
