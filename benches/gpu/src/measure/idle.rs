//! An open device with nothing to do: the processor time of all threads but this one, which sleeps. The driver's own threads are
//! in both sides.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use millstream::CubeCount;
use millstream_harness::alternate;

use super::{PATIENCE, Rig, lower};
use crate::error::BenchError;
use crate::kernels::empty;
use crate::report::{Row, Target};

/// Percent of a core that count as none: a tenth of a millisecond in a second.
const NONE: Target = Target::AtMost(0.01);

/// Nanoseconds that each other thread has run, by its id. The system says so in nanoseconds; `getrusage` counts whole
/// ticks on some.
fn run_ns() -> HashMap<String, u64> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let this = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let others = tasks
        .flatten()
        .filter(|task| Some(task.file_name().as_os_str()) != this.file_name());
    let ran = others.filter_map(|task| {
        let said = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let ns = said.split_whitespace().next()?.parse().ok()?;
        Some((task.file_name().to_string_lossy().into_owned(), ns))
    });
    ran.collect()
}

/// Percent of a core.
fn sample(idle: Duration) -> f64 {
    let (before, begun) = (run_ns(), Instant::now());
    std::thread::sleep(idle);
    let spent = begun.elapsed();
    let ran = run_ns().into_iter();
    let ran: u64 = ran
        .map(|(task, ns)| ns - before.get(&task).copied().unwrap_or(0).min(ns))
        .sum();
    100.0 * ran as f64 / spent.as_nanos() as f64
}

pub(super) fn measure(rig: &Rig<'_>) -> Result<Vec<Row>, BenchError> {
    let idle = rig.plan.idle;
    // Three samples are a few seconds, and nothing is to be seen in more.
    let rounds = rig.plan.rounds.min(3);
    let [raw] = alternate::<1, BenchError>(rounds, [&mut || Ok(sample(idle))])?;
    let device = rig.device()?;
    let client = device.new_client();
    let (stream, kernel) = (client.new_stream(), empty(&client)?);
    stream.launch(&kernel, CubeCount::single(), ())?;
    stream.sync().wait()?;
    let [ours] = alternate::<1, BenchError>(rounds, [&mut || Ok(sample(idle))])?;
    device.close(PATIENCE);
    let row = lower("idle, all threads but the caller's", "% of a core");
    Ok(vec![row.raw(raw).ours(ours).target(NONE)])
}
