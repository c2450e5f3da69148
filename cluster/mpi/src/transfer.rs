//! A send or a receive: a header and then its data, with tags of their own.
//!
//! ```text
//!  sender:    part begins ──► header (state, length, type, place) ──► data ──► complete
//!  receiver:  announced ──► header ──► part begins ──► data ──► complete
//!                             └─ another length or type, or the sender's part failed ──► fail
//! ```
//! Data of more than [`PIECE_BYTES`](crate::pieces::PIECE_BYTES) travels in pieces if one of the two needs that. A sender that does not asks the receiver,
//! once for all transfers between them in this direction, since their devices do not change:
//!
//! ```text
//!  sender:    header (asks) ────────────────► answer ──► data, whole or in pieces
//!  receiver:  header ──► answer: my device needs pieces
//! ```
//! After pieces a second header follows: the sender's part may have failed meanwhile.

mod start;

use std::ffi::c_int;

use millstream::{FailureRef, Reason};
use millstream_cluster::{Announcement, EnteredContext};

use crate::aware::{Way, way_of_part};
use crate::end::End;
use crate::header::{Cut, Header};
use crate::pieces::{Pieces, Spares, Step};
use crate::raw::{Comm, MpiError, Request, leak};
use crate::running::{Outcome, refuse};
use crate::waiting::Waiting;

/// The messages of a transfer that have tags of their own: header, data, and answer.
const MESSAGES: usize = 3;

/// A send or a receive.
pub(crate) struct Transfer {
    pub(crate) ticket: u64,
    call: Announcement,
    way: Way,
    peer: usize,
    sends: bool,
    /// The tag of the header. Those of the data and of the answer follow.
    tag: c_int,
    pub(crate) part: Option<Outcome>,
    header: Header,
    stage: Stage,
    /// Takes the data if the part cannot.
    sink: Vec<u64>,
    /// The answer of the receiver.
    answer: Box<[u8; 8]>,
}

/// What a transfer shares with the others of its group and its direction.
pub(crate) struct Shared<'a> {
    pub(crate) comm: Comm,
    pub(crate) rank: usize,
    /// Of a sender: whether the receiver needs pieces, once it has said so.
    pub(crate) receiver_cuts: &'a mut Option<bool>,
    pub(crate) spares: &'a mut Spares,
}

enum Stage {
    /// A send waits for its part; a receive has not asked for its header.
    Announced,
    /// The header of a receive travels.
    Header(Request),
    /// The header has arrived, and the part has not begun. The answer to it may travel.
    Expected(Option<Request>),
    /// The header of a send travels, and the answer to it.
    Asks([Request; 2]),
    /// The data travels; of a send the header, too, and of a receive the answer. With a failure the part ends with it.
    Data(Vec<Request>, Option<FailureRef>),
    /// The data travels in pieces; of a send the header, too, and of a receive the answer.
    Pieces(Option<Request>, Box<Pieces>, Option<FailureRef>),
    /// The second header of a receive travels.
    Trailer(Request, Option<FailureRef>),
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.is_in_flight() {
            let header = std::mem::replace(&mut self.header, Header::new());
            let answer = std::mem::take(&mut self.answer);
            leak((
                header,
                answer,
                self.part.take(),
                std::mem::take(&mut self.sink),
            ));
        }
    }
}

impl Transfer {
    /// Creates a transfer. `devices` is the number of its two devices among the pairs of devices of its ranks.
    pub(crate) fn new(
        (ticket, call): (u64, Announcement),
        (peer, sends): (usize, bool),
        devices: usize,
    ) -> Self {
        Self {
            ticket,
            call,
            // The way of a transfer does not depend on the number of ranks.
            way: way_of_part(&call, 1),
            peer,
            sends,
            tag: (devices * MESSAGES) as c_int,
            part: None,
            header: Header::new(),
            stage: Stage::Announced,
            sink: Vec::new(),
            answer: Box::new([0; 8]),
        }
    }

    /// Says what it waits for.
    pub(crate) fn waiting(&self) -> Waiting {
        let Announcement { name, place, .. } = self.call;
        let (call, peer) = (&self.call, self.peer);
        let direction = if self.sends { "to" } else { "from" };
        let waits_for_peer = match self.stage {
            Stage::Header(_) => true,
            Stage::Announced | Stage::Expected(_) => false,
            _ => self.sends,
        };
        Waiting {
            call: format!("`{name}` of {call} {direction} rank {peer} at {place}"),
            is_ready: self.part.is_some(),
            missing: waits_for_peer.then_some(peer).into_iter().collect(),
        }
    }

    /// Whether it must be polled.
    pub(crate) fn is_polled(&self) -> bool {
        !matches!(self.stage, Stage::Announced | Stage::Expected(None))
    }

    /// Whether MPI, or a copy, may still access its memory.
    fn is_in_flight(&self) -> bool {
        match &self.stage {
            Stage::Header(request) | Stage::Trailer(request, _) => request.is_in_flight(),
            Stage::Data(requests, _) => requests.iter().any(Request::is_in_flight),
            Stage::Asks(requests) => requests.iter().any(Request::is_in_flight),
            Stage::Expected(answer) => answer.as_ref().is_some_and(Request::is_in_flight),
            Stage::Pieces(message, pieces, _) => {
                message.as_ref().is_some_and(Request::is_in_flight) || pieces.is_in_flight()
            }
            Stage::Announced => false,
        }
    }

    /// Returns `true` once nothing is in flight any more, with or without errors.
    pub(crate) fn has_ended(&mut self) -> bool {
        let ended = |request: &mut Request| request.has_completed().unwrap_or(true);
        match &mut self.stage {
            Stage::Header(request) | Stage::Trailer(request, _) => ended(request),
            Stage::Data(requests, _) => {
                let requests = requests.iter_mut();
                requests.fold(true, |all, request| all & ended(request))
            }
            Stage::Asks(requests) => {
                let requests = requests.iter_mut();
                requests.fold(true, |all, request| all & ended(request))
            }
            Stage::Expected(answer) => answer.as_mut().is_none_or(ended),
            Stage::Pieces(message, pieces, _) => {
                message.as_mut().is_none_or(ended) & pieces.has_ended()
            }
            Stage::Announced => true,
        }
    }

    /// Fails the part, unless MPI may still access its memory.
    pub(crate) fn fail_by(&mut self, cause: &FailureRef) {
        if !self.is_in_flight()
            && let Some(Ok(part)) = self.part.take()
        {
            part.fail_by(cause.clone());
        }
    }

    /// Makes the context of the part's device current on this thread, if MPI accesses memory of the device.
    pub(crate) fn enter(&mut self) -> Option<EnteredContext> {
        match &mut self.part {
            Some(Ok(part)) if self.way == Way::ByAddress => EnteredContext::of(part).ok().flatten(),
            _ => None,
        }
    }

    pub(crate) fn step(&mut self, shared: &mut Shared<'_>) -> Result<Step, MpiError> {
        let comm = shared.comm;
        let _current = self.enter();
        match &mut self.stage {
            Stage::Announced if self.sends => match self.part {
                Some(_) => self.start_send(shared).map(|()| Step::Changed),
                None => Ok(Step::Waits),
            },
            Stage::Announced => {
                let request = self.receive(comm, 0)?;
                self.stage = Stage::Header(request);
                Ok(Step::Changed)
            }
            Stage::Header(request) => match request.has_completed()? {
                true => {
                    self.stage = Stage::Expected(self.answer(shared)?);
                    Ok(Step::Changed)
                }
                false => Ok(Step::Waits),
            },
            Stage::Expected(answer) if self.part.is_some() => {
                let answer = answer.take();
                self.start_receive(shared, answer).map(|()| Step::Changed)
            }
            Stage::Expected(answer) => {
                if let Some(request) = answer
                    && request.has_completed()?
                {
                    *answer = None;
                }
                Ok(Step::Waits)
            }
            Stage::Asks(requests) => {
                for request in requests {
                    if !request.has_completed()? {
                        return Ok(Step::Waits);
                    }
                }
                let cut = Cut::of(u64::from_ne_bytes(*self.answer));
                if cut != Cut::Asks {
                    *shared.receiver_cuts = Some(cut == Cut::Pieces);
                }
                let data = self.data(shared.spares, cut);
                self.stage = Stage::Data(Vec::new(), None);
                self.send_data(comm, data).map(|()| Step::Changed)
            }
            Stage::Data(requests, failure) => {
                for request in requests {
                    if !request.has_completed()? {
                        return Ok(Step::Waits);
                    }
                }
                let failure = failure.take();
                Ok(self.end(failure))
            }
            Stage::Pieces(..) => self.step_pieces(comm, shared.spares),
            Stage::Trailer(request, failure) => {
                if !request.has_completed()? {
                    return Ok(Step::Waits);
                }
                let failure = failure.take().or_else(|| self.remote_failure());
                Ok(self.end(failure))
            }
        }
    }

    fn end(&mut self, failure: Option<FailureRef>) -> Step {
        match (self.part.take(), failure) {
            (Some(Ok(part)), Some(failure)) => part.fail_by(failure),
            (Some(Ok(part)), None) => part.complete(),
            _ => {}
        }
        Step::Done
    }

    fn step_pieces(&mut self, comm: Comm, spares: &mut Spares) -> Result<Step, MpiError> {
        let end = End {
            comm,
            peer: self.peer,
            tag: self.tag(1),
        };
        let Stage::Pieces(message, pieces, _) = &mut self.stage else {
            return Ok(Step::Waits);
        };
        let part = self.part.as_mut().and_then(|part| part.as_mut().ok());
        let sends = self.sends;
        // SAFETY: the pieces are of the part or memory of their own, and this keeps both until the requests have completed.
        let stepped = pieces.step(part, |at, bytes| unsafe {
            match sends {
                true => end.send(at.piece, bytes),
                false => end.receive(at.piece, bytes),
            }
        })?;
        // The header's memory is used again.
        let is_sent = match message {
            Some(message) => message.has_completed()?,
            None => true,
        };
        match stepped {
            Step::Done if is_sent => {}
            Step::Done => return Ok(Step::Waits),
            goes_on => return Ok(goes_on),
        }
        let Stage::Pieces(_, mut pieces, failure) =
            std::mem::replace(&mut self.stage, Stage::Announced)
        else {
            return Ok(Step::Waits);
        };
        if let Some(reason) = pieces.take_failure() {
            self.refuse(reason);
        }
        pieces.give_back(spares);
        self.stage = match self.sends {
            true => {
                self.header
                    .write(&self.call, self.part.as_ref(), Cut::Pieces);
                Stage::Data(vec![self.send_header(comm, 1)?], None)
            }
            false => Stage::Trailer(self.receive(comm, 1)?, failure),
        };
        Ok(Step::Changed)
    }

    fn remote_failure(&self) -> Option<FailureRef> {
        self.header.failure(&self.call, self.peer)
    }

    fn refuse(&mut self, reason: Reason) {
        if let Some(part) = &mut self.part {
            refuse(&self.call, part, reason);
        }
    }

    fn tag(&self, message: c_int) -> c_int {
        self.tag + message
    }

    fn end_of(&self, comm: Comm, message: c_int) -> End {
        End {
            comm,
            peer: self.peer,
            tag: self.tag(message),
        }
    }

    /// Receives to the header.
    fn receive(&mut self, comm: Comm, message: c_int) -> Result<Request, MpiError> {
        let end = self.end_of(comm, message);
        // SAFETY: `self` keeps the header until the request has completed.
        unsafe { self.header.receive(end) }
    }

    fn send_header(&self, comm: Comm, message: c_int) -> Result<Request, MpiError> {
        let end = self.end_of(comm, message);
        // SAFETY: as above.
        unsafe { self.header.send(end) }
    }
}
