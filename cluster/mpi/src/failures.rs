//! The end of a group one of whose ranks has ended.
//!
//! ```text
//!  a request reports the end of a rank ──► revoke: all ranks' requests of the group end ──► no request is in flight
//!     ──► the rank is known, or RANK_KNOWN_WITHIN has passed ──► all calls fail, and later ones at once
//! ```
//! Memory of a part stays until no request is in flight, since MPI may access it until then.
//!
//! A request that does not end in time (an MPI without ULFM) keeps its memory and its task for good, with an error in
//! the log: a task that does not end is better than memory that changes later.

use std::time::{Duration, Instant};

use millstream::{Failure, FailureRef, Reason, error::Remote};
use mpi::ffi;

use crate::comm::Comm;
use crate::raw::{MpiError, Ulfm, call};

/// How long to ask MPI which rank has ended. A rank that learns of the end from another rank may not know at once.
const RANK_KNOWN_WITHIN: Duration = Duration::from_secs(1);

/// How long to wait for requests to end after the group was revoked.
const REQUESTS_END_WITHIN: Duration = Duration::from_secs(5);

/// A group that is broken.
pub(crate) struct Broken {
    since: Instant,
    /// MPI's error, if it is another one than the end of a rank.
    error: Option<String>,
    cause: Option<FailureRef>,
}

impl Broken {
    /// Revokes the communicators, so that the requests of all ranks end.
    pub(crate) fn new(error: &MpiError, ulfm: Option<&Ulfm>, comms: &[Comm]) -> Self {
        if let Some(ulfm) = ulfm {
            for comm in comms {
                // SAFETY: the communicator exists. The call is local.
                let _ = unsafe { (ulfm.revoke)(comm.handle) };
            }
        }
        Self {
            since: Instant::now(),
            error: (!error.is_rank_ended()).then(|| error.to_string()),
            cause: None,
        }
    }

    /// Returns the cause with which the calls fail, once it is known and memory is free.
    pub(crate) fn cause(
        &mut self,
        requests_ended: bool,
        ulfm: Option<&Ulfm>,
        comm: &Comm,
    ) -> Option<&FailureRef> {
        if self.cause.is_none() {
            let waited = self.since.elapsed();
            if !requests_ended && waited < REQUESTS_END_WITHIN {
                return None;
            }
            let reason = match &self.error {
                Some(error) => Reason::Refused(error.clone()),
                None => {
                    make_progress();
                    let rank = ulfm.and_then(|ulfm| ulfm.ended_rank(comm.handle));
                    if rank.is_none() && waited < RANK_KNOWN_WITHIN {
                        return None;
                    }
                    Reason::Remote(Remote::Ended { rank })
                }
            };
            self.cause = Some(Failure::not_run(&"collective".into(), reason));
        }
        self.cause.as_ref()
    }

    /// Returns the cause if it is known.
    pub(crate) fn known_cause(&self) -> Option<&FailureRef> {
        self.cause.as_ref()
    }
}

/// Lets MPI learn which ranks have ended. The query itself makes no progress.
fn make_progress() {
    let mut flag = 0;
    // SAFETY: probes this process alone. An error changes nothing.
    let _ = unsafe {
        call!(MPI_Iprobe(
            ffi::RSMPI_ANY_SOURCE,
            ffi::RSMPI_ANY_TAG,
            ffi::RSMPI_COMM_SELF,
            &mut flag,
            ffi::RSMPI_STATUS_IGNORE,
        ))
    };
}
