//! The computations (works), their inputs, and their expected results, computed in `f64`.

/// One computation, in `f32`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// `(a * b + c).exp()` of N elements.
    Exp(usize),
    /// `x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))` of N elements: the tanh form of gelu.
    Gelu(usize),
    /// Softmax of each row of a square matrix of side N.
    Softmax(usize),
    /// Layer norm of each row of a square matrix of side N: normalized to mean 0 and variance 1, times a gain, plus a
    /// shift.
    Norm(usize),
    /// The sum of N elements.
    Sum(usize),
    /// A product of two square matrices of side N.
    Product(usize),
    /// Three layers with biases, the first two with a rectifier: from rows of pixels to rows of digits.
    Layers,
    /// `(exp(min(max((a * b + c) * 0.5 - a, -4), 4)) * b + c) * a` of N elements: ten nodes.
    Ten(usize),
}

/// The widths of the layers of [`Work::Layers`].
pub(crate) const WIDTHS: [usize; 4] = [784, 512, 512, 10];
/// The number of rows of [`Work::Layers`].
pub(crate) const BATCH: usize = 64;
/// The number that [`Work::Norm`] adds to variances.
pub(crate) const EPSILON: f32 = 1e-5;
/// The factor of the cube in gelu.
pub(crate) const GELU_CUBE: f32 = 0.044_715;
/// `2 sqrt(2 / pi)`, the factor in gelu.
pub(crate) const GELU_SCALE: f32 = 1.595_769_1;

/// An input: numbers in row-major order, and their shape.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Vec<f32>,
}

impl Work {
    /// Returns the inputs, which are the same in every run: mostly from -1 to 1, with weights so small that sums stay
    /// near 1.
    pub(crate) fn inputs(self) -> Vec<Input> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut input = |shape: &[usize], scale: f32| Input {
            shape: shape.to_vec(),
            numbers: (0..shape.iter().product())
                .map(|_| random.number() * scale)
                .collect(),
        };
        match self {
            Work::Exp(len) | Work::Ten(len) => (0..3).map(|_| input(&[len], 1.0)).collect(),
            Work::Gelu(len) => vec![input(&[len], 4.0)],
            Work::Sum(len) => vec![input(&[len], 1.0)],
            Work::Softmax(side) => vec![input(&[side, side], 4.0)],
            Work::Norm(side) => vec![
                input(&[side, side], 4.0),
                input(&[side], 1.0),
                input(&[side], 1.0),
            ],
            Work::Product(side) => (0..2).map(|_| input(&[side, side], 1.0)).collect(),
            Work::Layers => {
                let mut inputs = vec![input(&[BATCH, WIDTHS[0]], 1.0)];
                for pair in WIDTHS.windows(2) {
                    inputs.push(input(&[pair[0], pair[1]], (6.0 / pair[0] as f32).sqrt()));
                    inputs.push(input(&[pair[1]], 0.5));
                }
                inputs
            }
        }
    }

    /// Returns the shape of the result.
    pub(crate) fn output(self) -> Vec<usize> {
        match self {
            Work::Exp(len) | Work::Gelu(len) | Work::Ten(len) => vec![len],
            Work::Softmax(side) | Work::Norm(side) | Work::Product(side) => vec![side, side],
            Work::Sum(_) => vec![1],
            Work::Layers => vec![BATCH, WIDTHS[3]],
        }
    }

    /// Returns the number of multiplications and additions, if the unit counts them.
    pub(crate) fn operations(self) -> Option<f64> {
        match self {
            Work::Product(side) => Some(2.0 * (side as f64).powi(3)),
            _ => None,
        }
    }

    /// Returns the expected result.
    pub(crate) fn plainly(self, inputs: &[Input]) -> Vec<f64> {
        let of = |input: usize| -> &[f32] { &inputs[input].numbers };
        let wide =
            |numbers: &[f32]| -> Vec<f64> { numbers.iter().map(|x| f64::from(*x)).collect() };
        let three = |f: fn(f64, f64, f64) -> f64| -> Vec<f64> {
            let all = of(0).iter().zip(of(1)).zip(of(2));
            all.map(|((a, b), c)| f((*a).into(), (*b).into(), (*c).into()))
                .collect()
        };
        match self {
            Work::Exp(_) => three(|a, b, c| (a * b + c).exp()),
            Work::Ten(_) => three(|a, b, c| {
                let power = ((a * b + c) * 0.5 - a).clamp(-4.0, 4.0);
                (power.exp() * b + c) * a
            }),
            Work::Gelu(_) => {
                let (cube, scale) = (f64::from(GELU_CUBE), f64::from(GELU_SCALE));
                let gelu = |x: f64| x / (1.0 + (-scale * (x + cube * x * x * x)).exp());
                of(0).iter().map(|x| gelu(f64::from(*x))).collect()
            }
            Work::Sum(_) => vec![of(0).iter().map(|x| f64::from(*x)).sum()],
            Work::Softmax(side) => wide(of(0)).chunks(side).flat_map(softmax).collect(),
            Work::Norm(side) => {
                let (gain, shift) = (wide(of(1)), wide(of(2)));
                let norm = |row: &[f64]| norm(row, &gain, &shift);
                wide(of(0)).chunks(side).flat_map(norm).collect()
            }
            Work::Product(side) => product(&wide(of(0)), &wide(of(1)), side, side),
            Work::Layers => {
                let mut rows = wide(of(0));
                for layer in 0..3 {
                    let (inner, columns) = (WIDTHS[layer], WIDTHS[layer + 1]);
                    let bias = wide(of(2 + 2 * layer));
                    rows = product(&rows, &wide(of(1 + 2 * layer)), inner, columns);
                    let least = if layer < 2 { 0.0 } else { f64::NEG_INFINITY };
                    for row in rows.chunks_mut(columns) {
                        let biased = row.iter_mut().zip(&bias);
                        biased.for_each(|(x, bias)| *x = (*x + bias).max(least));
                    }
                }
                rows
            }
        }
    }
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
    row.iter().map(|x| (x - most).exp() / sum).collect()
}

fn norm(row: &[f64], gain: &[f64], shift: &[f64]) -> Vec<f64> {
    let count = row.len() as f64;
    let mean = row.iter().sum::<f64>() / count;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    let scale = 1.0 / (variance + f64::from(EPSILON)).sqrt();
    let scaled = row.iter().zip(gain).zip(shift);
    scaled
        .map(|((x, gain), shift)| (x - mean) * scale * gain + shift)
        .collect()
}

fn product(left: &[f64], right: &[f64], inner: usize, columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; left.len() / inner * columns];
    for (row, out) in left.chunks(inner).zip(out.chunks_mut(columns)) {
        for (x, right) in row.iter().zip(right.chunks(columns)) {
            out.iter_mut().zip(right).for_each(|(sum, y)| *sum += x * y);
        }
    }
    out
}

/// Returns the first difference of two results, if there is one. The tolerance is absolute below 1, and relative to the
/// expected number above.
pub(crate) fn difference(got: &[f32], expected: &[f64], tolerance: f64) -> Option<String> {
    if got.len() != expected.len() {
        return Some(format!(
            "expected {} numbers, got {}",
            expected.len(),
            got.len()
        ));
    }
    let mut pairs = got.iter().zip(expected).enumerate();
    // A NaN is not near any number, so it counts as a difference.
    let near = |got: f32, expected: f64| {
        (f64::from(got) - expected).abs() <= tolerance * expected.abs().max(1.0)
    };
    let (index, (got, expected)) = pairs.find(|(_, (got, expected))| !near(**got, **expected))?;
    Some(format!("expected {expected} at index {index}, got {got}"))
}

/// A xorshift generator: the same numbers on every machine.
struct Random(u64);

impl Random {
    /// Returns the next number, from -1 to 1.
    fn number(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_told_with_its_place() {
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 2.0], 1e-4), None);
        let told = difference(&[1.0, 2.1], &[1.0, 2.0], 1e-4);
        assert_eq!(told.as_deref(), Some("expected 2 at index 1, got 2.1"));
        assert!(difference(&[f32::NAN], &[0.0], 1e-4).is_some());
        assert!(difference(&[], &[0.0], 1e-4).is_some());
    }

    #[test]
    fn softmax_sums_to_one_and_a_norm_has_variance_one() {
        let sum: f64 = softmax(&[1.0, 2.0, 3.0]).iter().sum();
        assert!((sum - 1.0).abs() < 1e-12);
        let row = norm(&[1.0, 2.0, 3.0], &[1.0; 3], &[0.0; 3]);
        let variance = row.iter().map(|x| x * x).sum::<f64>() / 3.0;
        assert!((variance - 1.0).abs() < 1e-4, "{row:?}");
    }

    #[test]
    fn a_product_is_rows_times_columns() {
        let got = product(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 2, 2);
        assert_eq!(got, [19.0, 22.0, 43.0, 50.0]);
    }
}
