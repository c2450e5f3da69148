//! Branches and loops.

use std::ops::Range;

use millstream_ir::CompareOp;

use super::Machine;
use super::active::Active;
use super::ramps::Ramp;
use crate::code::{Affine, Condition, Operand, Path, Place, Steps, Test, Turns};

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
            Condition::Scalar(place) => match self.get(*place) {
                0 => self.block(otherwise, active),
                _ => self.block(then, active),
            },
            Condition::Column(bools) => {
                let bools = |machine: &Self| machine.pointer(*bools, 0).cast_const();
                self.branch_by(bools, [then, otherwise], mask, active)
            }
            Condition::Test(test) => match self.range(*test, active) {
                Some(range) => self.branch_at(range, [then, otherwise], mask, active),
                None => {
                    let bools = |machine: &Self| machine.tested(*test, active);
                    self.branch_by(bools, [then, otherwise], mask, active)
                }
            },
        }
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

    /// Executes a block for the threads of a range, and another one for the others.
    fn branch_at(
        &self,
        range: Range<usize>,
        [then, otherwise]: [&Steps; 2],
        mask: Operand,
        active: Active,
    ) -> bool {
        let mut left = false;
        if let Some(taken) = active.within(range.start, range.end) {
            left |= self.block(then, taken);
        }
        if otherwise.is_empty() {
            return left;
        }
        let taken = if range.start <= active.first {
            active.within(range.end, active.end)
        } else if range.end >= active.end {
            active.within(active.first, range.start)
        } else {
            let mask = self.pointer(mask, 0);
            // SAFETY: the spare column has a byte for each thread.
            unsafe {
                self.spare.write_bytes(0, active.end);
                self.spare.add(range.start).write_bytes(1, range.len());
            }
            self.masked(active, self.spare, false, mask)
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

    /// Returns all of the active threads or none, if a test is true for all threads of the cube or for none.
    fn same_for_all(&self, test: Test, with: i64, active: Active) -> Option<Range<usize>> {
        let mut ends = [self.get(test.value.base) as i64; 2];
        for (stride, threads) in test.value.strides.into_iter().zip(self.code.shape) {
            let span = (self.get(stride) as i64).checked_mul(i64::from(threads) - 1)?;
            let end = &mut ends[usize::from(span > 0)];
            *end = end.checked_add(span)?;
        }
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

    /// Returns bools, in the spare column, whether a test is true.
    fn tested(&self, test: Test, active: Active) -> *const u8 {
        let dtype = match test.unsigned {
            true => millstream_ir::DType::U64,
            false => millstream_ir::DType::I64,
        };
        let compare = millstream_ir::scalar::compare(test.op, dtype);
        let with = self.get(test.with);
        self.runs(test.value, active, |run| {
            // SAFETY: the spare column has a byte for each thread, and no other slice of it exists meanwhile.
            let bools =
                unsafe { std::slice::from_raw_parts_mut(self.spare.add(run.thread), run.len) };
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
        self.spare
    }

    /// Repeats a block. Returns whether some threads have returned.
    pub(super) fn repeat(
        &self,
        turns: &Turns,
        body: &Steps,
        mask: Operand,
        active: Active,
    ) -> bool {
        let left = match turns {
            Turns::Endless => {
                let (mut inside, mut left) = (Some(active), false);
                while let Some(now) = inside {
                    inside = self.iteration(body, now, mask, &mut left);
                }
                left
            }
            Turns::Scalar { index, bounds } => {
                self.repeat_scalar(*index, *bounds, body, mask, active)
            }
            Turns::Affine {
                base,
                start,
                end,
                step,
            } => {
                let [end, step] = [end, step].map(|place| self.get(*place) as i64);
                let Some(stride) = start.linear else {
                    unreachable!("such an index has equal distances")
                };
                let turn = Turn {
                    base: *base,
                    stride,
                    end,
                    step,
                    body,
                    mask,
                };
                self.repeat_affine(&turn, *start, active)
            }
            Turns::Column {
                begins,
                test,
                goes_on,
                advance,
            } => {
                let Some(active) = self.beginning(begins, mask, active) else {
                    return false;
                };
                let (mut now, mut left) = (active, false);
                loop {
                    self.block(test, now);
                    let bools = self.pointer(*goes_on, 0);
                    let Some(inside) = self.masked(now, bools, true, self.spare) else {
                        break left;
                    };
                    let Some(inside) = self.moved(inside, self.pointer(mask, 0)) else {
                        break left;
                    };
                    let Some(inside) = self.iteration(body, inside, mask, &mut left) else {
                        break left;
                    };
                    self.block(advance, inside);
                    now = inside;
                }
            }
        };
        if !left {
            return false;
        }
        self.resume(Path::Loop, active);
        self.some_left(active)
    }

    /// Executes an iteration. Returns the threads that go on with the next one.
    fn iteration(
        &self,
        body: &Steps,
        inside: Active,
        mask: Operand,
        left: &mut bool,
    ) -> Option<Active> {
        if !self.block(body, inside) {
            return Some(inside);
        }
        *left = true;
        self.resume(Path::Iteration, inside);
        self.remaining(inside, mask)
    }

    /// Returns the threads that have a step of at least one.
    fn beginning(&self, begins: &Condition, mask: Operand, active: Active) -> Option<Active> {
        match begins {
            Condition::Column(bools) => {
                let bools = self.pointer(*bools, 0);
                self.masked(active, bools, true, self.pointer(mask, 0))
            }
            Condition::Scalar(place) if self.get(*place) == 0 => None,
            _ => Some(active),
        }
    }

    fn repeat_scalar(
        &self,
        index: Place,
        bounds: [Place; 3],
        body: &Steps,
        mask: Operand,
        active: Active,
    ) -> bool {
        let [mut at, end, step] = bounds.map(|place| self.get(place) as i64);
        let (mut now, mut left) = (active, false);
        while step >= 1 && at < end {
            self.set(index, at as u64);
            match self.iteration(body, now, mask, &mut left) {
                Some(inside) => now = inside,
                None => break,
            }
            // Saturating: a sum beyond `i64::MAX` ends the loop.
            at = at.saturating_add(step);
        }
        left
    }

    /// Repeats a block with an affine index. Where indices wrap around, threads run the loop one after the other: no barrier
    /// is in it, as their bounds differ.
    fn repeat_affine(&self, turn: &Turn<'_>, start: Affine, active: Active) -> bool {
        if turn.step < 1 {
            return false;
        }
        let ramp = self.ramp_of(start);
        if let Some(ramp) = ramp.and_then(|ramp| ramp.exact(active.end - 1)) {
            return self.turns(turn, ramp, active);
        }
        let mut left = false;
        for thread in active.threads() {
            left |= self.turns_alone(turn, self.affine(start, thread), thread);
        }
        left
    }

    /// Repeats a block as long as the index of a thread is below the end.
    fn turns(&self, turn: &Turn<'_>, mut ramp: Ramp, active: Active) -> bool {
        let (mut now, mut left) = (active, false);
        loop {
            let Some(range) = ramp.range(CompareOp::Lt, turn.end, now) else {
                for thread in now.threads() {
                    let index = ramp.base + ramp.stride * thread as i64;
                    left |= self.turns_alone(turn, index, thread);
                }
                return left;
            };
            let Some(inside) = now.within(range.start, range.end) else {
                return left;
            };
            let offset = ramp.stride.wrapping_mul(self.first as i64);
            self.set(turn.base, ramp.base.wrapping_sub(offset) as u64);
            let Some(inside) = self.iteration(turn.body, inside, turn.mask, &mut left) else {
                return left;
            };
            now = inside;
            let base = ramp.base.checked_add(turn.step);
            let next = base.and_then(|base| Ramp { base, ..ramp }.exact(now.end - 1));
            if let Some(next) = next {
                ramp = next;
                continue;
            }
            for thread in now.threads() {
                let index = ramp.base + ramp.stride * thread as i64;
                if let Some(index) = index.checked_add(turn.step) {
                    left |= self.turns_alone(turn, index, thread);
                }
            }
            return left;
        }
    }

    /// Repeats a block for one thread, from this index on.
    fn turns_alone(&self, turn: &Turn<'_>, mut index: i64, thread: usize) -> bool {
        let alone = Active {
            first: thread,
            end: thread + 1,
            mask: None,
        };
        let stride = self.get(turn.stride) as i64;
        let offset = stride.wrapping_mul((self.first + thread) as i64);
        let mut left = false;
        while index < turn.end {
            self.set(turn.base, index.wrapping_sub(offset) as u64);
            if self
                .iteration(turn.body, alone, turn.mask, &mut left)
                .is_none()
            {
                break;
            }
            // A sum beyond `i64::MAX` ends the loop.
            let Some(next) = index.checked_add(turn.step) else {
                break;
            };
            index = next;
        }
        left
    }

    /// Returns whether some threads have left their block.
    fn some_left(&self, active: Active) -> bool {
        let all = active.threads();
        // SAFETY: paths have a byte for each thread.
        all.into_iter()
            .any(|thread| unsafe { *self.paths.add(thread) } != Path::Next as u8)
    }
}

/// A loop with an affine index.
struct Turn<'a> {
    base: Place,
    /// The distance from thread to thread.
    stride: Place,
    end: i64,
    step: i64,
    body: &'a Steps,
    mask: Operand,
}
