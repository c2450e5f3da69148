//! A network of two layers that learns digits. One schedule has the forward pass, the backward pass and the step of
//! gradient descent.
//!
//! The backward pass is derived from the loss. Weights are updated in place, so a step of training is one message to
//! the device, which allocates and compiles nothing.
//!
//! `cluster/examples/programs` trains the same [`Layers`] on several devices.

#![allow(
    unreachable_pub,
    reason = "a public module of `cluster/examples/programs`, too"
)]

use millstream::graph::{CompiledSchedule, Graph, LazyBuffer, Scalar, Schedule, ScheduleError};
use millstream::{ComputeClient, DType, Handle, Stream};

/// Images and their digits; `README.md` in this folder describes the format.
const DATA: &[u8] = include_bytes!("digits.bin");
/// Pixels of an image.
pub const PIXELS: usize = 64;
/// Classes.
pub const DIGITS: usize = 10;
/// Hidden units.
pub const HIDDEN: usize = 64;
/// Images of a step.
pub const BATCH: usize = 64;
/// Every fifth image is for testing.
const TEST_EVERY: usize = 5;

/// Images as rows of pixels in 0..=1, with their digits.
#[derive(Default)]
pub struct Images {
    /// Rows of 64 pixels.
    pub pixels: Vec<f32>,
    /// The digit of each image.
    pub digits: Vec<i64>,
}

impl Images {
    /// Loads the images for training, and those for testing.
    pub fn load() -> (Self, Self) {
        let (mut train, mut test) = (Images::default(), Images::default());
        for (index, record) in DATA.chunks_exact(PIXELS + 1).enumerate() {
            let set = if index % TEST_EVERY == 0 {
                &mut test
            } else {
                &mut train
            };
            set.pixels.extend(
                record[..PIXELS]
                    .iter()
                    .map(|pixel| f32::from(*pixel) / 16.0),
            );
            set.digits.push(i64::from(record[PIXELS]));
        }
        (train, test)
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.digits.len()
    }

    /// Returns the pixels and the digits of some images.
    pub fn select(&self, images: &[usize]) -> (Vec<f32>, Vec<i64>) {
        let rows = images
            .iter()
            .flat_map(|image| &self.pixels[image * PIXELS..][..PIXELS]);
        let digits = images.iter().map(|image| self.digits[*image]);
        (rows.copied().collect(), digits.collect())
    }
}

/// The order in which the images are learnt: the same in each run.
pub struct Order {
    images: Vec<usize>,
    random: u64,
}

impl Order {
    pub fn new(images: usize) -> Self {
        Self {
            images: (0..images).collect(),
            random: 1,
        }
    }

    /// Shuffles the images for the next round. Returns its batches of `batch` images.
    pub fn shuffle(&mut self, batch: usize) -> impl Iterator<Item = &[usize]> {
        for index in (1..self.images.len()).rev() {
            // xorshift
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let other = (self.random % (index as u64 + 1)) as usize;
            self.images.swap(index, other);
        }
        self.images.chunks_exact(batch)
    }
}

/// Returns the rate of learning in a round: it decreases.
pub fn rate(round: usize) -> f32 {
    0.5 * 0.93_f32.powi(round as i32)
}

/// The weights on a device.
pub struct Weights {
    /// Rows of [`HIDDEN`] weights, one row for each pixel.
    pub w1: Handle<f32>,
    pub b1: Handle<f32>,
    /// Rows of [`DIGITS`] weights, one row for each hidden unit.
    pub w2: Handle<f32>,
    pub b2: Handle<f32>,
}

impl Weights {
    /// Creates small random weights, the same in each run.
    pub fn random(client: &ComputeClient, stream: &Stream) -> Result<Self, ScheduleError> {
        let graph = Graph::new();
        let weights = |rows: usize, columns: usize, seed: u64| {
            let scale = (6.0 / rows as f64).sqrt();
            let (_, uniform) = graph.uniform([rows, columns], seed);
            evaluate(&((uniform - 0.5) * (2.0 * scale)), client, stream)
        };
        let zeros = |len: usize| evaluate(&graph.zeros(DType::F32, [len]), client, stream);
        Ok(Self {
            w1: weights(PIXELS, HIDDEN, 1)?,
            b1: zeros(HIDDEN)?,
            w2: weights(HIDDEN, DIGITS, 2)?,
            b2: zeros(DIGITS)?,
        })
    }
}

/// The expressions of the network.
pub struct Layers {
    pub w1: LazyBuffer,
    pub b1: LazyBuffer,
    pub w2: LazyBuffer,
    pub b2: LazyBuffer,
}

impl Layers {
    pub fn new(graph: &Graph, weights: &Weights) -> Self {
        Self {
            w1: graph.buffer(&weights.w1, [PIXELS, HIDDEN]),
            b1: graph.buffer(&weights.b1, [HIDDEN]),
            w2: graph.buffer(&weights.w2, [HIDDEN, DIGITS]),
            b2: graph.buffer(&weights.b2, [DIGITS]),
        }
    }

    /// Returns the first layer of some images, before its activation.
    pub fn first(&self, images: &LazyBuffer) -> LazyBuffer {
        images.matmul(&self.w1) + &self.b1
    }

    /// Returns the last layer of the first one: a score for each digit.
    pub fn last(&self, first: &LazyBuffer) -> LazyBuffer {
        first.relu().matmul(&self.w2) + &self.b2
    }
}

/// Returns the cross entropy of scores and digits, summed over the images.
pub fn cross_entropy(graph: &Graph, scores: &LazyBuffer, digits: &LazyBuffer) -> LazyBuffer {
    let one_hot = digits
        .equals(graph.index(scores.shape(), 1))
        .cast(DType::F32);
    -(scores.log_softmax(-1) * &one_hot).sum(..)
}

/// The network on a device.
pub struct Digits {
    schedule: Schedule,
    step: CompiledSchedule,
    guess: CompiledSchedule,
    images: LazyBuffer,
    digits: LazyBuffer,
    test_images: LazyBuffer,
    rate: Scalar,
}

impl Digits {
    /// Creates a network with small random weights. Compiles a training step for [`BATCH`] images, and a guess for
    /// `tests` images.
    pub fn new(
        client: &ComputeClient,
        stream: &Stream,
        tests: usize,
    ) -> Result<Self, ScheduleError> {
        let graph = Graph::new();
        let layers = Layers::new(&graph, &Weights::random(client, stream)?);
        let images = graph.input("images", DType::F32, [BATCH, PIXELS]);
        let digits = graph.input("digits", DType::I64, [BATCH, 1]);
        let (rate, rate_now) = graph.scalar("rate", DType::F32, 0.5);

        // Forward.
        let scores = layers.last(&layers.first(&images));
        let loss = cross_entropy(&graph, &scores, &digits) / BATCH as f64;
        // Backward.
        let weights = [&layers.w1, &layers.b1, &layers.w2, &layers.b2];
        let gradients = loss.grad(weights);
        // Gradient descent.
        let updated: Vec<LazyBuffer> = weights
            .into_iter()
            .zip(&gradients)
            .map(|(weights, gradient)| weights.set(&(weights - gradient * &rate_now)))
            .collect();
        let roots: Vec<&LazyBuffer> = [&loss].into_iter().chain(&updated).collect();
        let schedule = Schedule::create(&roots)?;
        let step = schedule.compile(client)?;

        let test_images = graph.input("test_images", DType::F32, [tests, PIXELS]);
        let guess = layers.last(&layers.first(&test_images)).argmax(-1);
        let guess = Schedule::create_one(&guess)?.compile(client)?;
        Ok(Self {
            schedule,
            step,
            guess,
            images,
            digits,
            test_images,
            rate,
        })
    }

    /// Returns the schedule of a step.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns the compiled schedule of a step.
    pub fn step(&self) -> &CompiledSchedule {
        &self.step
    }

    /// Trains on [`BATCH`] images. Returns the loss before the step, which stays on the device.
    pub fn learn(
        &self,
        stream: &Stream,
        pixels: &[f32],
        digits: &[i64],
        rate: f32,
    ) -> Result<Handle<f32>, ScheduleError> {
        let (pixels, digits) = (stream.create(pixels)?, stream.create(digits)?);
        let run = self.step.run();
        let run = run
            .input(&self.images, &pixels)
            .input(&self.digits, &digits);
        run.scalar(&self.rate, rate).submit(stream)?[0].handle()
    }

    /// Guesses the digits of the images.
    pub fn guess(&self, stream: &Stream, pixels: &[f32]) -> Result<Vec<i64>, ScheduleError> {
        let pixels = stream.create(pixels)?;
        let outputs = self
            .guess
            .run()
            .input(&self.test_images, &pixels)
            .submit(stream)?;
        Ok(outputs[0].read(stream)?.wait()?)
    }
}

/// Computes an expression to a new buffer.
fn evaluate(
    expression: &LazyBuffer,
    client: &ComputeClient,
    stream: &Stream,
) -> Result<Handle<f32>, ScheduleError> {
    let compiled = Schedule::create_one(expression)?.compile(client)?;
    compiled.run().submit(stream)?[0].handle()
}

/// Trains for `rounds` passes over the images with a decreasing rate. Returns the loss of every step.
pub fn train(
    network: &Digits,
    stream: &Stream,
    train: &Images,
    rounds: usize,
    mut on_round: impl FnMut(usize),
) -> Result<Vec<f32>, ScheduleError> {
    let mut losses = Vec::new();
    let mut order = Order::new(train.len());
    for round in 0..rounds {
        for batch in order.shuffle(BATCH) {
            let (pixels, digits) = train.select(batch);
            losses.push(network.learn(stream, &pixels, &digits, rate(round))?);
        }
        on_round(round);
    }
    let losses: Result<Vec<Vec<f32>>, _> =
        losses.iter().map(|loss| stream.read(loss).wait()).collect();
    Ok(losses?.into_iter().flatten().collect())
}
