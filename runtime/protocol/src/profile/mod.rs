//! Profiles: what the tasks of some streams took, from one moment of the mailbox's order to another.
//!
//! A [`ProfileToken`] begins with a message and ends with one. What the streams were sent between the two is what the profile is
//! of, whenever that runs; so tokens nest and overlap as they like, and any thread may end one.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::ProfileError;
use crate::failure::FailureRef;

/// Which clock a time was read from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ClockSource {
    /// One of the device's own.
    Device {
        /// What it is called.
        name: &'static str,
    },
    /// One of the host.
    Host {
        /// What it is called.
        name: &'static str,
    },
    /// None: a simulator's time, which nobody waited for.
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

/// A time, and the clock that it was read from. Times of two clocks do not compare.
///
/// ```
/// use millstream_protocol::profile::{ClockSource, ProfileDuration};
/// use std::time::Duration;
/// let took = ProfileDuration { duration: Duration::from_micros(1500), clock: ClockSource::HOST };
/// assert_eq!(took.to_string(), "1.5ms by the host's std::time::Instant");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ProfileDuration {
    /// How long.
    pub duration: Duration,
    /// By which clock.
    pub clock: ClockSource,
}

impl fmt::Display for ProfileDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {}", self.duration, self.clock)
    }
}

/// A profile that has begun. A plain value: any thread may end it, once.
///
/// Forgetting it costs a little memory on the device, and the times of its tasks until it is full
/// ([`DeviceOptions::profile_tasks`](crate::options::DeviceOptions::profile_tasks)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProfileToken {
    /// Which device of this process.
    device: u64,
    epoch: u64,
    number: u64,
    started: Instant,
}

impl ProfileToken {
    /// The token with this number of a device in an epoch. Profiles begin with a message, not with a token: clients make it.
    pub fn new((device, epoch): (u64, u64), number: u64, started: Instant) -> Self {
        Self {
            device,
            epoch,
            number,
            started,
        }
    }

    /// The name of the profile in messages.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When the token was made.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Is it one of this device, in this epoch?
    pub fn check(&self, device: u64, epoch: u64) -> Result<(), ProfileError> {
        match () {
            () if self.device != device => Err(ProfileError::NotRegistered),
            () if self.epoch != epoch => Err(ProfileError::Unknown),
            () => Ok(()),
        }
    }
}

/// What the tasks between the start and the end of a token took.
///
/// A task is what a queue runs: a launch, a copy, a fill, a custom task, and each of those in a replay. Points, answers,
/// reservations and host functions are none.
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
    /// From the start of the first task to the end of the last.
    pub elapsed: ProfileDuration,
    /// The time in which any of them ran.
    pub busy: ProfileDuration,
    /// By so much `busy` may be too small, because tasks told their times much later than others that ran after they had begun:
    /// nothing, unless queues overlap in thousands of separate stretches.
    pub busy_short: Duration,
    /// From the call that started the profile to the one that ended it.
    pub calls: ProfileDuration,
    /// Tasks.
    pub tasks: u64,
    /// Those of them without times: they failed or were withdrawn before they ran, or the device had no room for their times.
    pub untimed: u64,
    /// Those that failed as they ran, or whose input had failed, where the device times such tasks (the CPU does). A GPU's kernel that
    /// fails takes the device along.
    pub failed: u64,
    /// The first of these failures.
    pub failure: Option<FailureRef>,
    /// The device stopped counting at [`profile_tasks`](crate::options::DeviceOptions::profile_tasks): there may have been more.
    pub is_cut: bool,
    /// By name, those that took longest in all first.
    pub kernels: Vec<KernelProfile>,
}

impl Profile {
    /// The tasks of this name.
    pub fn kernel(&self, name: &str) -> Option<&KernelProfile> {
        self.kernels.iter().find(|kernel| &*kernel.name == name)
    }
}

/// All tasks of one name in a profile. Times are of the clock of [`Profile::busy`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct KernelProfile {
    /// The kernel's name, or what the tasks did.
    pub name: Arc<str>,
    /// How many there were.
    pub tasks: u64,
    /// Those of them that have times.
    pub timed: u64,
    /// What these took together.
    pub total: Duration,
    /// What the shortest took.
    pub least: Duration,
    /// What the longest took.
    pub greatest: Duration,
}

impl KernelProfile {
    /// What one took on average.
    pub fn mean(&self) -> Duration {
        let nanoseconds = self.total.as_nanos() / u128::from(self.timed.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Profile {
    /// A few lines, and a table with a line for each name.
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
            writeln!(f, "and perhaps more: the profile was full")?;
        }
        let width = self
            .kernels
            .iter()
            .map(|kernel| kernel.name.chars().count());
        let width = width.max().unwrap_or(0).max("task".len());
        writeln!(
            f,
            "{:width$} {:>9} {:>12} {:>12} {:>12} {:>12}",
            "task", "count", "total", "mean", "least", "greatest"
        )?;
        for kernel in &self.kernels {
            let [total, mean, least, greatest] =
                [kernel.total, kernel.mean(), kernel.least, kernel.greatest]
                    .map(|time| format!("{time:.2?}"));
            writeln!(
                f,
                "{:width$} {:>9} {total:>12} {mean:>12} {least:>12} {greatest:>12}",
                kernel.name, kernel.tasks
            )?;
        }
        Ok(())
    }
}
