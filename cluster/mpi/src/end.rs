//! Messages between two ranks.

use std::ffi::c_int;

use mpi::ffi;

use crate::raw::{Comm, MpiError, Request, call};

/// Where messages go to, or come from.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) comm: Comm,
    pub(crate) peer: usize,
    pub(crate) tag: c_int,
}

impl End {
    /// Starts to send bytes.
    ///
    /// # Safety
    /// The bytes stay as they are until the request has completed.
    pub(crate) unsafe fn send(self, start: *const u8, bytes: usize) -> Result<Request, MpiError> {
        Request::start(|request| {
            // SAFETY: the caller's promise.
            unsafe {
                call!(MPI_Isend(
                    start.cast(),
                    bytes as c_int,
                    ffi::RSMPI_UINT8_T,
                    self.peer as c_int,
                    self.tag,
                    self.comm.0,
                    request,
                ))
            }
        })
    }

    /// Starts to receive bytes.
    ///
    /// # Safety
    /// The bytes stay where they are, and nothing else accesses them, until the request has completed.
    pub(crate) unsafe fn receive(self, start: *mut u8, bytes: usize) -> Result<Request, MpiError> {
        Request::start(|request| {
            // SAFETY: the caller's promise.
            unsafe {
                call!(MPI_Irecv(
                    start.cast(),
                    bytes as c_int,
                    ffi::RSMPI_UINT8_T,
                    self.peer as c_int,
                    self.tag,
                    self.comm.0,
                    request,
                ))
            }
        })
    }
}
