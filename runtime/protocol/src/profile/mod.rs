//! Profiles: how long the tasks of some streams took, between two positions in the order of the mailbox.
//!
//! A [`ProfileToken`] starts with a message and ends with one. The profile covers the tasks that the streams were
//! sent between the two, whenever they run. So tokens may nest and overlap, and any thread may end one.
//!
//! A clock that is read at both ends of a part of a program also measures the tasks of other threads, and misses tasks
//! that the device has not begun. A token is a plain number: one that ended its profile when it is dropped could not
//! be copied to the thread that ends it. A limit on open profiles ends the oldest one instead of refusing the next,
//! because otherwise one leak would end all profiling (I12). Host functions are not covered: they run on no queue.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::failure::FailureRef;

/// The clock that a time was read from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ClockSource {
    /// A clock of the device.
    Device {
        /// The name of the clock.
        name: &'static str,
    },
    /// A clock of the host.
    Host {
        /// The name of the clock.
        name: &'static str,
    },
    /// The virtual time of a simulator.
    Virtual,
}

impl ClockSource {
    /// The clock of this process: `std::time::Instant`.
    pub const HOST: Self = ClockSource::Host {
        name: "std::time::Instant",
    };
}

impl Default for ClockSource {
    fn default() -> Self {
        Self::HOST
    }
}

impl fmt::Display for ClockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockSource::Device { name } => write!(f, "the device's {name}"),
            ClockSource::Host { name } => write!(f, "the host's {name}"),
            ClockSource::Virtual => f.write_str("virtual time"),
        }
    }
}

/// A duration, and the clock that it was measured with. Times of two clocks are not comparable.
///
/// ```
/// use millstream_protocol::{ClockSource, ProfileDuration};
/// use std::time::Duration;
/// let took = ProfileDuration { duration: Duration::from_micros(1500), clock: ClockSource::HOST };
/// assert_eq!(took.to_string(), "1.5ms by the host's std::time::Instant");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ProfileDuration {
    /// The duration.
    pub duration: Duration,
    /// The clock.
    pub clock: ClockSource,
}

impl fmt::Display for ProfileDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {}", self.duration, self.clock)
    }
}

/// A started profile. A plain value: any thread may end it, once.
///
/// A token that is never ended costs a little memory on the device, and the time stamps of its tasks until the
/// profile is full ([`DeviceOptions::profile_tasks`](crate::options::DeviceOptions::profile_tasks)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProfileToken {
    number: u64,
    started: Instant,
}

impl ProfileToken {
    /// Creates the token of a profile. It starts no profile: clients send the message that does. No two profiles of a
    /// process have one number.
    pub fn new(number: u64, started: Instant) -> Self {
        Self { number, started }
    }

    /// Returns the number of the profile in messages.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns when the token was made.
    pub fn started(&self) -> Instant {
        self.started
    }
}

/// The run times of the tasks between the start and the end of a token.
///
/// A task is what a queue runs: a launch, a copy, a fill, a custom task, and each of those in a replay. Points,
/// answers, reservations and host functions do not count.
///
/// ```
/// # use millstream_client::Stream;
/// # fn f(stream: &Stream, work: impl Fn(&Stream)) -> Result<(), Box<dyn std::error::Error>> {
/// let token = stream.start_profile()?;
/// work(stream);
/// let profile = stream.end_profile(token).wait()?;
/// println!("{profile}");
/// assert!(profile.busy.duration <= profile.elapsed.duration);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Profile {
    /// The time from the start of the first task to the end of the last.
    pub elapsed: ProfileDuration,
    /// The time in which at least one task ran.
    pub busy: ProfileDuration,
    /// An upper bound of the error by which `busy` may be too small, because the times of tasks arrived much later
    /// than those of others that had started after them. Zero unless queues overlap in thousands of separate
    /// intervals.
    pub busy_short: Duration,
    /// The time between the call that started the profile and the call that ended it.
    pub calls: ProfileDuration,
    /// The number of tasks.
    pub tasks: u64,
    /// Tasks without times: they failed or were withdrawn before they ran, or the device had no room for their times.
    pub untimed: u64,
    /// Tasks that failed while they ran, or whose input had failed, if the device times such tasks (the CPU does). A
    /// kernel of a GPU that fails loses the device.
    pub failed: u64,
    /// The first of these failures.
    pub failure: Option<FailureRef>,
    /// Whether the device stopped counting at [`profile_tasks`](crate::options::DeviceOptions::profile_tasks): more
    /// tasks may have run.
    pub is_cut: bool,
    /// The tasks by name, the longest total first.
    pub kernels: Vec<KernelProfile>,
}

impl Profile {
    /// Returns the tasks of this name.
    pub fn kernel(&self, name: &str) -> Option<&KernelProfile> {
        self.kernels.iter().find(|kernel| &*kernel.name == name)
    }
}

/// All tasks of one name in a profile. Times are of the clock of [`Profile::busy`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct KernelProfile {
    /// The name of the kernel, or of the operation.
    pub name: Arc<str>,
    /// The number of tasks.
    pub tasks: u64,
    /// The number of tasks with times.
    pub timed: u64,
    /// The total of these times.
    pub total: Duration,
    /// The shortest time.
    pub min: Duration,
    /// The longest time.
    pub max: Duration,
}

impl KernelProfile {
    /// Returns the mean time.
    pub fn mean(&self) -> Duration {
        let nanoseconds = self.total.as_nanos() / u128::from(self.timed.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Profile {
    /// Formats a summary, and a table with a line for each name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            elapsed,
            busy,
            tasks,
            ..
        } = self;
        writeln!(
            f,
            "{tasks} tasks in {:?}, busy {:?} (clock: {})",
            elapsed.duration, busy.duration, busy.clock
        )?;
        if self.untimed > 0 {
            writeln!(f, "{} of them have no times", self.untimed)?;
        }
        if self.is_cut {
            writeln!(f, "more tasks may have run: the profile was full")?;
        }
        let width = self
            .kernels
            .iter()
            .map(|kernel| kernel.name.chars().count());
        let width = width.max().unwrap_or(0).max("task".len());
        writeln!(
            f,
            "{:width$} {:>9} {:>12} {:>12} {:>12} {:>12}",
            "task", "count", "total", "mean", "min", "max"
        )?;
        for kernel in &self.kernels {
            let [total, mean, min, max] = [kernel.total, kernel.mean(), kernel.min, kernel.max]
                .map(|time| format!("{time:.2?}"));
            writeln!(
                f,
                "{:width$} {:>9} {total:>12} {mean:>12} {min:>12} {max:>12}",
                kernel.name, kernel.tasks
            )?;
        }
        Ok(())
    }
}
