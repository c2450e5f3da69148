//! The processor time of an idle open device: of all threads except this one, which sleeps. Both sides include the
//! driver's own threads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use millstream::CubeCount;
use millstream_harness::{Limit, RecordRow, alternate};

use super::{PATIENCE, Rig};
use crate::error::BenchError;
use crate::kernels::empty;
use crate::rows::row;

/// The percentage of a core that counts as none: a tenth of a millisecond per second.
const NONE: Limit = Limit::AtMost(0.01);

/// Returns the run time of each other thread in nanoseconds, by its id. `getrusage` counts whole ticks on some systems,
/// `schedstat` nanoseconds.
fn run_ns() -> HashMap<String, u64> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let this = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let others = tasks
        .flatten()
        .filter(|task| Some(task.file_name().as_os_str()) != this.file_name());
    let ran = others.filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let ns = stat.split_whitespace().next()?.parse().ok()?;
        Some((task.file_name().to_string_lossy().into_owned(), ns))
    });
    ran.collect()
}

/// Returns the percentage of a core that the other threads use.
fn sample(idle: Duration) -> f64 {
    let (before, start) = (run_ns(), Instant::now());
    std::thread::sleep(idle);
    let spent = start.elapsed();
    let ran = run_ns().into_iter();
    let ran: u64 = ran
        .map(|(task, ns)| ns - before.get(&task).copied().unwrap_or(0).min(ns))
        .sum();
    100.0 * ran as f64 / spent.as_nanos() as f64
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let idle = Duration::from_millis(rig.count(1_000, 50) as u64);
    // Each sample takes a second, and more than three show nothing new.
    let rounds = rig.rounds.min(3);
    let [raw] = alternate::<1, BenchError>(rounds, [&mut || Ok(sample(idle))])?;
    let device = rig.device()?;
    let client = device.new_client();
    let (stream, kernel) = (client.new_stream(), empty(&client)?);
    stream.launch(&kernel, CubeCount::single(), ())?;
    stream.sync().wait()?;
    let [ours] = alternate::<1, BenchError>(rounds, [&mut || Ok(sample(idle))])?;
    device.close(PATIENCE);
    let name = "idle, all threads except the caller's";
    Ok(vec![RecordRow {
        limit: Some(NONE),
        ..row(name, "% of a core", [raw, ours])
    }])
}
