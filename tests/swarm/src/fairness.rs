//! How long a small client waits beside a greedy one, in virtual time.
//!
//! The greedy client has several streams, and keeps as many long tasks in each as it may. The small one has one
//! short task at a time and waits for its answer before it sends the next, so a task's latency is the time from
//! the end of the one before. The device is punctual and its host takes no time, so what is measured is the
//! runtime's order alone; the lengths of the long tasks are the seed's.

use std::time::Duration;

use millstream::sim::{CostModel, Sim};
use millstream::{
    ComputeClient, CubeCount, Device, DeviceOptions, Error, Kernel, KernelHandle, Priority,
    Strategy, Stream,
};

use millstream_testkit::Dice;

/// Short tasks of one run.
const ROUNDS: usize = 200;
/// Streams of the greedy client.
const STREAMS: u64 = 4;
/// Tasks that a queue has in flight: few, for whoever cares for latency. It is the greater part of every bound.
const IN_FLIGHT: u64 = 8;
/// A batch, which is what [`Strategy::Sequential`] takes of each stream.
const BATCH: u64 = 16;
/// Tasks that each greedy stream keeps held: always more than a turn of it takes.
const HELD: u64 = 256;
/// Length of a short task, and of long ones, in virtual microseconds.
const SHORT_US: u64 = 10;
const LONG_US: std::ops::RangeInclusive<u64> = 50..=150;
/// Spans that are kept: far more than tasks run.
const SPANS: usize = 1 << 20;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// Its name in the table.
    pub name: &'static str,
    /// The small client's priority; the greedy one's is normal.
    pub small: Priority,
    /// The greedy client's weight; the small one's is 1.
    pub weight: u32,
}

/// All that are measured.
pub const SCENARIOS: [Scenario; 4] = [
    Scenario {
        name: "equal",
        small: Priority::Normal,
        weight: 1,
    },
    Scenario {
        name: "the small one is high",
        small: Priority::High,
        weight: 1,
    },
    Scenario {
        name: "the small one is low",
        small: Priority::Low,
        weight: 1,
    },
    Scenario {
        name: "the greedy one has weight 3",
        small: Priority::Normal,
        weight: 3,
    },
];

/// What came out, times in virtual microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// What was measured.
    pub scenario: Scenario,
    /// How streams take turns.
    pub strategy: Strategy,
    /// Queues of the device.
    pub queues: usize,
    /// The small client's latency that half of its tasks do not exceed.
    pub p50_us: f64,
    /// That 99 of 100 do not.
    pub p99_us: f64,
    /// That none does.
    pub max_us: f64,
    /// What none may exceed, see [`bound_us`].
    pub bound_us: f64,
    /// Long tasks in a virtual millisecond.
    pub greedy_per_ms: f64,
    /// How much of the time the queues ran anything.
    pub busy: f64,
}

/// What a short task may take: all that is in flight on its queue when it is sent, the goes that others may have
/// before its own, and itself.
///
/// Goes before its own: one of each greedy stream where it stands in the same line; none where it is more urgent;
/// where it is less, twice the four goes that a normal line has in a round. A go is a task, or a batch, times the
/// weight.
pub fn bound_us(scenario: &Scenario, strategy: Strategy) -> u64 {
    let goes = match scenario.small {
        Priority::High => 0,
        Priority::Normal => STREAMS,
        Priority::Low => 8,
    };
    let go = match strategy {
        Strategy::Interleave => 1,
        Strategy::Sequential => BATCH,
    };
    (IN_FLIGHT + goes * go * u64::from(scenario.weight)) * LONG_US.end() + SHORT_US
}

/// Measures one scenario.
///
/// # Errors
/// What the device refused.
pub fn measure(
    scenario: Scenario,
    strategy: Strategy,
    queues: usize,
    seed: u64,
) -> Result<Row, Error> {
    let options = DeviceOptions::default()
        .strategy(strategy)
        .max_tasks(BATCH as usize)
        .max_in_flight(IN_FLIGHT as usize)
        .max_held(HELD)
        .trace(SPANS);
    let mut cost = CostModel::default();
    // A cube is a microsecond.
    (cost.launch_ns, cost.cube_ns, cost.compute_units) = (0, 1_000, 1);
    let sim = Sim::seed(seed).queues(queues).cost(cost).punctual();
    let (device, mut driver) = Device::open_driven(sim, options).map_err(|_| Error::Closed)?;
    let greedy = device.client_builder().weight(scenario.weight).build();
    let small = device.client_builder().priority(scenario.small).build();
    let (long, short) = (kernel(&greedy, "long")?, kernel(&small, "short")?);
    let streams: Vec<Stream> = (0..STREAMS).map(|_| greedy.new_stream()).collect();
    let stream = small.new_stream();
    // Each task comes after the one before, wherever the stream sits.
    let values = stream.create(&[0_u32])?;
    let dice = &mut Dice::new(seed, 0);
    let fill = |dice: &mut Dice| {
        for stream in &streams {
            loop {
                let length = LONG_US.start() + dice.wide() % (LONG_US.end() - LONG_US.start() + 1);
                match stream
                    .nowait()
                    .launch(&long, CubeCount::d1(length as u32), ())
                {
                    Ok(()) => {}
                    Err(Error::Busy { .. }) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    };
    // The greedy one was there before.
    for _ in 0..IN_FLIGHT {
        fill(dice)?;
        driver.pump(Duration::ZERO);
    }
    for _ in 0..ROUNDS {
        let argument = (millstream::update(&values),);
        stream.launch(&short, CubeCount::d1(SHORT_US as u32), argument)?;
        let mut answer = stream.sync();
        while answer.try_take().transpose()?.is_none() {
            fill(dice)?;
            driver.pump(Duration::ZERO);
        }
    }
    let spans = device.trace()?;
    let ends = |name: &str| -> Vec<u64> {
        let of = spans.iter().filter(|span| *span.name == *name);
        let mut ends: Vec<u64> = of.map(|span| span.end_ns).collect();
        ends.sort_unstable();
        ends
    };
    let (shorts, longs) = (ends("short"), ends("long"));
    let mut waits: Vec<u64> = shorts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    waits.sort_unstable();
    let (first, last) = (shorts[0], shorts[shorts.len() - 1]);
    let within = longs.iter().filter(|end| (first..=last).contains(*end));
    let took_us = us(last - first).max(f64::MIN_POSITIVE);
    let busy_ns: u64 = spans
        .iter()
        .filter(|span| (first..=last).contains(&span.end_ns))
        .map(|span| span.end_ns - span.start_ns)
        .sum();
    Ok(Row {
        scenario,
        strategy,
        queues,
        p50_us: us(quantile(&waits, 50)),
        p99_us: us(quantile(&waits, 99)),
        max_us: us(quantile(&waits, 100)),
        bound_us: bound_us(&scenario, strategy) as f64,
        greedy_per_ms: within.count() as f64 / took_us * 1_000.0,
        busy: us(busy_ns) / took_us / queues as f64,
    })
}

fn kernel(client: &ComputeClient, name: &'static str) -> Result<KernelHandle, Error> {
    let kernel = match name {
        "short" => Kernel::new(name).updates::<u32>("values"),
        _ => Kernel::new(name),
    };
    client.kernel(kernel.native(|_cube, _args| {}))
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

/// The smallest that `percent` of 100 do not exceed.
fn quantile(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied().unwrap_or(0)
}

/// Everything.
///
/// # Errors
/// What the device refused.
pub fn table(seed: u64) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for queues in [1, 3] {
        for strategy in [Strategy::Interleave, Strategy::Sequential] {
            for scenario in SCENARIOS {
                rows.push(measure(scenario, strategy, queues, seed)?);
            }
        }
    }
    Ok(rows)
}
