//! Why data is not what it should be: the failure of a task, with the chain of tasks behind it.
//!
//! A task that fails poisons the ranges that it would have written (I7). A [`Failure`] travels with
//! the data: whoever reads it gets the failure, and a task that uses it fails with it as its cause.

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
        /// Bytes that the device says are free, where it knows.
        free: Option<u64>,
    },
    /// User code (a native kernel, a host function) panicked with this message.
    Panicked(String),
    /// Data that the task reads had failed before; see [`Failure::cause`].
    Input,
    /// The device refused the task.
    Refused(String),
    /// The device was lost or closed before the task ran.
    Lost,
    /// It was given a parameter of a recording, which stands for what a replay binds and has no memory
    /// ([`Recorder::parameter`](crate::client::Recorder::parameter)).
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
    /// The failure of the data that it read, if that is the reason.
    pub cause: Option<FailureRef>,
}

impl Failure {
    /// A task that never ran, for `reason`.
    pub fn not_run(task: &Arc<str>, reason: Reason) -> FailureRef {
        Arc::new(Self {
            task: task.clone(),
            reason,
            extent: Extent::NotRun,
            cause: None,
        })
    }

    /// A task whose user code panicked.
    pub fn panicked(task: &Arc<str>, message: String) -> FailureRef {
        Arc::new(Self {
            task: task.clone(),
            reason: Reason::Panicked(message),
            extent: Extent::MaybePartial,
            cause: None,
        })
    }

    /// A task that did not run because what it reads had failed with `cause`.
    pub fn input(task: &Arc<str>, cause: FailureRef) -> FailureRef {
        Arc::new(Self {
            task: task.clone(),
            reason: Reason::Input,
            extent: Extent::NotRun,
            cause: Some(cause),
        })
    }

    /// The first failure of the chain: where it all began.
    pub fn root(&self) -> &Failure {
        let mut failure = self;
        while let Some(cause) = &failure.cause {
            failure = cause;
        }
        failure
    }

    /// The failures from this one down to the root.
    pub fn chain(&self) -> impl Iterator<Item = &Failure> {
        std::iter::successors(Some(self), |failure| failure.cause.as_deref())
    }
}

impl Drop for Failure {
    /// A chain as long as the program would overflow the stack if it dropped itself recursively.
    fn drop(&mut self) {
        let mut next = self.cause.take();
        while let Some(failure) = next {
            next = match Arc::try_unwrap(failure) {
                Ok(mut alone) => alone.cause.take(),
                Err(_shared) => None,
            };
        }
    }
}

/// Longest part of a chain that a message spells out; the rest is counted.
const CHAIN_SHOWN: usize = 8;

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
            }
            Reason::OutOfMemory { asked, free: None } => {
                write!(f, "out of memory, asked {}", Bytes(*asked))?;
            }
            Reason::Panicked(message) => write!(f, "panicked with \"{message}\"")?,
            Reason::Input => f.write_str("its input failed")?,
            Reason::Refused(why) => write!(f, "the device refused it, {why}")?,
            Reason::Lost => f.write_str("the device was lost before it ran")?,
            Reason::Parameter => f.write_str(
                "a parameter of a recording has no memory of its own; give it to the recorder only, and bind a handle to it at each replay",
            )?,
            Reason::Cancelled => f.write_str("it was cancelled before it was issued")?,
            Reason::DeadlinePassed => f.write_str("its deadline passed before it was issued")?,
        }
        let behind: Vec<&Failure> = self
            .chain()
            .filter(|failure| !std::ptr::eq(*failure, root))
            .collect();
        if !behind.is_empty() {
            f.write_str("; so these did not run: ")?;
            for (shown, failure) in behind.iter().rev().take(CHAIN_SHOWN).enumerate() {
                let comma = if shown == 0 { "" } else { ", " };
                write!(f, "{comma}`{}`", failure.task)?;
            }
            if behind.len() > CHAIN_SHOWN {
                write!(f, " and {} more", behind.len() - CHAIN_SHOWN)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

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
        let sobel = Failure::input(&"sobel".into(), root);
        let tone = Failure::input(&"tone".into(), sobel);
        assert_eq!(
            tone.to_string(),
            "`blur` failed: out of memory, asked 4.0 GiB, free 1.0 GiB; so these did not run: `sobel`, `tone`"
        );
    }

    #[test]
    fn a_chain_of_a_million_failures_drops_without_recursion() {
        let mut failure = Failure::panicked(&"first".into(), "boom".into());
        for _ in 0..1_000_000 {
            failure = Failure::input(&"next".into(), failure);
        }
        assert_eq!(failure.root().task.as_ref(), "first");
        drop(failure);
    }
}
