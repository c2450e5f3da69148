//! The calls of MPI that move the bytes of a collective.

use std::ffi::{c_int, c_void};

use millstream_cluster::{Announcement, Operation};

use crate::element::{Operations, datatype};
use crate::pieces::At;
use crate::raw::{Comm, MpiError, Request, call};

/// A communicator, and what its calls need.
#[derive(Clone, Copy)]
pub(crate) struct Movers<'a> {
    pub(crate) comm: Comm,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) operations: &'a Operations,
}

impl Movers<'_> {
    /// Starts to move elements of a call: this number of each rank. The input may be [`in_place`](crate::raw::in_place).
    ///
    /// # Safety
    /// The input and the output have the bytes that the call reads and writes, and are valid, of the host or of a device,
    /// until the request has completed. Nothing else accesses them.
    pub(crate) unsafe fn start(
        self,
        what: &Announcement,
        count: c_int,
        (input, output): (*const c_void, *mut c_void),
    ) -> Result<Request, MpiError> {
        let (dtype, comm) = (datatype(what.dtype), self.comm.0);
        Request::start(|request| {
            // SAFETY: the caller's promise.
            unsafe {
                match what.operation {
                    Operation::AllReduce(reduction) => {
                        let operation = self.operations.of(what.dtype, reduction);
                        call!(MPI_Iallreduce(
                            input, output, count, dtype, operation, comm, request
                        ))
                    }
                    Operation::ReduceScatter(reduction) => {
                        let operation = self.operations.of(what.dtype, reduction);
                        call!(MPI_Ireduce_scatter_block(
                            input, output, count, dtype, operation, comm, request
                        ))
                    }
                    Operation::AllGather => call!(MPI_Iallgather(
                        input, count, dtype, output, count, dtype, comm, request,
                    )),
                    Operation::Broadcast { root } => {
                        let buffer = match root == self.rank {
                            true => input.cast_mut(),
                            false => output,
                        };
                        call!(MPI_Ibcast(
                            buffer,
                            count,
                            dtype,
                            root as c_int,
                            comm,
                            request
                        ))
                    }
                    Operation::Send { .. } | Operation::Receive { .. } => Ok(()),
                }
            }
        })
    }

    /// As [`Movers::start`], of a piece.
    ///
    /// # Safety
    /// As [`Movers::start`].
    pub(crate) unsafe fn start_piece(
        self,
        what: &Announcement,
        (at, bytes): (At, usize),
    ) -> Result<Request, MpiError> {
        let output: *mut c_void = at.piece.cast();
        let input = match (what.operation, at.input) {
            (Operation::Broadcast { .. }, _) => output.cast_const(),
            (_, Some(input)) => input.cast(),
            (_, None) => crate::raw::in_place(),
        };
        let count = (bytes / what.dtype.size()) as c_int;
        // SAFETY: the caller's promise.
        unsafe { self.start(what, count, (input, output)) }
    }
}
