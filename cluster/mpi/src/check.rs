//! What the ranks compare before data moves: whether they called the same.
//!
//! MPI does not check it: calls with other sizes, types or operations return success with wrong data, or crash (seen
//! on Open MPI 5.0.11). The check starts when a call is made, before its data is ready, and usually ends before.
//!
//! In a group of few ranks all gather the *records* of all: what a rank called, whether its part has failed, and the bytes
//! of a small call, which ends after that one exchange. An all-reduce of 1 KiB between two ranks takes 6.4 to 7.6 us more
//! than MPI's (`benches/RESULTS.md`). The records of all calls have one size, since the ranks do not know yet whether they
//! called the same.

use std::ffi::c_int;

use millstream::Reason;
use millstream_cluster::{Announcement, NetworkMemory, NetworkPart, Operation};
use mpi::ffi;

use crate::comm::Comm;
use crate::element::{Operations, datatype};
use crate::part::Part;
use crate::raw::{MpiError, call};
use crate::text::hash;

/// The most ranks of a group whose ranks exchange records: each sends its own to all others.
const RANKS_MAX: usize = 16;

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

/// What the ranks have found out.
pub(crate) enum Verdict {
    /// They called different things.
    Differ,
    /// All called the same. The data moves next, in pieces if a rank needs that.
    Same { in_pieces: bool },
    /// All called the same small call. The part of this rank has failed.
    Failed(usize),
    /// All called the same small call, whose data has arrived.
    Arrived(Records),
}

/// Compares a call with those of the other ranks. `small` is the part of a small call, and `None` for any other. `in_pieces`:
/// this rank needs the call to be cut into pieces.
pub(crate) async fn check(
    comm: &Comm,
    size: usize,
    call: Announcement,
    small: Option<&Part>,
    in_pieces: bool,
) -> Result<Verdict, MpiError> {
    let hash = hash(call);
    if size > RANKS_MAX {
        // The greatest of all hashes and of their complements agree if and only if all hashes are equal.
        let (own, mut all) = ([hash, !hash, u64::from(in_pieces)], [0; 3]);
        comm.greatest(&own, &mut all).await?;
        let [greatest, complement, pieces] = all;
        return Ok(match greatest == !complement {
            true => Verdict::Same {
                in_pieces: pieces != 0,
            },
            false => Verdict::Differ,
        });
    }
    let mut own = vec![0; RECORD_WORDS];
    let bytes = bytemuck::cast_slice_mut(&mut own[HEADER_WORDS..]);
    let word = match small {
        None if in_pieces => IN_PIECES,
        Some(part) if part.with(&call, |part| read(part, &call, bytes)).is_none() => FAILED,
        _ => 0,
    };
    (own[0], own[1]) = (hash, word);
    let mut records = Records(vec![0; RECORD_WORDS * size]);
    let all = bytemuck::cast_slice_mut(&mut records.0);
    comm.gather(bytemuck::cast_slice(&own), all).await?;
    Ok(match records.failed_rank() {
        _ if !records.are_equal() => Verdict::Differ,
        Some(rank) => Verdict::Failed(rank),
        None if small.is_some() => Verdict::Arrived(records),
        None => Verdict::Same {
            in_pieces: records.are_in_pieces(),
        },
    })
}

/// Copies what a part reads.
fn read(part: &mut NetworkPart, call: &Announcement, to: &mut [u8]) -> Result<(), Reason> {
    let memory = part.memory().map_err(Reason::Refused)?;
    let bytes: &[u8] = match (memory.input, memory.output, call.operation) {
        (Some(input), _, _) => input,
        // The receiver of a broadcast reads nothing.
        (None, _, Operation::Broadcast { .. }) | (None, None, _) => &[],
        (None, Some(output), _) => output,
    };
    to[..bytes.len()].copy_from_slice(bytes);
    Ok(())
}

/// The records of all ranks.
pub(crate) struct Records(Vec<u64>);

impl Records {
    fn of_ranks(&self) -> impl Iterator<Item = &[u64]> {
        self.0.chunks(RECORD_WORDS)
    }

    /// Whether all ranks called the same.
    fn are_equal(&self) -> bool {
        let mut hashes = self.of_ranks().map(|record| record[0]);
        hashes.all(|hash| hash == self.0[0])
    }

    /// Returns the greatest rank whose part has failed.
    fn failed_rank(&self) -> Option<usize> {
        let failed = |(rank, record): (usize, &[u64])| (record[1] & FAILED != 0).then_some(rank);
        self.of_ranks().enumerate().filter_map(failed).last()
    }

    /// Whether a rank needs the call to be cut into pieces.
    fn are_in_pieces(&self) -> bool {
        let mut words = self.of_ranks().map(|record| record[1]);
        words.any(|word| word & IN_PIECES != 0)
    }

    /// Writes the output of this rank in a small call. All ranks combine in the order of the ranks, so the results have the
    /// same bits.
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
