//! How the data of a collective moves, and what it ends with.
//!
//! Invariants: all ranks start the same calls of MPI in the same order, which the verdict of the check decides, also a rank
//! whose part has failed: it takes part with zeros, or any bytes of pieces. Memory of a part is passed to MPI only while the
//! job keeps the part. All ranks end a call alike: the greatest rank whose part has failed tells the cause.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, NetworkAddresses, Operation};

use crate::aware::{Way, way_of_part};
use crate::check::Verdict;
use crate::comm::Comm;
use crate::element::{Operations, datatype};
use crate::job::{Request, all};
use crate::part::Part;
use crate::pieces::{At, Pieces, Spares};
use crate::raw::{MpiError, call, in_place};
use crate::text::{TEXT_BYTES, describe_with_place, read_text, write_text};

/// What the calls of MPI for data need.
#[derive(Clone)]
pub(crate) struct Mover {
    pub(crate) comm: Comm,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) operations: &'static Operations,
    pub(crate) spares: Rc<Spares>,
}

impl Mover {
    /// Moves the data after the check, or finds out what each rank called. Returns why the call fails on all ranks.
    pub(crate) async fn finish(
        self,
        call: Announcement,
        part: Part,
        verdict: Verdict,
    ) -> Result<Option<FailureRef>, MpiError> {
        let failure = |remote| Some(Failure::not_run(&call.name.into(), Reason::Remote(remote)));
        let failed = match verdict {
            Verdict::Differ => return self.differ(&call).await.map(failure),
            Verdict::Failed(rank) => Some(rank),
            Verdict::Arrived(records) => {
                let ranks = (self.rank, self.size);
                let delivered = part.with(&call, |part| {
                    let memory = part.memory().map_err(Reason::Refused)?;
                    Ok(records.deliver(&call, memory, ranks, self.operations))
                });
                return delivered.unwrap_or(Ok(())).map(|()| None);
            }
            Verdict::Same { in_pieces: true } => {
                self.pieces(&call, &part).await?;
                let (own, mut all) = ([self.status(&part)], [0]);
                self.comm.greatest(&own, &mut all).await?;
                failed_rank(all)
            }
            Verdict::Same { in_pieces: false } => self.whole(&call, &part).await?,
        };
        match failed {
            None => Ok(None),
            Some(rank) => self.cause(&part, rank).await.map(failure),
        }
    }

    /// Returns one more than the rank if its part has failed, and otherwise 0.
    fn status(&self, part: &Part) -> u64 {
        part.failure().map_or(0, |_| self.rank as u64 + 1)
    }

    /// Moves the data, and beside it the status. Returns the greatest rank whose part has failed. A rank whose part has
    /// failed takes part with zeros.
    async fn whole(&self, call: &Announcement, part: &Part) -> Result<Option<usize>, MpiError> {
        let count = c_int::try_from(call.elements * self.size);
        if count.is_err() {
            // All ranks come here, since all called the same.
            let why = "MPI moves at most 2,147,483,647 elements of all ranks in one call; call it for parts";
            part.refuse(call, Reason::Refused(why.to_owned()));
        }
        let words = (call.elements * self.size * call.dtype.size()).div_ceil(8);
        let mut zeros = [Vec::<u64>::new(), Vec::new()];
        let (input, output) =
            match part.with(call, |part| part.addresses().map_err(Reason::Refused)) {
                Some(NetworkAddresses { input, output }) => (
                    input.map_or_else(in_place, <*const u8>::cast),
                    output.map_or_else(std::ptr::null_mut, <*mut u8>::cast),
                ),
                None if count.is_err() => (std::ptr::null(), std::ptr::null_mut()),
                None => {
                    zeros = [vec![0; words], vec![0; words]];
                    let [input, output] = &mut zeros;
                    (input.as_ptr().cast(), output.as_mut_ptr().cast())
                }
            };
        let data = count.map(|count| {
            // SAFETY: the part, or the zeros, have the lengths that the check compared. The device holds back tasks that
            // would access them.
            unsafe { self.start(call, count / self.size as c_int, (input, output)) }
        });
        let (own, mut greatest) = ([self.status(part)], [0]);
        let status = self.comm.greatest(&own, &mut greatest);
        let ended = all(data.into_iter().chain([status])).await;
        drop(zeros);
        ended.into_iter().collect::<Result<(), _>>()?;
        Ok(failed_rank(greatest))
    }

    /// Moves the data in pieces.
    async fn pieces(&self, call: &Announcement, part: &Part) -> Result<(), MpiError> {
        let pieces = Pieces {
            comm: &self.comm,
            call,
            part,
            bytes: call.bytes(),
            rank: self.rank,
            spares: &self.spares,
        };
        let start = |at: At, bytes: usize| {
            let output: *mut c_void = at.piece.cast();
            let input = match (call.operation, at.input) {
                (Operation::Broadcast { .. }, _) => output.cast_const(),
                (_, Some(input)) => input.cast(),
                (_, None) => in_place(),
            };
            let count = (bytes / call.dtype.size()) as c_int;
            // SAFETY: the piece stays until its request has ended.
            unsafe { self.start(call, count, (input, output)) }
        };
        let place = pieces.place(way_of_part(call, self.size) == Way::InPieces);
        pieces.run(place, start).await
    }

    /// Starts to move elements of a call: this number of each rank. The input may be [`in_place`].
    ///
    /// # Safety
    /// The input and the output have the bytes that the call reads and writes, and are valid, of the host or of a device,
    /// until the request has ended. Nothing else accesses them.
    unsafe fn start<'a>(
        &self,
        what: &Announcement,
        count: c_int,
        (input, output): (*const c_void, *mut c_void),
    ) -> Request<'a> {
        let (dtype, comm) = (datatype(what.dtype), self.comm.handle);
        self.comm.start(|request| {
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
                        let root = root as c_int;
                        call!(MPI_Ibcast(buffer, count, dtype, root, comm, request))
                    }
                    Operation::Send { .. } | Operation::Receive { .. } => Ok(()),
                }
            }
        })
    }

    /// Returns why the part of a rank has failed, which that rank tells all.
    async fn cause(&self, part: &Part, failed: usize) -> Result<Remote, MpiError> {
        let mut text = [0; TEXT_BYTES];
        if let Some(failure) = part.failure() {
            write_text(&failure.to_string(), &mut text);
        }
        self.comm.broadcast(failed, &mut text).await?;
        Ok(Remote::Failed {
            rank: failed as u32,
            message: read_text(&text),
        })
    }

    /// Returns what this rank called, and the first rank that called something else.
    async fn differ(&self, call: &Announcement) -> Result<Remote, MpiError> {
        let mut own = [0; TEXT_BYTES];
        write_text(&describe_with_place(call), &mut own);
        let mut all = vec![0; TEXT_BYTES * self.size];
        self.comm.gather(&own, &mut all).await?;
        let (rank, mine) = (self.rank, read_text(&own));
        let what = |text: &str| text.split(" at ").next().map(str::to_owned);
        let others = all.chunks(TEXT_BYTES).map(read_text).enumerate();
        let mut others = others.filter(|(_, theirs)| what(theirs) != what(&mine));
        let message = match others.next() {
            Some((other, theirs)) => {
                format!("rank {rank} called {mine}, and rank {other} {theirs}")
            }
            None => format!("rank {rank} called {mine}"),
        };
        Ok(Remote::Mismatch { message })
    }
}

/// Returns the greatest rank whose part has failed.
fn failed_rank([greatest]: [u64; 1]) -> Option<usize> {
    greatest.checked_sub(1).map(|rank| rank as usize)
}
