//! The checked arguments of a launch: lengths, and the path of each access.
//!
//! Nothing is read or written before every access was found to stay in its binding, whatever the words are. After
//! that the machine trusts its paths.

mod indexed;
mod overlaps;

use millstream_ir::Nest;
use millstream_ir::nest::{Access, AccessId, Stride};
use millstream_protocol::NativeView;
pub(crate) use overlaps::{never_collide, overlap};

use crate::AXES_MAX;
use crate::plan::{InputKind, Plan, Scope, Template};
use crate::prepare_error::{PrepareError, check_count, lengths, out_of_bounds, unaligned};
use crate::space::{Axes, Path, collapse, order};
use crate::tiles::Tiles;

/// A launch of a nest. Reused for later launches: it allocates only if a nest has more paths than any before.
#[derive(Default)]
pub(crate) struct Launch {
    pub(crate) outer: Axes,
    pub(crate) inner: Axes,
    /// The paths of the plan's inputs, followed by those of its targets.
    pub(crate) paths: Vec<Path>,
    /// Whether no target overlaps anything that another row touches.
    rows_are_independent: bool,
    /// Whether the only store is one scatter, to memory that nothing reads, and different indices lead to different
    /// places. Then each thread may visit all rows and store only for indices of its own.
    pub(crate) scatter_is_sole_store: bool,
    pub(crate) tiles: Tiles,
    /// The lanes of a retained value for one step, times the number of steps.
    pub(crate) retained_lanes: usize,
    /// Whether stores bypass the caches, because they exceed them.
    pub(crate) streams: bool,
    /// Whether the launch is a single transposition, done block by block.
    pub(crate) transposes_only: bool,
}

/// A part of the outer axes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Window {
    pub(crate) origin: [usize; AXES_MAX],
    pub(crate) lens: [usize; AXES_MAX],
}

/// A launch that writes at least this much bypasses the caches when it stores: it is more than a core's share of the
/// last-level cache, and what it reads comes on top. Smaller outputs are left in the cache for their reader.
const STREAMED_BYTES_MIN: usize = 32 << 20;

/// The first and last element that something touches; `None` if they overflow.
pub(crate) type Reach = Option<(i64, i64)>;

/// Returns the reach from an offset along axes with these lengths and strides. No length may be zero.
#[inline]
pub(crate) fn reach(offset: i64, axes: impl Iterator<Item = (usize, isize)>) -> Reach {
    let (mut first, mut last) = (offset, offset);
    for (len, stride) in axes {
        let span = (stride as i64).checked_mul(len as i64 - 1)?;
        if span < 0 {
            first = first.checked_add(span)?;
        } else {
            last = last.checked_add(span)?;
        }
    }
    Some((first, last))
}

impl Launch {
    /// Reads the lengths, which are the first words. Returns `false` if there is nothing to do.
    pub(crate) fn measure(
        &mut self,
        nest: &Nest,
        views: &[NativeView],
        words: &[u64],
    ) -> Result<bool, PrepareError> {
        check_count("bindings", nest.buffers.len(), views.len())?;
        check_count("words", nest.words, words.len())?;
        let (outer, inner) = words[..nest.rank()].split_at(nest.outer);
        self.outer = Axes::of(outer).ok_or_else(|| lengths(outer))?;
        self.inner = Axes::of(inner).ok_or_else(|| lengths(inner))?;
        let all = self.outer.total.checked_mul(self.inner.total);
        all.and_then(|all| isize::try_from(all).ok())
            .ok_or_else(|| lengths(&words[..nest.rank()]))?;
        Ok(self.outer.total > 0)
    }

    /// Returns the number of elements, where an empty row counts as one.
    pub(crate) fn elements(&self) -> usize {
        self.outer.total * self.inner.total.max(1)
    }

    /// Builds and checks the paths of a plan, over as few axes as possible, for the whole index space or a window of
    /// it.
    pub(crate) fn prepare(
        &mut self,
        nest: &Nest,
        plan: &Plan,
        views: &[NativeView],
        words: &[u64],
        window: Option<Window>,
    ) -> Result<(), PrepareError> {
        let mut paths = std::mem::take(&mut self.paths);
        let placed = self.place_all(nest, plan, views, words, &mut paths);
        self.paths = paths;
        placed?;
        self.rows_are_independent = true;
        self.find_overlaps(plan);
        self.check_indexed_axes(nest, plan, views, words)?;
        if let Some(window) = window {
            self.restrict_to(nest, plan, window)?;
        }
        self.simplify(plan);
        Ok(())
    }

    /// Builds the paths. Their memory is reused from launch to launch.
    #[inline]
    fn place_all(
        &self,
        nest: &Nest,
        plan: &Plan,
        views: &[NativeView],
        words: &[u64],
        paths: &mut Vec<Path>,
    ) -> Result<(), PrepareError> {
        paths.resize(plan.inputs.len() + plan.targets.len(), Path::NONE);
        let (of_inputs, of_targets) = paths.split_at_mut(plan.inputs.len());
        for (path, input) in of_inputs.iter_mut().zip(&plan.inputs) {
            *path = Path::NONE;
            match input.kind {
                InputKind::Index(axis) => {
                    let axis = usize::from(axis);
                    match axis.checked_sub(nest.outer) {
                        None => path.outer[axis] = 1,
                        Some(axis) => path.inner[axis] = 1,
                    }
                }
                InputKind::Offsets(access) => self.strides(nest, access, words, path),
                InputKind::Gathered(gathered) => {
                    let access = plan.gathered[usize::from(gathered)].access;
                    self.strides(nest, access, words, path);
                }
                InputKind::Elements(access) => {
                    self.strides(nest, access, words, path);
                    self.place(nest, access, views, words, path, input.scope)?;
                }
            }
        }
        for (path, target) in of_targets.iter_mut().zip(&plan.targets) {
            *path = Path::NONE;
            self.strides(nest, target.access, words, path);
            self.place(nest, target.access, views, words, path, target.scope)?;
        }
        Ok(())
    }

    /// Restricts the launch to a window.
    fn restrict_to(
        &mut self,
        nest: &Nest,
        plan: &Plan,
        window: Window,
    ) -> Result<(), PrepareError> {
        let rank = self.outer.rank;
        let fits = |axis: usize| window.origin[axis] + window.lens[axis] <= self.outer.lens[axis];
        if !(0..rank).all(fits) {
            let lens = window.lens.map(|len| len as u64);
            return Err(lengths(&lens[..rank]));
        }
        for (index, path) in self.paths.iter_mut().enumerate() {
            let steps = path.outer.iter().zip(&window.origin).take(rank);
            path.origin = steps.map(|(stride, index)| stride * *index as isize).sum();
            let size = match plan.inputs.get(index) {
                Some(input) => input.size,
                None => plan.targets[index - plan.inputs.len()].size,
            };
            path.base = path.base.wrapping_offset(path.origin * size as isize);
        }
        debug_assert_eq!(nest.outer, rank);
        self.outer.lens = window.lens;
        self.outer.total = window.lens[..rank].iter().product();
        Ok(())
    }

    /// Resolves the strides of an access.
    #[inline]
    fn strides(&self, nest: &Nest, access: AccessId, words: &[u64], path: &mut Path) {
        let strides = &nest.accesses[usize::from(access)].strides;
        let (outer, inner) = strides.split_at(nest.outer);
        for (to, stride) in path.outer.iter_mut().zip(outer) {
            *to = resolve(*stride, words) as isize;
        }
        for (to, stride) in path.inner.iter_mut().zip(inner) {
            *to = resolve(*stride, words) as isize;
        }
    }

    /// Places an access and checks that all of its elements lie within the binding.
    #[inline]
    fn place(
        &self,
        nest: &Nest,
        access: AccessId,
        views: &[NativeView],
        words: &[u64],
        path: &mut Path,
        scope: Scope,
    ) -> Result<(), PrepareError> {
        // An access without elements touches nothing.
        if scope == Scope::Inner && self.inner.total == 0 {
            return Ok(());
        }
        let found = &nest.accesses[usize::from(access)];
        let offset = offset(found, words);
        let inner = (scope == Scope::Inner).then(|| self.inner.steps(&path.inner));
        let axes = self
            .outer
            .steps(&path.outer)
            .chain(inner.into_iter().flatten());
        let all = reach(offset, axes);
        let binding = usize::from(found.buffer);
        let size = nest.buffers[binding].dtype.size();
        path.bytes = within(access.into(), binding, views[binding], size, all)?;
        let start = views[binding].pointer;
        path.base = start.wrapping_offset(offset as isize * size as isize);
        Ok(())
    }

    /// Orders the axes as memory is walked, and merges them where possible.
    #[inline]
    fn simplify(&mut self, plan: &Plan) {
        if plan.template != Template::Row && self.outer.rank > 1 && !self.paths.is_empty() {
            // Stores matter most: a cache line is read before it is written.
            let inner = |index: &usize| plan.inputs[*index].scope == Scope::Inner;
            let key = match self.inner.rank {
                0 => plan.inputs.len().min(self.paths.len() - 1),
                _ => (0..plan.inputs.len()).find(inner).unwrap_or(0),
            };
            order(&mut self.outer, &mut self.paths, key, |path| {
                &mut path.outer
            });
        }
        collapse(&mut self.outer, &mut self.paths, |path| &mut path.outer);
        collapse(&mut self.inner, &mut self.paths, |path| &mut path.inner);
    }
}

/// Returns the addresses that an access touches, if they lie within its binding, whose elements have `size` bytes.
#[inline]
pub(crate) fn within(
    access: usize,
    binding: usize,
    view: NativeView,
    size: usize,
    reach: Reach,
) -> Result<(usize, usize), PrepareError> {
    let start = view.pointer.addr();
    if !start.is_multiple_of(size) {
        return Err(unaligned(binding, view, size));
    }
    let elements = (view.bytes / size as u64) as i64;
    match reach {
        Some((first, last)) if first >= 0 && last < elements => Ok((
            start + first as usize * size,
            start + (last as usize + 1) * size,
        )),
        reach => Err(out_of_bounds(access, binding, reach, elements)),
    }
}

/// Returns the offset of an access in elements.
#[inline]
pub(crate) fn offset(access: &Access, words: &[u64]) -> i64 {
    let word = access.offset.map(|word| words[usize::from(word)] as i64);
    word.unwrap_or(0)
}

/// Returns a stride in elements.
#[inline]
pub(crate) fn resolve(stride: Stride, words: &[u64]) -> i64 {
    match stride {
        Stride::Zero => 0,
        Stride::One => 1,
        Stride::Word(word) => words[usize::from(word)] as i64,
    }
}

// SAFETY: the paths' pointers are used as the launch allows, by pieces that touch different bytes.
unsafe impl Send for Launch {}
// SAFETY: as above; nothing changes a launch while pieces run.
unsafe impl Sync for Launch {}

impl Launch {
    /// Returns `true` if elements are only moved, to contiguous places.
    pub(crate) fn moves_densely(&self, plan: &Plan) -> bool {
        let targets = &self.paths[plan.inputs.len()..];
        let is_dense = |path: &Path| path.is_direct && self.outer.is_dense(&path.outer);
        plan.moves && targets.iter().all(is_dense)
    }

    /// Returns `true` if stores should bypass the caches: they exceed the caches, and every vector begins at a cache
    /// line.
    pub(crate) fn streams(&self, plan: &Plan) -> bool {
        let targets = &self.paths[plan.inputs.len()..];
        let bytes = |path: &Path| path.bytes.1.saturating_sub(path.bytes.0);
        self.outer.rank <= 1
            && targets.iter().map(bytes).sum::<usize>() >= STREAMED_BYTES_MIN
            && targets
                .iter()
                .all(|path| path.is_direct && path.base.addr().is_multiple_of(64))
    }

    /// Decides which paths are used in place, now that the tiling is known.
    #[inline]
    pub(crate) fn mark_direct_paths(&mut self, plan: &Plan) {
        let is_row = plan.template == Template::Row;
        let inputs = plan.inputs.len();
        for (index, path) in self.paths.iter_mut().enumerate() {
            let fits = match is_row {
                true => self.tiles.uses_directly(&self.inner, &path.inner),
                false => self.tiles.uses_directly(&self.outer, &path.outer),
            };
            match index.checked_sub(inputs) {
                None => path.is_direct = fits,
                Some(target) => path.is_direct &= fits || plan.targets[target].is_uniform,
            }
        }
    }
}
