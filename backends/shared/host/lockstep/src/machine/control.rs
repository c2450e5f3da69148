//! Loops.

use std::ops::Range;

use millstream_ir::CompareOp;

use super::Machine;
use super::active::Active;
use super::cubes::Chosen;
use crate::code::{Affine, Condition, Operand, Path, Place, Steps, Test, Turns, varies};

impl Machine<'_> {
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
                let turn = Turn {
                    index: Affine {
                        base: *base,
                        ..*start
                    },
                    end: *end,
                    step: *step,
                    body,
                    mask,
                };
                self.set_all(*base, |at| self.get_of(start.base, at));
                self.repeat_affine(&turn, active)
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
                    let Some(inside) = self.remaining_of(now, bools, true, mask) else {
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
            Condition::Scalar(place) => {
                let is_true = |at| self.get_of(*place, at) != 0;
                self.cubes_where(active, varies(*place), mask, is_true)
            }
            Condition::Test(_) | Condition::All(_) => Some(active),
        }
    }

    fn repeat_scalar(
        &self,
        index: Place,
        [start, end, step]: [Place; 3],
        body: &Steps,
        mask: Operand,
        active: Active,
    ) -> bool {
        self.set_all(index, |at| self.get_of(start, at));
        let of = |place, at| self.get_of(place, at) as i64;
        let goes_on = |at| of(step, at) >= 1 && of(index, at) < of(end, at);
        let differs = varies(index);
        let (mut now, mut left) = (active, false);
        while let Some(inside) = self.cubes_where(now, differs, mask, goes_on)
            && let Some(inside) = self.iteration(body, inside, mask, &mut left)
        {
            now = inside;
            // Saturating: a sum beyond `i64::MAX` ends the loop.
            self.set_all(index, |at| {
                of(index, at).saturating_add(of(step, at)) as u64
            });
        }
        left
    }

    /// Repeats a block as long as the affine index of a thread is below the end. Where indices wrap around, threads run the
    /// loop one after the other: no barrier is in it, as their bounds differ.
    fn repeat_affine(&self, turn: &Turn<'_>, active: Active) -> bool {
        let differs = varies(turn.index.base);
        let range = |one: &Self, part| turn.range(one, part);
        let bools = |one: &Self, part| {
            let is_exact = one.extremes(turn.index).is_some();
            if is_exact {
                one.tested(turn.test(), part);
            }
            is_exact
        };
        let chosen = |now| self.chosen(now, differs, range, bools);
        let (mut now, mut left) = (active, false);
        let Some(mut next) = chosen(now) else {
            return self.turns_alone(turn, now, 0);
        };
        loop {
            let inside = match next {
                Chosen::Threads(range) => self.narrowed(now, range, turn.mask),
                Chosen::Bools => self.remaining_of(now, self.bools, true, turn.mask),
            };
            let Some(inside) = inside else {
                return left;
            };
            let Some(inside) = self.iteration(turn.body, inside, turn.mask, &mut left) else {
                return left;
            };
            now = inside;
            let of = |place, at| self.get_of(place, at) as i64;
            let mut cubes = self.cubes_of(now);
            let is_exact = cubes.all(|at| {
                of(turn.index.base, at)
                    .checked_add(of(turn.step, at))
                    .is_some()
            });
            let advance = |by: fn(i64, i64) -> i64| {
                let base = turn.index.base;
                self.set_all(base, |at| by(of(base, at), of(turn.step, at)) as u64);
            };
            advance(i64::wrapping_add);
            match chosen(now).filter(|_| is_exact) {
                Some(chosen) => next = chosen,
                None => {
                    advance(i64::wrapping_sub);
                    return self.turns_alone(turn, now, 1) | left;
                }
            }
        }
    }

    /// Repeats a block for one thread after the other, from the current iteration on, or from one that comes later by this
    /// number.
    fn turns_alone(&self, turn: &Turn<'_>, active: Active, later: i64) -> bool {
        let mut left = false;
        for thread in self.with_mask(active).threads() {
            let one = self.of_cube(thread / self.span);
            let alone = Active {
                first: thread,
                end: thread + 1,
                mask: None,
            };
            let [end, step] = [turn.end, turn.step].map(|place| one.get(place) as i64);
            let base = one.get(turn.index.base);
            let start = one.affine(turn.index, thread % self.span);
            // A sum beyond `i64::MAX` ends the loop.
            let mut index = start.checked_add(step * later).filter(|_| step >= 1);
            while let Some(now) = index.filter(|index| *index < end) {
                let offset = now.wrapping_sub(start) as u64;
                one.set(turn.index.base, base.wrapping_add(offset));
                let inside = self.iteration(turn.body, alone, turn.mask, &mut left);
                index = inside.and_then(|_| now.checked_add(step));
            }
            one.set(turn.index.base, base);
        }
        left
    }
}

/// A loop with an affine index.
struct Turn<'a> {
    index: Affine,
    end: Place,
    step: Place,
    body: &'a Steps,
    mask: Operand,
}

impl Turn<'_> {
    /// Returns the test of a thread that goes on.
    fn test(&self) -> Test {
        Test {
            op: CompareOp::Lt,
            value: self.index,
            with: self.end,
            unsigned: false,
        }
    }

    /// Returns the threads of a cube whose index is below the end, if they follow each other and none wraps around.
    fn range(&self, machine: &Machine<'_>, active: Active) -> Option<Range<usize>> {
        let [end, step] = [self.end, self.step].map(|place| machine.get(place) as i64);
        if step < 1 {
            return Some(active.first..active.first);
        }
        if machine.stride(self.index).is_none() {
            return machine.same_for_all(self.test(), end, active);
        }
        let ramp = machine.ramp_of(self.index)?.exact(active.end - 1)?;
        ramp.range(CompareOp::Lt, end, active)
    }
}
