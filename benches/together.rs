//! Compares several values of one input, each by its own schedule and all by one schedule:
//! `cargo bench --bench together [-- ROW] [--json=FILE]`.
//!
//! The rounds run the separate schedules and the joint one in turn, so that other load affects both.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a bench has no users, and panics on an unexpected error"
)]

use std::time::Duration;

use millstream::graph::{CompiledSchedule, DType, Graph, LazyBuffer, Schedule};
use millstream::{Cpu, Device, Error, Handle, Stream};
use millstream_harness::{Program, Turn, runs_to_fill, take_turns, time_each};

const ROUNDS: usize = 41;

/// The minimum time of a sample.
const SAMPLE: Duration = Duration::from_millis(5);

type Make = fn(&LazyBuffer) -> Vec<LazyBuffer>;

fn sum_max_squares(x: &LazyBuffer, axis: isize) -> Vec<LazyBuffer> {
    vec![x.sum(axis), x.max(axis), (x * x).sum(axis)]
}

const ROWS: &[(&str, [usize; 2], Make)] = &[
    (
        "sum, max, squares of rows, 4096 x 1024",
        [4096, 1024],
        |x| sum_max_squares(x, 1),
    ),
    ("sum, max, squares of all, 16 M", [1, 1 << 24], |x| {
        sum_max_squares(x, 1)
    }),
    (
        "argmax, argmin of columns, 4096 x 1024",
        [4096, 1024],
        |x| vec![x.argmax(0), x.argmin(0)],
    ),
    (
        "sums of seven powers of rows, 4096 x 1024",
        [4096, 1024],
        |x| {
            let powers = std::iter::successors(Some(x.clone()), |power| Some(power * x));
            powers.take(7).map(|power| power.sum(1)).collect()
        },
    ),
    ("mean, variance of rows, 4096 x 1024", [4096, 1024], |x| {
        let mean = x.mean(1);
        let variance = (x - &mean).square().mean(1);
        vec![mean, variance]
    }),
    ("tanh(x), 1 - tanh(x)^2, 4 M", [4096, 1024], |x| {
        let y = x.tanh();
        let slope = 1.0 - &y * &y;
        vec![y, slope]
    }),
];

/// Runs all schedules one after the other, `runs` times, and returns the mean milliseconds of one such run.
fn run(
    all: &[CompiledSchedule],
    x: (&LazyBuffer, &Handle<f32>),
    stream: &Stream,
    runs: u64,
) -> Result<f64, Error> {
    let run = |_| {
        let outputs = all
            .iter()
            .map(|compiled| compiled.run().input(x.0, x.1).submit(stream));
        let _outputs: Vec<_> = outputs.map(Result::unwrap).collect();
        stream.sync().wait()
    };
    Ok(time_each(runs as usize, run, || Ok(()))? / 1e6)
}

fn main() {
    let command = "cargo bench --bench together --";
    let mut program = Program::new(command, &["together", "separate"]);
    let device = Device::open(Cpu::default()).unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    for (name, shape, make) in ROWS {
        if !program.wants(name) {
            continue;
        }
        let number = |index: usize| ((index * 7919) % 2003) as f32 / 1000.0 - 1.0;
        let data: Vec<f32> = (0..shape.iter().product()).map(number).collect();
        let handle = stream.create(&data).unwrap();
        let graph = Graph::new();
        let x = graph.input("x", DType::F32, *shape);
        let roots = make(&x);
        let compile = |roots: &[&LazyBuffer]| {
            let schedule = Schedule::create(roots).unwrap();
            schedule.compile(&client).unwrap()
        };
        let separate: Vec<_> = roots.iter().map(|root| compile(&[root])).collect();
        let together = vec![compile(&roots.iter().collect::<Vec<_>>())];
        let sides = [&together, &separate];
        let tasks = sides.map(|all| all.iter().map(CompiledSchedule::tasks).sum::<usize>());
        let run = |all: &[_], runs| run(all, (&x, &handle), &stream, runs);
        let fill = |runs| run(&together, runs).map(drop);
        let runs = runs_to_fill(SAMPLE, 1..=u64::MAX, fill).unwrap();
        let sample = |turn: Turn| run(sides[turn.index], runs);
        let samples = take_turns(2, 0..=ROUNDS, sample).unwrap();
        let [after, before] = tasks;
        let measure = format!("{name}: {before} tasks, {after} together");
        program.row(&measure, "ms", samples);
    }
    program.report().unwrap();
}
