//! The meaning of a graph as a plain computation: arrays of numbers, element by element, by the reference of the
//! operations. Operations on halves are computed in `f32`, because graphs round halves only where they are stored or
//! cast.

use millstream::DType;
use millstream::ir::scalar::{self, Number};
use millstream::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use millstream_ir_text::naive;

/// An array of numbers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
    pub(crate) data: Vec<Number>,
}

/// Returns all indices of a shape, the last axis fastest.
pub(crate) fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let count: usize = shape.iter().product();
    (0..count).map(|flat| unflat(flat, shape))
}

fn unflat(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        index[axis] = flat % shape[axis];
        flat /= shape[axis];
    }
    index
}

fn flat(index: &[usize], shape: &[usize]) -> usize {
    index
        .iter()
        .zip(shape)
        .fold(0, |flat, (i, len)| flat * len + i)
}

impl Array {
    pub(crate) fn new(dtype: DType, shape: &[usize], data: Vec<Number>) -> Self {
        assert_eq!(data.len(), shape.iter().product::<usize>());
        let shape = shape.to_vec();
        Self { shape, dtype, data }.rounded(dtype)
    }

    /// Rounds the numbers to elements of a type.
    fn rounded(mut self, dtype: DType) -> Self {
        for number in &mut self.data {
            *number = Number::of(dtype, number.bits(dtype));
        }
        self
    }

    fn make(&self, dtype: DType, shape: Vec<usize>, of: impl Fn(&[usize]) -> Number) -> Array {
        let data = indices(&shape).map(|index| of(&index)).collect();
        Array { shape, dtype, data }.rounded(dtype.computed())
    }

    /// Returns the bits of an element, in the type of computation.
    fn bits(&self, index: &[usize]) -> u64 {
        self.at(index).bits(self.dtype.computed())
    }

    pub(crate) fn at(&self, index: &[usize]) -> Number {
        self.data[flat(index, &self.shape)]
    }

    pub(crate) fn unary(&self, op: UnaryOp) -> Array {
        let wide = self.dtype.computed();
        let of = scalar::unary(op, wide).expect("the operation supports the type");
        self.make(self.dtype, self.shape.clone(), |index| {
            Number::of(wide, of(self.bits(index)))
        })
    }

    pub(crate) fn binary(&self, op: BinaryOp, other: &Array) -> Array {
        let wide = self.dtype.computed();
        let of = scalar::binary(op, wide).expect("the operation supports the type");
        let (a, b) = both(self, other);
        a.make(a.dtype, a.shape.clone(), |index| {
            Number::of(wide, of(a.bits(index), b.bits(index)))
        })
    }

    pub(crate) fn compare(&self, op: CompareOp, other: &Array) -> Array {
        let of = scalar::compare(op, self.dtype.computed());
        let (a, b) = both(self, other);
        a.make(DType::Bool, a.shape.clone(), |index| {
            Number::of(DType::Bool, of(a.bits(index), b.bits(index)))
        })
    }

    pub(crate) fn cast(&self, dtype: DType) -> Array {
        let numbers = self.data.iter().map(|number| {
            let of = scalar::cast(self.dtype.computed(), dtype);
            Number::of(dtype, of(number.bits(self.dtype.computed())))
        });
        let (shape, data) = (self.shape.clone(), numbers.collect());
        Array { shape, dtype, data }
    }

    pub(crate) fn broadcast_to(&self, shape: &[usize]) -> Array {
        let missing = shape.len() - self.shape.len();
        self.make(self.dtype, shape.to_vec(), |index| {
            let mine = index[missing..].iter().zip(&self.shape);
            let mine: Vec<usize> = mine
                .map(|(i, len)| if *len == 1 { 0 } else { *i })
                .collect();
            self.at(&mine)
        })
    }

    pub(crate) fn permute(&self, axes: &[usize]) -> Array {
        let shape = axes.iter().map(|axis| self.shape[*axis]).collect();
        self.make(self.dtype, shape, |index| {
            let mut mine = vec![0; index.len()];
            for (i, axis) in index.iter().zip(axes) {
                mine[*axis] = *i;
            }
            self.at(&mine)
        })
    }

    pub(crate) fn narrow(&self, axis: usize, start: usize, len: usize) -> Array {
        let mut shape = self.shape.clone();
        shape[axis] = len;
        self.make(self.dtype, shape, |index| {
            let mut mine = index.to_vec();
            mine[axis] += start;
            self.at(&mine)
        })
    }

    pub(crate) fn reshape(&self, shape: &[usize]) -> Array {
        assert_eq!(shape.iter().product::<usize>(), self.data.len());
        Array {
            shape: shape.to_vec(),
            ..self.clone()
        }
    }

    pub(crate) fn reduce(&self, op: ReduceOp, axes: &[usize]) -> Array {
        let length = |axis: usize| {
            if axes.contains(&axis) {
                1
            } else {
                self.shape[axis]
            }
        };
        let shape: Vec<usize> = (0..self.shape.len()).map(length).collect();
        let rows: Vec<usize> = (0..self.shape.len())
            .map(|axis| {
                if axes.contains(&axis) {
                    self.shape[axis]
                } else {
                    1
                }
            })
            .collect();
        let wide = self.dtype.computed();
        let found = op.output(wide);
        self.make(op.output(self.dtype), shape, |index| {
            let row = indices(&rows).map(|within| {
                let at: Vec<usize> = index.iter().zip(&within).map(|(a, b)| a + b).collect();
                self.bits(&at)
            });
            Number::of(found, naive::reduce(op, wide, row))
        })
    }

    pub(crate) fn gather(&self, axis: usize, index: &Array) -> Array {
        self.make(self.dtype, index.shape.clone(), |at| {
            let place = index.at(at).whole();
            let mut mine = at.to_vec();
            match usize::try_from(place) {
                Ok(place) if place < self.shape[axis] => mine[axis] = place,
                _ => return Number::Whole(0),
            }
            self.at(&mine)
        })
    }

    pub(crate) fn scatter(&self, axis: usize, index: &Array, values: &Array, adds: bool) -> Array {
        let mut out = self.clone();
        // Values are stored in the order of the axis.
        let mut order: Vec<Vec<usize>> = indices(&index.shape).collect();
        order.sort_by_key(|at| at[axis]);
        for at in order {
            let mut mine = at.clone();
            match usize::try_from(index.at(&at).whole()) {
                Ok(place) if place < self.shape[axis] => mine[axis] = place,
                _ => continue,
            }
            let place = flat(&mine, &self.shape);
            out.data[place] = if adds {
                let add = scalar::binary(BinaryOp::Add, self.dtype).expect("graphs refuse halves");
                Number::of(self.dtype, add(out.bits(&mine), values.bits(&at)))
            } else {
                values.at(&at)
            };
        }
        out
    }

    pub(crate) fn cat(parts: &[&Array], axis: usize) -> Array {
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        parts[0].make(parts[0].dtype, shape, |index| {
            let mut mine = index.to_vec();
            for part in parts {
                if mine[axis] < part.shape[axis] {
                    return part.at(&mine);
                }
                mine[axis] -= part.shape[axis];
            }
            unreachable!("the lengths of the parts add up")
        })
    }

    pub(crate) fn matmul(&self, right: &Array) -> Array {
        let (a, b) = (self.shape.len() - 2, right.shape.len() - 2);
        let batch = broadcast(&self.shape[..a], &right.shape[..b]);
        let with = |matrix: &[usize]| [&batch[..], matrix].concat();
        let left = self.broadcast_to(&with(&self.shape[a..]));
        let right = right.broadcast_to(&with(&right.shape[b..]));
        let (m, k, n) = (
            self.shape[a],
            self.shape[a + 1],
            right.shape[batch.len() + 1],
        );
        left.make(self.dtype, with(&[m, n]), |index| {
            let (outer, last) = index.split_at(batch.len());
            let pairs = (0..k).map(|k| {
                let l = left.bits(&[outer, &[last[0], k]].concat());
                (l, right.bits(&[outer, &[k, last[1]]].concat()))
            });
            let wide = self.dtype.computed();
            Number::of(wide, naive::dot(wide, pairs))
        })
    }
}

pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let length = |shape: &[usize], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .map_or(1, |index| shape[index])
    };
    let axis = |axis| match (length(a, axis), length(b, axis)) {
        (1, other) => other,
        (mine, _) => mine,
    };
    (0..rank).map(axis).collect()
}

fn both(a: &Array, b: &Array) -> (Array, Array) {
    let shape = broadcast(&a.shape, &b.shape);
    (a.broadcast_to(&shape), b.broadcast_to(&shape))
}
