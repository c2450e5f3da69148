//! Measures wall time, and the CPU time of the programs that a suite runs.

use std::time::{Duration, Instant};

/// The wall time since `begun`, and the CPU time of all ended programs: zero if the system does not report it.
pub(crate) fn times(begun: Instant) -> [Duration; 2] {
    [begun.elapsed(), cpu_of_children().unwrap_or_default()]
}

/// Formats a time as minutes and seconds.
pub(crate) fn minutes(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

/// The unit of times in `/proc` (`USER_HZ`), which is independent of the kernel's clock.
const TICK: Duration = Duration::from_millis(10);

/// Returns the user and system time of all waited-for descendants: fields 16 and 17 of `/proc/self/stat` (proc(5)).
fn cpu_of_children() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Field 2, the name of the program, is in parentheses and may contain blanks.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(13);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (ticks()? + ticks()?))
}
