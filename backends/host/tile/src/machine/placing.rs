//! Where slots are at a step: elements as they lie, or brought to registers and put back.

use super::{Job, Machine};
use crate::kernels::place::by_size;
use crate::lanes::{Lanes, fetch};
use crate::plan::{Ahead, Scope, Template, Walked};
use crate::slot::{Slot, SlotId};
use crate::space::Path;

/// Steps across rows that are asked for before they are walked.
const STEPS_AHEAD: usize = 2;

impl<'a> Machine<'a> {
    /// A step begins, with the element of this index; its part of what is kept begins at that lane.
    #[inline]
    pub(super) unsafe fn at_step(&mut self, position: usize, lane: usize) {
        let plan = self.job.plan;
        // SAFETY: the position is a scalar.
        unsafe { self.slots[0].cast::<i64>().write(position as i64) };
        // Most rows are one tile: what is kept stays where it is.
        if plan.kept == 0 || lane == self.kept_lane {
            return;
        }
        self.kept_lane = lane;
        for (to, slot) in self.slots.iter_mut().zip(&plan.slots) {
            if let Slot::Kept { unit, size } = *slot {
                let bytes = unit as usize * self.job.kept_lanes + size as usize * lane;
                *to = self.kept.wrapping_add(bytes);
            }
        }
    }

    /// Which axes lanes are of, where they begin, and how many there are; and where the path is on the other axes.
    #[inline(always)]
    pub(super) fn lanes<'b>(
        &'b self,
        path: &'b Path,
        outer: (usize, usize),
        inner: (usize, usize),
    ) -> Lanes<'b> {
        let launch = self.job.launch;
        let (axes, strides, (start, n), still) = match self.job.plan.template {
            Template::Row => (
                &launch.inner,
                &path.inner,
                inner,
                launch.outer.offset(&path.outer, outer.0),
            ),
            Template::Column => (
                &launch.outer,
                &path.outer,
                outer,
                launch.inner.offset(&path.inner, inner.0),
            ),
            Template::Flat if self.job.tiles.block.is_some() => {
                let axes = &launch.outer;
                return Lanes {
                    axes: &self.block,
                    strides: &path.outer[axes.rank - 2..axes.rank],
                    start: 0,
                    n: outer.1,
                    still: axes.offset(&path.outer, outer.0),
                };
            }
            Template::Flat => (&launch.outer, &path.outer, outer, 0),
        };
        Lanes {
            axes,
            strides,
            start,
            n,
            still,
        }
    }

    /// Puts a walk where the elements of a step are: where they lie, or in its register.
    #[inline]
    pub(super) unsafe fn place_walk(
        &mut self,
        walk: u16,
        outer: usize,
        outer_n: usize,
        inner: usize,
        inner_n: usize,
    ) {
        let path = &self.job.launch.paths[usize::from(walk)];
        let walk = &self.job.plan.walks[usize::from(walk)];
        let (outer, inner) = ((outer, outer_n), (inner, inner_n));
        let lanes = self.lanes(path, outer, inner);
        let bytes = walk.size as isize;
        if path.is_direct && matches!(walk.walked, Walked::Elements(_)) {
            let offset = (lanes.still + lanes.first()) * bytes;
            self.slots[usize::from(walk.slot)] = path.base.wrapping_offset(offset);
            return;
        }
        let home = match walk.lands {
            // Targets are placed before walks.
            Some(target) => self.job.plan.targets[usize::from(target)].slot,
            None => walk.home,
        };
        let home = self.slots[usize::from(home)];
        // SAFETY: the launch was checked, so each element lies in its binding; a register has room for the lanes, and so has a target.
        unsafe {
            if walk.one {
                let offset = lanes.still + lanes.first();
                self.slots[usize::from(walk.slot)] = match walk.walked {
                    Walked::Elements(_) => path.base.offset(offset * bytes),
                    _ => {
                        home.cast::<i64>().write((path.origin + offset) as i64);
                        home
                    }
                };
                return;
            }
            self.slots[usize::from(walk.slot)] = match walk.walked {
                Walked::Elements(_) if lanes.n == 1 => {
                    path.base.offset((lanes.still + lanes.first()) * bytes)
                }
                Walked::Elements(_) => {
                    let base = path.base.offset(lanes.still * bytes);
                    by_size!(walk.size, T => lanes.bring(base.cast::<T>(), home.cast::<T>()));
                    home
                }
                Walked::Gathered(gathered) => {
                    self.bring_runs(gathered, walk.size, home, &lanes, outer, inner)
                }
                _ => {
                    lanes.count(home.cast(), path.origin);
                    home
                }
            };
        }
    }

    /// Brings the only walk's block straight to the only target.
    pub(super) unsafe fn turn_block(&self, start: usize, n: usize) {
        let launch = self.job.launch;
        let (from, to) = (&launch.paths[0], &launch.paths[1]);
        let (lanes, rows) = (self.lanes(from, (start, n), (0, 1)), launch.outer.rank - 2);
        by_size!(self.job.plan.walks[0].size, T => {
            let base = from.base.cast::<T>().wrapping_offset(lanes.still);
            let place = launch.outer.offset(&to.outer, start);
            let target = to.base.cast::<T>().wrapping_offset(place);
            // SAFETY: the launch was checked, so each element lies in its binding; the target lies alone.
            unsafe { lanes.turn(base, target, to.outer[rows]) };
        });
    }

    /// Asks for what a walk across rows reads a few steps from here: steps lie further apart than the processor looks by itself.
    #[inline]
    pub(super) fn fetch_ahead(&self, walk: u16, n: usize, step: usize) {
        let launch = self.job.launch;
        let path = &launch.paths[usize::from(walk)];
        let walk = &self.job.plan.walks[usize::from(walk)];
        if !path.is_direct || launch.inner.rank != 1 || step + STEPS_AHEAD >= launch.inner.total {
            return;
        }
        let ahead = STEPS_AHEAD as isize * path.inner[0] * walk.size as isize;
        let from = self.slots[usize::from(walk.slot)].wrapping_offset(ahead);
        for line in (0..n * walk.size).step_by(64) {
            fetch(from.wrapping_add(line));
        }
    }

    /// Finds out where the elements are that will be asked soon, at a tile of a row.
    #[inline]
    pub(super) fn place_ahead(&mut self, ahead: &[(Ahead, SlotId)], row: usize, tile: usize) {
        let Job {
            plan,
            launch,
            tiles,
            ..
        } = self.job;
        for &(ahead, slot) in ahead {
            let start = |tile: usize| tiles.tile(&launch.inner, tile).0;
            let (path, size, row, start) = match ahead {
                Ahead::Target(target) => {
                    let path = &launch.paths[plan.walks.len() + usize::from(target)];
                    (
                        path,
                        plan.targets[usize::from(target)].size,
                        row,
                        start(tile),
                    )
                }
                Ahead::Walk(walk) => {
                    let path = &launch.paths[usize::from(walk)];
                    let size = plan.walks[usize::from(walk)].size;
                    match tile + 1 < tiles.count {
                        true => (path, size, row, start(tile + 1)),
                        false => (path, size, (row + 1).min(launch.outer.total - 1), 0),
                    }
                }
            };
            let lanes = self.lanes(path, (row, 1), (start, 1));
            // What cannot be used as it lies is fetched to no purpose, which does no harm.
            let offset = (lanes.still + lanes.first()).wrapping_mul(size as isize);
            self.slots[usize::from(slot)] = path.base.wrapping_offset(offset);
        }
    }

    /// Puts every store of a scope where its elements go: where they lie, or into its register.
    #[inline]
    pub(super) unsafe fn place_targets(
        &mut self,
        scope: Scope,
        outer: usize,
        outer_n: usize,
        inner: usize,
        inner_n: usize,
    ) {
        let plan = self.job.plan;
        for (index, target) in plan.targets.iter().enumerate() {
            if target.scope != scope {
                continue;
            }
            let path = &self.job.launch.paths[plan.walks.len() + index];
            self.slots[usize::from(target.slot)] = if path.is_direct {
                let lanes = self.lanes(path, (outer, outer_n), (inner, inner_n));
                let offset = lanes.still + lanes.first();
                path.base.wrapping_offset(offset * target.size as isize)
            } else {
                self.slots[usize::from(target.home)]
            };
        }
    }

    /// Brings what was not computed where it lies to its place.
    #[inline]
    pub(super) unsafe fn put_back(
        &mut self,
        scope: Scope,
        outer: usize,
        outer_n: usize,
        inner: usize,
        inner_n: usize,
    ) {
        let plan = self.job.plan;
        for (index, target) in plan.targets.iter().enumerate() {
            let path = &self.job.launch.paths[plan.walks.len() + index];
            if target.scope != scope || path.is_direct {
                continue;
            }
            let mut lanes = self.lanes(path, (outer, outer_n), (inner, inner_n));
            if target.one {
                lanes.still += lanes.first();
                lanes.start = 0;
                lanes.n = 1;
            }
            let home = self.slots[usize::from(target.home)];
            // SAFETY: the launch was checked, so each element lies in its binding.
            unsafe {
                let base = path.base.offset(lanes.still * target.size as isize);
                by_size!(target.size, T => lanes.put(home.cast::<T>(), base.cast::<T>()));
            }
        }
    }
}
