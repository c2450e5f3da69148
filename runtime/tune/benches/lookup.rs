//! The cost of looking up a known key: `cargo bench -p millstream-tune`.
#![allow(clippy::unwrap_used, reason = "a bench")]

use divan::Bencher;
use millstream_tune::{Failure, Fastest, Measure, Policy, Tunable, TunableSet, Tuner};
use serde::{Deserialize, Serialize};

fn main() {
    divan::main();
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

#[divan::bench(threads = [1, 2, 16])]
fn fastest_of_a_known_key(bencher: Bencher) {
    let (tuner, _) = tuned();
    let key = key(512);
    bencher.bench(|| tuner.fastest(divan::black_box(&key)) == Fastest::Hit(0));
}

#[divan::bench]
fn choose_of_a_known_key(bencher: Bencher) {
    let (tuner, set) = tuned();
    let key = key(512);
    let mut clock = Clock;
    bencher
        .bench_local(|| tuner.choose(&set, divan::black_box(&key), &0, &mut clock, Policy::Frozen));
}
