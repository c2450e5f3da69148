//! Why data is not what it should be: the failure of a task, with the tasks between it and the first failure.
//!
//! A task that fails poisons the ranges that it would have written (I7). A [`Failure`] travels with
//! the data: a caller that reads the data gets the failure, and a task that uses it fails as well.
//!
//! A failure holds the *root*, the failure that all began with, and the names of the newest tasks behind it.
//! So it has a bounded size however many tasks fail one after the other (I12), and nothing recurses over it.

use std::fmt;
use std::sync::Arc;

/// A shared failure. Cloning it allocates nothing.
pub type FailureRef = Arc<Failure>;

/// What a failed task may have done before it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The task never started: its outputs are as they were.
    NotRun,
    /// The task started: its outputs may be partly written.
    MaybePartial,
}

/// Why a task failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The device had no memory for the slice.
    OutOfMemory {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that no slice has, where the device says how many it has: in pages and outside of them, in pieces that may all be
        /// too small.
        free: Option<u64>,
    },
    /// User code (a native kernel, a host function) panicked with this message.
    Panicked(String),
    /// Data that the task reads had failed before; see [`Failure::origin`].
    Input,
    /// The device refused the task.
    Refused(String),
    /// The device was lost before the task ran.
    Lost,
    /// The device was closed before the task was issued.
    Closed,
    /// It was given a parameter of a recording, which stands for what a replay binds and has no memory
    /// (`Recorder::parameter`).
    Parameter,
    /// Its [`CancelToken`](crate::cancel::CancelToken) was cancelled before it was issued.
    Cancelled,
    /// Its deadline passed before it was issued.
    DeadlinePassed,
}

/// One task's failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The task's name: the kernel's, or what it did (`copy in`, `reserve`, ..).
    pub task: Arc<str>,
    /// Why it failed.
    pub reason: Reason,
    /// Whether its outputs may be partly written.
    pub extent: Extent,
    /// Where the failed data that it reads comes from, if that is the reason.
    pub origin: Option<Origin>,
}

/// Where failed data comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The first failure. It has no origin.
    pub root: FailureRef,
    /// The tasks that did not run between the root and the task whose failure this is, oldest first: the newest
    /// [`Origin::BETWEEN_MAX`] of them.
    pub between: Box<[Arc<str>]>,
    /// How many more there were between the root and those.
    pub omitted: u64,
}

impl Origin {
    /// Most tasks between a failure and its root that are kept by name.
    pub const BETWEEN_MAX: usize = 8;
}

impl Failure {
    /// A task that never ran, for `reason`.
    pub fn not_run(task: &Arc<str>, reason: Reason) -> FailureRef {
        Arc::new(Self {
            task: task.clone(),
            reason,
            extent: Extent::NotRun,
            origin: None,
        })
    }

    /// A task whose user code panicked.
    pub fn panicked(task: &Arc<str>, message: String) -> FailureRef {
        Arc::new(Self {
            task: task.clone(),
            reason: Reason::Panicked(message),
            extent: Extent::MaybePartial,
            origin: None,
        })
    }

    /// A task that did not run because what it reads had failed with `cause`.
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

    /// The first failure: the one that no other caused.
    pub fn root(&self) -> &Failure {
        self.origin.as_ref().map_or(self, |origin| &origin.root)
    }

    /// The failure of the data that the task reads, if that is the reason.
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
        write!(f, "`{}` failed: ", root.task)?;
        match &root.reason {
            Reason::OutOfMemory {
                asked,
                free: Some(free),
            } => {
                write!(
                    f,
                    "out of memory, asked {}, free {}",
                    Bytes(*asked),
                    Bytes(*free)
                )?;
                if free >= asked {
                    f.write_str(", of which no piece is large enough")?;
                }
            }
            Reason::OutOfMemory { asked, free: None } => {
                write!(f, "out of memory, asked {}", Bytes(*asked))?;
            }
            Reason::Panicked(message) => write!(f, "panicked with \"{message}\"")?,
            Reason::Input => f.write_str("its input failed")?,
            Reason::Refused(why) => write!(f, "the device refused it, {why}")?,
            Reason::Lost => f.write_str("the device was lost before it ran")?,
            Reason::Closed => f.write_str("the device was closed before it was issued")?,
            Reason::Parameter => f.write_str(
                "a parameter of a recording has no memory of its own; give it to the recorder only, and bind a handle to it at each replay",
            )?,
            Reason::Cancelled => f.write_str("it was cancelled before it was issued")?,
            Reason::DeadlinePassed => f.write_str("its deadline passed before it was issued")?,
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
        write!(f, "`{}`", self.task)
    }
}

impl std::error::Error for Failure {}

/// Two numbers of bytes in one sentence: exact where they would read the same though they differ.
pub(crate) fn apart(first: u64, second: u64) -> [String; 2] {
    let rounded = [Bytes(first), Bytes(second)].map(|bytes| bytes.to_string());
    match first != second && rounded[0] == rounded[1] {
        true => [first, second].map(|bytes| format!("{bytes} B")),
        false => rounded,
    }
}

/// A number of bytes, as people write it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(
    /// The number.
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
    fn a_failure_reads_as_a_sentence_with_its_chain() {
        let root = Failure::not_run(
            &"blur".into(),
            Reason::OutOfMemory {
                asked: 4 << 30,
                free: Some(1 << 30),
            },
        );
        assert_eq!(
            root.to_string(),
            "`blur` failed: out of memory, asked 4.0 GiB, free 1.0 GiB"
        );
        let fragmented = Reason::OutOfMemory {
            asked: 1 << 20,
            free: Some(2 << 20),
        };
        assert_eq!(
            Failure::not_run(&"reserve".into(), fragmented).to_string(),
            "`reserve` failed: out of memory, asked 1.0 MiB, free 2.0 MiB, of which no piece is large enough"
        );
        let sobel = Failure::input(&"sobel".into(), root);
        let tone = Failure::input(&"tone".into(), sobel);
        assert_eq!(
            tone.to_string(),
            "`blur` failed: out of memory, asked 4.0 GiB, free 1.0 GiB; so these did not run: `sobel`, `tone`"
        );
    }

    fn after(tasks: u64) -> FailureRef {
        let root = Failure::panicked(&"first".into(), "boom".into());
        (1..=tasks).fold(root, |failure, task| {
            Failure::input(&format!("t{task}").into(), failure)
        })
    }

    #[test]
    fn failure_after_a_million_others_keeps_the_root_and_the_newest() {
        let failure = after(1_000_000);
        assert_eq!(failure.root().task.as_ref(), "first");
        let origin = failure.origin.as_ref().expect("it has one");
        assert_eq!(origin.omitted + origin.between.len() as u64, 999_999);
        assert_eq!(origin.between.len(), Origin::BETWEEN_MAX);
        assert_eq!(
            failure.to_string(),
            "`first` failed: panicked with \"boom\"; so these did not run: 999991 tasks, then `t999992`, `t999993`, `t999994`, \
             `t999995`, `t999996`, `t999997`, `t999998`, `t999999`, `t1000000`"
        );
        // Derived code that recursed over the tasks would overflow the stack.
        assert!(format!("{failure:?}").contains("boom"));
        assert!(*failure == Failure::clone(&failure));
    }

    #[test]
    fn cause_is_the_failure_that_the_task_inherited() {
        for tasks in [1, 2, 5, Origin::BETWEEN_MAX as u64] {
            assert_eq!(after(tasks).cause(), Some(after(tasks - 1)));
        }
        assert_eq!(after(0).cause(), None);
        let (long, shorter) = (after(100).cause(), after(99));
        let long = long.expect("it has one");
        assert_eq!((&long.task, long.root()), (&shorter.task, shorter.root()));
    }
}
