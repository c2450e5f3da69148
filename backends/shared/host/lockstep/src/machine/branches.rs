//! Branches, and which threads a test chooses.

use std::ops::Range;

use millstream_ir::CompareOp;

use super::Machine;
use super::active::Active;
use super::cubes::Chosen;
use super::ramps::Ramp;
use crate::code::{Affine, Condition, Operand, Steps, Test, varies};

impl Machine<'_> {
    /// Executes one of two blocks, or each for some threads. Returns whether some have left it.
    pub(super) fn branch(
        &self,
        condition: &Condition,
        [then, otherwise]: [&Steps; 2],
        mask: Operand,
        active: Active,
    ) -> bool {
        match condition {
            Condition::Scalar(place) => {
                let is_true = |at| self.get_of(*place, at) != 0;
                match self.truth(active, varies(*place), is_true) {
                    Some(true) => self.block(then, active),
                    Some(false) => self.block(otherwise, active),
                    None => {
                        let bools = |machine: &Self| {
                            machine.truth(active, true, is_true);
                            machine.bools.cast_const()
                        };
                        self.branch_by(bools, [then, otherwise], mask, active)
                    }
                }
            }
            Condition::Column(bools) => {
                let bools = |machine: &Self| machine.pointer(*bools, 0).cast_const();
                self.branch_by(bools, [then, otherwise], mask, active)
            }
            Condition::Test(test) => match self.chosen_by(*test, active) {
                Chosen::Threads(range) => self.branch_at(range, [then, otherwise], mask, active),
                Chosen::Bools => {
                    let bools = |machine: &Self| {
                        machine.chosen_by(*test, active);
                        machine.bools.cast_const()
                    };
                    self.branch_by(bools, [then, otherwise], mask, active)
                }
            },
            Condition::All(tests) => self.branch_all(tests, [then, otherwise], mask, active),
        }
    }

    /// Returns which active threads a test chooses.
    fn chosen_by(&self, test: Test, active: Active) -> Chosen {
        let differs = test.value.varies() || varies(test.with);
        let chosen = self.chosen(
            active,
            differs,
            |one, part| one.range(test, part),
            |one, part| {
                one.tested(test, part);
                true
            },
        );
        chosen.unwrap_or(Chosen::Bools)
    }

    /// Writes whether a test is true to a column.
    pub(super) fn write_tested(&self, to: Operand, test: Test, active: Active) {
        match self.chosen_by(test, active) {
            Chosen::Threads(range) => self.choose(self.pointer(to, 0), range),
            Chosen::Bools => {
                let Active { first, end, .. } = active;
                let d = self.pointer(to, first);
                // SAFETY: both have a byte for each lane, and are different ones.
                unsafe { d.copy_from_nonoverlapping(self.bools.add(first), end - first) };
            }
        }
    }

    /// Executes a block for the threads for which all of these tests are true, and another one for the others.
    fn branch_all(
        &self,
        tests: &[Test],
        [then, otherwise]: [&Steps; 2],
        mask: Operand,
        active: Active,
    ) -> bool {
        let taken = tests
            .iter()
            .try_fold(active, |now, test| match self.chosen_by(*test, now) {
                Chosen::Threads(range) => self.narrowed(now, range, mask),
                Chosen::Bools => self.remaining_of(now, self.bools, true, mask),
            });
        let left = taken.is_some_and(|taken| self.block(then, taken));
        if otherwise.is_empty() {
            return left;
        }
        let others = match taken {
            None => Some(active),
            Some(Active {
                first,
                end,
                mask: None,
            }) if (first, end) == (active.first, active.end) => {
                // All of them, or, of those with a mask, all between the first and the end.
                None
            }
            Some(taken) => {
                let Active {
                    first,
                    end,
                    mask: of,
                } = self.with_mask(taken);
                let n = end - first;
                // SAFETY: the region has a byte for each lane, and is another one than the mask.
                unsafe {
                    self.bools
                        .add(active.first)
                        .write_bytes(0, active.end - active.first);
                    match of {
                        None => self.bools.add(first).write_bytes(1, n),
                        Some(of) => self
                            .bools
                            .add(first)
                            .copy_from_nonoverlapping(of.as_ptr().add(first), n),
                    }
                }
                self.masked(active, self.bools, false, self.pointer(mask, 0))
            }
        };
        others.map_or(left, |others| left | self.block(otherwise, others))
    }

    /// Executes a block for the threads whose bool is true, and another one for the others. The bools are asked for again
    /// for the second.
    fn branch_by(
        &self,
        bools: impl Fn(&Self) -> *const u8,
        [then, otherwise]: [&Steps; 2],
        mask: Operand,
        active: Active,
    ) -> bool {
        let mask = self.pointer(mask, 0);
        let mut left = false;
        if !then.is_empty()
            && let Some(taken) = self.masked(active, bools(self), true, mask)
        {
            left |= self.block(then, taken);
        }
        if !otherwise.is_empty()
            && let Some(taken) = self.masked(active, bools(self), false, mask)
        {
            left |= self.block(otherwise, taken);
        }
        left
    }

    /// Executes a block for the threads of a range of each cube, and another one for the others.
    fn branch_at(
        &self,
        range: Range<usize>,
        [then, otherwise]: [&Steps; 2],
        mask: Operand,
        active: Active,
    ) -> bool {
        let mut left = false;
        if let Some(taken) = self.narrowed(active, range.clone(), mask) {
            left |= self.block(then, taken);
        }
        if otherwise.is_empty() {
            return left;
        }
        let all = self.threads_of(active);
        let taken = if range.start <= all.start {
            self.narrowed(active, range.end..all.end, mask)
        } else if range.end >= all.end {
            self.narrowed(active, all.start..range.start, mask)
        } else {
            self.choose(self.bools, range);
            self.masked(active, self.bools, false, self.pointer(mask, 0))
        };
        taken.map_or(left, |taken| left | self.block(otherwise, taken))
    }

    /// Returns the active threads for which a test is true, if they follow each other.
    #[inline]
    fn range(&self, test: Test, active: Active) -> Option<Range<usize>> {
        let with = self.get(test.with) as i64;
        match self.ramp_of(test.value) {
            Some(ramp) => ramp.tested(test, with, active),
            None => self.same_for_all(test, with, active),
        }
    }

    /// Returns the least and the greatest value that a thread of the cube has, if none wraps around.
    pub(super) fn extremes(&self, value: Affine) -> Option<[i64; 2]> {
        let mut ends = [self.get(value.base) as i64; 2];
        for (stride, threads) in value.strides.into_iter().zip(self.code.shape) {
            let span = (self.get(stride) as i64).checked_mul(i64::from(threads) - 1)?;
            let end = &mut ends[usize::from(span > 0)];
            *end = end.checked_add(span)?;
        }
        Some(ends)
    }

    /// Returns all of the active threads or none, if a test is true for all threads of the cube or for none.
    pub(super) fn same_for_all(
        &self,
        test: Test,
        with: i64,
        active: Active,
    ) -> Option<Range<usize>> {
        let ends = self.extremes(test.value)?;
        if test.unsigned && (with < 0 || ends[0] < 0) {
            return None;
        }
        let is_true = match test.op {
            CompareOp::Lt => ends.map(|end| end < with),
            CompareOp::Le => ends.map(|end| end <= with),
            CompareOp::Gt => ends.map(|end| end > with),
            CompareOp::Ge => ends.map(|end| end >= with),
            _ => return None,
        };
        match is_true {
            [true, true] => Some(active.first..active.end),
            [false, false] => Some(active.first..active.first),
            _ => None,
        }
    }

    /// Writes bools whether a test is true for the threads of a cube.
    pub(super) fn tested(&self, test: Test, active: Active) {
        let dtype = match test.unsigned {
            true => millstream_ir::DType::U64,
            false => millstream_ir::DType::I64,
        };
        let compare = millstream_ir::scalar::compare(test.op, dtype);
        let with = self.get(test.with);
        self.runs(test.value, active, |run| {
            // SAFETY: the region has a byte for each thread, and no other slice of it exists meanwhile.
            let bools =
                unsafe { std::slice::from_raw_parts_mut(self.bools.add(run.thread), run.len) };
            let ramp = Ramp {
                base: run.first,
                stride: run.stride,
            };
            if run.stride == 0 {
                bools.fill(compare(run.first as u64, with) as u8);
            } else if let Some(range) = ramp.tested(test, with as i64, Active::all(run.len)) {
                bools.fill(0);
                bools[range].fill(1);
            } else {
                let mut value = run.first;
                for found in bools {
                    *found = compare(value as u64, with) as u8;
                    value = value.wrapping_add(run.stride);
                }
            }
            true
        });
    }
}
