//! The axes of a kernel while it is made, and where elements lie in terms of them.
//!
//! A node's index along each of its axes is an [`Affine`] of the kernel's axes. Going down through views changes the affines; a
//! reshape that cuts an axis of the kernel *splits* it: the axis stays, as the sum of its parts, so that affines made before stay
//! right.

use smallvec::SmallVec;

use crate::shape::Shape;
use crate::size::Size;

/// The place of an axis in [`Axes`].
pub(crate) type AxisId = u16;

/// `constant + sum(axis * factor)`. Sorted by axis, no factor is zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Affine {
    pub(crate) constant: Size,
    pub(crate) terms: SmallVec<[(AxisId, Size); 2]>,
}

/// The index along each axis of a node.
pub(crate) type Map = Vec<Affine>;

impl Affine {
    /// Zero.
    pub(crate) fn zero() -> Self {
        Self::default()
    }

    /// An axis itself.
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

    /// The index of an element in row-major order, from its index along each axis.
    pub(crate) fn flat(map: &[Affine], shape: &[Size]) -> Option<Affine> {
        let mut flat = Affine::zero();
        let mut stride = Size::ONE;
        for (index, length) in map.iter().zip(shape).rev() {
            flat.add(index, &stride)?;
            stride = stride.times(length)?;
        }
        Some(flat)
    }

    /// The axis, if it is one and nothing else.
    fn is_axis(&self) -> Option<AxisId> {
        match &self.terms[..] {
            [(axis, factor)] if factor.is(1) && self.constant.is(0) => Some(*axis),
            _ => None,
        }
    }

    /// How far apart neighbours along an axis are.
    pub(crate) fn factor(&self, axis: AxisId) -> Size {
        let found = self.terms.iter().find(|(mine, _)| *mine == axis);
        found.map_or(Size::ZERO, |(_, factor)| factor.clone())
    }
}

/// An axis of a kernel.
#[derive(Clone, Debug)]
struct Axis {
    length: Size,
    /// The parts that it was split into, slowest first.
    parts: SmallVec<[AxisId; 2]>,
}

/// The axes of a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axes {
    all: Vec<Axis>,
    /// Those that are looped over outside, slowest first.
    outer: SmallVec<[AxisId; 4]>,
    /// Those that are looped over inside.
    inner: SmallVec<[AxisId; 2]>,
    splits: usize,
}

impl Axes {
    /// Outer axes of these lengths, and the map of a node of that shape. Axes of length 1 are none.
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

    /// The axes that are looped over outside, in order, none of them split.
    pub(crate) fn outer(&self) -> Vec<AxisId> {
        self.whole(&self.outer)
    }

    /// The axes that are looped over inside, in order, none of them split.
    pub(crate) fn inner(&self) -> Vec<AxisId> {
        self.whole(&self.inner)
    }

    pub(crate) fn has_inner(&self) -> bool {
        !self.inner.is_empty()
    }

    fn whole(&self, axes: &[AxisId]) -> Vec<AxisId> {
        let mut pending: Vec<AxisId> = axes.iter().rev().copied().collect();
        let mut whole = Vec::with_capacity(pending.len());
        while let Some(axis) = pending.pop() {
            let parts = &self.all[usize::from(axis)].parts;
            if parts.is_empty() {
                whole.push(axis);
            } else {
                pending.extend(parts.iter().rev());
            }
        }
        whole
    }

    /// Makes some of the outer axes the inner ones, in their order.
    pub(crate) fn turn_in(&mut self, inner: &[AxisId]) {
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

    /// The same with parts in the place of what is split.
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
            for part in self.whole(&[*axis]).iter().rev() {
                resolved.add(&Affine::axis(*part), &stride)?;
                stride = stride.times(self.length(*part))?;
            }
        }
        Some(resolved)
    }

    /// How many elements there are at a map: as many as indices of the axes that it depends on.
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

    /// Are two maps the same?
    pub(crate) fn same(&self, first: &[Affine], second: &[Affine]) -> bool {
        first == second
            || (self.splits > 0
                && first.len() == second.len()
                && first
                    .iter()
                    .zip(second)
                    .all(|(a, b)| self.resolve(a) == self.resolve(b)))
    }

    /// Splits an axis into parts of these lengths, slowest first.
    fn split(&mut self, axis: AxisId, lengths: &[Size]) -> Vec<AxisId> {
        let parts: Vec<AxisId> = lengths
            .iter()
            .map(|length| self.add(length.clone()))
            .collect();
        self.all[usize::from(axis)].parts = parts.iter().copied().collect();
        self.splits += 1;
        parts
    }

    /// The index along each axis of `to` where `map` is that along the axes of `from`, a shape of as many elements. None where it
    /// is no affine of the kernel's axes, or would be only with axes split that must not be.
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

    /// The indices along axes of these lengths, none of which is 1, whose row-major index is `flat`.
    fn digits(&mut self, flat: &Affine, lengths: &[Size], may_split: bool) -> Option<Map> {
        if lengths.len() == 1 {
            return Some(vec![flat.clone()]);
        }
        let flat = self.resolve(flat)?;
        if let Some(found) = self.as_digits(&flat, lengths) {
            return Some(found);
        }
        let axis = flat.is_axis().filter(|_| may_split)?;
        if *self.length(axis) != Size::product(lengths)? {
            return None;
        }
        let parts = self.split(axis, lengths);
        Some(parts.into_iter().map(Affine::axis).collect())
    }

    /// The same where each digit is one axis of the kernel already.
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

/// The shortest runs of axes on both sides, of shapes of as many elements, that have as many elements each. Axes of length 1 are in none.
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

    /// Walks all indices of the kernel and compares flat indices on both sides.
    fn is_right(from: &[i64], to: &[i64]) {
        let (axes, map) = reshaped(from, to).expect("it can be reshaped");
        let to = Shape::new(to.to_vec());
        let (_, whole) = Axes::of(&Shape::new(from.to_vec()));
        let before = Affine::flat(&whole, &Shape::new(from.to_vec())).unwrap();
        let after = Affine::flat(&map, &to).unwrap();
        assert_eq!(axes.resolve(&before), axes.resolve(&after));
    }

    #[test]
    fn reshapes_keep_the_order_of_elements() {
        is_right(&[6], &[2, 3]);
        is_right(&[2, 3], &[6]);
        is_right(&[4, 6], &[4, 2, 3]);
        is_right(&[2, 3, 4], &[6, 4]);
        is_right(&[1, 6, 1], &[1, 2, 1, 3]);
        is_right(&[2, 12], &[2, 3, 4, 1]);
        is_right(&[5], &[5, 1, 1]);
        is_right(&[1, 1], &[1]);
        is_right(&[], &[1, 1]);
        is_right(&[1, 1], &[]);
    }

    #[test]
    fn lengths_without_a_common_cut_are_left_to_a_buffer() {
        assert!(reshaped(&[6, 4], &[8, 3]).is_none());
    }
}
