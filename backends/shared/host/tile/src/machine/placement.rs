//! The places of slots at each step: in the bindings' memory, or in staging registers that are loaded and stored.

use super::{At, Machine};
use crate::kernels::by_size;
use crate::lanes::Lanes;
use crate::plan::{InputKind, Prefetch, Scope, Template};
use crate::slot::{Slot, SlotId};
use crate::space::Path;

impl<'a> Machine<'a> {
    /// Begins a step: sets the index of its first element, and the lane of its retained values.
    #[inline]
    pub(super) unsafe fn at_step(&mut self, position: usize, lane: usize) {
        let plan = self.job.plan;
        // SAFETY: slot 0 is a scalar, the position.
        unsafe { self.slots[0].cast::<i64>().write(position as i64) };
        // Most rows are one tile, so the retained values stay in place.
        if plan.retained == 0 || lane == self.retained_lane {
            return;
        }
        self.retained_lane = lane;
        for (to, slot) in self.slots.iter_mut().zip(&plan.slots) {
            if let Slot::Retained { unit, size } = *slot {
                let bytes = unit as usize * self.job.launch.retained_lanes + size as usize * lane;
                *to = self.retained.wrapping_add(bytes);
            }
        }
    }

    /// Returns the lanes of a path at a step, and its offset along the other axes.
    #[inline(always)]
    pub(super) fn lanes<'b>(&'b self, path: &'b Path, at: At) -> Lanes<'b> {
        let At { outer, inner } = at;
        let launch = self.job.launch;
        let outer_axes = &launch.outer;
        let (axes, strides, (start, n), still) = match self.job.plan.template {
            Template::Row => (
                &launch.inner,
                &path.inner[..],
                inner,
                outer_axes.offset(&path.outer, outer.0),
            ),
            Template::Column if self.job.launch.tiles.block.is_some() => (
                &self.block,
                &path.outer[outer_axes.rank - 2..],
                (0, outer.1),
                outer_axes.offset(&path.outer, outer.0),
            ),
            Template::Column => (
                outer_axes,
                &path.outer[..],
                outer,
                launch.inner.offset(&path.inner, inner.0),
            ),
        };
        Lanes {
            axes,
            strides,
            start,
            n,
            still,
        }
    }

    /// Places these inputs at a step.
    #[inline]
    pub(super) unsafe fn place_inputs(&mut self, inputs: &[u16], at: At) {
        for &input in inputs {
            // SAFETY: the caller's promises.
            unsafe { self.place_input(input, at) };
        }
    }

    /// Places an input at a step: in the binding's memory, or loaded into its staging register.
    #[inline]
    pub(super) unsafe fn place_input(&mut self, input: u16, at: At) {
        let path = &self.job.launch.paths[usize::from(input)];
        let input = &self.job.plan.inputs[usize::from(input)];
        let lanes = self.lanes(path, at);
        if input.is_in_place(path, lanes.n) {
            let offset = (lanes.still + lanes.first()) * input.size as isize;
            self.slots[usize::from(input.slot)] = path.base.wrapping_offset(offset);
            return;
        }
        let staging = match input.direct_target {
            // Targets are placed before inputs.
            Some(target) => self.job.plan.targets[usize::from(target)].slot,
            None => input.staging,
        };
        let staging = self.slots[usize::from(staging)];
        // SAFETY: the launch was checked, so each element lies in its binding; registers and targets have room for
        // the lanes.
        self.slots[usize::from(input.slot)] = unsafe {
            match input.kind {
                InputKind::Elements(_) => {
                    let base = path.base.offset(lanes.still * input.size as isize);
                    by_size!(input.size, T => lanes.load(base.cast::<T>(), staging.cast::<T>()));
                    staging
                }
                InputKind::Gathered(gathered) => {
                    self.load_runs(gathered, input.size, staging, &lanes, at)
                }
                InputKind::Index(_) | InputKind::Offsets(_) if input.is_uniform => {
                    let offset = path.origin + lanes.still + lanes.first();
                    staging.cast::<i64>().write(offset as i64);
                    staging
                }
                InputKind::Index(_) | InputKind::Offsets(_) => {
                    lanes.store_offsets(staging.cast(), path.origin);
                    staging
                }
            }
        };
    }

    /// Transposes a block of the only input straight into the only target.
    pub(super) unsafe fn transpose_block(&self, start: usize, n: usize) {
        let launch = self.job.launch;
        let (from, to) = (&launch.paths[0], &launch.paths[1]);
        let (lanes, rows) = (
            self.lanes(from, At::new((start, n), (0, 1))),
            launch.outer.rank - 2,
        );
        by_size!(self.job.plan.inputs[0].size, T => {
            let base = from.base.cast::<T>().wrapping_offset(lanes.still);
            let place = launch.outer.offset(&to.outer, start);
            let target = to.base.cast::<T>().wrapping_offset(place);
            // SAFETY: the launch was checked, so each element lies in its binding; nothing else overlaps the target.
            unsafe { lanes.transpose(base, target, to.outer[rows]) };
        });
    }

    /// Computes the addresses to be prefetched at a tile of a row.
    #[inline]
    pub(super) fn place_prefetches(
        &mut self,
        prefetches: &[(Prefetch, SlotId)],
        row: usize,
        tile: usize,
    ) {
        let job = self.job;
        for &(what, slot) in prefetches {
            let start = |tile: usize| job.launch.tiles.tile(&job.launch.inner, tile).0;
            let (path, size, row, start) = match what {
                Prefetch::Target(target) => {
                    let path = &job.launch.paths[job.plan.inputs.len() + usize::from(target)];
                    (
                        path,
                        job.plan.targets[usize::from(target)].size,
                        row,
                        start(tile),
                    )
                }
                Prefetch::Input(input) => {
                    let path = &job.launch.paths[usize::from(input)];
                    let size = job.plan.inputs[usize::from(input)].size;
                    match tile + 1 < job.launch.tiles.count {
                        true => (path, size, row, start(tile + 1)),
                        false => (path, size, (row + 1).min(job.launch.outer.total - 1), 0),
                    }
                }
            };
            let lanes = self.lanes(path, At::new((row, 1), (start, 1)));
            // Prefetching elements of a path that is not direct is useless, but harmless.
            let offset = (lanes.still + lanes.first()).wrapping_mul(size as isize);
            self.slots[usize::from(slot)] = path.base.wrapping_offset(offset);
        }
    }

    /// Places every target of a scope: in the binding's memory, or in its staging register.
    #[inline]
    pub(super) unsafe fn place_targets(&mut self, scope: Scope, at: At) {
        let plan = self.job.plan;
        for (index, target) in plan.targets.iter().enumerate() {
            if target.scope != scope {
                continue;
            }
            let path = &self.job.launch.paths[plan.inputs.len() + index];
            self.slots[usize::from(target.slot)] = if path.is_direct {
                let lanes = self.lanes(path, at);
                let offset = lanes.still + lanes.first();
                path.base.wrapping_offset(offset * target.size as isize)
            } else {
                self.slots[usize::from(target.staging)]
            };
        }
    }

    /// Stores the targets that were computed in staging registers.
    #[inline]
    pub(super) unsafe fn write_back(&mut self, scope: Scope, at: At) {
        let plan = self.job.plan;
        for (index, target) in plan.targets.iter().enumerate() {
            let path = &self.job.launch.paths[plan.inputs.len() + index];
            if target.scope != scope || path.is_direct {
                continue;
            }
            let mut lanes = self.lanes(path, at);
            if target.is_uniform {
                lanes.still += lanes.first();
                lanes.start = 0;
                lanes.n = 1;
            }
            let staging = self.slots[usize::from(target.staging)];
            // SAFETY: the launch was checked, so each element lies in its binding.
            unsafe {
                let base = path.base.offset(lanes.still * target.size as isize);
                by_size!(target.size, T => lanes.store(staging.cast::<T>(), base.cast::<T>()));
            }
        }
    }
}
