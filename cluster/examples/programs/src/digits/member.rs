//! One member: its copy of the parameters, and its tasks of a step.

use std::ops::Range;

use millstream::graph::{CompiledSchedule, Graph, LazyBuffer, Scalar, Schedule};
use millstream::{DType, Handle, Pending, Stream, error::ArgumentError};

use super::model::{self, DIGITS, HIDDEN, Images, Layers, PIXELS, Weights};
use super::{BUCKETS, FIRST, Failure, LAST};

/// The elements of each layer: its weights, one row for each of its inputs, and then its biases.
const WEIGHTS: [usize; BUCKETS] = [PIXELS * HIDDEN, HIDDEN * DIGITS];
const BIASES: [usize; BUCKETS] = [HIDDEN, DIGITS];

/// A rank of this process.
pub(crate) struct Member {
    /// Runs all schedules. The groups reduce on streams of their own, so that neither holds back the other.
    pub(crate) stream: Stream,
    /// The places of its images in each batch.
    part: Range<usize>,
    pub(crate) buckets: [Bucket; BUCKETS],
    last: LastLayer,
    first: FirstLayer,
    /// Counts the right guesses among the member's part of the test images.
    guess: CompiledSchedule,
    /// The loss in the last bucket.
    loss: Handle<f32>,
}

/// The parameters of a layer, and what the members reduce of it, each in one piece.
pub(crate) struct Bucket {
    pub(crate) parameters: Handle<f32>,
    /// Sums over images: the gradients in the order of the parameters, and in the last bucket then the loss.
    pub(crate) gradients: Handle<f32>,
    update: CompiledSchedule,
    rate: Scalar,
}

/// The schedule of the forward pass, and of the backward pass through the last layer.
struct LastLayer {
    schedule: CompiledSchedule,
    images: LazyBuffer,
    digits: LazyBuffer,
}

/// The schedule of the backward pass through the first layer.
struct FirstLayer {
    schedule: CompiledSchedule,
    images: LazyBuffer,
    errors: LazyBuffer,
}

/// What the backward pass through the first layer needs of that through the last one.
pub(crate) struct Passed {
    images: Handle<f32>,
    /// The gradients by the values of the first layer, before its activation.
    errors: Handle<f32>,
}

impl Member {
    /// Allocates and compiles. The parameters are random on rank 0 and zeros on all others.
    pub(crate) fn new(
        like: &Stream,
        (rank, ranks): (usize, usize),
        batch: usize,
        tests: &Images,
    ) -> Result<Self, Failure> {
        let stream = like.client().new_stream();
        let buckets = [
            Bucket::new(&stream, WEIGHTS[FIRST] + BIASES[FIRST], 0, batch)?,
            Bucket::new(&stream, WEIGHTS[LAST] + BIASES[LAST], 1, batch)?,
        ];
        let [parameters, gradients] = [
            views(buckets.each_ref().map(|bucket| &bucket.parameters))?,
            views(buckets.each_ref().map(|bucket| &bucket.gradients))?,
        ];
        if rank == 0 {
            let random = Weights::random(stream.client(), &stream)?;
            for (from, to) in [
                (&random.w1, &parameters.w1),
                (&random.b1, &parameters.b1),
                (&random.w2, &parameters.w2),
                (&random.b2, &parameters.b2),
            ] {
                stream.copy(from, to)?;
            }
        }
        let graph = Graph::new();
        let layers = Layers::new(&graph, &parameters);
        let targets = Layers::new(&graph, &gradients);
        let part = part_of(batch, rank, ranks);
        let loss = buckets[LAST]
            .gradients
            .slice(WEIGHTS[LAST] + BIASES[LAST]..)?;
        let total = graph.buffer(&loss, [1, 1]);
        let on = (&stream, &graph);
        let tests = (tests, part_of(tests.len(), rank, ranks));
        Ok(Self {
            last: LastLayer::new(on, (&layers, &targets, &total), part.len())?,
            first: FirstLayer::new(on, (&layers, &targets), part.len())?,
            guess: count_right(on, &layers, tests)?,
            loss,
            part,
            buckets,
            stream,
        })
    }

    /// Submits the forward pass of the member's part of a batch, and the backward pass through the last layer, which
    /// fills the last bucket.
    pub(crate) fn backward_last(
        &self,
        images: &Images,
        batch: &[usize],
    ) -> Result<Passed, Failure> {
        let (pixels, digits) = images.select(&batch[self.part.clone()]);
        let (images, digits) = (self.stream.create(&pixels)?, self.stream.create(&digits)?);
        let run = self.last.schedule.run();
        let run = run
            .input(&self.last.images, &images)
            .input(&self.last.digits, &digits);
        let errors = run.submit(&self.stream)?[0].handle()?;
        Ok(Passed { images, errors })
    }

    /// Submits the backward pass through the first layer, which fills the first bucket.
    pub(crate) fn backward_first(&self, passed: &Passed) -> Result<(), Failure> {
        let run = self.first.schedule.run();
        let run = run
            .input(&self.first.images, &passed.images)
            .input(&self.first.errors, &passed.errors);
        run.submit(&self.stream)?;
        Ok(())
    }

    /// Submits the update of a layer by the reduced gradients.
    pub(crate) fn update(&self, bucket: usize, rate: f32) -> Result<(), Failure> {
        let bucket = &self.buckets[bucket];
        let run = bucket.update.run().scalar(&bucket.rate, rate);
        run.submit(&self.stream)?;
        Ok(())
    }

    /// Requests the loss of the newest step, summed over the images of the batch.
    pub(crate) fn loss(&self) -> Pending<Vec<f32>> {
        self.stream.read(&self.loss)
    }

    /// Submits the guesses of the member's part of the test images. Returns the number of right ones.
    pub(crate) fn guess(&self) -> Result<Handle<i64>, Failure> {
        Ok(self.guess.run().submit(&self.stream)?[0].handle()?)
    }
}

impl Bucket {
    fn new(stream: &Stream, parameters: usize, more: usize, batch: usize) -> Result<Self, Failure> {
        let zeros = |len: usize| {
            let created = stream.create_owned(vec![0.0; len]);
            created.map_err(|back| back.error)
        };
        let gradients = zeros(parameters + more)?;
        let handle = zeros(parameters)?;
        let graph = Graph::new();
        let now = graph.buffer(&handle, [parameters]);
        let sums = graph.buffer(&gradients.slice(..parameters)?, [parameters]);
        let (rate, by) = graph.scalar("rate", DType::F32, 0.0);
        let next = now.set(&(&now - sums / batch as f64 * by));
        Ok(Self {
            update: Schedule::create_one(&next)?.compile(stream.client())?,
            parameters: handle,
            gradients,
            rate,
        })
    }
}

impl LastLayer {
    fn new(
        (stream, graph): (&Stream, &Graph),
        (layers, targets, loss): (&Layers, &Layers, &LazyBuffer),
        rows: usize,
    ) -> Result<Self, Failure> {
        let images = graph.input("images", DType::F32, [rows, PIXELS]);
        let digits = graph.input("digits", DType::I64, [rows, 1]);
        let first = layers.first(&images);
        let sum = model::cross_entropy(graph, &layers.last(&first), &digits);
        let [errors, w2, b2] = sum.grad([&first, &layers.w2, &layers.b2]);
        let filled = [targets.w2.set(&w2), targets.b2.set(&b2), loss.set(&sum)];
        let roots: Vec<_> = std::iter::once(&errors).chain(&filled).collect();
        Ok(Self {
            schedule: Schedule::create(&roots)?.compile(stream.client())?,
            images,
            digits,
        })
    }
}

impl FirstLayer {
    fn new(
        (stream, graph): (&Stream, &Graph),
        (layers, targets): (&Layers, &Layers),
        rows: usize,
    ) -> Result<Self, Failure> {
        let images = graph.input("images", DType::F32, [rows, PIXELS]);
        let errors = graph.input("errors", DType::F32, [rows, HIDDEN]);
        // The chain rule: this sum has the gradients of the loss, by every buffer below the first layer.
        let [w1, b1] = (layers.first(&images) * &errors).grad([&layers.w1, &layers.b1]);
        let filled = [&targets.w1.set(&w1), &targets.b1.set(&b1)];
        Ok(Self {
            schedule: Schedule::create(&filled)?.compile(stream.client())?,
            images,
            errors,
        })
    }
}

/// Compiles the count of right guesses among some of the test images, which stay on the device.
fn count_right(
    (stream, graph): (&Stream, &Graph),
    layers: &Layers,
    (tests, part): (&Images, Range<usize>),
) -> Result<CompiledSchedule, Failure> {
    let rows = part.len();
    let (pixels, digits) = tests.select(&part.collect::<Vec<_>>());
    let pixels = graph.buffer(&stream.create(&pixels)?, [rows, PIXELS]);
    let digits = graph.buffer(&stream.create(&digits)?, [rows, 1]);
    let guesses = layers.last(&layers.first(&pixels)).argmax(-1);
    let right = guesses.equals(&digits).cast(DType::I64).sum(..);
    Ok(Schedule::create_one(&right)?.compile(stream.client())?)
}

/// Returns the weights and biases in the pieces of all layers.
fn views([first, last]: [&Handle<f32>; BUCKETS]) -> Result<Weights, ArgumentError> {
    let weights = |piece: &Handle<f32>, layer: usize| piece.slice(..WEIGHTS[layer]);
    let biases = |piece: &Handle<f32>, layer: usize| {
        piece.slice(WEIGHTS[layer]..WEIGHTS[layer] + BIASES[layer])
    };
    Ok(Weights {
        w1: weights(first, FIRST)?,
        b1: biases(first, FIRST)?,
        w2: weights(last, LAST)?,
        b2: biases(last, LAST)?,
    })
}

/// Returns the part of a rank. The parts of any two ranks differ by one item at most.
fn part_of(items: usize, rank: usize, ranks: usize) -> Range<usize> {
    rank * items / ranks..(rank + 1) * items / ranks
}
