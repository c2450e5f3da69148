//! Resubmitting a log, from one thread, in its order, through the same calls that users make: what it names is
//! checked like anything else, so a log that was made by hand can be wrong, but not unsound.
//!
//! Everything that can be known before is checked before anything is submitted: that it is whole, kernels and gaps.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use millstream_protocol::error::Error;
use millstream_protocol::journal::{Digest, Entry, Part, SubmissionLog, Work};
use millstream_protocol::kernel::Signature;
use run::Replay;

use crate::{ComputeClient, KernelHandle};

mod run;

/// One readback of a replayed log.
#[derive(Debug)]
pub struct LoggedReadback {
    /// What the asker had called it, where that was a number.
    pub tag: Option<u64>,
    /// The bytes, one binding after the other, or the failure of what was read.
    pub bytes: Result<Vec<u8>, Error>,
}

/// What came of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// All readbacks, in the order in which they were asked for.
    pub readbacks: Vec<LoggedReadback>,
    /// Of all their bytes: see [`ComputeClient::resubmit_with`].
    pub digest: Digest,
}

/// Why a log cannot be replayed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It begins in the middle.
    #[error(
        "this is part {part} of a log, and begins in the middle; append it to the parts before"
    )]
    NotTheStart {
        /// Which part.
        part: u32,
    },
    /// Entries are missing at the end.
    #[error(
        "part {part} of the log ends where there was no room for more, so a replay would run the beginning only; let the \
         device keep more or take the log more often, or call `SubmissionLog::accept_cut` to replay what there is"
    )]
    Cut {
        /// The last part.
        part: u32,
    },
    /// A kernel is missing.
    #[error("the log launches `{name}`, which is not among the kernels that the replay was given")]
    UnknownKernel {
        /// Its name.
        name: Arc<str>,
    },
    /// A kernel is another one.
    #[error("the kernel `{name}` is not the logged one: it was {logged}, it is {given}")]
    Signature {
        /// Its name.
        name: Arc<str>,
        /// The signature that was logged.
        logged: String,
        /// The signature that was given.
        given: String,
    },
    /// Code that is not in the log may have written data.
    #[error(
        "entry {entry} of the log is `{name}`, whose code is not logged and may have written data"
    )]
    Gap {
        /// Which entry.
        entry: u64,
        /// Its name.
        name: Arc<str>,
    },
    /// The entries do not make sense.
    #[error("entry {entry} of the log makes no sense: {what}")]
    Broken {
        /// Which entry.
        entry: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The device did not take it.
    #[error("entry {entry} of the log was not accepted: {error}")]
    Refused {
        /// Which entry.
        entry: u64,
        /// Why.
        error: Error,
    },
}

impl ComputeClient {
    /// Resubmits a log to this client's device, and collects all readbacks. `kernels` are given by name and
    /// signature; the device may be of another kind than the one that was logged.
    ///
    /// Blocks until the last readback is there.
    ///
    /// # Errors
    /// [`ReplayError`]. Readbacks that failed are no error of the replay: they may have failed as they had before.
    pub fn resubmit(
        &self,
        log: &SubmissionLog,
        kernels: &[KernelHandle],
    ) -> Result<Replayed, ReplayError> {
        let mut readbacks = Vec::new();
        let digest = self.resubmit_with(log, kernels, |readback| readbacks.push(readback))?;
        Ok(Replayed { readbacks, digest })
    }

    /// As [`ComputeClient::resubmit`], handing readbacks out as they come, in order. The answer is the digest of their
    /// bytes, each before an 8-byte length; a failure counts as a length of all ones.
    ///
    /// # Errors
    /// As [`ComputeClient::resubmit`].
    pub fn resubmit_with(
        &self,
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
        let (kernels, withdrawn) = (check(log, kernels)?, withdrawn(log));
        let mut replay = Replay::new(self, kernels, withdrawn, on_readback);
        for (number, entry) in log.entries().enumerate() {
            replay.submit(number as u64, entry)?;
        }
        Ok(replay.finish())
    }
}

/// The kernel handle of each logged kernel, in order; no gap that may have written.
fn check(
    log: &SubmissionLog,
    given: &[KernelHandle],
) -> Result<VecDeque<KernelHandle>, ReplayError> {
    let mut found = VecDeque::new();
    for (number, entry) in log.entries().enumerate() {
        let entry_number = number as u64;
        let gap = |work: &Work<'_>, parts: &[Part]| match work {
            Work::Gap(name) if parts.iter().any(|part| part.access.writes()) => {
                Err(ReplayError::Gap {
                    entry: entry_number,
                    name: name.clone(),
                })
            }
            _ => Ok(()),
        };
        match &entry {
            Entry::Kernel { name, signature } => {
                found.push_back(find_kernel(given, name, signature)?.clone());
            }
            Entry::Task { work, parts, .. } => gap(work, parts)?,
            Entry::Recording { steps } => {
                steps
                    .iter()
                    .try_for_each(|step| gap(&step.work, &step.parts))?;
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The entries that were withdrawn, and whether by a token.
fn withdrawn(log: &SubmissionLog) -> HashMap<u64, bool> {
    let withdrawn = |entry| match entry {
        Entry::Withdrawn { entry, cancelled } => Some((entry, cancelled)),
        _ => None,
    };
    log.entries().filter_map(withdrawn).collect()
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
