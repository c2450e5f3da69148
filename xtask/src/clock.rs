//! What a suite took: wall time, and the processor time of the programs that it ran.

use std::fmt;
use std::ops::Add;
use std::time::{Duration, Instant};

/// Begins with a suite.
pub(crate) struct Clock {
    begun: Instant,
    cpu: Option<Duration>,
}

/// What a suite took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    wall: Duration,
    /// `user` and `sys`, of all programs that have ended; none where the system does not say.
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

/// Linux counts in hundredths of a second here, whatever its own clock does (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// `user` and `sys` of the children that were waited for, and theirs: fields 16 and 17 of `/proc/self/stat` (proc(5)).
fn cpu_of_children() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, field 2, is in parentheses and may hold blanks.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(13);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (ticks()? + ticks()?))
}
