//! Accesses of a launch that need more than strides: gathers and scatters, and inputs that are read across memory.
//!
//! # Gathers and scatters
//! This file checks their bounds, and finds whether gathers may have long runs and whether threads may share a scatter.
//!
//! Several indices may name one place, where the order of the stores decides. If a scatter is all that a launch
//! stores, each thread visits all indices and stores only for a part of the indexed axis, so each place has the order
//! of one thread, and the same bits, for any number of threads. One million additions of `scatter_add` take 1.5 ms on
//! two threads instead of 2.5 (row `scatter_add` of `benches/peers/rows`). To sort the indices takes three more passes
//! and memory; atomic additions, and a table for each thread, make the sum depend on the run or on the number of
//! threads.
//!
//! # Inputs read across memory
//! Tiles along the fastest axis would use one element of each cache line and evict the rest unused. So the axis along which
//! the elements lie side by side becomes the second fastest, and tiles are blocks of the two.

use millstream_ir::Nest;
use millstream_protocol::NativeView;

use super::{Launch, never_collide, offset, overlap, reach, resolve, within};
use crate::plan::{IndexedAxis, InputKind, Plan, Step, Template};
use crate::prepare_error::PrepareError;
use crate::space::Path;

/// Shorter runs are not worth finding.
const RUN_MIN: usize = 16;

impl Launch {
    /// Checks the bounds of gathers and scatters, and finds the paths that they overlap.
    pub(super) fn check_indexed_axes(
        &mut self,
        nest: &Nest,
        plan: &Plan,
        views: &[NativeView],
        words: &[u64],
    ) -> Result<(), PrepareError> {
        let mut scattered = None;
        for indexed in &plan.indexed {
            let touched = self.check_indexed_axis(nest, indexed, views, words)?;
            if indexed.writes {
                scattered = Some((indexed, touched));
            }
            // Two rows may scatter to the same place.
            self.rows_are_independent &= !indexed.writes;
            for path in &mut self.paths[plan.inputs.len()..] {
                if overlap(path.bytes, touched) {
                    path.is_direct = false;
                    self.rows_are_independent = false;
                }
            }
        }
        let is_only = plan.indexed.len() == 1 && plan.targets.is_empty();
        self.scatter_is_sole_store = scattered.is_some_and(|(indexed, touched)| {
            let is_read = self.paths.iter().any(|path| overlap(path.bytes, touched));
            is_only && !is_read && self.indices_are_disjoint(nest, indexed, words)
        });
        Ok(())
    }

    /// Checks that a gather or scatter stays in its binding for every index in range. Returns the addresses that it
    /// may touch.
    fn check_indexed_axis(
        &self,
        nest: &Nest,
        indexed: &IndexedAxis,
        views: &[NativeView],
        words: &[u64],
    ) -> Result<(usize, usize), PrepareError> {
        let len = words[usize::from(indexed.len)] as i64;
        let found = &nest.accesses[usize::from(indexed.access)];
        let mut path = Path::NONE;
        self.strides(nest, indexed.access, words, &mut path);
        let offset = offset(found, words);
        let axis = (len.max(1) as usize, resolve(indexed.stride, words) as isize);
        let inner = (self.inner.total > 0).then(|| self.inner.steps(&path.inner));
        let axes = self.outer.steps(&path.outer).chain([axis]);
        let all = reach(offset, axes.chain(inner.into_iter().flatten()));
        // If no index is in range, nothing is touched. The offsets must still be countable.
        if all.is_some() && (len <= 0 || self.inner.total == 0) {
            return Ok((0, 0));
        }
        let binding = usize::from(found.buffer);
        let size = nest.buffers[binding].dtype.size();
        within(indexed.access.into(), binding, views[binding], size, all)
    }

    /// Returns `true` if the scatter provably leads from different indices to different places.
    pub(super) fn indices_are_disjoint(
        &self,
        nest: &Nest,
        indexed: &IndexedAxis,
        words: &[u64],
    ) -> bool {
        let mut path = Path::NONE;
        self.strides(nest, indexed.access, words, &mut path);
        let axes = self.outer.steps(&path.outer);
        let axes = axes.chain(self.inner.steps(&path.inner));
        // An axis without a stride leads from the same index to the same place.
        let axes = axes.filter(|(_, stride)| *stride != 0);
        let len = words[usize::from(indexed.len)].max(2) as usize;
        let indices = (len, resolve(indexed.stride, words) as isize);
        never_collide([indices].into_iter().chain(axes))
    }

    /// Returns `true` if the gathers of a plan may have long runs along the fastest axis.
    pub(crate) fn may_have_long_runs(&self, plan: &Plan) -> bool {
        let axes = match plan.template {
            Template::Row => &self.inner,
            _ => &self.outer,
        };
        let moves = |input: u16| {
            let path = &self.paths[usize::from(input)];
            let strides = match plan.template {
                Template::Row => &path.inner,
                _ => &path.outer,
            };
            axes.rank > 0 && strides[axes.rank - 1] != 0
        };
        let steps = plan.gathered.iter().flat_map(|gathered| &gathered.steps);
        axes.last() >= RUN_MIN
            && !{ steps }.any(|step| matches!(step, Step::Load(input, _) if moves(*input)))
    }
}

// Inputs read across memory.

/// Shorter axes are fast enough as they are.
const LEN_MIN: usize = 16;

impl Launch {
    /// If an input of a launch without inner axes is read across memory, moves the axis along which its elements are
    /// contiguous next to the fastest axis, so that tiles can be blocks of the two. Returns `true` if it did.
    pub(crate) fn arrange_blocks(&mut self, plan: &Plan) -> bool {
        let rank = self.outer.rank;
        if rank < 2 || self.outer.last() < LEN_MIN {
            return false;
        }
        let is_read = |index: &usize| matches!(plan.inputs[*index].kind, InputKind::Elements(_));
        let across = |index: usize| {
            let strides = &self.paths[index].outer[..rank];
            let is_across = strides[rank - 1].unsigned_abs() > 1;
            let side_by_side =
                |axis: &usize| strides[*axis] == 1 && self.outer.lens[*axis] >= LEN_MIN;
            (0..rank - 1).find(side_by_side).filter(|_| is_across)
        };
        let mut inputs = (0..plan.inputs.len()).filter(is_read);
        let Some(axis) = inputs.find_map(across) else {
            return false;
        };
        // Rows that overlap must keep their order.
        if !self.rows_are_disjoint(plan) {
            return false;
        }
        self.outer.lens[axis..rank - 1].rotate_left(1);
        for path in &mut self.paths {
            path.outer[axis..rank - 1].rotate_left(1);
        }
        true
    }

    /// Returns `true` if the launch only moves one matrix, from contiguous columns into contiguous rows.
    pub(crate) fn transposes_only(&self, plan: &Plan) -> bool {
        let fast = self.outer.rank - 1;
        match (&plan.inputs[..], &plan.targets[..], &self.paths[..]) {
            ([input], [target], [from, to]) => {
                let lies_in_columns = from.outer[fast - 1] == 1 && from.outer[fast] > 1;
                let is_read =
                    matches!(input.kind, InputKind::Elements(_)) && input.size == target.size;
                plan.moves && is_read && lies_in_columns && to.is_direct && to.outer[fast] == 1
            }
            _ => false,
        }
    }
}
