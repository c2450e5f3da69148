//! The crate `ndarray`: arrays, `Zip`, and products by `matrixmultiply`.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, Zip};

use crate::contenders::{Contender, Fault, Into, Offer, What};
use crate::work::{BATCH, EPSILON, GELU_CUBE, GELU_SCALE, Input, WIDTHS, Work};

pub(crate) struct Arrays;

impl Contender for Arrays {
    fn name(&self) -> &'static str {
        "ndarray"
    }

    fn job<'a>(&'a self, work: Work, what: What, inputs: &'a [Input]) -> Offer<'a> {
        if what != What::Run {
            return Ok(None);
        }
        let line = |input: usize| ArrayView1::from(&inputs[input].numbers);
        match work {
            Work::Exp(_) => elementwise(work, inputs, |a, b, c| (a * b + c).exp()),
            Work::Ten(_) => elementwise(work, inputs, |a, b, c| {
                let power = ((a * b + c) * 0.5 - a).clamp(-4.0, 4.0);
                (power.exp() * b + c) * a
            }),
            Work::Gelu(_) => {
                let x = line(0);
                Into::offer(work, move |out| {
                    let gelu = |x: f32| {
                        let power = -GELU_SCALE * (x + GELU_CUBE * x * x * x);
                        x / (1.0 + power.exp())
                    };
                    let out = ndarray::ArrayViewMut1::from(out);
                    Zip::from(out).and(x).for_each(|out, x| *out = gelu(*x));
                })
            }
            Work::Sum(_) => {
                let x = line(0);
                Into::offer(work, move |out| out[0] = x.sum())
            }
            Work::Softmax(side) => {
                let x = square(&inputs[0], side)?;
                Into::offer(work, move |out| softmax(x, side, out))
            }
            Work::Norm(side) => {
                let (x, gain, shift) = (square(&inputs[0], side)?, line(1), line(2));
                Into::offer(work, move |out| norm(x, gain, shift, out))
            }
            Work::Product(side) => {
                let (left, right) = (square(&inputs[0], side)?, square(&inputs[1], side)?);
                Into::offer(work, move |out| {
                    if let Ok(mut out) = ArrayViewMut2::from_shape((side, side), out) {
                        general_mat_mul(1.0, &left, &right, 0.0, &mut out);
                    }
                })
            }
            Work::Layers => layers(inputs),
        }
    }
}

fn square(input: &Input, side: usize) -> Result<ArrayView2<'_, f32>, Fault> {
    Ok(ArrayView2::from_shape((side, side), &input.numbers)?)
}

fn elementwise<'a>(
    work: Work,
    inputs: &'a [Input],
    f: impl Fn(f32, f32, f32) -> f32 + 'a,
) -> Offer<'a> {
    let [a, b, c] = [0, 1, 2].map(|input| ArrayView1::from(&inputs[input].numbers));
    Into::offer(work, move |out| {
        let out = ndarray::ArrayViewMut1::from(out);
        let all = Zip::from(out).and(a).and(b).and(c);
        all.for_each(|out, a, b, c| *out = f(*a, *b, *c));
    })
}

fn softmax(x: ArrayView2<'_, f32>, side: usize, out: &mut [f32]) {
    for (row, out) in x.axis_iter(Axis(0)).zip(out.chunks_mut(side)) {
        let mut out = ndarray::ArrayViewMut1::from(out);
        let most = row.fold(f32::NEG_INFINITY, |most, x| most.max(*x));
        Zip::from(&mut out)
            .and(row)
            .for_each(|out, x| *out = (x - most).exp());
        let sum = out.sum();
        out /= sum;
    }
}

fn norm(
    x: ArrayView2<'_, f32>,
    gain: ArrayView1<'_, f32>,
    shift: ArrayView1<'_, f32>,
    out: &mut [f32],
) {
    let side = gain.len();
    for (row, out) in x.axis_iter(Axis(0)).zip(out.chunks_mut(side)) {
        let mut out = ndarray::ArrayViewMut1::from(out);
        let mean = row.sum() / side as f32;
        Zip::from(&mut out)
            .and(row)
            .for_each(|out, x| *out = x - mean);
        let variance = out.dot(&out) / side as f32;
        let scale = 1.0 / (variance + EPSILON).sqrt();
        let all = Zip::from(&mut out).and(gain).and(shift);
        all.for_each(|out, gain, shift| *out = *out * scale * gain + shift);
    }
}

fn layers(inputs: &[Input]) -> Offer<'_> {
    let mut parts = Vec::new();
    let mut outs = Vec::new();
    for (layer, pair) in WIDTHS.windows(2).enumerate() {
        let weights = &inputs[1 + 2 * layer].numbers;
        let weights = ArrayView2::from_shape((pair[0], pair[1]), weights)?;
        parts.push((weights, ArrayView1::from(&inputs[2 + 2 * layer].numbers)));
        outs.push(Array2::<f32>::zeros((BATCH, pair[1])));
    }
    let x = ArrayView2::from_shape((BATCH, WIDTHS[0]), &inputs[0].numbers)?;
    Into::offer(Work::Layers, move |out| {
        for (layer, (weights, bias)) in parts.iter().enumerate() {
            let (before, now) = outs.split_at_mut(layer);
            let input = before.last().map_or(x, |before| before.view());
            let now = &mut now[0];
            general_mat_mul(1.0, &input, weights, 0.0, now);
            let least = if layer < 2 { 0.0 } else { f32::NEG_INFINITY };
            let biased = Zip::from(now).and_broadcast(bias);
            biased.for_each(|x, bias| *x = (*x + bias).max(least));
        }
        if let Some(last) = outs.last().and_then(|last| last.as_slice()) {
            out.copy_from_slice(last);
        }
    })
}
