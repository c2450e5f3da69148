//! The axes of a kernel under construction, and index arithmetic over them.
//!
//! The index along each axis of a node is an [`Affine`] of the kernel's axes. Views change these affines. A reshape
//! that cuts an axis of the kernel *splits* the axis: the axis remains as the sum of its parts, so affines that name it
//! stay valid.

use smallvec::SmallVec;

use crate::shape::Shape;
use crate::size::Size;

/// The index of an axis in [`Axes`].
pub(crate) type AxisId = u16;

/// `constant + sum(axis * factor)`. The terms are sorted by axis, and no factor is zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Affine {
    pub(crate) constant: Size,
    pub(crate) terms: SmallVec<[(AxisId, Size); 2]>,
}

/// The index along each axis of a node.
pub(crate) type Map = Vec<Affine>;

impl Affine {
    /// Returns zero.
    pub(crate) fn zero() -> Self {
        Self::default()
    }

    /// Returns the index along one axis.
    pub(crate) fn axis(axis: AxisId) -> Self {
        Self {
            constant: Size::ZERO,
            terms: SmallVec::from_iter([(axis, Size::ONE)]),
        }
    }

    pub(crate) fn add(&mut self, other: &Affine, factor: &Size) -> Option<()> {
        self.constant = self.constant.plus(&other.constant.times(factor)?)?;
        for (axis, theirs) in &other.terms {
            let theirs = theirs.times(factor)?;
            match self.terms.binary_search_by_key(axis, |(axis, _)| *axis) {
                Ok(index) => {
                    let sum = self.terms[index].1.plus(&theirs)?;
                    if sum.is(0) {
                        self.terms.remove(index);
                    } else {
                        self.terms[index].1 = sum;
                    }
                }
                Err(_) if theirs.is(0) => {}
                Err(index) => self.terms.insert(index, (*axis, theirs)),
            }
        }
        Some(())
    }

    /// Returns the row-major index of an element from its index along each axis.
    pub(crate) fn flat(map: &[Affine], shape: &[Size]) -> Option<Affine> {
        let mut flat = Affine::zero();
        let mut stride = Size::ONE;
        for (index, length) in map.iter().zip(shape).rev() {
            flat.add(index, &stride)?;
            stride = stride.times(length)?;
        }
        Some(flat)
    }

    /// Returns the place of an element from its index along each axis and the strides of these.
    pub(crate) fn placed(map: &[Affine], strides: &[Size]) -> Option<Affine> {
        let mut place = Affine::zero();
        for (index, stride) in map.iter().zip(strides) {
            place.add(index, stride)?;
        }
        Some(place)
    }

    /// Returns the axis if the affine is that axis alone.
    fn as_axis(&self) -> Option<AxisId> {
        match &self.terms[..] {
            [(axis, factor)] if factor.is(1) && self.constant.is(0) => Some(*axis),
            _ => None,
        }
    }

    /// Returns the factor (stride) of an axis.
    pub(crate) fn factor(&self, axis: AxisId) -> Size {
        let found = self.terms.iter().find(|(mine, _)| *mine == axis);
        found.map_or(Size::ZERO, |(_, factor)| factor.clone())
    }
}

/// An axis of a kernel.
#[derive(Clone, Debug)]
struct Axis {
    length: Size,
    /// The parts that the axis is split into, slowest first.
    parts: SmallVec<[AxisId; 2]>,
}

/// The axes of a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axes {
    all: Vec<Axis>,
    /// The axes of the outer loops, slowest first.
    outer: SmallVec<[AxisId; 4]>,
    /// The axes of the inner loops.
    inner: SmallVec<[AxisId; 2]>,
    splits: usize,
}

impl Axes {
    /// Returns outer axes of these lengths, and the index map of a node of this shape. An axis of length 1 has no loop.
    pub(crate) fn of(shape: &[Size]) -> (Self, Map) {
        let mut axes = Self::default();
        let map = shape.iter().map(|length| {
            if length.is(1) {
                return Affine::zero();
            }
            let axis = axes.add(length.clone());
            axes.outer.push(axis);
            Affine::axis(axis)
        });
        let map = map.collect();
        (axes, map)
    }

    fn add(&mut self, length: Size) -> AxisId {
        let parts = SmallVec::new();
        self.all.push(Axis { length, parts });
        (self.all.len() - 1) as AxisId
    }

    pub(crate) fn length(&self, axis: AxisId) -> &Size {
        &self.all[usize::from(axis)].length
    }

    /// Returns the axes of the outer loops, in order, with parts in the place of split axes.
    pub(crate) fn outer(&self) -> Vec<AxisId> {
        self.leaves(&self.outer)
    }

    /// Returns the axes of the inner loops, in order, with parts in the place of split axes.
    pub(crate) fn inner(&self) -> Vec<AxisId> {
        self.leaves(&self.inner)
    }

    pub(crate) fn has_inner(&self) -> bool {
        !self.inner.is_empty()
    }

    fn leaves(&self, axes: &[AxisId]) -> Vec<AxisId> {
        let mut pending: Vec<AxisId> = axes.iter().rev().copied().collect();
        let mut leaves = Vec::with_capacity(pending.len());
        while let Some(axis) = pending.pop() {
            let parts = &self.all[usize::from(axis)].parts;
            if parts.is_empty() {
                leaves.push(axis);
            } else {
                pending.extend(parts.iter().rev());
            }
        }
        leaves
    }

    /// Returns the axes of all loops, in order, with parts in the place of split axes.
    pub(crate) fn all(&self) -> Vec<AxisId> {
        [self.outer(), self.inner()].concat()
    }

    /// Makes some of the outer axes the inner ones, in their order.
    pub(crate) fn make_inner(&mut self, inner: &[AxisId]) {
        let outer = self.outer().into_iter();
        self.outer = outer.filter(|axis| !inner.contains(axis)).collect();
        self.inner = inner.iter().copied().collect();
    }

    /// Adds an inner axis.
    pub(crate) fn add_inner(&mut self, length: Size) -> AxisId {
        let axis = self.add(length);
        self.inner.push(axis);
        axis
    }

    pub(crate) fn are_split(&self) -> bool {
        self.splits > 0
    }

    /// Returns the affine with parts in the place of split axes.
    pub(crate) fn resolve(&self, affine: &Affine) -> Option<Affine> {
        if self.splits == 0 {
            return Some(affine.clone());
        }
        let mut resolved = Affine {
            constant: affine.constant.clone(),
            terms: SmallVec::new(),
        };
        for (axis, factor) in &affine.terms {
            let mut stride = factor.clone();
            for part in self.leaves(&[*axis]).iter().rev() {
                resolved.add(&Affine::axis(*part), &stride)?;
                stride = stride.times(self.length(*part))?;
            }
        }
        Some(resolved)
    }

    /// Returns the number of elements that a map reaches: the product of the lengths of the axes that it depends on.
    pub(crate) fn elements(&self, map: &[Affine]) -> Option<Size> {
        let mut axes: SmallVec<[AxisId; 4]> = SmallVec::new();
        for index in map {
            let terms = self.resolve(index)?.terms;
            axes.extend(terms.into_iter().map(|(axis, _)| axis));
        }
        axes.sort_unstable();
        axes.dedup();
        Size::product(axes.iter().map(|axis| self.length(*axis)))
    }

    /// Returns `true` if two maps are equal.
    pub(crate) fn same(&self, first: &[Affine], second: &[Affine]) -> bool {
        let [one, other] = [first, second].map(|map| map.iter().map(|index| self.resolve(index)));
        first == second || (self.splits > 0 && one.eq(other))
    }

    /// Splits an axis into parts of these lengths, slowest first.
    fn split(&mut self, axis: AxisId, lengths: &[Size]) -> Vec<AxisId> {
        let parts = lengths.iter().map(|length| self.add(length.clone()));
        let parts: Vec<AxisId> = parts.collect();
        self.all[usize::from(axis)].parts = parts.iter().copied().collect();
        self.splits += 1;
        parts
    }

    /// Returns the index along each axis of `to`, for the index `map` along the axes of `from`, a shape with as many
    /// elements. `None` if an index is not an affine of the kernel's axes, or only with a split that `may_split`
    /// forbids.
    pub(crate) fn reshaped(
        &mut self,
        map: &[Affine],
        from: &Shape,
        to: &Shape,
        may_split: bool,
    ) -> Option<Map> {
        let mut reshaped = vec![Affine::zero(); to.rank()];
        for (mine, theirs) in runs(from, to)? {
            let run: Vec<Size> = mine.iter().map(|axis| from[*axis].clone()).collect();
            let indices: Map = mine.iter().map(|axis| map[*axis].clone()).collect();
            let flat = Affine::flat(&indices, &run)?;
            let lengths: Vec<Size> = theirs.iter().map(|axis| to[*axis].clone()).collect();
            let digits = self.digits(&flat, &lengths, may_split)?;
            for (axis, digit) in theirs.into_iter().zip(digits) {
                reshaped[axis] = digit;
            }
        }
        Some(reshaped)
    }

    /// Returns the indices along axes of these lengths, none of them 1, whose row-major index is `flat`.
    fn digits(&mut self, flat: &Affine, lengths: &[Size], may_split: bool) -> Option<Map> {
        if lengths.len() == 1 {
            return Some(vec![flat.clone()]);
        }
        let flat = self.resolve(flat)?;
        if let Some(found) = self.as_digits(&flat, lengths) {
            return Some(found);
        }
        let axis = flat.as_axis().filter(|_| may_split)?;
        if *self.length(axis) != Size::product(lengths)? {
            return None;
        }
        let parts = self.split(axis, lengths);
        Some(parts.into_iter().map(Affine::axis).collect())
    }

    /// Returns the same if each digit is an axis of the kernel already.
    fn as_digits(&self, flat: &Affine, lengths: &[Size]) -> Option<Map> {
        if !flat.constant.is(0) || flat.terms.len() > lengths.len() {
            return None;
        }
        let mut stride = Size::ONE;
        let mut found = Vec::with_capacity(lengths.len());
        for length in lengths.iter().rev() {
            let fits = |(axis, factor): &&(AxisId, Size)| {
                *factor == stride && self.length(*axis) == length
            };
            let term = flat.terms.iter().find(fits);
            found.push(term.map_or_else(Affine::zero, |(axis, _)| Affine::axis(*axis)));
            stride = stride.times(length)?;
        }
        let used = found.iter().filter(|digit| !digit.terms.is_empty()).count();
        if used != flat.terms.len() {
            return None;
        }
        found.reverse();
        Some(found)
    }
}

/// Pairs the shortest runs of axes of two shapes that have as many elements each. Both shapes have as many elements.
/// Axes of length 1 are in no run.
pub(crate) fn runs(from: &Shape, to: &Shape) -> Option<Vec<(Vec<usize>, Vec<usize>)>> {
    let long = |shape: &Shape| -> Vec<usize> {
        (0..shape.rank())
            .filter(|axis| !shape[*axis].is(1))
            .collect()
    };
    let (mine, theirs) = (long(from), long(to));
    let mut runs = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < mine.len() && j < theirs.len() {
        let (start, first) = (i, j);
        let (mut here, mut there) = (from[mine[i]].clone(), to[theirs[j]].clone());
        (i, j) = (i + 1, j + 1);
        while here != there {
            if here.max()? < there.max()? {
                here = here.times(&from[*mine.get(i)?])?;
                i += 1;
            } else {
                there = there.times(&to[*theirs.get(j)?])?;
                j += 1;
            }
        }
        runs.push((mine[start..i].to_vec(), theirs[first..j].to_vec()));
    }
    (i == mine.len() && j == theirs.len()).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reshaped(from: &[i64], to: &[i64]) -> Option<(Axes, Map)> {
        let (from, to) = (Shape::new(from.to_vec()), Shape::new(to.to_vec()));
        let (mut axes, map) = Axes::of(&from);
        let map = axes.reshaped(&map, &from, &to, true)?;
        Some((axes, map))
    }

    /// Checks that a reshape keeps the row-major index.
    fn assert_keeps_flat_index(from: &[i64], to: &[i64]) {
        let (axes, map) = reshaped(from, to).expect("the shape can be reshaped");
        let to = Shape::new(to.to_vec());
        let (_, leaves) = Axes::of(&Shape::new(from.to_vec()));
        let before = Affine::flat(&leaves, &Shape::new(from.to_vec())).unwrap();
        let after = Affine::flat(&map, &to).unwrap();
        assert_eq!(axes.resolve(&before), axes.resolve(&after));
    }

    #[test]
    fn reshapes_keep_the_order_of_elements() {
        assert_keeps_flat_index(&[6], &[2, 3]);
        assert_keeps_flat_index(&[2, 3], &[6]);
        assert_keeps_flat_index(&[4, 6], &[4, 2, 3]);
        assert_keeps_flat_index(&[2, 3, 4], &[6, 4]);
        assert_keeps_flat_index(&[1, 6, 1], &[1, 2, 1, 3]);
        assert_keeps_flat_index(&[2, 12], &[2, 3, 4, 1]);
        assert_keeps_flat_index(&[5], &[5, 1, 1]);
        assert_keeps_flat_index(&[1, 1], &[1]);
        assert_keeps_flat_index(&[], &[1, 1]);
        assert_keeps_flat_index(&[1, 1], &[]);
    }

    #[test]
    fn reshape_between_lengths_without_a_common_cut_fails() {
        assert!(reshaped(&[6, 4], &[8, 3]).is_none());
    }
}
