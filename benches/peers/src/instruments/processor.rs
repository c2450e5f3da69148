//! Processor time, wake-ups, affinity, and the alarm that ends a stuck sample.

use std::time::Duration;

/// Pins this process to one core, including threads that start later. Must be called before any
/// thread starts.
pub(crate) fn pin_to_one_core() -> std::io::Result<()> {
    // SAFETY: an all-zero `cpu_set_t` is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: `set` is valid for `size` bytes.
    if unsafe { libc::sched_getaffinity(0, size, &mut set) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: every index is within the set.
    let first =
        (0..libc::CPU_SETSIZE as usize).find(|&core| unsafe { libc::CPU_ISSET(core, &set) });
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the index came from a set of the same size.
    unsafe { libc::CPU_SET(first.unwrap_or(0), &mut one) };
    // SAFETY: `one` is valid for `size` bytes.
    if unsafe { libc::sched_setaffinity(0, size, &one) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Ends this process by SIGALRM unless it exits within the limit.
pub(crate) fn end_after(limit: Duration) {
    // SAFETY: `alarm` has no preconditions. No handler is installed, so the signal ends the process.
    unsafe { libc::alarm(limit.as_secs() as u32) };
}

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
