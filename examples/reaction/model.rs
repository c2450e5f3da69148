//! Reaction and diffusion of two substances on a torus (Gray and Scott, 1984): several steps as one schedule that changes its two fields
//! in place.

use millstream::graph::{CompiledSchedule, Graph, LazyBuffer, Schedule, ScheduleError};
use millstream::{ComputeClient, Handle, Stream};

/// How fast the substances spread, are fed and are taken away: spots that grow and divide.
const SPREAD: [f64; 2] = [0.16, 0.08];
const FEED: f64 = 0.035;
const TAKE: f64 = 0.065;

/// A simulation on a device.
pub(crate) struct Reaction {
    steps: CompiledSchedule,
    size: usize,
    second: Handle<f32>,
}

impl Reaction {
    /// A square of `size` by `size` cells with a drop of the second substance in the middle. A run is `unrolled` steps.
    pub(crate) fn new(
        client: &ComputeClient,
        stream: &Stream,
        size: usize,
        unrolled: usize,
    ) -> Result<Self, ScheduleError> {
        let (first, second) = start(size);
        let (first, second) = (stream.create(&first)?, stream.create(&second)?);
        let graph = Graph::new();
        let u = graph.buffer(&first, [size, size]);
        let v = graph.buffer(&second, [size, size]);
        let (mut u_now, mut v_now) = (u.clone(), v.clone());
        for _ in 0..unrolled {
            (u_now, v_now) = step(&u_now, &v_now);
        }
        let roots = [u.set(&u_now), v.set(&v_now)];
        let steps = Schedule::create(&[&roots[0], &roots[1]])?.compile(client)?;
        Ok(Self {
            steps,
            size,
            second,
        })
    }

    /// The schedule of a run.
    pub(crate) fn steps(&self) -> &CompiledSchedule {
        &self.steps
    }

    /// Runs so many times. Returns at once.
    pub(crate) fn run(&self, stream: &Stream, times: usize) -> Result<(), ScheduleError> {
        for _ in 0..times {
            self.steps.run().submit(stream)?;
        }
        Ok(())
    }

    /// How much of the second substance is where, row by row.
    pub(crate) fn second(&self, stream: &Stream) -> Result<Vec<f32>, ScheduleError> {
        Ok(stream.read(&self.second).wait()?)
    }

    /// Cells of a side.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

/// Both substances at the start.
pub(crate) fn start(size: usize) -> (Vec<f32>, Vec<f32>) {
    let middle = |index: usize| (size / 2).abs_diff(index) < (size / 16).max(2);
    let drop = (0..size * size).map(|cell| middle(cell / size) && middle(cell % size));
    let second: Vec<f32> = drop.map(|inside| if inside { 0.5 } else { 0.0 }).collect();
    let first = second.iter().map(|second| 1.0 - second).collect();
    (first, second)
}

/// One step, as expressions.
fn step(u: &LazyBuffer, v: &LazyBuffer) -> (LazyBuffer, LazyBuffer) {
    let spread =
        |x: &LazyBuffer| x.roll(0, 1) + x.roll(0, -1) + x.roll(1, 1) + x.roll(1, -1) - x * 4.0;
    let reaction = u * v * v;
    let u_new = u + spread(u) * SPREAD[0] - &reaction + (1.0 - u) * FEED;
    let v_new = v + spread(v) * SPREAD[1] + &reaction - v * (FEED + TAKE);
    (u_new, v_new)
}

/// One step said plainly, to compare with.
pub(crate) fn step_plainly(size: usize, u: &[f32], v: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let at = |x: &[f32], row: usize, column: usize| x[row % size * size + column % size];
    let spread = |x: &[f32], row: usize, column: usize| {
        let sides = at(x, row + size - 1, column) + at(x, row + 1, column);
        sides + at(x, row, column + size - 1) + at(x, row, column + 1) - at(x, row, column) * 4.0
    };
    let cell = |index: usize| {
        let (row, column) = (index / size, index % size);
        let (a, b) = (u[index], v[index]);
        let reaction = a * b * b;
        let first =
            a + spread(u, row, column) * SPREAD[0] as f32 - reaction + (1.0 - a) * FEED as f32;
        let taken = b * (FEED + TAKE) as f32;
        let second = b + spread(v, row, column) * SPREAD[1] as f32 + reaction - taken;
        (first, second)
    };
    (0..size * size).map(cell).unzip()
}
