//! Hand-written loops, which the compiler vectorizes for the processor of the machine.
//!
//! | module | content |
//! | --- | --- |
//! | [`dispatch`] | compiles a loop for several processors, and chooses one version at run time |
//! | [`loops`] | the loops |
//!
//! Outputs larger than the caches are streamed past them. Products are those of the crate `gemm`.

mod dispatch;
mod loops;

use crate::contenders::{Contender, Into, Offer, What, gemm};
use crate::work::{BATCH, Input, WIDTHS, Work};

pub(crate) struct Hand;

impl Contender for Hand {
    fn name(&self) -> &'static str {
        "hand"
    }

    fn job<'a>(&'a self, work: Work, what: What, inputs: &'a [Input]) -> Offer<'a> {
        if what != What::Run {
            return Ok(None);
        }
        let of = |input: usize| -> &'a [f32] { &inputs[input].numbers };
        match work {
            Work::Exp(_) => Into::offer(work, move |out| loops::exp(of(0), of(1), of(2), out)),
            Work::Ten(_) => Into::offer(work, move |out| loops::ten(of(0), of(1), of(2), out)),
            Work::Gelu(_) => Into::offer(work, move |out| loops::gelu(of(0), out)),
            Work::Sum(_) => Into::offer(work, move |out| loops::sum(of(0), out)),
            Work::Softmax(side) => Into::offer(work, move |out| loops::softmax(of(0), side, out)),
            Work::Norm(_) => Into::offer(work, move |out| loops::norm(of(0), of(1), of(2), out)),
            Work::Product(_) => Ok(None),
            Work::Layers => layers(inputs, gemm::multiply),
        }
    }
}

/// Returns the job of the three layers with this product, which receives the sizes `[rows, inner, columns]`.
pub(crate) fn layers<'a>(
    inputs: &'a [Input],
    multiply: impl Fn(&mut [f32], &[f32], &[f32], [usize; 3]) + 'a,
) -> Offer<'a> {
    let mut hidden = [1, 2].map(|layer| vec![0.0_f32; BATCH * WIDTHS[layer]]);
    Into::offer(Work::Layers, move |out| {
        let [first, second] = &mut hidden;
        let layer = |layer: usize, from: &[f32], out: &mut [f32]| {
            let (weights, bias) = (
                &inputs[1 + 2 * layer].numbers,
                &inputs[2 + 2 * layer].numbers,
            );
            let sizes = [BATCH, WIDTHS[layer], WIDTHS[layer + 1]];
            multiply(out, from, weights, sizes);
            let least = if layer < 2 { 0.0 } else { f32::NEG_INFINITY };
            loops::bias(out, bias, least);
        };
        layer(0, &inputs[0].numbers, first);
        layer(1, first, second);
        layer(2, second, out);
    })
}
