//! A group on the engine's side: three communicators and the calls in flight.

use millstream::{FailureRef, Reason, Remote};
use millstream_cluster::{Announcement, EnteredContext, Operation};
use mpi::ffi;

use crate::collective::Collectives;
use crate::element::Operations;
use crate::failures::Broken;
use crate::pair::Pairs;
use crate::raw::{Comm, MpiError, Request, Ulfm, call, leak};
use crate::running::Outcome;

/// The communicators of a group that is being made: a non-blocking collective of all ranks.
pub(crate) struct Forming {
    /// MPI stores the communicators here.
    comms: Box<[ffi::MPI_Comm; 3]>,
    requests: Vec<Request>,
}

// SAFETY: handles of the library; only the holder of the engine's lock uses them.
unsafe impl Send for Forming {}

impl Forming {
    pub(crate) fn start(world: Comm) -> Result<Self, MpiError> {
        // SAFETY: reads a constant of the library.
        let null = unsafe { ffi::RSMPI_COMM_NULL };
        let mut forming = Self {
            comms: Box::new([null; 3]),
            requests: Vec::new(),
        };
        for comm in &mut *forming.comms {
            forming.requests.push(Request::start(|request| {
                // SAFETY: the world exists, and the place of the communicator stays until the request has completed.
                unsafe { call!(MPI_Comm_idup(world.0, comm, request)) }
            })?);
        }
        Ok(forming)
    }

    /// Returns the group once all its communicators exist.
    pub(crate) fn step(&mut self) -> Result<Option<Group>, MpiError> {
        for request in &mut self.requests {
            if !request.has_completed()? {
                return Ok(None);
            }
        }
        let comms = self.comms.map(Comm);
        for comm in comms {
            comm.return_errors()?;
        }
        Group::new(comms).map(Some)
    }
}

impl Drop for Forming {
    fn drop(&mut self) {
        if self.requests.iter().any(Request::is_in_flight) {
            // SAFETY: reads a constant of the library.
            let null = unsafe { ffi::RSMPI_COMM_NULL };
            leak(std::mem::replace(&mut self.comms, Box::new([null; 3])));
        }
    }
}

/// A group.
pub(crate) struct Group {
    comms: [Comm; 3],
    collectives: Collectives,
    pairs: Pairs,
    broken: Option<Broken>,
    /// Whether the application has dropped it.
    pub(crate) closed: bool,
}

impl Group {
    fn new(comms: [Comm; 3]) -> Result<Self, MpiError> {
        let [checks, data, pairs] = comms;
        let (rank, size) = (data.rank()?, data.size()?);
        Ok(Self {
            comms,
            collectives: Collectives::new(checks, data, rank, size),
            pairs: Pairs::new(pairs, rank),
            broken: None,
            closed: false,
        })
    }

    pub(crate) fn announce(&mut self, ticket: u64, call: Announcement) {
        match call.operation {
            Operation::Send { .. } | Operation::Receive { .. } => self.pairs.announce(ticket, call),
            _ => self.collectives.announce(ticket, call),
        }
    }

    pub(crate) fn begin(&mut self, ticket: u64, part: Outcome) {
        let left = self.collectives.begin(ticket, part);
        let left = left.and_then(|part| self.pairs.begin(ticket, part));
        // A call that is not known any more was failed with its group.
        if let (Some(Ok(part)), Some(cause)) = (left, self.cause()) {
            part.fail_by(cause.clone());
        }
    }

    fn cause(&self) -> Option<&FailureRef> {
        self.broken.as_ref().and_then(Broken::known_cause)
    }

    /// Whether MPI must be polled.
    pub(crate) fn is_in_flight(&self) -> bool {
        match &self.broken {
            Some(broken) => broken.known_cause().is_none() || !self.is_empty(),
            None => self.collectives.is_in_flight() || self.pairs.is_in_flight(),
        }
    }

    /// Makes the context of its device current, if MPI accesses memory of that device.
    pub(crate) fn enter(&mut self) -> Option<EnteredContext> {
        self.collectives.enter().or_else(|| self.pairs.enter())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.collectives.is_empty() && self.pairs.is_empty()
    }

    /// Whether a rank is known to have ended. A group that another error of MPI has broken ends on all ranks, which then
    /// finalize MPI together.
    pub(crate) fn has_ended_rank(&self) -> bool {
        let ended = |cause: &FailureRef| {
            matches!(
                cause.reason,
                Reason::Remote(Remote::Ended { rank: Some(_) })
            )
        };
        self.cause().is_some_and(ended)
    }

    /// Goes on as far as possible. Returns `true` if anything changed.
    pub(crate) fn step(&mut self, operations: &Operations, ulfm: Option<&Ulfm>) -> bool {
        if self.broken.is_some() {
            return self.fail_calls(ulfm);
        }
        let stepped = self.collectives.step(operations);
        let stepped = stepped.and_then(|changed| Ok(changed | self.pairs.step()?));
        stepped.unwrap_or_else(|error| {
            self.broken = Some(Broken::new(&error, ulfm, &self.comms));
            true
        })
    }

    /// Fails the calls of a broken group.
    fn fail_calls(&mut self, ulfm: Option<&Ulfm>) -> bool {
        let ended = self.collectives.have_ended() & self.pairs.have_ended();
        let Some(broken) = &mut self.broken else {
            return false;
        };
        let Some(cause) = broken.cause(ended, ulfm, self.comms[1]) else {
            return false;
        };
        let any = !(self.collectives.is_empty() && self.pairs.is_empty());
        self.collectives.fail_all(cause);
        self.pairs.fail_all(cause);
        any
    }
}
