//! Cubes side by side: the threads of a cube follow those of the cube before it, and shared arrays and scalars that vary have
//! a copy for each cube.
//!
//! ```text
//!  lanes   0 .. span      span .. 2 * span    2 * span .. 3 * span
//!          first cube     second cube         third cube
//! ```
//! Without a mask, the active threads are the same ones in each cube from that of the first lane to that of the last one. A
//! step runs for all lanes where that is the same loop, and otherwise for one cube after the other, each as a machine of its
//! own.

use std::ops::Range;
use std::ptr::NonNull;

use super::Machine;
use super::active::Active;
use crate::code::{Operand, Place, slot, varies};

/// Active threads that a condition chooses.
pub(super) enum Chosen {
    /// These threads of each cube.
    Threads(Range<usize>),
    /// Those whose byte of [`Machine::bools`] is 1.
    Bools,
}

impl<'a> Machine<'a> {
    /// Returns the machine of one cube, whose lanes are its threads.
    #[inline]
    pub(super) fn of_cube(&self, at: usize) -> Machine<'a> {
        let lane = at * self.span;
        let from = |region: *mut u8| region.wrapping_add(lane);
        Machine {
            paths: from(self.paths),
            spare: from(self.spare),
            bools: from(self.bools),
            shared: self.shared.wrapping_add(at * self.code.shared_bytes),
            threads: self.span,
            cubes: 1,
            at,
            lane,
            ..*self
        }
    }

    /// Returns the cubes that have lanes between the first and the end.
    #[inline]
    pub(super) fn cubes_of(&self, active: Active) -> Range<usize> {
        match self.cubes {
            1 => 0..1,
            _ => active.first / self.span..(active.end - 1) / self.span + 1,
        }
    }

    /// Returns the threads of each cube between which all active ones are.
    #[inline]
    pub(super) fn threads_of(&self, active: Active) -> Range<usize> {
        let Active { first, end, mask } = active;
        let cubes = self.cubes_of(active);
        let [first_lane, last_lane] = [cubes.start, cubes.end - 1].map(|at| at * self.span);
        match mask {
            Some(_) if cubes.len() > 1 => 0..self.span,
            _ => first - first_lane..end - last_lane,
        }
    }

    /// Returns whether all lanes between the first and the end are active if there is no mask.
    #[inline]
    pub(super) fn is_solid(&self, first: usize, end: usize) -> bool {
        let active = Active {
            first,
            end,
            mask: None,
        };
        self.cubes_of(active).len() == 1 || self.threads_of(active) == (0..self.span)
    }

    /// Returns the active threads with a mask, unless all lanes between the first and the end are active. The mask is that of
    /// a step: the next one may overwrite it.
    #[inline]
    pub(super) fn with_mask(&self, active: Active) -> Active {
        let Active { first, end, mask } = active;
        if mask.is_some() || self.is_solid(first, end) {
            return active;
        }
        let threads = self.threads_of(active);
        if self.in_rectangle.get() != [threads.start, threads.end] {
            self.in_rectangle.set([threads.start, threads.end]);
            self.choose(self.rectangle, threads);
        }
        Active {
            mask: NonNull::new(self.rectangle),
            ..active
        }
    }

    /// Writes a byte for each lane: 1 for these threads of each cube.
    pub(super) fn choose(&self, bools: *mut u8, threads: Range<usize>) {
        for at in 0..self.cubes {
            // SAFETY: the region has a byte for each lane.
            unsafe {
                let bools = bools.add(at * self.span);
                bools.write_bytes(0, self.span);
                bools.add(threads.start).write_bytes(1, threads.len());
            }
        }
    }

    /// Calls a function with the machine of each cube that has active threads, and with these.
    #[inline]
    pub(super) fn each_cube(&self, active: Active, mut f: impl FnMut(&Self, Active)) {
        if self.cubes == 1 {
            return f(self, active);
        }
        for at in self.cubes_of(active) {
            let part = self.hull_in(at, active);
            let part = match active.mask {
                None => Some(part),
                Some(mask) => {
                    // SAFETY: the mask has a byte for each lane.
                    let mask = Some(unsafe { mask.add(at * self.span) });
                    Active { mask, ..part }.tightened(self.span)
                }
            };
            if let Some(part) = part {
                f(&self.of_cube(at), part);
            }
        }
    }

    /// Returns the threads of a cube between which its active ones are.
    #[inline]
    pub(super) fn hull_in(&self, at: usize, active: Active) -> Active {
        let (first, end) = match active.mask {
            None => {
                let threads = self.threads_of(active);
                (threads.start, threads.end)
            }
            Some(_) => {
                let lane = at * self.span;
                let first = active.first.saturating_sub(lane);
                (first, (active.end - lane).min(self.span))
            }
        };
        Active {
            first,
            end,
            mask: None,
        }
    }

    /// Returns the bits of a scalar of a cube.
    #[inline]
    pub(super) fn get_of(&self, place: Place, at: usize) -> u64 {
        let at = if varies(place) { at } else { 0 };
        // SAFETY: a scalar has eight bytes for each cube if it varies, and eight otherwise, which were initialized.
        unsafe { (*self.table.add(slot(place))).cast::<u64>().add(at).read() }
    }

    /// Computes a scalar of each cube.
    pub(super) fn set_all(&self, place: Place, f: impl Fn(usize) -> u64) {
        let cubes = if varies(place) { self.cubes } else { 1 };
        for at in 0..cubes {
            // SAFETY: as in `get_of`.
            unsafe {
                (*self.table.add(slot(place)))
                    .cast::<u64>()
                    .add(at)
                    .write(f(at));
            }
        }
    }

    /// Returns the active threads of those cubes for which a function is true. It is asked for one only unless it `differs`
    /// among them. `to` is a column for their mask, perhaps the
    /// one that they have.
    pub(super) fn cubes_where(
        &self,
        active: Active,
        differs: bool,
        to: Operand,
        f: impl Fn(usize) -> bool,
    ) -> Option<Active> {
        match self.truth(active, differs, f) {
            Some(true) => Some(active),
            Some(false) => None,
            None => self.remaining_of(active, self.bools, true, to),
        }
    }

    /// Returns what a function is for all cubes with active threads. Otherwise writes [`Machine::bools`]. It is asked for one
    /// cube only unless it `differs` among them.
    #[inline]
    pub(super) fn truth(
        &self,
        active: Active,
        differs: bool,
        f: impl Fn(usize) -> bool,
    ) -> Option<bool> {
        let cubes = self.cubes_of(active);
        let first = f(cubes.start);
        if !differs || cubes.clone().all(|at| f(at) == first) {
            return Some(first);
        }
        for at in cubes {
            // SAFETY: the region has a byte for each lane.
            unsafe {
                let bools = self.bools.add(at * self.span);
                bools.write_bytes(f(at).into(), self.span);
            }
        }
        None
    }

    /// Returns which active threads a function chooses, given a machine of a cube and the threads between which its active
    /// ones are. If they do not follow each other in a cube, `bools` writes them to [`Machine::bools`] of that machine, or
    /// returns `false`. Both are asked for one cube only unless it `differs` among them.
    #[inline]
    pub(super) fn chosen(
        &self,
        active: Active,
        differs: bool,
        f: impl Fn(&Self, Active) -> Option<Range<usize>>,
        bools: impl Fn(&Self, Active) -> bool,
    ) -> Option<Chosen> {
        let by_bools = |one: &Self, part| bools(one, part).then_some(Chosen::Bools);
        if self.cubes == 1 {
            return f(self, active)
                .map(Chosen::Threads)
                .or_else(|| by_bools(self, active));
        }
        let cubes = self.cubes_of(active);
        if !differs {
            let (one, part) = (self.of_cube(cubes.start), self.part_of(active));
            if let Some(range) = f(&one, part) {
                return Some(Chosen::Threads(range));
            }
            let chosen = by_bools(&one, part)?;
            if let Some(range) = one.stretch(part) {
                return Some(Chosen::Threads(range));
            }
            for at in cubes.start + 1..cubes.end {
                let to = self.of_cube(at).bools;
                // SAFETY: the region has a byte for each lane, and the two cubes are different ones.
                unsafe { to.copy_from_nonoverlapping(one.bools, self.span) };
            }
            return Some(chosen);
        }
        let mut same: Option<Range<usize>> = None;
        let mut are_same = active.mask.is_none();
        for at in cubes {
            let (one, part) = (self.of_cube(at), self.hull_in(at, active));
            let Some(range) = f(&one, part) else {
                by_bools(&one, part)?;
                are_same = false;
                continue;
            };
            // SAFETY: the region has a byte for each lane.
            unsafe {
                one.bools.write_bytes(0, self.span);
                one.bools.add(range.start).write_bytes(1, range.len());
            }
            are_same &= same.as_ref().is_none_or(|same| *same == range);
            same.get_or_insert(range);
        }
        match same {
            Some(range) if are_same => Some(Chosen::Threads(range)),
            _ => Some(Chosen::Bools),
        }
    }

    /// Returns the threads whose byte of [`Machine::bools`] is 1, if they follow each other.
    fn stretch(&self, part: Active) -> Option<Range<usize>> {
        let Active { first, end, .. } = part;
        // SAFETY: the region has a byte for each lane, and is not written meanwhile.
        let bools = unsafe { std::slice::from_raw_parts(self.bools.add(first), end - first) };
        let start = bools.iter().position(|bool| *bool != 0).unwrap_or(0);
        let len = bools[start..].iter().position(|bool| *bool == 0);
        let len = len.unwrap_or(bools.len() - start);
        let is_all = bools[start + len..].iter().all(|bool| *bool == 0);
        is_all.then_some(first + start..first + start + len)
    }

    /// Returns the active threads that are these ones of each cube. `to` is a column for their mask, perhaps the one that
    /// they have.
    pub(super) fn narrowed(
        &self,
        active: Active,
        threads: Range<usize>,
        to: Operand,
    ) -> Option<Active> {
        if self.cubes == 1 {
            return active.within(threads.start, threads.end);
        }
        let all = self.threads_of(active);
        let (start, end) = (threads.start.max(all.start), threads.end.min(all.end));
        if start >= end {
            return None;
        }
        if all == (start..end) {
            return Some(active);
        }
        let cubes = self.cubes_of(active);
        if active.mask.is_none() {
            return Some(Active {
                first: cubes.start * self.span + start,
                end: (cubes.end - 1) * self.span + end,
                mask: None,
            });
        }
        self.choose(self.bools, start..end);
        self.remaining_of(active, self.bools, true, to)
    }
}
