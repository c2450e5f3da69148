//! The latency of a small client beside a greedy one, in virtual time.
//!
//! The greedy client has several streams, and keeps the maximum number of long tasks in each. The small client submits
//! one short task and waits for its answer before it submits the next, so the latency of a task is the time since the
//! end of the one before. The simulator is punctual and its host takes no time, so the figures show the runtime's order
//! alone. The seed determines the lengths of the long tasks.

use std::time::Duration;

use millstream::sim::{CostModel, Sim};
use millstream::{
    ComputeClient, CubeCount, Device, DeviceOptions, Error, Kernel, KernelHandle, Priority,
    Strategy, Stream,
};

use millstream_testkit::Dice;
use serde::{Serialize, Serializer};

/// The number of short tasks of a run.
const ROUNDS: usize = 200;
/// The number of streams of the greedy client.
const STREAMS: u64 = 4;
/// The limit of tasks in flight of a queue: small, as for low latency. It is the largest part of most bounds.
const IN_FLIGHT: u64 = 8;
/// The number of tasks of a batch, which is the quantum of [`Strategy::Sequential`].
const BATCH: u64 = 16;
/// The number of tasks that each greedy stream keeps held: more than its quantum.
const HELD: u64 = 256;
/// The length of a short task and of the long tasks, in virtual microseconds.
const SHORT_US: u64 = 10;
const LONG_US: std::ops::RangeInclusive<u64> = 50..=150;
/// The capacity for spans: far more than the number of tasks.
const SPANS: usize = 1 << 20;

/// A configuration of the two clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Scenario {
    /// The name in the table.
    pub name: &'static str,
    /// The small client's priority; that of the greedy client is normal.
    #[serde(serialize_with = "as_text")]
    pub small: Priority,
    /// The greedy client's weight; that of the small client is 1.
    pub weight: u32,
}

fn as_text<S: Serializer>(value: &impl std::fmt::Debug, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{value:?}"))
}

/// All scenarios.
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

/// The result of a measurement. Times are in virtual microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The scenario.
    pub scenario: Scenario,
    /// The strategy for the turns of streams.
    #[serde(serialize_with = "as_text")]
    pub strategy: Strategy,
    /// The number of queues of the device.
    pub queues: usize,
    /// The median latency of the small client.
    pub p50_us: f64,
    /// The 99th percentile of its latency.
    pub p99_us: f64,
    /// Its maximum latency.
    pub max_us: f64,
    /// The bound of its latency, see [`bound_us`].
    pub bound_us: f64,
    /// The number of long tasks in a virtual millisecond.
    pub greedy_per_ms: f64,
    /// The fraction of the time in which the queues ran a task.
    pub busy: f64,
}

/// Returns the latency bound of a short task: the tasks in flight on its queue when it is submitted, the turns of other
/// streams before its own, and the task itself.
///
/// The turns before its own are: one of each greedy stream if the priorities are equal; if the small client's priority
/// is higher, the four turns that the normal priority has in a round, once the high one has had its eight; if it is
/// lower, twice these four. The quantum of a turn is a task (`Interleave`) or a batch (`Sequential`), times the weight.
pub fn bound_us(scenario: &Scenario, strategy: Strategy) -> u64 {
    let turns = match scenario.small {
        Priority::High => 4,
        Priority::Normal => STREAMS,
        Priority::Low => 8,
    };
    let quantum = match strategy {
        Strategy::Interleave => 1,
        Strategy::Sequential => BATCH,
    };
    (IN_FLIGHT + turns * quantum * u64::from(scenario.weight)) * LONG_US.end() + SHORT_US
}

/// Measures one scenario.
///
/// # Errors
/// The error of the device.
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
    // A cube takes one microsecond.
    (cost.launch_ns, cost.cube_ns, cost.compute_units) = (0, 1_000, 1);
    let sim = Sim::seed(seed).queues(queues).cost(cost).punctual();
    let (device, mut driver) = Device::open_driven(sim, options).map_err(|_| Error::Closed)?;
    let greedy = device.client_builder().weight(scenario.weight).build();
    let small = device.client_builder().priority(scenario.small).build();
    let (long, short) = (kernel(&greedy, "long")?, kernel(&small, "short")?);
    let streams: Vec<Stream> = (0..STREAMS).map(|_| greedy.new_stream()).collect();
    let stream = small.new_stream();
    // Each short task depends on the one before, to whichever queue the stream is assigned.
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
    // The greedy client fills its streams and the queue first.
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
    let elapsed_us = us(last - first).max(f64::MIN_POSITIVE);
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
        greedy_per_ms: within.count() as f64 / elapsed_us * 1_000.0,
        busy: us(busy_ns) / elapsed_us / queues as f64,
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

/// Returns the smallest value that `percent` of 100 values do not exceed.
fn quantile(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied().unwrap_or(0)
}

/// Measures all scenarios with both strategies, on one queue and on three.
///
/// # Errors
/// The error of the device.
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
