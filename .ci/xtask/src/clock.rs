//! Measures the wall time of a suite, and the CPU time of the programs that it runs.

use std::fmt;
use std::ops::Add;
use std::time::{Duration, Instant};

/// A running measurement.
pub(crate) struct Clock {
    begun: Instant,
    cpu: Option<Duration>,
}

/// The times of a suite.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    wall: Duration,
    /// The user and system time of all ended programs, or `None` if the system does not report it.
    cpu: Option<Duration>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            begun: Instant::now(),
            cpu: cpu_of_children(),
        }
    }

    pub(crate) fn taken(&self) -> Taken {
        let cpu = cpu_of_children()
            .zip(self.cpu)
            .map(|(now, then)| now.saturating_sub(then));
        Taken {
            wall: self.begun.elapsed(),
            cpu,
        }
    }
}

impl Add for Taken {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let cpu = [self.cpu, other.cpu]
            .into_iter()
            .flatten()
            .reduce(|a, b| a + b);
        Self {
            wall: self.wall + other.wall,
            cpu,
        }
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |time: Duration| format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60);
        let cpu = self.cpu.map_or("-".to_owned(), clock);
        write!(out, "{cpu:>9} {:>9}", clock(self.wall))
    }
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
