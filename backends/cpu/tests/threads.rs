//! Which threads a device has (I10). Alone in its binary, since threads are counted for the whole process.

#[path = "rig/mod.rs"]
mod rig;

use std::path::Path;

use millstream_cpu::Cpu;
use rig::{Q0, Q1, Rig};

/// Threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[test]
fn a_device_starts_its_threads_when_it_is_opened_and_a_driven_one_none() {
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
    assert_eq!(threads(), before + 2 + 3, "a worker makes one of the team");
    drop(rig);
    // A joined thread may be listed for a moment more.
    while threads() > before {
        std::thread::yield_now();
    }
}
