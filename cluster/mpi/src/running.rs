//! The collective whose data moves: its data, its status, and what it ends with.

use std::ffi::{c_int, c_void};

use millstream::{Failure, FailureRef, Reason, Remote};
use millstream_cluster::{Announcement, NetworkPart, Operation};
use mpi::ffi;

use crate::check::{TEXT_BYTES, Verdict, describe_with_place, read_text, write_text};
use crate::element::{Operations, datatype};
use crate::raw::{Comm, MpiError, Request, call, leak};
use crate::record::Own;

/// The part of this rank.
pub(crate) type Outcome = Result<NetworkPart, FailureRef>;

/// The collective whose data moves.
pub(crate) struct Running {
    call: Announcement,
    part: Outcome,
    phase: Phase,
    requests: Vec<Request>,
    /// Memory that MPI accesses until the requests have completed, if the part has failed.
    zeros: [Vec<u64>; 2],
}

enum Phase {
    /// The data moves, and the status: one more than the greatest rank whose part failed, or 0; the own, and that of all.
    Data(Box<[u64; 2]>),
    /// The cause travels from the rank that failed.
    Cause(usize, Box<[u8; TEXT_BYTES]>),
    /// The descriptions of all ranks travel to all.
    Differ(Box<[u8; TEXT_BYTES]>, Vec<u8>),
}

impl Running {
    pub(crate) fn new(call: Announcement, part: Outcome) -> Self {
        Self {
            call,
            part,
            phase: Phase::Data(Box::new([0; 2])),
            requests: Vec::new(),
            zeros: [Vec::new(), Vec::new()],
        }
    }

    pub(crate) fn call(&self) -> &Announcement {
        &self.call
    }

    /// Starts to move the data, or to find out what each rank called. After an error some requests may be in flight.
    pub(crate) fn start(
        &mut self,
        verdict: Verdict,
        comm: Comm,
        (rank, size): (usize, usize),
        operations: &Operations,
    ) -> Result<(), MpiError> {
        match verdict {
            Verdict::Same => {
                self.start_data(comm, (rank, size), operations)?;
                self.start_status(comm, rank)
            }
            Verdict::Differ => self.start_differ(comm, size),
            Verdict::Failed(failed) => self.start_cause(comm, failed),
            Verdict::Arrived(records) => {
                let memory = match &mut self.part {
                    Ok(part) => part.memory(),
                    Err(_) => return Ok(()),
                };
                match memory {
                    Ok(memory) => records.deliver(&self.call, memory, (rank, size), operations),
                    Err(why) => {
                        self.refuse(why);
                        Ok(())
                    }
                }
            }
        }
    }

    fn start_data(
        &mut self,
        comm: Comm,
        (rank, size): (usize, usize),
        operations: &Operations,
    ) -> Result<(), MpiError> {
        let Ok(count) = c_int::try_from(self.call.elements * size) else {
            // All ranks come here, since all called the same.
            let why = "MPI moves at most 2,147,483,647 elements of all ranks in one call; call it for parts";
            self.refuse(why.to_owned());
            return Ok(());
        };
        let count = count / size as c_int;
        let (input, output) = self.addresses(size);
        let (dtype, operation) = (datatype(self.call.dtype), self.call.operation);
        let request = Request::start(|request| {
            // SAFETY: the part, or the zeros, have the lengths that the check compared, and this keeps both until the
            // request has completed. No other call accesses them: the device holds tasks back that would.
            unsafe {
                match operation {
                    Operation::AllReduce(reduction) => {
                        let operation = operations.of(self.call.dtype, reduction);
                        call!(MPI_Iallreduce(
                            input, output, count, dtype, operation, comm.0, request
                        ))
                    }
                    Operation::ReduceScatter(reduction) => {
                        let operation = operations.of(self.call.dtype, reduction);
                        call!(MPI_Ireduce_scatter_block(
                            input, output, count, dtype, operation, comm.0, request
                        ))
                    }
                    Operation::AllGather => call!(MPI_Iallgather(
                        input, count, dtype, output, count, dtype, comm.0, request,
                    )),
                    Operation::Broadcast { root } => {
                        let buffer = if root == rank {
                            input.cast_mut()
                        } else {
                            output
                        };
                        call!(MPI_Ibcast(
                            buffer,
                            count,
                            dtype,
                            root as c_int,
                            comm.0,
                            request
                        ))
                    }
                    Operation::Send { .. } | Operation::Receive { .. } => Ok(()),
                }
            }
        })?;
        self.requests.push(request);
        Ok(())
    }

    /// Returns the addresses of the input and the output: those of the part, or zeros.
    fn addresses(&mut self, size: usize) -> (*const c_void, *mut c_void) {
        let in_place = crate::raw::in_place();
        let problem = match &mut self.part {
            Err(_) => None,
            Ok(part) => match part.memory() {
                Ok(memory) => {
                    let input = memory.input.map(|bytes| bytes.as_ptr().cast());
                    let output = memory.output.map(|bytes| bytes.as_mut_ptr().cast());
                    return (
                        input.unwrap_or(in_place),
                        output.unwrap_or(std::ptr::null_mut()),
                    );
                }
                Err(why) => Some(why),
            },
        };
        if let Some(why) = problem {
            self.refuse(why);
        }
        let words = (self.call.elements * size * self.call.dtype.size()).div_ceil(8);
        self.zeros = [vec![0; words], vec![0; words]];
        let [input, output] = &mut self.zeros;
        (input.as_ptr().cast(), output.as_mut_ptr().cast())
    }

    /// Fails the own part, before the status is sent.
    fn refuse(&mut self, why: String) {
        refuse(&self.call, &mut self.part, why);
    }

    fn start_status(&mut self, comm: Comm, rank: usize) -> Result<(), MpiError> {
        let own = match self.part {
            Ok(_) => 0,
            Err(_) => rank as u64 + 1,
        };
        let mut status = Box::new([own, 0]);
        let (own, all) = status.split_at_mut(1);
        // SAFETY: the phase keeps the numbers until the request has completed.
        let request = unsafe { Request::start_greatest(comm, own, all) }?;
        self.requests.push(request);
        self.phase = Phase::Data(status);
        Ok(())
    }

    fn start_cause(&mut self, comm: Comm, failed: usize) -> Result<(), MpiError> {
        let mut text = Box::new([0; TEXT_BYTES]);
        if let Err(failure) = &self.part {
            write_text(&failure.to_string(), &mut *text);
        }
        let request = Request::start(|request| {
            // SAFETY: the phase keeps the buffer until the request has completed.
            unsafe {
                call!(MPI_Ibcast(
                    text.as_mut_ptr().cast(),
                    TEXT_BYTES as c_int,
                    ffi::RSMPI_UINT8_T,
                    failed as c_int,
                    comm.0,
                    request,
                ))
            }
        })?;
        self.requests = vec![request];
        self.phase = Phase::Cause(failed, text);
        Ok(())
    }

    fn start_differ(&mut self, comm: Comm, size: usize) -> Result<(), MpiError> {
        let mut own = Box::new([0; TEXT_BYTES]);
        write_text(&describe_with_place(&self.call), &mut *own);
        let mut all = vec![0; TEXT_BYTES * size];
        let request = Request::start(|request| {
            // SAFETY: the phase keeps the buffers until the request has completed.
            unsafe {
                call!(MPI_Iallgather(
                    own.as_ptr().cast(),
                    TEXT_BYTES as c_int,
                    ffi::RSMPI_UINT8_T,
                    all.as_mut_ptr().cast(),
                    TEXT_BYTES as c_int,
                    ffi::RSMPI_UINT8_T,
                    comm.0,
                    request,
                ))
            }
        })?;
        self.requests.push(request);
        self.phase = Phase::Differ(own, all);
        Ok(())
    }

    /// Returns `true` once the call is done.
    pub(crate) fn step(&mut self, comm: Comm, rank: usize) -> Result<bool, MpiError> {
        for request in &mut self.requests {
            if !request.has_completed()? {
                return Ok(false);
            }
        }
        let cause = match &self.phase {
            Phase::Data(status) => match status[1] {
                0 => {
                    self.end(None);
                    return Ok(true);
                }
                failed => {
                    self.start_cause(comm, failed as usize - 1)?;
                    return Ok(false);
                }
            },
            Phase::Cause(failed, text) => Remote::Failed {
                rank: *failed as u32,
                message: read_text(&text[..]),
            },
            Phase::Differ(own, all) => Remote::Mismatch {
                message: first_difference(&own[..], all, rank),
            },
        };
        self.end(Some(cause));
        Ok(true)
    }

    /// Ends the part, unless it has failed by itself.
    fn end(&mut self, cause: Option<Remote>) {
        let name = self.call.name.into();
        let failure = cause.map(|cause| Failure::not_run(&name, Reason::Remote(cause)));
        let over = Failure::not_run(&name, Reason::Closed);
        match (std::mem::replace(&mut self.part, Err(over)), failure) {
            (Ok(part), Some(failure)) => part.fail_by(failure),
            (Ok(part), None) => part.complete(),
            (Err(_), _) => {}
        }
    }

    /// Fails the part, unless MPI may still access its memory.
    pub(crate) fn fail_by(&mut self, cause: &FailureRef) {
        let in_flight = self.requests.iter().any(Request::is_in_flight);
        if !in_flight && let Ok(part) = std::mem::replace(&mut self.part, Err(cause.clone())) {
            part.fail_by(cause.clone());
        }
    }

    /// Returns `true` once no request is in flight any more, with or without errors.
    pub(crate) fn has_ended(&mut self) -> bool {
        let requests = self.requests.iter_mut();
        requests.fold(true, |ended, request| {
            ended & request.has_completed().unwrap_or(true)
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.requests.iter().any(Request::is_in_flight) {
            let over = Failure::not_run(&self.call.name.into(), Reason::Closed);
            let part = std::mem::replace(&mut self.part, Err(over));
            let phase = std::mem::replace(&mut self.phase, Phase::Data(Box::default()));
            leak((part, phase, std::mem::take(&mut self.zeros)));
        }
    }
}

/// Returns what this rank says of its part in a small call.
pub(crate) fn own_part<'a>(call: &Announcement, part: &'a mut Outcome) -> Own<'a> {
    // Asked twice: the memory is borrowed only if there is any.
    let problem = match part {
        Ok(part) => part.memory().err(),
        Err(_) => return Own::Failed,
    };
    if let Some(why) = problem {
        refuse(call, part, why);
        return Own::Failed;
    }
    let Ok(Ok(memory)) = part.as_mut().map(NetworkPart::memory) else {
        return Own::Failed;
    };
    match (memory.input, memory.output, call.operation) {
        (Some(input), _, _) => Own::Bytes(input),
        // The receiver of a broadcast reads nothing.
        (None, _, Operation::Broadcast { .. }) | (None, None, _) => Own::Bytes(&[]),
        (None, Some(output), _) => Own::Bytes(output),
    }
}

/// Fails a part.
fn refuse(call: &Announcement, part: &mut Outcome, why: String) {
    let cause = Failure::not_run(&call.name.into(), Reason::Refused(why));
    if let Ok(part) = std::mem::replace(part, Err(cause.clone())) {
        part.fail_by(cause);
    }
}

/// Returns what this rank called, and the first rank that called something else.
fn first_difference(own: &[u8], all: &[u8], rank: usize) -> String {
    let mine = read_text(own);
    let what = |text: &str| text.split(" at ").next().map(str::to_owned);
    let others = all.chunks(TEXT_BYTES).map(read_text).enumerate();
    let mut others = others.filter(|(_, theirs)| what(theirs) != what(&mine));
    match others.next() {
        Some((other, theirs)) => format!("rank {rank} called {mine}, and rank {other} {theirs}"),
        None => format!("rank {rank} called {mine}"),
    }
}
