//! The collective whose data moves: its data, its status, and what it ends with.

use std::ffi::{c_int, c_void};

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, EnteredContext, NetworkAddresses, NetworkPart, Operation};
use mpi::ffi;

use crate::aware::{Way, way_of_part};
use crate::check::{TEXT_BYTES, Verdict, describe_with_place, read_text, write_text};
use crate::moves::Movers;
use crate::pieces::{Pieces, Spares, Step, Uses};
use crate::raw::{Comm, MpiError, Request, call, leak};
use crate::record::Own;

/// The part of this rank.
pub(crate) type Outcome = Result<NetworkPart, FailureRef>;

/// The collective whose data moves.
pub(crate) struct Running {
    call: Announcement,
    /// Whether MPI accesses memory of a device.
    by_address: bool,
    part: Outcome,
    phase: Phase,
    requests: Vec<Request>,
    /// Memory that MPI accesses until the requests have completed, if the part has failed.
    zeros: [Vec<u64>; 2],
}

enum Phase {
    /// The data moves in pieces. The status follows.
    Pieces(Box<Pieces>),
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
            by_address: false,
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
        movers: Movers<'_>,
        spares: &mut Spares,
    ) -> Result<(), MpiError> {
        self.by_address = way_of_part(&self.call, movers.size) == Way::ByAddress;
        let _current = self.enter();
        match verdict {
            Verdict::Same { in_pieces: false } => {
                self.start_data(movers)?;
                self.start_status(movers)
            }
            Verdict::Same { in_pieces: true } => {
                let pieces = self.pieces(movers, spares);
                self.phase = Phase::Pieces(Box::new(pieces));
                Ok(())
            }
            Verdict::Differ => self.start_differ(movers.comm, movers.size),
            Verdict::Failed(failed) => self.start_cause(movers.comm, failed),
            Verdict::Arrived(records) => {
                let memory = match &mut self.part {
                    Ok(part) => part.memory(),
                    Err(_) => return Ok(()),
                };
                let ranks = (movers.rank, movers.size);
                match memory {
                    Ok(memory) => records.deliver(&self.call, memory, ranks, movers.operations),
                    Err(why) => {
                        self.refuse(why);
                        Ok(())
                    }
                }
            }
        }
    }

    /// Makes the context of the part's device current on this thread, if MPI accesses memory of the device.
    pub(crate) fn enter(&mut self) -> Option<EnteredContext> {
        match &mut self.part {
            // A lost device has none; MPI is polled nevertheless.
            Ok(part) if self.by_address => EnteredContext::of(part).ok().flatten(),
            _ => None,
        }
    }

    fn start_data(&mut self, movers: Movers<'_>) -> Result<(), MpiError> {
        let size = movers.size;
        let Ok(count) = c_int::try_from(self.call.elements * size) else {
            // All ranks come here, since all called the same.
            let why = "MPI moves at most 2,147,483,647 elements of all ranks in one call; call it for parts";
            self.refuse(why.to_owned());
            return Ok(());
        };
        let count = count / size as c_int;
        let addresses = self.addresses(size);
        // SAFETY: the part, or the zeros, have the lengths that the check compared, and this keeps both until the request
        // has completed. No other call accesses them: the device holds tasks back that would.
        let request = unsafe { movers.start(&self.call, count, addresses) }?;
        self.requests.push(request);
        Ok(())
    }

    /// Returns the addresses of the input and the output: those of the part, or zeros.
    fn addresses(&mut self, size: usize) -> (*const c_void, *mut c_void) {
        if let Some(NetworkAddresses { input, output }) = self.part_addresses() {
            return (
                input.map_or_else(crate::raw::in_place, <*const u8>::cast),
                output.map_or_else(std::ptr::null_mut, <*mut u8>::cast),
            );
        }
        let words = (self.call.elements * size * self.call.dtype.size()).div_ceil(8);
        self.zeros = [vec![0; words], vec![0; words]];
        let [input, output] = &mut self.zeros;
        (input.as_ptr().cast(), output.as_mut_ptr().cast())
    }

    /// Returns the addresses of the part, unless it has failed, or fails now.
    fn part_addresses(&mut self) -> Option<NetworkAddresses> {
        let part = self.part.as_mut().ok()?;
        match part.addresses() {
            Ok(addresses) => Some(addresses),
            Err(why) => {
                self.refuse(why);
                None
            }
        }
    }

    /// Returns the call cut into pieces.
    fn pieces(&mut self, movers: Movers<'_>, spares: &mut Spares) -> Pieces {
        let bytes = self.call.bytes();
        let uses = match self.call.operation {
            Operation::Broadcast { root } => Uses {
                reads: root == movers.rank,
                writes: root != movers.rank,
            },
            _ => Uses {
                reads: true,
                writes: true,
            },
        };
        if way_of_part(&self.call, movers.size) == Way::InPieces {
            let staging = self.part.as_mut().ok().map(|part| spares.take(part));
            match staging {
                Some(Ok(staging)) => return Pieces::staged(bytes, uses, staging),
                Some(Err(reason)) => self.refuse_by(reason),
                None => {}
            }
        } else if let Some(addresses) = self.part_addresses() {
            return Pieces::whole(bytes, uses, addresses);
        }
        Pieces::scratch(bytes, uses)
    }

    /// Fails the own part, before the status is sent.
    fn refuse(&mut self, why: String) {
        self.refuse_by(Reason::Refused(why));
    }

    fn refuse_by(&mut self, reason: Reason) {
        refuse(&self.call, &mut self.part, reason);
    }

    fn start_status(&mut self, movers: Movers<'_>) -> Result<(), MpiError> {
        let own = match self.part {
            Ok(_) => 0,
            Err(_) => movers.rank as u64 + 1,
        };
        let mut status = Box::new([own, 0]);
        let (own, all) = status.split_at_mut(1);
        // SAFETY: the phase keeps the numbers until the request has completed.
        let request = unsafe { Request::start_greatest(movers.comm, own, all) }?;
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

    /// Goes on as far as possible.
    pub(crate) fn step(
        &mut self,
        movers: Movers<'_>,
        spares: &mut Spares,
    ) -> Result<Step, MpiError> {
        let _current = self.enter();
        if let Phase::Pieces(pieces) = &mut self.phase {
            let part = self.part.as_mut().ok();
            // SAFETY: the pieces are of the part or memory of their own, and this keeps both until the requests have
            // completed.
            let stepped = pieces.step(part, |at, bytes| unsafe {
                movers.start_piece(&self.call, (at, bytes))
            })?;
            if stepped == Step::Done {
                self.end_pieces(movers, spares)?;
                return Ok(Step::Changed);
            }
            return Ok(stepped);
        }
        for request in &mut self.requests {
            if !request.has_completed()? {
                return Ok(Step::Waits);
            }
        }
        let cause = match &self.phase {
            Phase::Pieces(_) => return Ok(Step::Waits),
            Phase::Data(status) => match status[1] {
                0 => {
                    self.end(None);
                    return Ok(Step::Done);
                }
                failed => {
                    self.start_cause(movers.comm, failed as usize - 1)?;
                    return Ok(Step::Changed);
                }
            },
            Phase::Cause(failed, text) => Remote::Failed {
                rank: *failed as u32,
                message: read_text(&text[..]),
            },
            Phase::Differ(own, all) => Remote::Mismatch {
                message: first_difference(&own[..], all, movers.rank),
            },
        };
        self.end(Some(cause));
        Ok(Step::Done)
    }

    /// All pieces have moved. The ranks learn whether a part has failed meanwhile.
    fn end_pieces(&mut self, movers: Movers<'_>, spares: &mut Spares) -> Result<(), MpiError> {
        let data = Phase::Data(Box::default());
        if let Phase::Pieces(mut pieces) = std::mem::replace(&mut self.phase, data) {
            if let Some(reason) = pieces.take_failure() {
                self.refuse_by(reason);
            }
            pieces.give_back(spares);
        }
        self.start_status(movers)
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
        if !self.is_in_flight()
            && let Ok(part) = std::mem::replace(&mut self.part, Err(cause.clone()))
        {
            part.fail_by(cause.clone());
        }
    }

    /// Returns `true` once no request is in flight any more, with or without errors.
    pub(crate) fn has_ended(&mut self) -> bool {
        let requests = self.requests.iter_mut();
        let ended = requests.fold(true, |ended, request| {
            ended & request.has_completed().unwrap_or(true)
        });
        match &mut self.phase {
            Phase::Pieces(pieces) => pieces.has_ended() & ended,
            _ => ended,
        }
    }

    /// Whether MPI, or a copy, may still access memory of the part.
    fn is_in_flight(&self) -> bool {
        let in_pieces = match &self.phase {
            Phase::Pieces(pieces) => pieces.is_in_flight(),
            _ => false,
        };
        in_pieces || self.requests.iter().any(Request::is_in_flight)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_in_flight() {
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
        refuse(call, part, Reason::Refused(why));
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
pub(crate) fn refuse(call: &Announcement, part: &mut Outcome, reason: Reason) {
    let cause = Failure::not_run(&call.name.into(), reason);
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
