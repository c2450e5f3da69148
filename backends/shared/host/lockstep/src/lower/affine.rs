//! Affine values: sums, differences and products.

use millstream_ir::{BinaryOp, DType, scalar};

use super::values::CHECKED;
use super::{Lane, Lower};
use crate::code::{Affine, Place, Reference, slot};

impl Lower<'_> {
    pub(super) fn new_affine(&mut self, base: Place, strides: [Place; 3]) -> Affine {
        let threads = self.shape;
        let axes: Vec<usize> = (0..3).filter(|axis| threads[*axis] > 1).collect();
        let is_linear = axes.windows(2).all(|pair| {
            let [stride, next] = [pair[0], pair[1]].map(|axis| self.known(strides[axis]));
            let extent = u64::from(threads[pair[0]]);
            stride.is_some_and(|stride| next == Some(stride.wrapping_mul(extent)))
        });
        let stride = axes.first().map(|axis| strides[*axis]);
        let stride = stride.unwrap_or_else(|| self.constant(0));
        Affine {
            base,
            strides,
            linear: Some(stride).filter(|_| is_linear),
        }
    }

    /// Applies a function to each part of an affine value.
    pub(super) fn affine(
        &mut self,
        value: Affine,
        mut f: impl FnMut(&mut Self, Place) -> Place,
    ) -> Affine {
        let base = f(self, value.base);
        let strides = value.strides.map(|stride| f(self, stride));
        self.new_affine(base, strides)
    }

    /// Computes a sum, difference or product of scalars modulo 2^64.
    pub(super) fn whole(&mut self, op: BinaryOp, a: Place, b: Place) -> Place {
        match (op, self.known(a), self.known(b)) {
            (BinaryOp::Add | BinaryOp::Sub, _, Some(0)) | (BinaryOp::Mul, _, Some(1)) => return a,
            (BinaryOp::Add, Some(0), _) | (BinaryOp::Mul, Some(1), _) => return b,
            (BinaryOp::Mul, _, Some(0)) | (BinaryOp::Mul, Some(0), _) => return self.constant(0),
            _ => {}
        }
        let f = scalar::binary(op, DType::U64).expect(CHECKED);
        let place = self.scalar(Reference::Binary(f), &[a, b]);
        let most = self.most(a).zip(self.most(b)).and_then(|(a, b)| match op {
            BinaryOp::Add => a.checked_add(b),
            BinaryOp::Mul => a.checked_mul(b),
            _ => None,
        });
        self.bound(place, most);
        place
    }

    /// Returns the greatest `u64` that a scalar may be, if that is known.
    pub(super) fn most(&self, place: Place) -> Option<u64> {
        self.scalars[slot(place)].most
    }

    /// Notes the greatest `u64` that a scalar may be, if that is known.
    pub(super) fn bound(&mut self, place: Place, most: Option<u64>) {
        let known = &mut self.scalars[slot(place)].most;
        *known = known.or(most);
    }

    /// Returns whether a `u64` is never above another one.
    pub(super) fn is_at_most(&self, lane: Lane, other: Lane) -> bool {
        let most = match lane {
            Lane::Scalar(place) => self.most(place),
            Lane::Affine(value) => {
                let axes = value.strides.into_iter().zip(self.shape);
                axes.fold(self.most(value.base), |sum, (stride, threads)| {
                    let last = u64::from(threads - 1);
                    sum?.checked_add(self.most(stride)?.checked_mul(last)?)
                })
            }
            _ => None,
        };
        let Lane::Scalar(other) = other else {
            return false;
        };
        most.zip(self.known(other))
            .is_some_and(|(most, other)| most <= other)
    }

    /// Returns an affine value for sums, differences and products, if it is one.
    pub(super) fn combined(&mut self, op: BinaryOp, a: Lane, b: Lane) -> Option<Affine> {
        let zero = self.constant(0);
        let mut of = |lane| match lane {
            Lane::Scalar(base) => Some(self.new_affine(base, [zero; 3])),
            Lane::Affine(value) => Some(value),
            _ => None,
        };
        let (x, y) = (of(a)?, of(b)?);
        match (op, a, b) {
            (BinaryOp::Add | BinaryOp::Sub, _, _) => {
                let mut strides = x.strides;
                for (stride, other) in strides.iter_mut().zip(y.strides) {
                    *stride = self.whole(op, *stride, other);
                }
                let base = self.whole(op, x.base, y.base);
                Some(self.new_affine(base, strides))
            }
            (BinaryOp::Mul, Lane::Affine(_), Lane::Scalar(by)) => {
                Some(self.affine(x, |lower, place| lower.whole(op, place, by)))
            }
            (BinaryOp::Mul, Lane::Scalar(by), Lane::Affine(_)) => {
                Some(self.affine(y, |lower, place| lower.whole(op, place, by)))
            }
            (BinaryOp::Shl, Lane::Affine(_), Lane::Scalar(by)) => {
                let bits = self.known(by).filter(|bits| *bits < 64)?;
                let by = self.constant(1 << bits);
                Some(self.affine(x, |lower, place| lower.whole(BinaryOp::Mul, place, by)))
            }
            (_, Lane::Affine(value), Lane::Scalar(by)) => self.row_or_column(op, value, by),
            _ => None,
        }
    }

    /// Returns the row or the column of a thread, if an operation is one.
    fn row_or_column(&mut self, op: BinaryOp, value: Affine, by: Place) -> Option<Affine> {
        let by = self.known(by)?;
        let width = match op {
            BinaryOp::Div | BinaryOp::Rem => by,
            BinaryOp::And => by.checked_add(1).filter(|width| width.is_power_of_two())?,
            BinaryOp::Shr => 1_u64.checked_shl(by.try_into().ok()?)?,
            _ => return None,
        };
        let width = u32::try_from(width).ok()?;
        let [x, y, _] = value.strides;
        if [value.base, x].map(|place| self.known(place)) != [Some(0), Some(1)] {
            return None;
        }
        if let ([threads, 1, 1], [_, 1, 1]) = (self.function.threads, self.shape) {
            if width > 1 && width < threads && threads.is_multiple_of(width) {
                self.width.get_or_insert(width);
            }
            return None;
        }
        if self.shape[0] != width || self.shape[2] > 1 || self.known(y) != Some(width.into()) {
            return None;
        }
        let [zero, one] = [0, 1].map(|bits| self.constant(bits));
        let strides = match op {
            BinaryOp::Rem | BinaryOp::And => [one, zero, zero],
            _ => [zero, one, zero],
        };
        Some(self.new_affine(zero, strides))
    }
}
