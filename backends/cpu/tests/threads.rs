//! The threads of a device (I10), and that they sleep while there is nothing to do (I11). Alone in its binary,
//! because threads are counted for the whole process.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "rig/mod.rs"]
mod rig;

use std::path::Path;
use std::time::Duration;

use millstream_cpu::Cpu;
use millstream_protocol::Kernel;
use rig::{Q0, Q1, Rig};

/// Returns the number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Returns the number of context switches of all other threads of this process.
fn switches() -> u64 {
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let others = tasks.filter(|task| Some(task.file_name().as_os_str()) != own.file_name());
    let status = others.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    status
        .flat_map(|text| {
            let lines = text.lines().filter(|line| line.contains("ctxt_switches"));
            let counts =
                lines.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
            counts.collect::<Vec<_>>()
        })
        .sum()
}

/// I11: nothing polls. A polling thread would run within each interval, so no interval would be quiet.
fn assert_idle_device_sleeps(rig: &mut Rig) {
    const INTERVAL: Duration = Duration::from_millis(50);
    let kernel = rig.prepare(Kernel::new("cubes").native(|_, _| ()));
    let point = rig.launch(Q0, &kernel, 1000, &[], &[]);
    rig.wait(point).unwrap();
    let quiet = |_: &u32| {
        let before = switches();
        std::thread::sleep(INTERVAL);
        switches() == before
    };
    assert!(
        (0..100).find(quiet).is_some(),
        "threads run although there is nothing to do"
    );
}

#[test]
fn device_starts_its_threads_at_opening_and_a_driven_one_none() {
    if !Path::new("/proc/self/task").exists() {
        return;
    }
    let before = threads();
    let driven = Rig::driven();
    assert_eq!(threads(), before);
    drop(driven);
    let mut rig = Rig::new(Cpu::default().queues(2).threads(4));
    for queue in [Q0, Q1] {
        let point = rig.custom(queue, &[], |_| ());
        rig.wait(point).unwrap();
    }
    assert_eq!(
        threads(),
        before + 2 + 3,
        "a worker counts as one thread of the team"
    );
    assert_idle_device_sleeps(&mut rig);
    drop(rig);
    // A joined thread may stay listed for a moment.
    while threads() > before {
        std::thread::yield_now();
    }
}
