//! The first message of a call in a group of few ranks: what this rank called, whether its part has failed, and the bytes
//! of a small call. All ranks gather the records of all, so a small call ends after one exchange.
//!
//! The records of all calls have one size, since the ranks do not know yet whether they called the same.

use std::ffi::c_int;

use millstream_cluster::{Announcement, NetworkMemory, Operation};
use mpi::ffi;

use crate::element::{Operations, datatype};
use crate::raw::{Comm, MpiError, Request, call, leak};

/// The most ranks of a group whose ranks exchange records: each sends its own to all others.
pub(crate) const RANKS_MAX: usize = 16;

/// The most bytes that a small call reads on each rank.
pub(crate) const BYTES_MAX: usize = 1 << 10;

/// The words before the bytes: the hash of the call, and what this rank says of it.
const HEADER_WORDS: usize = 2;

/// The part of a small call has failed.
const FAILED: u64 = 1;
/// The call must be cut into pieces.
const IN_PIECES: u64 = 2;

const RECORD_WORDS: usize = HEADER_WORDS + BYTES_MAX / 8;

/// Whether the bytes of a call fit in its records.
pub(crate) fn is_small(call: &Announcement, size: usize) -> bool {
    size <= RANKS_MAX && read_bytes(call, size) <= BYTES_MAX
}

/// Returns the number of bytes that a call reads on each rank.
pub(crate) fn read_bytes(call: &Announcement, size: usize) -> usize {
    let parts = match call.operation {
        Operation::ReduceScatter(_) => size,
        _ => 1,
    };
    call.elements * parts * call.dtype.size()
}

/// What a rank says of its part.
pub(crate) enum Own<'a> {
    /// The call is not small: its bytes follow later.
    Later,
    /// They follow in pieces.
    InPieces,
    /// The bytes of a small call; none if it reads none on this rank.
    Bytes(&'a [u8]),
    /// The part of a small call has failed.
    Failed,
}

/// The exchange of the records of one call.
pub(crate) struct Records {
    request: Request,
    /// The own record, and those of all ranks. MPI accesses them until the request has completed.
    own: Box<[u64]>,
    all: Box<[u64]>,
}

impl Records {
    pub(crate) fn start(
        comm: Comm,
        size: usize,
        hash: u64,
        part: &Own<'_>,
    ) -> Result<Self, MpiError> {
        let mut own = vec![0; RECORD_WORDS].into_boxed_slice();
        own[0] = hash;
        match part {
            Own::Later => {}
            Own::InPieces => own[1] = IN_PIECES,
            Own::Failed => own[1] = FAILED,
            Own::Bytes(bytes) => {
                bytemuck::cast_slice_mut(&mut own[HEADER_WORDS..])[..bytes.len()]
                    .copy_from_slice(bytes);
            }
        }
        let mut all = vec![0; RECORD_WORDS * size].into_boxed_slice();
        let words = RECORD_WORDS as c_int;
        let request = Request::start(|request| {
            // SAFETY: the records have the lengths of the call, and this keeps them until the request has completed.
            unsafe {
                call!(MPI_Iallgather(
                    own.as_ptr().cast(),
                    words,
                    ffi::RSMPI_UINT64_T,
                    all.as_mut_ptr().cast(),
                    words,
                    ffi::RSMPI_UINT64_T,
                    comm.0,
                    request,
                ))
            }
        })?;
        Ok(Self { request, own, all })
    }

    /// Returns `true` once the records of all ranks have arrived, or with an error.
    pub(crate) fn have_arrived(&mut self) -> Result<bool, MpiError> {
        self.request.has_completed()
    }

    /// Whether all ranks called the same.
    pub(crate) fn are_equal(&self) -> bool {
        let mut hashes = self.of_ranks().map(|record| record[0]);
        hashes.all(|hash| hash == self.own[0])
    }

    /// Returns the greatest rank whose part has failed.
    pub(crate) fn failed_rank(&self) -> Option<usize> {
        let failed = |(rank, record): (usize, &[u64])| (record[1] & FAILED != 0).then_some(rank);
        self.of_ranks().enumerate().filter_map(failed).last()
    }

    /// Whether a rank needs the call to be cut into pieces.
    pub(crate) fn are_in_pieces(&self) -> bool {
        let mut words = self.of_ranks().map(|record| record[1]);
        words.any(|word| word & IN_PIECES != 0)
    }

    fn of_ranks(&self) -> impl Iterator<Item = &[u64]> {
        self.all.chunks(RECORD_WORDS)
    }

    /// Ends the part of this rank in a small call: writes its output. All ranks combine in the order of the ranks, so the
    /// results have the same bits.
    pub(crate) fn deliver(
        &self,
        call: &Announcement,
        memory: NetworkMemory<'_>,
        (rank, size): (usize, usize),
        operations: &Operations,
    ) -> Result<(), MpiError> {
        let Some(output) = memory.output else {
            return Ok(());
        };
        let read = read_bytes(call, size);
        let mut inputs = self
            .of_ranks()
            .map(|record| &bytemuck::cast_slice::<u64, u8>(&record[HEADER_WORDS..])[..read]);
        match call.operation {
            Operation::AllReduce(reduction) => {
                let operation = operations.of(call.dtype, reduction);
                combine(inputs, output, call, operation)
            }
            Operation::ReduceScatter(reduction) => {
                let operation = operations.of(call.dtype, reduction);
                let part = rank * output.len()..(rank + 1) * output.len();
                let parts = inputs.map(|input| &input[part.clone()]);
                combine(parts, output, call, operation)
            }
            Operation::AllGather => {
                let places = output.chunks_mut(read.max(1));
                inputs
                    .zip(places)
                    .for_each(|(input, place)| place.copy_from_slice(input));
                Ok(())
            }
            Operation::Broadcast { root } => {
                if let Some(input) = inputs.nth(root).filter(|_| rank != root) {
                    output.copy_from_slice(input);
                }
                Ok(())
            }
            Operation::Send { .. } | Operation::Receive { .. } => Ok(()),
        }
    }
}

/// Combines slices of the length of `output`.
fn combine<'a>(
    mut inputs: impl Iterator<Item = &'a [u8]>,
    output: &mut [u8],
    call: &Announcement,
    operation: ffi::MPI_Op,
) -> Result<(), MpiError> {
    if let Some(first) = inputs.next() {
        output.copy_from_slice(first);
    }
    for input in inputs {
        // SAFETY: both have `elements` elements of the type, and do not overlap.
        unsafe {
            call!(MPI_Reduce_local(
                input.as_ptr().cast(),
                output.as_mut_ptr().cast(),
                call.elements as c_int,
                datatype(call.dtype),
                operation,
            ))
        }?;
    }
    Ok(())
}

impl Drop for Records {
    fn drop(&mut self) {
        if self.request.is_in_flight() {
            leak((std::mem::take(&mut self.own), std::mem::take(&mut self.all)));
        }
    }
}
