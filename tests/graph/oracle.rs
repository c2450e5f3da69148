//! What a graph should compute, said plainly: arrays of numbers in `f64` and `i128`, one element after the other. Floats are rounded to
//! their type after every operation; halves are not, because graphs round those only where they are stored or cast.

use half::{bf16, f16};
use millstream::DType;
use millstream::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

/// A number: of a float type, or of any other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Num {
    F(f64),
    I(i128),
}

impl Num {
    pub(crate) fn float(self) -> f64 {
        match self {
            Num::F(value) => value,
            Num::I(value) => value as f64,
        }
    }

    pub(crate) fn int(self) -> i128 {
        match self {
            Num::F(value) => value as i128,
            Num::I(value) => value,
        }
    }

    /// The number as an element of this type has it, where a half is as wide as it is computed in.
    fn rounded(self, dtype: DType) -> Num {
        match dtype {
            DType::F64 => Num::F(self.float()),
            DType::F32 | DType::F16 | DType::Bf16 => Num::F(f64::from(self.float() as f32)),
            DType::I64 => Num::I(i128::from(self.int() as i64)),
            DType::I32 => Num::I(i128::from(self.int() as i32)),
            DType::U32 => Num::I(i128::from(self.int() as u32)),
            DType::U8 => Num::I(i128::from(self.int() as u8)),
            _ => Num::I(i128::from(self.int() != 0)),
        }
    }

    /// The number as it is stored.
    pub(crate) fn stored(self, dtype: DType) -> Num {
        match dtype {
            DType::F16 => Num::F(f16::from_f32(self.float() as f32).to_f64()),
            DType::Bf16 => Num::F(bf16::from_f32(self.float() as f32).to_f64()),
            other => self.rounded(other),
        }
    }
}

/// An array of numbers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
    pub(crate) data: Vec<Num>,
}

/// All indices of a shape, the last axis fastest.
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
    pub(crate) fn new(dtype: DType, shape: &[usize], data: Vec<Num>) -> Self {
        assert_eq!(data.len(), shape.iter().product::<usize>());
        let data = data.into_iter().map(|num| num.stored(dtype)).collect();
        Self {
            shape: shape.to_vec(),
            dtype,
            data,
        }
    }

    fn make(&self, dtype: DType, shape: Vec<usize>, of: impl Fn(&[usize]) -> Num) -> Array {
        let data = indices(&shape)
            .map(|index| of(&index).rounded(dtype))
            .collect();
        Array { shape, dtype, data }
    }

    pub(crate) fn at(&self, index: &[usize]) -> Num {
        self.data[flat(index, &self.shape)]
    }

    pub(crate) fn unary(&self, op: UnaryOp) -> Array {
        self.make(self.dtype, self.shape.clone(), |index| {
            unary(op, self.at(index), self.dtype)
        })
    }

    pub(crate) fn binary(&self, op: BinaryOp, other: &Array) -> Array {
        let (a, b) = both(self, other);
        a.make(a.dtype, a.shape.clone(), |index| {
            binary(op, a.at(index), b.at(index), a.dtype)
        })
    }

    pub(crate) fn compare(&self, op: CompareOp, other: &Array) -> Array {
        let (a, b) = both(self, other);
        a.make(DType::Bool, a.shape.clone(), |index| {
            Num::I(i128::from(compare(op, a.at(index), b.at(index))))
        })
    }

    pub(crate) fn select(&self, yes: &Array, no: &Array) -> Array {
        let shape = broadcast(&broadcast(&self.shape, &yes.shape), &no.shape);
        let [condition, yes, no] = [self, yes, no].map(|array| array.broadcast_to(&shape));
        yes.make(yes.dtype, shape, |index| {
            let chosen = if condition.at(index).int() != 0 {
                &yes
            } else {
                &no
            };
            chosen.at(index)
        })
    }

    pub(crate) fn cast(&self, dtype: DType) -> Array {
        let mut cast = self.make(dtype, self.shape.clone(), |index| {
            let from = self.at(index);
            match (from, dtype) {
                (Num::F(value), DType::Bool) => Num::I(i128::from(value != 0.0)),
                (Num::F(value), DType::I64) => Num::I(i128::from(value as i64)),
                (Num::F(value), DType::I32) => Num::I(i128::from(value as i32)),
                (Num::F(value), DType::U32) => Num::I(i128::from(value as u32)),
                (Num::F(value), DType::U8) => Num::I(i128::from(value as u8)),
                (from, _) => from,
            }
        });
        cast.data
            .iter_mut()
            .for_each(|num| *num = num.stored(dtype));
        cast
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
        let dtype = match op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => DType::I64,
            _ => self.dtype,
        };
        self.make(dtype, shape, |index| {
            let row = indices(&rows).map(|within| {
                let at: Vec<usize> = index.iter().zip(&within).map(|(a, b)| a + b).collect();
                self.at(&at)
            });
            reduce(op, row, self.dtype)
        })
    }

    pub(crate) fn gather(&self, axis: usize, index: &Array) -> Array {
        self.make(self.dtype, index.shape.clone(), |at| {
            let place = index.at(at).int();
            let mut mine = at.to_vec();
            match usize::try_from(place) {
                Ok(place) if place < self.shape[axis] => mine[axis] = place,
                _ => return Num::I(0),
            }
            self.at(&mine)
        })
    }

    pub(crate) fn scatter(&self, axis: usize, index: &Array, values: &Array, adds: bool) -> Array {
        let mut out = self.clone();
        // In the order of the axis.
        let mut order: Vec<Vec<usize>> = indices(&index.shape).collect();
        order.sort_by_key(|at| at[axis]);
        for at in order {
            let mut mine = at.clone();
            match usize::try_from(index.at(&at).int()) {
                Ok(place) if place < self.shape[axis] => mine[axis] = place,
                _ => continue,
            }
            let place = flat(&mine, &self.shape);
            let value = values.at(&at);
            out.data[place] = if adds {
                binary(BinaryOp::Add, out.data[place], value, self.dtype).rounded(self.dtype)
            } else {
                value
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
            unreachable!("the lengths add up")
        })
    }

    pub(crate) fn set_rows(&self, axis: usize, start: usize, values: &Array) -> Array {
        let rows = start..start + values.shape[axis];
        self.make(self.dtype, self.shape.clone(), |index| {
            if !rows.contains(&index[axis]) {
                return self.at(index);
            }
            let mut theirs = index.to_vec();
            theirs[axis] -= start;
            values.at(&theirs)
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
            let products = (0..k).map(|k| {
                let l = left.at(&[outer, &[last[0], k]].concat());
                let r = right.at(&[outer, &[k, last[1]]].concat());
                match (l, r) {
                    (Num::F(l), Num::F(r)) => Num::F(l * r),
                    (l, r) => Num::I(l.int().wrapping_mul(r.int())),
                }
            });
            reduce(ReduceOp::Sum, products, self.dtype)
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

fn unary(op: UnaryOp, a: Num, dtype: DType) -> Num {
    match (a, op) {
        (Num::I(a), UnaryOp::Neg) => Num::I(-a),
        (Num::I(a), UnaryOp::Abs) => Num::I(a.abs()),
        (Num::I(a), UnaryOp::Not) if dtype == DType::Bool => Num::I(i128::from(a == 0)),
        (Num::I(a), UnaryOp::Not) => Num::I(!a),
        (a, op) => {
            let a = a.float();
            Num::F(match op {
                UnaryOp::Neg => -a,
                UnaryOp::Abs => a.abs(),
                UnaryOp::Sqrt => a.sqrt(),
                UnaryOp::Exp => a.exp(),
                UnaryOp::Log => a.ln(),
                UnaryOp::Sin => a.sin(),
                UnaryOp::Cos => a.cos(),
                UnaryOp::Tanh => a.tanh(),
                UnaryOp::Erf => erf(a),
                UnaryOp::Floor => a.floor(),
                UnaryOp::Ceil => a.ceil(),
                other => unreachable!("{other} of a float"),
            })
        }
    }
}

/// By its series near zero and by its continued fraction elsewhere, far below the rounding of `f32`.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let a = x.abs();
    if a > 6.0 {
        return x.signum();
    }
    if a < 3.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let mut fraction = 0.0;
    for n in (1..200).rev() {
        fraction = f64::from(n) / 2.0 / (a + fraction);
    }
    let rest = (-a * a).exp() / ((a + fraction) * std::f64::consts::PI.sqrt());
    x.signum() * (1.0 - rest)
}

pub(crate) fn binary(op: BinaryOp, a: Num, b: Num, dtype: DType) -> Num {
    let bits = 0..8 * dtype.size() as i128;
    match (a, b) {
        (Num::I(a), Num::I(b)) => Num::I(match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a.wrapping_mul(b),
            BinaryOp::Div => a.checked_div(b).unwrap_or(0),
            BinaryOp::Rem => a.checked_rem(b).unwrap_or(0),
            BinaryOp::Min => a.min(b),
            BinaryOp::Max => a.max(b),
            BinaryOp::And => a & b,
            BinaryOp::Or => a | b,
            BinaryOp::Xor => a ^ b,
            BinaryOp::Shl if bits.contains(&b) => a << b,
            BinaryOp::Shl => 0,
            BinaryOp::Shr if bits.contains(&b) => a >> b,
            BinaryOp::Shr => a >> 127,
            other => unreachable!("{other} of integers"),
        }),
        (a, b) => {
            let (a, b) = (a.float(), b.float());
            let either_nan = a.is_nan() || b.is_nan();
            Num::F(match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                BinaryOp::Rem => a % b,
                BinaryOp::Min | BinaryOp::Max if either_nan => f64::NAN,
                BinaryOp::Min => a.min(b),
                BinaryOp::Max => a.max(b),
                BinaryOp::Pow => a.powf(b),
                other => unreachable!("{other} of floats"),
            })
        }
    }
}

fn compare(op: CompareOp, a: Num, b: Num) -> bool {
    let order = match (a, b) {
        (Num::I(a), Num::I(b)) => Some(a.cmp(&b)),
        (a, b) => a.float().partial_cmp(&b.float()),
    };
    match op {
        CompareOp::Eq => order.is_some_and(std::cmp::Ordering::is_eq),
        CompareOp::Ne => !order.is_some_and(std::cmp::Ordering::is_eq),
        CompareOp::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
        CompareOp::Le => order.is_some_and(std::cmp::Ordering::is_le),
        CompareOp::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
        CompareOp::Ge => order.is_some_and(std::cmp::Ordering::is_ge),
        other => unreachable!("{other}"),
    }
}

/// Sums of floats are not rounded on the way: no order of adding is the right one.
fn reduce(op: ReduceOp, row: impl Iterator<Item = Num>, dtype: DType) -> Num {
    let wrap = |num: Num| {
        if dtype.is_float() {
            num
        } else {
            num.rounded(dtype)
        }
    };
    let fold = |op: BinaryOp, start: Num, row: &mut dyn Iterator<Item = Num>| {
        row.fold(start, |sum, num| wrap(binary(op, sum, num, dtype)))
    };
    let number = |int: i128| {
        if dtype.is_float() {
            Num::F(int as f64)
        } else {
            Num::I(int)
        }
    };
    let mut row = row;
    match op {
        ReduceOp::Sum => fold(BinaryOp::Add, number(0), &mut row),
        ReduceOp::Prod => fold(BinaryOp::Mul, number(1), &mut row),
        ReduceOp::Min | ReduceOp::Max => {
            let op = if op == ReduceOp::Min {
                BinaryOp::Min
            } else {
                BinaryOp::Max
            };
            let first = row.next().expect("a row with elements");
            fold(op, first, &mut row)
        }
        _ => {
            let mut best: Option<(usize, Num)> = None;
            for (index, num) in row.enumerate() {
                let better = match best {
                    None => true,
                    Some((_, known)) if known.float().is_nan() => false,
                    Some(_) if num.float().is_nan() => true,
                    Some((_, known)) if op == ReduceOp::ArgMax => {
                        compare(CompareOp::Gt, num, known)
                    }
                    Some((_, known)) => compare(CompareOp::Lt, num, known),
                };
                if better {
                    best = Some((index, num));
                }
            }
            Num::I(best.map_or(0, |(index, _)| index as i128))
        }
    }
}
