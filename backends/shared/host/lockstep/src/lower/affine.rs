//! Affine values: sums, differences and products.

use millstream_ir::{BinaryOp, DType, scalar};

use super::values::CHECKED;
use super::{Lane, Lower};
use crate::code::{Affine, Place, Reference};

impl Lower<'_> {
    pub(super) fn new_affine(&mut self, base: Place, strides: [Place; 3]) -> Affine {
        let threads = self.function.threads;
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
        self.scalar(Reference::Binary(f), &[a, b])
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
            _ => None,
        }
    }
}
