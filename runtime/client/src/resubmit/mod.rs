//! Resubmits a submission log from one thread, in the log's order, through the calls that users make. Every name in the
//! log is checked as a user's arguments are, so a log that was edited by hand can be wrong, but not unsound.
//!
//! Everything that can be checked in advance is checked before the first submission: that the log is complete, its
//! kernels, gaps, and the number of tasks.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_protocol::{
    Error, Signature,
    journal::{Digest, Entry, SubmissionLog, Work},
    recording::RecordedBinding,
};
use run::Replay;

use crate::{ComputeClient, KernelHandle};

mod run;

/// The maximum number of tasks of [`ComputeClient::resubmit`]: more than a log has in practice, and few enough that the
/// resubmission of a forged log ends. [`ComputeClient::resubmit_at_most`] takes another maximum.
pub const RESUBMITTED_TASKS_MAX: u64 = 1 << 30;

/// The number of bindings that a task may have to count as one.
const BINDINGS_OF_ONE: usize = 8;

/// One readback of a replayed log.
#[derive(Debug)]
pub struct LoggedReadback {
    /// The tag of the readback, if it was a number.
    pub tag: Option<u64>,
    /// The bytes of all bindings, concatenated, or the failure of the data that was read.
    pub bytes: Result<Vec<u8>, Error>,
}

/// The result of resubmitting a log.
#[derive(Debug)]
pub struct Replayed {
    /// All readbacks, in the order in which they were requested.
    pub readbacks: Vec<LoggedReadback>,
    /// The digest of all their bytes: see [`ComputeClient::resubmit_with`].
    pub digest: Digest,
}

/// Reasons why a log cannot be resubmitted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log does not begin with its first part.
    #[error("the log begins with part {part} instead of part 0; append it to the earlier parts")]
    NotTheStart {
        /// The first part that is present.
        part: u32,
    },
    /// The last entries are missing.
    #[error(
        "part {part} of the log is cut off because the log was full, so a replay would run its beginning only; increase \
         `log_submissions` or take the log more often, or call `SubmissionLog::accept_cut` to replay the beginning"
    )]
    Cut {
        /// The last part that is present.
        part: u32,
    },
    /// A logged kernel was not given.
    #[error("the log launches kernel `{name}`, which was not given; pass its handle in `kernels`")]
    UnknownKernel {
        /// The kernel's name.
        name: Arc<str>,
    },
    /// A kernel of the same name has a different signature.
    #[error(
        "kernel `{name}` differs from the logged one: expected signature {logged}, got {given}; pass the kernel of that signature"
    )]
    Signature {
        /// The kernel's name.
        name: Arc<str>,
        /// The signature that was logged.
        logged: String,
        /// The signature that was given.
        given: String,
    },
    /// The log submits more tasks than the caller allows.
    #[error(
        "the log submits {tasks} tasks, more than the maximum of {max}; raise the maximum if the log is trusted"
    )]
    TooManyTasks {
        /// The number of tasks of the log, counted as [`ComputeClient::resubmit_at_most`] does.
        tasks: u64,
        /// The maximum.
        max: u64,
    },
    /// Code that is not in the log may have written data.
    #[error(
        "entry {entry} of the log is `{name}`, whose code is not in the log and may have written data; replay a log without such tasks"
    )]
    Gap {
        /// The number of the entry.
        entry: u64,
        /// The name of the code.
        name: Arc<str>,
    },
    /// An entry is inconsistent.
    #[error("entry {entry} of the log is inconsistent: {what}; read the log again from its file")]
    Broken {
        /// The number of the entry.
        entry: u64,
        /// The inconsistency.
        what: &'static str,
    },
    /// The device refused an entry.
    #[error("entry {entry} of the log was refused: {error}")]
    Refused {
        /// The number of the entry.
        entry: u64,
        /// The reason.
        error: Error,
    },
}

impl ComputeClient {
    /// Resubmits a log to this client's device, and collects all readbacks. `kernels` are matched by name and
    /// signature; the device may be of another kind than the logged one.
    ///
    /// Blocks until the last readback has arrived. That takes as long as the logged work, which the length of the log does
    /// not bound: a recording is submitted task by task, so that one of n tasks with m replays is n times m tasks, and a
    /// kernel or buffer may be of any size. At most [`RESUBMITTED_TASKS_MAX`] tasks are submitted. Resubmit an untrusted
    /// log with a lower maximum ([`ComputeClient::resubmit_at_most`]), in a process of its own with a limit on its time.
    ///
    /// # Errors
    /// [`ReplayError`]. A failed readback is not an error of the replay: it may have failed in the logged run, too.
    pub fn resubmit(
        &self,
        log: &SubmissionLog,
        kernels: &[KernelHandle],
    ) -> Result<Replayed, ReplayError> {
        let mut readbacks = Vec::new();
        let digest = self.resubmit_with(log, kernels, |readback| readbacks.push(readback))?;
        Ok(Replayed { readbacks, digest })
    }

    /// As [`ComputeClient::resubmit`], but passes each readback to `on_readback` as it arrives, in order. Blocks until
    /// the last one has arrived. Returns the digest of all readbacks, each preceded by its length as 8 bytes; a failed
    /// readback counts as a length of all ones.
    ///
    /// # Errors
    /// Same as [`ComputeClient::resubmit`].
    pub fn resubmit_with(
        &self,
        log: &SubmissionLog,
        kernels: &[KernelHandle],
        on_readback: impl FnMut(LoggedReadback),
    ) -> Result<Digest, ReplayError> {
        self.resubmit_at_most(RESUBMITTED_TASKS_MAX, log, kernels, on_readback)
    }

    /// As [`ComputeClient::resubmit_with`], but submits nothing if the log has more than `tasks_max` tasks. A replay counts
    /// as the tasks of its recording, and a task with more than 8 bindings as one more for each further 8.
    ///
    /// # Errors
    /// Same as [`ComputeClient::resubmit`]; [`ReplayError::TooManyTasks`].
    pub fn resubmit_at_most(
        &self,
        tasks_max: u64,
        log: &SubmissionLog,
        kernels: &[KernelHandle],
        on_readback: impl FnMut(LoggedReadback),
    ) -> Result<Digest, ReplayError> {
        let part = *log.parts().start();
        if part > 0 {
            return Err(ReplayError::NotTheStart { part });
        }
        if !log.is_complete() {
            let part = *log.parts().end();
            return Err(ReplayError::Cut { part });
        }
        let (tasks, withdrawn) = check(log, kernels)?;
        if tasks > tasks_max {
            let max = tasks_max;
            return Err(ReplayError::TooManyTasks { tasks, max });
        }
        let mut replay = Replay::new(self, kernels, withdrawn, on_readback);
        for (number, entry) in log.entries().enumerate() {
            replay.submit(number as u64, entry)?;
        }
        Ok(replay.finish())
    }
}

/// Checks that the kernels are given and that no gap may have written data. Returns the number of tasks that a
/// resubmission submits, and the entries that were withdrawn, each with whether a token withdrew it.
fn check(
    log: &SubmissionLog,
    given: &[KernelHandle],
) -> Result<(u64, HashMap<u64, bool>), ReplayError> {
    let of = |bindings: &[RecordedBinding]| {
        1 + (bindings.len().saturating_sub(1) / BINDINGS_OF_ONE) as u64
    };
    let (mut tasks, mut withdrawn) = (0_u64, HashMap::new());
    // The number of tasks of each recording, by its slot, and the slot of the last recording.
    let (mut recordings, mut last) = (HashMap::new(), 0);
    for (number, entry) in log.entries().enumerate() {
        match &entry {
            Entry::Kernel {
                name, signature, ..
            } => drop(find_kernel(given, name, signature)?),
            Entry::Recording { id } => {
                recordings.insert(*id, 0);
                last = *id;
            }
            Entry::Recorded(task) => {
                *recordings.entry(last).or_insert(0) += of(&task.bindings);
            }
            Entry::Task { work, bindings, .. } => {
                if let Work::Gap(name) = work
                    && bindings.iter().any(|binding| binding.access.writes())
                {
                    return Err(ReplayError::Gap {
                        entry: number as u64,
                        name: name.clone(),
                    });
                }
                let replayed = match work {
                    Work::Replay { recording, .. } => recordings.get(recording).copied(),
                    _ => None,
                };
                tasks = tasks.saturating_add(replayed.unwrap_or_else(|| of(bindings)));
            }
            Entry::Withdrawn { entry, cancelled } => {
                withdrawn.insert(*entry, *cancelled);
            }
            _ => {}
        }
    }
    Ok((tasks, withdrawn))
}

fn find_kernel<'a>(
    given: &'a [KernelHandle],
    name: &Arc<str>,
    logged: &Signature,
) -> Result<&'a KernelHandle, ReplayError> {
    let mut named = given
        .iter()
        .filter(|kernel| kernel.name() == name)
        .peekable();
    let Some(first) = named.peek() else {
        return Err(ReplayError::UnknownKernel { name: name.clone() });
    };
    let given = first.kernel().signature();
    let fits = |kernel: &&KernelHandle| kernel.kernel().signature().takes_the_same(logged);
    named.find(fits).ok_or_else(|| ReplayError::Signature {
        name: name.clone(),
        logged: logged.to_string(),
        given: given.to_string(),
    })
}
