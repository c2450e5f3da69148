//! Reaction and diffusion of two substances on a torus (Gray and Scott, 1984). One schedule has several steps, and
//! updates its two fields in place.

use millstream::graph::{CompiledSchedule, Graph, LazyBuffer, Schedule, ScheduleError};
use millstream::{ComputeClient, Handle, Stream};

/// The diffusion rates of the two substances. With the rates below, spots grow and divide.
const DIFFUSION: [f64; 2] = [0.16, 0.08];
/// The rate at which the first substance is fed.
const FEED: f64 = 0.035;
/// The rate at which the second substance is removed, in addition to the feed rate.
const REMOVAL: f64 = 0.065;

/// A simulation on a device.
pub(crate) struct Reaction {
    schedule: Schedule,
    steps: CompiledSchedule,
    second: Handle<f32>,
}

impl Reaction {
    /// Creates a field of `size` by `size` cells with drops of the second substance. A run has `unrolled` steps.
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
            (u_now, v_now) = step(&u_now, &v_now, size);
        }
        let roots = [u.set(&u_now), v.set(&v_now)];
        let schedule = Schedule::create(&[&roots[0], &roots[1]])?;
        let steps = schedule.compile(client)?;
        Ok(Self {
            schedule,
            steps,
            second,
        })
    }

    /// Returns the schedule of a run.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns the compiled schedule of a run.
    pub(crate) fn steps(&self) -> &CompiledSchedule {
        &self.steps
    }

    /// Submits `times` runs, without waiting for them.
    pub(crate) fn run(&self, stream: &Stream, times: usize) -> Result<(), ScheduleError> {
        for _ in 0..times {
            self.steps.run().submit(stream)?;
        }
        Ok(())
    }

    /// Waits until all runs so far have completed.
    pub(crate) fn wait(&self, stream: &Stream) -> Result<(), ScheduleError> {
        Ok(stream.sync().wait()?)
    }

    /// Reads the field of the second substance, row by row.
    pub(crate) fn second(&self, stream: &Stream) -> Result<Vec<f32>, ScheduleError> {
        Ok(stream.read(&self.second).wait()?)
    }
}

/// The number of drops at the start.
const DROPS: usize = 9;

/// Returns both fields at the start.
pub(crate) fn start(size: usize) -> (Vec<f32>, Vec<f32>) {
    let mut second = vec![0.0; size * size];
    let radius = (size / 40).max(2);
    for drop in 1..=DROPS {
        // Multiples of powers of the plastic number are spread evenly, without rows.
        let position = |ratio: f64| ((drop as f64 * ratio).fract() * size as f64) as usize;
        let (top, left) = (position(0.754_877_666), position(0.569_840_291));
        for cell in 0..4 * radius * radius {
            let (row, column) = (top + cell / (2 * radius), left + cell % (2 * radius));
            second[row % size * size + column % size] = 0.5;
        }
    }
    let first = second.iter().map(|second| 1.0 - second).collect();
    (first, second)
}

/// Adds the four neighbours of each cell. Views of a buffer that repeats the opposite edges make it a torus.
fn neighbour_sum(x: &LazyBuffer, size: usize) -> LazyBuffer {
    let along = |axis: isize| {
        let (first, last) = (x.narrow(axis, 0, 1), x.narrow(axis, size - 1, 1));
        let wrapped = LazyBuffer::cat([&last, x, &first], axis);
        wrapped.narrow(axis, 0, size) + wrapped.narrow(axis, 2, size)
    };
    along(0) + along(1)
}

/// Returns one step, as expressions.
fn step(u: &LazyBuffer, v: &LazyBuffer, size: usize) -> (LazyBuffer, LazyBuffer) {
    let laplacian = |x: &LazyBuffer| neighbour_sum(x, size) - x * 4.0;
    let reaction = u * v * v;
    let u_new = u + laplacian(u) * DIFFUSION[0] - &reaction + (1.0 - u) * FEED;
    let v_new = v + laplacian(v) * DIFFUSION[1] + &reaction - v * (FEED + REMOVAL);
    (u_new, v_new)
}

/// The reference: one step in plain code.
pub(crate) fn step_plainly(size: usize, u: &[f32], v: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let at = |x: &[f32], row: usize, column: usize| x[row % size * size + column % size];
    let laplacian = |x: &[f32], row: usize, column: usize| {
        let sides = at(x, row + size - 1, column) + at(x, row + 1, column);
        sides + at(x, row, column + size - 1) + at(x, row, column + 1) - at(x, row, column) * 4.0
    };
    let cell = |index: usize| {
        let (row, column) = (index / size, index % size);
        let (a, b) = (u[index], v[index]);
        let reaction = a * b * b;
        let first = a + laplacian(u, row, column) * DIFFUSION[0] as f32 - reaction
            + (1.0 - a) * FEED as f32;
        let removed = b * (FEED + REMOVAL) as f32;
        let second = b + laplacian(v, row, column) * DIFFUSION[1] as f32 + reaction - removed;
        (first, second)
    };
    (0..size * size).map(cell).unzip()
}
