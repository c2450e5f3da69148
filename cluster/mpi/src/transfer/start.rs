//! How a transfer starts: its header, the answer to that, and the calls of MPI for its data.

use std::ffi::c_int;

use millstream::Reason;

use super::{Shared, Stage, Transfer};
use crate::aware::Way;
use crate::header::Cut;
use crate::pieces::{PIECE_BYTES, Pieces, Spares, Uses};
use crate::raw::{Comm, MpiError, Request};

/// The data of a part.
pub(super) enum Data {
    /// From here.
    Whole(*mut u8),
    Pieces(Box<Pieces>),
}

impl Transfer {
    /// Sends the header, and the data unless the part has failed or the receiver is asked first.
    pub(super) fn start_send(&mut self, shared: &mut Shared<'_>) -> Result<(), MpiError> {
        let bytes = self.call.bytes();
        let cut = match (self.way, *shared.receiver_cuts) {
            _ if bytes <= PIECE_BYTES => Cut::Whole,
            _ if c_int::try_from(bytes).is_err() => Cut::Pieces,
            (Way::InPieces, _) | (_, Some(true)) => Cut::Pieces,
            (_, Some(false)) => Cut::Whole,
            (_, None) => Cut::Asks,
        };
        // What fails the part comes before the header.
        let data = self.data(shared.spares, cut);
        self.header.write(&self.call, self.part.as_ref(), cut);
        let header = self.send_header(shared.comm, 0)?;
        // Stored at once: MPI reads the header from now on.
        self.stage = Stage::Data(vec![header], None);
        if cut == Cut::Asks && data.is_some() {
            return self.ask(shared.comm);
        }
        self.send_data(shared.comm, data)
    }

    /// Sends the data beside the messages of the stage.
    pub(super) fn send_data(&mut self, comm: Comm, data: Option<Data>) -> Result<(), MpiError> {
        match data {
            None => {}
            Some(Data::Pieces(pieces)) => {
                let Stage::Data(messages, _) = &mut self.stage else {
                    return Ok(());
                };
                self.stage = Stage::Pieces(messages.pop(), pieces, None);
            }
            Some(Data::Whole(start)) => {
                let bytes = self.call.bytes();
                // SAFETY: the part has these bytes, and `self` keeps it until the request has completed.
                let request = unsafe { self.end_of(comm, 1).send(start, bytes) }?;
                if let Stage::Data(requests, _) = &mut self.stage {
                    requests.push(request);
                }
            }
        }
        Ok(())
    }

    /// Receives the answer to the header, which travels.
    fn ask(&mut self, comm: Comm) -> Result<(), MpiError> {
        let end = self.end_of(comm, 2);
        // SAFETY: `self` keeps the answer until the request has completed.
        let answer = unsafe { end.receive(self.answer.as_mut_ptr(), self.answer.len()) }?;
        if let Stage::Data(messages, _) = &mut self.stage
            && let Some(header) = messages.pop()
        {
            self.stage = Stage::Asks([header, answer]);
        }
        Ok(())
    }

    /// Answers the header, if it asks.
    pub(super) fn answer(&mut self, shared: &Shared<'_>) -> Result<Option<Request>, MpiError> {
        if self.header.cut() != Cut::Asks || self.remote_failure().is_some() {
            return Ok(None);
        }
        let ranks = (self.peer, shared.rank);
        let cut = match self.way {
            // The way of another call says nothing of this one: the sender asks again.
            _ if self.header.mismatch(&self.call, ranks).is_some() => Cut::Asks,
            Way::InPieces => Cut::Pieces,
            Way::ByHost | Way::ByAddress => Cut::Whole,
        };
        *self.answer = cut.word().to_ne_bytes();
        let end = self.end_of(shared.comm, 2);
        // SAFETY: as above.
        let request = unsafe { end.send(self.answer.as_ptr(), self.answer.len()) }?;
        Ok(Some(request))
    }

    /// Returns the data of the part. `None` if it has failed, or fails now.
    pub(super) fn data(&mut self, spares: &mut Spares, cut: Cut) -> Option<Data> {
        let Some(Ok(part)) = &mut self.part else {
            return None;
        };
        let bytes = self.call.bytes();
        let uses = Uses {
            reads: self.sends,
            writes: !self.sends,
        };
        let data = match self.way {
            Way::InPieces => spares.take(part).map(|staging| {
                let pieces = Pieces::staged(bytes, uses, staging);
                Data::Pieces(Box::new(pieces))
            }),
            _ => part.addresses().map_err(Reason::Refused).map(|addresses| {
                match cut == Cut::Pieces {
                    true => Data::Pieces(Box::new(Pieces::whole(bytes, uses, addresses))),
                    false => Data::Whole(uses.at(addresses).piece),
                }
            }),
        };
        data.map_err(|reason| self.refuse(reason)).ok()
    }

    /// Receives the data that the header describes.
    pub(super) fn start_receive(
        &mut self,
        shared: &mut Shared<'_>,
        answer: Option<Request>,
    ) -> Result<(), MpiError> {
        if let Some(failure) = self.remote_failure() {
            self.stage = Stage::Data(Vec::new(), Some(failure));
            return Ok(());
        }
        let failure = self.header.mismatch(&self.call, (self.peer, shared.rank));
        let bytes = self.header.bytes();
        let cut = match self.header.cut() {
            Cut::Asks => Cut::of(u64::from_ne_bytes(*self.answer)),
            told => told,
        };
        let data = match failure {
            None => self.data(shared.spares, cut),
            Some(_) => None,
        };
        let target = match data {
            Some(Data::Pieces(pieces)) => {
                self.stage = Stage::Pieces(answer, pieces, failure);
                return Ok(());
            }
            None if cut == Cut::Pieces => {
                let uses = Uses {
                    reads: false,
                    writes: true,
                };
                let pieces = Box::new(Pieces::scratch(bytes, uses));
                self.stage = Stage::Pieces(answer, pieces, failure);
                return Ok(());
            }
            Some(Data::Whole(start)) => start,
            None => {
                self.sink = vec![0; bytes.div_ceil(8)];
                self.sink.as_mut_ptr().cast()
            }
        };
        // SAFETY: the part has this length, or the sink, and `self` keeps both until the request has completed.
        let request = unsafe { self.end_of(shared.comm, 1).receive(target, bytes) };
        // Stored in any case: MPI may read the answer.
        self.stage = Stage::Data(answer.into_iter().collect(), failure);
        let request = request?;
        if let Stage::Data(requests, _) = &mut self.stage {
            requests.push(request);
        }
        Ok(())
    }
}
