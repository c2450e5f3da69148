//! Communicators, and the calls of MPI that need nothing but bytes.
//!
//! Invariants: an error of MPI is returned, and ends no process. A request borrows the memory that MPI accesses, or its
//! caller keeps that memory until it has ended. The communicator of a group notes what its requests meet ([`Events`]): after
//! an error it starts no further one. Communicators are not freed: that is a collective call, and a process has few.

use std::ffi::c_int;
use std::rc::Rc;

use mpi::ffi::{self, MPI_Comm, MPI_Datatype, MPI_Request};

use crate::job::{Events, Request};
use crate::raw::{MpiError, call};

/// A communicator, with errors that are returned.
#[derive(Clone)]
pub(crate) struct Comm {
    pub(crate) handle: MPI_Comm,
    /// Of its group. The world has none.
    pub(crate) events: Option<Rc<Events>>,
}

impl Comm {
    pub(crate) fn world() -> Result<Self, MpiError> {
        // SAFETY: reads a constant of the library.
        Self::new(unsafe { ffi::RSMPI_COMM_WORLD }, None)
    }

    /// Makes the errors of its calls return codes.
    pub(crate) fn new(handle: MPI_Comm, events: Option<Rc<Events>>) -> Result<Self, MpiError> {
        // SAFETY: the communicator exists.
        unsafe { call!(MPI_Comm_set_errhandler(handle, ffi::RSMPI_ERRORS_RETURN)) }?;
        Ok(Self { handle, events })
    }

    pub(crate) fn rank(&self) -> Result<usize, MpiError> {
        let mut rank = 0;
        // SAFETY: the communicator exists.
        unsafe { call!(MPI_Comm_rank(self.handle, &mut rank)) }?;
        Ok(rank as usize)
    }

    pub(crate) fn size(&self) -> Result<usize, MpiError> {
        let mut size = 0;
        // SAFETY: the communicator exists.
        unsafe { call!(MPI_Comm_size(self.handle, &mut size)) }?;
        Ok(size as usize)
    }

    /// Makes a communicator of some of the ranks, in this order. Blocks until all of them have called.
    pub(crate) fn of_ranks(&self, ranks: &[usize]) -> Result<Self, MpiError> {
        const TAG: c_int = 1;
        let ranks: Vec<c_int> = ranks.iter().map(|rank| *rank as c_int).collect();
        // SAFETY: the communicator exists, and so do its ranks; each group that is made is freed.
        let made = unsafe {
            let (mut all, mut some) = (ffi::RSMPI_GROUP_NULL, ffi::RSMPI_GROUP_NULL);
            call!(MPI_Comm_group(self.handle, &mut all))?;
            let count = ranks.len() as c_int;
            let chosen = call!(MPI_Group_incl(all, count, ranks.as_ptr(), &mut some));
            ffi::MPI_Group_free(&mut all);
            chosen?;
            let mut made = ffi::RSMPI_COMM_NULL;
            let created = call!(MPI_Comm_create_group(self.handle, some, TAG, &mut made));
            ffi::MPI_Group_free(&mut some);
            created?;
            made
        };
        Self::new(made, None)
    }

    /// Starts a call, which `start` makes with the place for its request.
    pub(crate) fn start<'a>(
        &self,
        start: impl FnOnce(*mut MPI_Request) -> Result<(), MpiError>,
    ) -> Request<'a> {
        Request::start(self.events.as_ref(), start)
    }

    /// Something has changed without a request.
    pub(crate) fn note_change(&self) {
        if let Some(events) = &self.events {
            events.changed.set(true);
        }
    }

    /// A call has failed for another reason than a request.
    pub(crate) fn note_error(&self, error: &MpiError) {
        if let Some(events) = &self.events {
            events.note_error(error);
        }
    }

    /// Returns the error of a request of its group, which starts no further one.
    pub(crate) fn error(&self) -> Option<&MpiError> {
        self.events.as_ref()?.error()
    }

    /// Starts to send bytes to a rank, with a tag.
    pub(crate) fn send<'a>(&self, to: (usize, c_int), bytes: &'a [u8]) -> Request<'a> {
        // SAFETY: the request borrows the bytes.
        unsafe { self.send_from(to, bytes.as_ptr(), bytes.len()) }
    }

    /// Starts to receive bytes from a rank, with a tag.
    pub(crate) fn receive<'a>(&self, from: (usize, c_int), bytes: &'a mut [u8]) -> Request<'a> {
        // SAFETY: the request borrows the bytes.
        unsafe { self.receive_to(from, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Starts to send bytes.
    ///
    /// # Safety
    /// The bytes stay as they are until the request has ended.
    pub(crate) unsafe fn send_from<'a>(
        &self,
        (to, tag): (usize, c_int),
        start: *const u8,
        bytes: usize,
    ) -> Request<'a> {
        let (start, count, comm) = (start.cast(), bytes as c_int, self.handle);
        self.start(|request| {
            let (to, byte) = (to as c_int, byte());
            // SAFETY: the caller's promise.
            unsafe { call!(MPI_Isend(start, count, byte, to, tag, comm, request)) }
        })
    }

    /// Starts to receive bytes.
    ///
    /// # Safety
    /// The bytes stay where they are, and nothing else accesses them, until the request has ended.
    pub(crate) unsafe fn receive_to<'a>(
        &self,
        (from, tag): (usize, c_int),
        start: *mut u8,
        bytes: usize,
    ) -> Request<'a> {
        let (start, count, comm) = (start.cast(), bytes as c_int, self.handle);
        self.start(|request| {
            let (from, byte) = (from as c_int, byte());
            // SAFETY: the caller's promise.
            unsafe { call!(MPI_Irecv(start, count, byte, from, tag, comm, request)) }
        })
    }

    /// Starts to take the greatest of each number of all ranks.
    pub(crate) fn greatest<'a, const N: usize>(
        &self,
        own: &'a [u64; N],
        all: &'a mut [u64; N],
    ) -> Request<'a> {
        let (own, all, count) = (own.as_ptr().cast(), all.as_mut_ptr().cast(), N as c_int);
        let comm = self.handle;
        // SAFETY: the request borrows both.
        self.start(|request| unsafe {
            let (word, greatest) = (ffi::RSMPI_UINT64_T, ffi::RSMPI_MAX);
            call!(MPI_Iallreduce(
                own, all, count, word, greatest, comm, request
            ))
        })
    }

    /// Starts to gather as many bytes of each rank. `all` has room for those of all ranks.
    pub(crate) fn gather<'a>(&self, own: &'a [u8], all: &'a mut [u8]) -> Request<'a> {
        let (count, comm) = (own.len() as c_int, self.handle);
        let (own, all, byte) = (own.as_ptr().cast(), all.as_mut_ptr().cast(), byte());
        // SAFETY: the request borrows both.
        self.start(|request| unsafe {
            call!(MPI_Iallgather(
                own, count, byte, all, count, byte, comm, request
            ))
        })
    }

    /// Starts to copy the bytes of a rank to all others.
    pub(crate) fn broadcast<'a>(&self, root: usize, bytes: &'a mut [u8]) -> Request<'a> {
        let (count, root, comm) = (bytes.len() as c_int, root as c_int, self.handle);
        let (start, byte) = (bytes.as_mut_ptr().cast(), byte());
        // SAFETY: the request borrows the bytes.
        self.start(|request| unsafe { call!(MPI_Ibcast(start, count, byte, root, comm, request)) })
    }
}

/// Returns MPI's type of a byte.
pub(crate) fn byte() -> MPI_Datatype {
    // SAFETY: reads a constant of the library.
    unsafe { ffi::RSMPI_UINT8_T }
}
