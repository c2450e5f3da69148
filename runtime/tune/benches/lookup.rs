//! The cost of looking up a known key: `cargo bench -p millstream-tune`.
#![allow(clippy::unwrap_used, reason = "a bench")]

use std::convert::Infallible;
use std::hint::black_box;
use std::thread;

use millstream_harness::{median, time_each};
use millstream_tune::{Failure, Fastest, Measure, Policy, Tunable, TunableSet, Tuner};
use serde::{Deserialize, Serialize};

/// The samples of a row, and the runs of a sample.
const SAMPLES: usize = 25;
const RUNS: usize = 100_000;

fn main() {
    let (tuner, set) = tuned();
    let key = key(512);
    for threads in [1, 2, 16] {
        let fastest = || ns_of(|| tuner.fastest(black_box(&key)) == Fastest::Hit(0));
        let slowest = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(fastest)).collect();
            let times = threads.into_iter().map(|thread| thread.join().unwrap());
            times.fold(0.0, f64::max)
        });
        println!(
            "fastest of a known key, {threads:>2} threads: {slowest:>7.1} ns, the slowest thread"
        );
    }
    let mut clock = Clock;
    let choose = ns_of(|| tuner.choose(&set, black_box(&key), &0, &mut clock, Policy::Frozen));
    println!("choose of a known key:              {choose:>7.1} ns");
}

/// Returns the nanoseconds of a run, as the median of the samples.
fn ns_of<T>(mut run: impl FnMut() -> T) -> f64 {
    let mut sample = || {
        let run = |_| {
            black_box(run());
            Ok::<_, Infallible>(())
        };
        let Ok(ns) = time_each(RUNS, run, || Ok(()));
        ns
    };
    median(&[(); SAMPLES].map(|()| sample()))
}

/// A key like that of a matrix product.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
struct Key {
    lens: [u32; 3],
    turned: [bool; 2],
    dtype: u8,
}

fn key(rows: u32) -> Key {
    Key {
        lens: [rows, 512, 512],
        turned: [false, true],
        dtype: 2,
    }
}

/// A clock that measures nothing.
struct Clock;

impl Measure for Clock {
    fn clock(&self) -> &str {
        "no clock"
    }

    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        work()
    }

    fn poll(&mut self) -> Result<Option<std::time::Duration>, Failure> {
        Ok(Some(std::time::Duration::from_nanos(100)))
    }
}

type Set = TunableSet<Key, u32, u32>;

/// Creates a tuner that knows a thousand keys.
fn tuned() -> (Tuner<Key>, Set) {
    let set = TunableSet::new("two", |_: &Key, x: &u32| *x)
        .with(Tunable::new("one", |x: u32| Ok::<_, String>(x)))
        .with(Tunable::new("other", |x: u32| Ok::<_, String>(x)));
    let tuner = Tuner::with_effort(millstream_tune::Effort::default().samples(1));
    for rows in 0..1000 {
        tuner
            .choose(&set, &key(rows), &0, &mut Clock, Policy::Wait)
            .unwrap();
    }
    (tuner, set)
}
