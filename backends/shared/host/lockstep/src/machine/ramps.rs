//! Affine values: comparisons, and runs of threads whose values are at equal distances.

use std::ops::Range;

use millstream_ir::CompareOp;

use super::Machine;
use super::active::Active;
use crate::code::{Affine, Operand, Test, varies};

/// Values at equal distances that do not wrap around: `base + stride * thread` of the chunk, exactly, for all active threads
/// and for the first thread of the chunk.
#[derive(Clone, Copy)]
pub(super) struct Ramp {
    pub(super) base: i64,
    pub(super) stride: i64,
}

/// Threads of a chunk, and their values modulo 2^64.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) thread: usize,
    pub(super) len: usize,
    pub(super) first: i64,
    pub(super) stride: i64,
}

/// Rows of threads of a chunk, and their values modulo 2^64.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) thread: usize,
    pub(super) width: usize,
    pub(super) count: usize,
    pub(super) first: i64,
    /// Within a row, and from row to row.
    pub(super) strides: [i64; 2],
}

impl Ramp {
    #[inline]
    pub(super) fn value(self, thread: usize) -> Option<i64> {
        let offset = self.stride.checked_mul(thread as i64)?;
        self.base.checked_add(offset)
    }

    /// Returns the ramp if its values up to this thread are exact.
    #[inline]
    pub(super) fn exact(self, last: usize) -> Option<Self> {
        self.value(last).map(|_| self)
    }

    /// Returns the first thread from `first` on whose value is not below `with`, of values that do not decrease.
    #[inline]
    fn below(self, with: i64, first: usize, end: usize) -> usize {
        if self.stride == 1 {
            // The difference may exceed `i64`, but not by so much that it looks like a thread.
            let at = with.saturating_sub(self.base);
            return at.clamp(first as i64, end as i64) as usize;
        }
        // Mostly it is all of them or none.
        let is_below = |thread: usize| self.base + self.stride * (thread as i64) < with;
        if is_below(end - 1) {
            return end;
        }
        let (mut first, mut end) = (first, end - 1);
        while first < end {
            let middle = usize::midpoint(first, end);
            match is_below(middle) {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        end
    }

    /// Returns the threads for which a test is true, if they follow each other and no value wraps around, in `u64` or `i64`.
    #[inline]
    pub(super) fn tested(self, test: Test, with: i64, active: Active) -> Option<Range<usize>> {
        let last = self.value(active.end - 1)?;
        // A great `u64` is above all values.
        if test.unsigned && (with < 0 || self.base.min(last) < 0) {
            return None;
        }
        self.range(test.op, with, active)
    }

    /// Returns the threads for which a comparison is true, if they follow each other.
    pub(super) fn range(self, op: CompareOp, with: i64, active: Active) -> Option<Range<usize>> {
        let Active { first, end, .. } = active;
        if self.stride < 0 {
            // The same with the opposite of all values, which `i64::MIN` lacks.
            let opposite = Self {
                base: self.base.checked_neg()?,
                stride: self.stride.checked_neg()?,
            };
            opposite.exact(end - 1)?;
            return opposite.range(opposite_of(op), with.checked_neg()?, active);
        }
        let below = || self.below(with, first, end);
        let up_to = || match with.checked_add(1) {
            Some(with) => self.below(with, first, end),
            None => end,
        };
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
fn opposite_of(op: CompareOp) -> CompareOp {
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
    #[inline]
    pub(super) fn stride(&self, value: Affine) -> Option<i64> {
        match value.linear {
            Some(stride) => Some(self.get(stride) as i64),
            None => self.equal_strides(value),
        }
    }

    fn equal_strides(&self, value: Affine) -> Option<i64> {
        let threads = self.code.shape;
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

    /// Returns an affine value, if it has the same distance between all threads and does not wrap around before the chunk.
    #[inline]
    pub(super) fn ramp_of(&self, value: Affine) -> Option<Ramp> {
        let stride = self.stride(value)?;
        let base = self.get(value.base) as i64;
        let base = Ramp { base, stride }.value(self.first)?;
        Some(Ramp { base, stride })
    }

    /// Returns the threads between the first active one and the end as one run, if they are one.
    #[inline]
    pub(super) fn whole_run(&self, value: Affine, active: Active) -> Option<Run> {
        let Active { first, end, .. } = active;
        let cubes = self.cubes_of(active);
        let base = |at| self.get_of(value.base, at) as i64;
        let (lane, stride) = match self.cubes {
            1 => (0, self.stride(value)?),
            _ => {
                let [x, y, z] = value.strides;
                let stride = self.of_cube(cubes.start).stride(value)?;
                let apart = stride.wrapping_mul(self.span as i64);
                let is_whole = |at| base(at + 1).wrapping_sub(base(at)) == apart;
                let mut pairs = cubes.start..cubes.end - 1;
                if !pairs.is_empty() && (varies(x | y | z) || !pairs.all(is_whole)) {
                    return None;
                }
                (cubes.start * self.span, stride)
            }
        };
        // The machine of one of several cubes has the bases of all.
        let base = if self.cubes == 1 {
            self.get(value.base) as i64
        } else {
            base(cubes.start)
        };
        let offset = stride.wrapping_mul((self.first + first - lane) as i64);
        Some(Run {
            thread: first,
            len: end - first,
            first: base.wrapping_add(offset),
            stride,
        })
    }

    /// Calls `f` with the runs of threads between the first active one and the end, until it returns `false`. Returns
    /// whether it never does.
    #[inline]
    pub(super) fn runs(
        &self,
        value: Affine,
        active: Active,
        mut f: impl FnMut(Run) -> bool,
    ) -> bool {
        if let Some(run) = self.whole_run(value, active) {
            return f(run);
        }
        self.cubes_of(active).all(|at| {
            let (one, part) = match self.cubes {
                1 => (*self, active),
                _ => (self.of_cube(at), self.hull_in(at, active)),
            };
            let lane = one.lane - self.lane;
            one.runs_of_cube(value, part, |run| {
                f(Run {
                    thread: lane + run.thread,
                    ..run
                })
            })
        })
    }

    fn runs_of_cube(&self, value: Affine, active: Active, mut f: impl FnMut(Run) -> bool) -> bool {
        let Active { first, end, .. } = active;
        if let Some(run) = self.whole_run(value, active) {
            return f(run);
        }
        // Row by row.
        let [width, height, _] = self.code.shape.map(|axis| axis as usize);
        let [stride, down, deep] = value.strides.map(|stride| self.get(stride) as i64);
        let [mut column, mut row, _] = self.position(first);
        let mut value = self.affine(value, first);
        let mut thread = first;
        while thread < end {
            let len = (width - column).min(end - thread);
            let run = Run {
                thread,
                len,
                first: value,
                stride,
            };
            if !f(run) {
                return false;
            }
            thread += len;
            value = value
                .wrapping_sub(stride.wrapping_mul(column as i64))
                .wrapping_add(down);
            (column, row) = (0, row + 1);
            if row == height {
                let up = down.wrapping_mul(height as i64);
                value = value.wrapping_sub(up).wrapping_add(deep);
                row = 0;
            }
        }
        true
    }

    /// Calls `f` with each run of active threads, as [`Machine::runs`] with those of all.
    #[inline]
    pub(super) fn active_runs(
        &self,
        value: Affine,
        active: Active,
        mut f: impl FnMut(Run) -> bool,
    ) -> bool {
        let Some(mask) = active.mask else {
            return self.runs(value, active, f);
        };
        self.runs(value, active, |run| {
            // SAFETY: the mask has a byte for each thread, and is not written meanwhile.
            let mask =
                unsafe { std::slice::from_raw_parts(mask.as_ptr().add(run.thread), run.len) };
            let mut from = 0;
            // Each stretch is of active threads, or of others.
            mask.chunk_by(|a, b| a == b).all(|stretch| {
                let at = from;
                from += stretch.len();
                let offset = run.stride.wrapping_mul(at as i64);
                stretch[0] == 0
                    || f(Run {
                        thread: run.thread + at,
                        len: stretch.len(),
                        first: run.first.wrapping_add(offset),
                        stride: run.stride,
                    })
            })
        })
    }

    /// Returns the threads between the first active one and the end as rows, if they are whole rows, and if the values are
    /// at equal distances in each row and from row to row.
    pub(super) fn rows(&self, value: Affine, active: Active) -> Option<Rows> {
        let [width, height, depth] = self.code.shape.map(|axis| axis as usize);
        let Active { first, end, .. } = active;
        let is_whole = |thread: usize| thread.is_multiple_of(width);
        let is_all = end - first == self.code.threads;
        let are_rows = is_all || (is_whole(self.first + first) && is_whole(end - first));
        if depth > 1 || height == 1 || !are_rows {
            return None;
        }
        let [x, y, _] = value.strides.map(|stride| self.get(stride) as i64);
        let row = if is_all {
            0
        } else {
            (self.first + first) / width
        };
        let base = self.get(value.base) as i64;
        Some(Rows {
            thread: first,
            width,
            count: if is_all {
                height
            } else {
                (end - first) / width
            },
            first: base.wrapping_add(y.wrapping_mul(row as i64)),
            strides: [x, y],
        })
    }

    /// Writes an affine value to a column.
    pub(super) fn ramp(&self, to: Operand, value: Affine, active: Active) {
        let cubes = self.cubes_of(active);
        if cubes.len() > 1 && !value.varies() {
            let first = cubes.start * self.span;
            let one = Active {
                first,
                end: first + self.span,
                mask: None,
            };
            self.ramp(to, value, one);
            let from = self.pointer(to, first);
            for at in cubes.start + 1..cubes.end {
                let d = self.pointer(to, at * self.span);
                // SAFETY: the column has an element for each thread, and the two cubes are different ones.
                unsafe { d.copy_from_nonoverlapping(from, self.span * to.size as usize) };
            }
            return;
        }
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
