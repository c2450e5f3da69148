//! How the ranks that are left make a world of their own.
//!
//! MPI's call for it blocks until all of them have called. An engine that waited in it would make no progress with calls
//! that another rank needs before it comes to the same point. So the ranks agree first, without blocking.

use std::ffi::c_int;

use crossbeam_channel::Sender;
use mpi::ffi;

use crate::raw::{Comm, MpiError, Request, Ulfm, check};

/// The answer to the application: the rank and the size of the new world.
pub(crate) type Answer = Result<(usize, usize), MpiError>;

/// An agreement in flight.
pub(crate) struct Survivors {
    request: Request,
    /// MPI accesses it until the request has completed.
    _flag: Box<c_int>,
    pub(crate) reply: Sender<Answer>,
}

impl Survivors {
    pub(crate) fn start(
        world: Comm,
        ulfm: Option<&Ulfm>,
        reply: &Sender<Answer>,
    ) -> Result<Self, MpiError> {
        let ulfm = ulfm.ok_or(MpiError::NoSurvivors)?;
        let mut flag = Box::new(1);
        let request = Request::start(|request| {
            // SAFETY: the world exists, and `self` keeps the flag until the request has completed.
            check("MPIX_Comm_iagree", unsafe {
                (ulfm.iagree)(world.0, &mut *flag, request)
            })
        })?;
        Ok(Self {
            request,
            _flag: flag,
            reply: reply.clone(),
        })
    }

    /// Returns the world of the ranks that are left, once all of them have asked for it.
    pub(crate) fn step(&mut self, world: Comm, ulfm: &Ulfm) -> Option<Result<Comm, MpiError>> {
        match self.request.has_completed() {
            Ok(false) => return None,
            // An agreement with a rank that has ended reports that, and is complete.
            Ok(true) | Err(MpiError::RankEnded { .. }) => {}
            Err(error) => return Some(Err(error)),
        }
        // SAFETY: reads a constant of the library.
        let mut left = unsafe { ffi::RSMPI_COMM_NULL };
        // SAFETY: the world exists. All ranks that are left are here, so that the call ends soon.
        let shrunk = check("MPIX_Comm_shrink", unsafe {
            (ulfm.shrink)(world.0, &mut left)
        });
        let left = Comm(left);
        Some(shrunk.and_then(|()| left.return_errors()).map(|()| left))
    }
}
