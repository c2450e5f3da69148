//! Processor time and wake-ups.

use std::time::Duration;

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes; the clock exists on every supported Linux.
    unsafe { libc::clock_gettime(id, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the processor time of all threads except the calling one.
pub(crate) fn time_of_other_threads() -> Duration {
    let process = clock(libc::CLOCK_PROCESS_CPUTIME_ID);
    process.saturating_sub(clock(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Returns how often threads except the main one have blocked, and so were woken.
pub(crate) fn wake_ups_of_other_threads() -> u64 {
    let main = std::process::id().to_string();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    tasks
        .flatten()
        .filter(|task| task.file_name().to_string_lossy() != main)
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .filter_map(|status| {
            let line = status
                .lines()
                .find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}
