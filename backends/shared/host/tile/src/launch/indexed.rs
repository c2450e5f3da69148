//! Gathers and scatters of a launch: bounds, whether gathers may have long runs, and whether threads may share a
//! scatter.
//!
//! Several indices may name one place, where the order of the stores decides. If a scatter is all that a launch
//! stores, each thread visits all indices and stores only for a part of the indexed axis, so each place has the order
//! of one thread, and the same bits, for any number of threads. One million additions of `scatter_add` take 1.5 ms on
//! two threads instead of 2.5 (row `scatter_add` of `benches/peers/rows`). To sort the indices takes three more passes
//! and memory; atomic additions, and a table for each thread, make the sum depend on the run or on the number of
//! threads.

use millstream_ir::Nest;
use millstream_protocol::NativeView;

use super::{Launch, never_collide, offset, overlap, reach, resolve, within};
use crate::plan::{IndexedAxis, Plan, Step, Template};
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
