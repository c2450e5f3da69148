//! The failure of a task, with the tasks between it and the root failure.
//!
//! A task that fails poisons the ranges that it would have written (I7). The [`Failure`] travels with the data: a
//! caller that reads the data receives the failure, and a task that reads the data fails as well.
//!
//! ```text
//! blur   out of memory              its output is poisoned by A: the root
//! sobel  reads blur's output        does not run; its output is poisoned by B: root A, between []
//! tone   reads sobel's output       does not run; its output is poisoned by C: root A, between [sobel]
//! read   of tone's output           returns C: "`blur` failed: ..; so these did not run: `sobel`, `tone`"
//! ```
//!
//! A failure holds its root and the names of the newest tasks between the two, not a chain of failures. So its size is
//! bounded however many tasks fail one after the other (I12), and no code recurses over the chain.

use std::fmt;
use std::sync::Arc;

/// A shared failure. Cloning it allocates nothing.
pub type FailureRef = Arc<Failure>;

/// How far a failed task may have run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The task did not start: its outputs are unchanged.
    NotRun,
    /// The task started: its outputs may be partly written.
    MaybePartial,
}

/// Why a task failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The device had no memory for a slice.
    OutOfMemory {
        /// Bytes requested.
        requested: u64,
        /// Free bytes, inside and outside of pages, if the device reports them. Each free range may be too small.
        free: Option<u64>,
    },
    /// User code (a native kernel, a host function) panicked with this message.
    Panicked(String),
    /// A range that the task reads was poisoned; see [`Failure::origin`].
    Input,
    /// The device refused the task.
    Refused(String),
    /// The device was lost before the task ran.
    Lost,
    /// The device was closed before the task was issued.
    Closed,
    /// The task was passed a parameter of a recording (`Recorder::parameter`), which has no memory outside of replays.
    Parameter,
    /// The task's [`CancelToken`](crate::cancel::CancelToken) was cancelled before the task was issued.
    Cancelled,
    /// The task's deadline passed before the task was issued.
    DeadlinePassed,
    /// The task is the part of a collective, and another rank ended it.
    Remote(Remote),
}

/// How another rank ended a collective.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Remote {
    /// The part of this rank failed.
    #[error("it failed on rank {rank}: {message}")]
    Failed {
        /// The rank, in the group of the collective.
        rank: u32,
        /// Its failure.
        message: String,
    },
    /// The process of a rank has ended, or cannot be reached.
    #[error("{} has ended; make a group of the ranks that are left, then repeat the work", rank_or_any(*.rank))]
    Ended {
        /// The rank, in the group of the collective; `None` if it cannot be learned.
        rank: Option<u32>,
    },
    /// The ranks called different collectives, or with different sizes or types.
    #[error(
        "the ranks did not call the same: {message}; every rank must make the same calls of a group in the same order"
    )]
    Mismatch {
        /// What each of two ranks called, and where.
        message: String,
    },
}

fn rank_or_any(rank: Option<u32>) -> String {
    rank.map_or_else(|| "a rank".to_owned(), |rank| format!("rank {rank}"))
}

/// The failure of one task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The task's name: that of its kernel, or of its operation (`copy in`, `reserve`, ..).
    pub task: Arc<str>,
    /// Why the task failed.
    pub reason: Reason,
    /// Whether the task's outputs may be partly written.
    pub extent: Extent,
    /// The origin of the poisoned data that the task reads, for [`Reason::Input`].
    pub origin: Option<Origin>,
}

/// The origin of poisoned data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The root: the first failure. It has no origin itself.
    pub root: FailureRef,
    /// The names of the tasks that did not run between the root and this failure's task, oldest first: the newest
    /// [`Origin::BETWEEN_MAX`] of them.
    pub between: Box<[Arc<str>]>,
    /// The number of tasks between the root and the first name in [`Origin::between`].
    pub omitted: u64,
}

impl Origin {
    /// The number of tasks between a failure and its root that are kept by name.
    pub const BETWEEN_MAX: usize = 8;
}

impl Failure {
    /// Creates the failure of a task that did not start.
    pub fn not_run(task: &Arc<str>, reason: Reason) -> FailureRef {
        Arc::new(Self {
            task: task.clone(),
            reason,
            extent: Extent::NotRun,
            origin: None,
        })
    }

    /// Creates the failure of a task whose user code panicked.
    pub fn panicked(task: &Arc<str>, message: String) -> FailureRef {
        Arc::new(Self {
            task: task.clone(),
            reason: Reason::Panicked(message),
            extent: Extent::MaybePartial,
            origin: None,
        })
    }

    /// Creates the failure of a task that did not run because data that it reads is poisoned by `cause`.
    pub fn input(task: &Arc<str>, cause: FailureRef) -> FailureRef {
        let origin = match &cause.origin {
            None => Origin {
                root: cause,
                between: Box::default(),
                omitted: 0,
            },
            Some(origin) => {
                let excess = (origin.between.len() + 1).saturating_sub(Origin::BETWEEN_MAX);
                let newest = &origin.between[excess..];
                Origin {
                    root: origin.root.clone(),
                    between: newest.iter().chain([&cause.task]).cloned().collect(),
                    omitted: origin.omitted + excess as u64,
                }
            }
        };
        Self::inherited(task, origin)
    }

    fn inherited(task: &Arc<str>, origin: Origin) -> FailureRef {
        Arc::new(Self {
            task: task.clone(),
            reason: Reason::Input,
            extent: Extent::NotRun,
            origin: Some(origin),
        })
    }

    /// Returns the root: the failure that no other caused.
    pub fn root(&self) -> &Failure {
        self.origin.as_ref().map_or(self, |origin| &origin.root)
    }

    /// Returns the calls that submit an operation of the runtime, as the end of the operation's name in a message. A
    /// kernel's name needs none.
    fn call(&self) -> &'static str {
        match (&*self.task, &self.reason) {
            ("copy out", _) => " (of `read`)",
            ("copy in", _) => " (of `create` or `write`)",
            // A kernel may have this name, but a launch reserves no memory.
            ("reserve", Reason::OutOfMemory { .. }) => " (of `empty` or `create`)",
            _ => "",
        }
    }

    /// Returns the failure of the data that the task reads, for [`Reason::Input`].
    pub fn cause(&self) -> Option<FailureRef> {
        let origin = self.origin.as_ref()?;
        let Some((newest, older)) = origin.between.split_last() else {
            return Some(origin.root.clone());
        };
        let origin = Origin {
            root: origin.root.clone(),
            between: older.into(),
            omitted: origin.omitted,
        };
        Some(Self::inherited(newest, origin))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.root();
        write!(f, "`{}`{} failed: ", root.task, root.call())?;
        match &root.reason {
            Reason::OutOfMemory {
                requested,
                free: Some(free),
            } => {
                write!(
                    f,
                    "out of memory, requested {}, free {}",
                    Bytes(*requested),
                    Bytes(*free)
                )?;
                if free >= requested {
                    f.write_str(", but no free range is large enough")?;
                }
                f.write_str("; drop handles, or use smaller ones")?;
            }
            Reason::OutOfMemory { requested, free: None } => {
                write!(
                    f,
                    "out of memory, requested {}; drop handles, or use smaller ones",
                    Bytes(*requested)
                )?;
            }
            Reason::Panicked(message) => write!(f, "panicked with \"{message}\"")?,
            Reason::Input => f.write_str("data that it reads is poisoned")?,
            Reason::Refused(why) => write!(f, "the device refused it, {why}")?,
            Reason::Lost => f.write_str(
                "the device was lost before it ran; open the device again, then repeat the work",
            )?,
            Reason::Closed => f.write_str(
                "the device was closed before it was issued; open a device, then repeat the work",
            )?,
            Reason::Parameter => f.write_str(
                "a parameter of a recording has no memory of its own; give it to the recorder only, and bind a handle to it at each replay",
            )?,
            Reason::Cancelled => f.write_str("it was cancelled before it was issued")?,
            Reason::DeadlinePassed => f.write_str("its deadline passed before it was issued")?,
            Reason::Remote(remote) => write!(f, "{remote}")?,
        }
        let Some(origin) = &self.origin else {
            return Ok(());
        };
        f.write_str("; so these did not run: ")?;
        if origin.omitted > 0 {
            write!(f, "{} tasks, then ", origin.omitted)?;
        }
        for task in &origin.between {
            write!(f, "`{task}`, ")?;
        }
        write!(f, "`{}`{}", self.task, self.call())
    }
}

impl std::error::Error for Failure {}

/// Formats two sizes for one message: exactly if they differ but would read alike when rounded.
pub(crate) fn distinguishable(first: u64, second: u64) -> [String; 2] {
    let rounded = [Bytes(first), Bytes(second)].map(|bytes| bytes.to_string());
    match first != second && rounded[0] == rounded[1] {
        true => [first, second].map(|bytes| format!("{bytes} B")),
        false => rounded,
    }
}

/// A number of bytes, displayed in binary units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(
    /// The number of bytes.
    pub u64,
);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 {
            write!(f, "{} B", self.0)
        } else {
            write!(f, "{value:.1} {}", UNITS[unit])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_displays_its_root_and_the_tasks_that_did_not_run() {
        let root = Failure::not_run(
            &"blur".into(),
            Reason::OutOfMemory {
                requested: 4 << 30,
                free: Some(1 << 30),
            },
        );
        assert_eq!(
            root.to_string(),
            "`blur` failed: out of memory, requested 4.0 GiB, free 1.0 GiB; drop handles, or use smaller ones"
        );
        let fragmented = Reason::OutOfMemory {
            requested: 1 << 20,
            free: Some(2 << 20),
        };
        assert_eq!(
            Failure::not_run(&"reserve".into(), fragmented).to_string(),
            "`reserve` (of `empty` or `create`) failed: out of memory, requested 1.0 MiB, free 2.0 MiB, but no free range is large enough; drop handles, or use smaller ones"
        );
        let sobel = Failure::input(&"sobel".into(), root);
        let tone = Failure::input(&"tone".into(), sobel);
        assert_eq!(
            tone.to_string(),
            "`blur` failed: out of memory, requested 4.0 GiB, free 1.0 GiB; drop handles, or use smaller ones; so these did not run: `sobel`, `tone`"
        );
    }

    fn chain_of(tasks: u64) -> FailureRef {
        let root = Failure::panicked(&"first".into(), "boom".into());
        (1..=tasks).fold(root, |failure, task| {
            Failure::input(&format!("t{task}").into(), failure)
        })
    }

    #[test]
    fn failure_after_a_million_tasks_keeps_its_root_and_the_newest_names_i12() {
        let failure = chain_of(1_000_000);
        assert_eq!(failure.root().task.as_ref(), "first");
        let origin = failure
            .origin
            .as_ref()
            .expect("an inherited failure has an origin");
        assert_eq!(origin.omitted + origin.between.len() as u64, 999_999);
        assert_eq!(origin.between.len(), Origin::BETWEEN_MAX);
        assert_eq!(
            failure.to_string(),
            "`first` failed: panicked with \"boom\"; so these did not run: 999991 tasks, then `t999992`, `t999993`, `t999994`, \
             `t999995`, `t999996`, `t999997`, `t999998`, `t999999`, `t1000000`"
        );
        // A derived impl that recursed over the tasks would overflow the stack.
        assert!(format!("{failure:?}").contains("boom"));
        assert!(*failure == Failure::clone(&failure));
    }

    #[test]
    fn cause_is_the_failure_that_the_task_inherited() {
        for tasks in [1, 2, 5, Origin::BETWEEN_MAX as u64] {
            assert_eq!(chain_of(tasks).cause(), Some(chain_of(tasks - 1)));
        }
        assert_eq!(chain_of(0).cause(), None);
        let (long, shorter) = (chain_of(100).cause(), chain_of(99));
        let long = long.expect("an inherited failure has a cause");
        assert_eq!((&long.task, long.root()), (&shorter.task, shorter.root()));
    }
}
