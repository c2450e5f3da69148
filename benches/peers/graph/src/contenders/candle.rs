//! `candle-core`, with the fused operations of `candle-nn` where it has them. Each operation makes its own tensor.

use candle_core::{Device, Tensor};

use crate::contenders::{Contender, Fault, Job, Offer, What};
use crate::work::{EPSILON, Input, Work};

pub(crate) struct Candle;

impl Contender for Candle {
    fn name(&self) -> &'static str {
        "candle"
    }

    fn job<'a>(&'a self, work: Work, what: What, inputs: &'a [Input]) -> Offer<'a> {
        if what != What::Run {
            return Ok(None);
        }
        let tensor =
            |input: &Input| Tensor::from_slice(&input.numbers, &input.shape[..], &Device::Cpu);
        let inputs: Vec<Tensor> = inputs.iter().map(tensor).collect::<Result<_, _>>()?;
        let last = None;
        Ok(Some(Box::new(Run { work, inputs, last })))
    }
}

struct Run {
    work: Work,
    inputs: Vec<Tensor>,
    last: Option<Tensor>,
}

impl Run {
    fn compute(&self) -> Result<Tensor, candle_core::Error> {
        let x = &self.inputs;
        match self.work {
            Work::Exp(_) => x[0].mul(&x[1])?.add(&x[2])?.exp(),
            Work::Ten(_) => {
                let half = (x[0].mul(&x[1])?.add(&x[2])? * 0.5)?;
                let power = half.sub(&x[0])?.clamp(-4.0_f32, 4.0_f32)?;
                power.exp()?.mul(&x[1])?.add(&x[2])?.mul(&x[0])
            }
            Work::Gelu(_) => x[0].gelu(),
            Work::Sum(_) => x[0].sum_all(),
            Work::Softmax(_) => candle_nn::ops::softmax_last_dim(&x[0]),
            Work::Norm(_) => candle_nn::ops::layer_norm(&x[0], &x[1], &x[2], EPSILON),
            Work::Product(_) => x[0].matmul(&x[1]),
            Work::Layers => {
                let layer = |from: &Tensor, layer: usize| {
                    let (weights, bias) = (&x[1 + 2 * layer], &x[2 + 2 * layer]);
                    from.matmul(weights)?.broadcast_add(bias)
                };
                let first = layer(&x[0], 0)?.relu()?;
                let second = layer(&first, 1)?.relu()?;
                layer(&second, 2)
            }
        }
    }
}

impl Job for Run {
    fn run(&mut self) -> Result<(), Fault> {
        self.last = Some(self.compute()?);
        Ok(())
    }

    fn output(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        let flat = self.last.as_ref().map(Tensor::flatten_all).transpose()?;
        Ok(flat.map(|flat| flat.to_vec1()).transpose()?)
    }
}
