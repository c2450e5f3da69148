//! The devices of the walks, their runner, and the checks at the end of every schedule.

use std::time::{Duration, Instant};

use millstream::sim::Sim;
use millstream::{Cpu, Device, DeviceOptions, MemoryOptions, report::Report};
use millstream_sync::facade::thread;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};

/// Stack of each thread; shuttle's 32 KiB are too few for a device.
const STACK_BYTES: usize = 256 << 10;
/// Steps of one schedule. A longer one counts as a livelock; the longest seen have some thousands.
const STEPS_MAX: usize = 200_000;

/// Runs `schedules` random schedules, and as many that preempt rarely but at critical points (PCT).
/// `MILLSTREAM_WALKS` multiplies them. `MILLSTREAM_SCHEDULE` names a file with the one schedule to
/// run instead, as printed by a failed walk.
pub(crate) fn walk(name: &str, schedules: usize, f: impl Fn() + Send + Sync + Copy + 'static) {
    let times = std::env::var("MILLSTREAM_WALKS").ok();
    let times = times.and_then(|times| times.parse().ok()).unwrap_or(1);
    let schedules = schedules * times;
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    let whole = move || {
        f();
        // I10: a device that is closed elsewhere ends all its threads.
        while thread::alive() > 0 {
            thread::yield_now();
        }
    };
    if let Some(path) = std::env::var_os("MILLSTREAM_SCHEDULE") {
        let schedule = std::fs::read_to_string(path).unwrap();
        let only = ReplayScheduler::new_from_encoded(&schedule);
        shuttle::Runner::new(only, config).run(whole);
        return;
    }
    let start = Instant::now();
    shuttle::Runner::new(RandomScheduler::new(schedules), config.clone()).run(whole);
    shuttle::Runner::new(PctScheduler::new(3, schedules), config).run(whole);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "WALK  {name:<52} {:>8} schedules  {seconds:>6.2} s",
        2 * schedules
    );
}

/// One of `0..n`, chosen by the schedule.
pub(crate) fn choose(n: u64) -> u64 {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().gen_range(0..n)
}

/// Small limits, so that every limit is reached.
pub(crate) fn options() -> DeviceOptions {
    let memory = MemoryOptions::default().page_bytes(4 << 10).small_max(256);
    DeviceOptions::default()
        .mailbox_capacity(4)
        .max_tasks(2)
        .max_in_flight(4)
        .max_held(8)
        .max_jobs(2)
        .max_handles(256)
        .memory(memory)
}

/// A simulator of two queues whose choices depend on the schedule.
pub(crate) fn sim() -> Sim {
    Sim::seed(choose(1 << 32)).queues(2).memory_bytes(64 << 10)
}

/// A CPU whose queues are threads, with another thread that shares their cubes.
pub(crate) fn cpu() -> Cpu {
    Cpu::default().queues(2).threads(2).memory_limit(64 << 10)
}

/// I6, I10: every task has run, and nothing is left.
pub(crate) fn assert_drained(report: &Report) {
    assert!(report.drained, "{report:?}");
    let left = (report.tasks_left, report.slices_held, report.threads_left);
    assert_eq!((left, report.values_parked), ((0, 0, 0), 0));
}

/// Closes the device without a time limit.
pub(crate) fn close(device: &Device) -> Report {
    device.close(Duration::MAX)
}
