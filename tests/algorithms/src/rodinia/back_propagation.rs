//! Back-propagation: a step in the training of a net with one hidden layer.
//!
//! A layer has the weight of its input `i` for its unit `u` at `weights[(i + 1) * units + u]`; the first row is of the
//! bias, an input that is always 1.

use millstream::prelude::*;

use crate::{Checked, near, uniform};

/// The threads of a cube along each axis.
const BLOCK: usize = 16;

/// The sums of inputs with their weights, over sixteen inputs each: `partial[cube_row * units + unit]`.
#[kernel(cube = [16, 16])]
pub fn layer_forward(units: usize, inputs: &[f32], weights: &[f32], partial: &mut [f32]) {
    let products = shared::<f32, { BLOCK * BLOCK }>();
    let [down, across] = position_in_cube();
    let [row, unit] = position();
    let mine = down * BLOCK + across;
    products[mine] = if row <= inputs.len() && unit < units {
        let input = if row == 0 { 1.0 } else { inputs[row - 1] };
        input * weights[row * units + unit]
    } else {
        0.0
    };
    let mut half = BLOCK / 2;
    while half > 0 {
        barrier();
        if down < half {
            products[mine] += products[mine + half * BLOCK];
        }
        half /= 2;
    }
    if down == 0 && unit < units {
        partial[row / BLOCK * units + unit] = products[mine];
    }
}

/// What each unit gives: its sum, squashed.
#[kernel]
pub fn squash(partial: &[f32], outputs: &mut [f32]) {
    let unit = thread();
    let mut sum = 0.0;
    for part in 0..partial.len() / outputs.len() {
        sum += partial[part * outputs.len() + unit];
    }
    outputs[unit] = 1.0 / (1.0 + (-sum).exp());
}

/// The error of each unit of the last layer.
#[kernel]
pub fn output_error(targets: &[f32], outputs: &[f32], deltas: &mut [f32]) {
    let unit = thread();
    let output = outputs[unit];
    deltas[unit] = output * (1.0 - output) * (targets[unit] - output);
}

/// The error of each unit of the hidden layer, from those of the units behind it.
#[kernel]
pub fn hidden_error(hidden: &[f32], weights: &[f32], behind: &[f32], deltas: &mut [f32]) {
    let unit = thread();
    let mut sum = 0.0;
    for other in 0..behind.len() {
        sum += behind[other] * weights[(unit + 1) * behind.len() + other];
    }
    deltas[unit] = hidden[unit] * (1.0 - hidden[unit]) * sum;
}

/// Moves weights against the errors. They keep a part of their last move.
#[kernel]
pub fn adjust_weights(inputs: &[f32], deltas: &[f32], moves: &mut [f32], weights: &mut [f32]) {
    let [row, unit] = position();
    let at = thread();
    let input = if row == 0 { 1.0 } else { inputs[row - 1] };
    let step = 0.3 * deltas[unit] * input + 0.3 * moves[at];
    moves[at] = step;
    weights[at] += step;
}

/// A layer on a device.
struct Layer {
    weights: Handle<f32>,
    moves: Handle<f32>,
    outputs: Handle<f32>,
    deltas: Handle<f32>,
    partial: Handle<f32>,
    /// Rows of weights, and units.
    size: [usize; 2],
}

impl Layer {
    fn new(stream: &Stream, weights: &[f32], units: usize) -> Result<Self, millstream::Error> {
        let rows = weights.len() / units;
        Ok(Self {
            weights: stream.create(weights)?,
            moves: stream.create(&vec![0.0; weights.len()])?,
            outputs: stream.create(&vec![0.0; units])?,
            deltas: stream.create(&vec![0.0; units])?,
            partial: stream.create(&vec![0.0; rows.div_ceil(BLOCK) * units])?,
            size: [rows, units],
        })
    }

    fn forward(&mut self, stream: &Stream, inputs: &Handle<f32>) -> Result<(), millstream::Error> {
        layer_forward(self.size[1], inputs, &self.weights, &mut self.partial)
            .launch(stream, self.size)?;
        squash(&self.partial, &mut self.outputs).launch_each(stream)
    }

    fn adjust(&mut self, stream: &Stream, inputs: &Handle<f32>) -> Result<(), millstream::Error> {
        adjust_weights(inputs, &self.deltas, &mut self.moves, &mut self.weights)
            .launch(stream, self.size)
    }
}

/// The same steps in ordinary Rust: returns the weights of both layers, and the outputs of the last step.
fn expected(
    inputs: &[f32],
    targets: &[f32],
    layers: [&[f32]; 2],
    units: [usize; 2],
) -> [Vec<f32>; 3] {
    let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|it| f64::from(*it)).collect() };
    let narrow = |values: &[f64]| -> Vec<f32> { values.iter().map(|it| *it as f32).collect() };
    let mut weights = layers.map(wide);
    let mut moves = weights.clone().map(|it| vec![0.0; it.len()]);
    let inputs: Vec<f64> = [1.0].into_iter().chain(wide(inputs)).collect();
    let forward = |inputs: &[f64], weights: &[f64], units: usize| -> Vec<f64> {
        let sum = |unit| {
            inputs
                .iter()
                .enumerate()
                .map(move |(i, it)| it * weights[i * units + unit])
        };
        (0..units)
            .map(|unit| 1.0 / (1.0 + (-sum(unit).sum::<f64>()).exp()))
            .collect()
    };
    let mut outputs = Vec::new();
    for _ in 0..3 {
        let hidden = forward(&inputs, &weights[0], units[0]);
        let hidden_inputs: Vec<f64> = [1.0].into_iter().chain(hidden.clone()).collect();
        outputs = forward(&hidden_inputs, &weights[1], units[1]);
        let last = outputs.iter().zip(targets);
        let last: Vec<f64> = last
            .map(|(o, t)| o * (1.0 - o) * (f64::from(*t) - o))
            .collect();
        let first = hidden.iter().enumerate().map(|(unit, h)| {
            let sum = last
                .iter()
                .enumerate()
                .map(|(k, it)| it * weights[1][(unit + 1) * units[1] + k]);
            h * (1.0 - h) * sum.sum::<f64>()
        });
        let first: Vec<f64> = first.collect();
        for (layer, (inputs, deltas)) in [(&inputs, &first), (&hidden_inputs, &last)]
            .into_iter()
            .enumerate()
        {
            for at in 0..weights[layer].len() {
                let (row, unit) = (at / units[layer], at % units[layer]);
                moves[layer][at] = 0.3 * deltas[unit] * inputs[row] + 0.3 * moves[layer][at];
                weights[layer][at] += moves[layer][at];
            }
        }
    }
    let [first, last] = weights;
    [narrow(&first), narrow(&last), narrow(&outputs)]
}

/// Compares three steps of training with plain Rust.
///
/// # Errors
/// They differ.
pub fn training_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    for [count, hidden, outputs] in [[1, 1, 1], [15, 16, 1], [70, 18, 3]] {
        let (mut input, target) = (uniform(1, count), uniform(2, outputs));
        let weights = |seed, rows: usize, units: usize| -> Vec<f32> {
            uniform(seed, (rows + 1) * units)
                .iter()
                .map(|it| it - 0.5)
                .collect()
        };
        let (first, last) = (weights(3, count, hidden), weights(4, hidden, outputs));
        // Units that are saturated.
        input[0] *= if count > 60 { 1e30 } else { 1.0 };
        let expected = expected(&input, &target, [&first, &last], [hidden, outputs]);
        let (inputs, targets) = (stream.create(&input)?, stream.create(&target)?);
        let mut first = Layer::new(&stream, &first, hidden)?;
        let mut last = Layer::new(&stream, &last, outputs)?;
        for _ in 0..3 {
            first.forward(&stream, &inputs)?;
            last.forward(&stream, &first.outputs)?;
            output_error(&targets, &last.outputs, &mut last.deltas).launch_each(&stream)?;
            hidden_error(
                &first.outputs,
                &last.weights,
                &last.deltas,
                &mut first.deltas,
            )
            .launch_each(&stream)?;
            last.adjust(&stream, &first.outputs)?;
            first.adjust(&stream, &inputs)?;
        }
        for (name, given, expected) in [
            ("weights of the first layer", &first.weights, &expected[0]),
            ("weights of the last layer", &last.weights, &expected[1]),
            ("outputs", &last.outputs, &expected[2]),
        ] {
            near(name, &stream.read(given).wait()?, expected, 1e-4)?;
        }
    }
    Ok(())
}
