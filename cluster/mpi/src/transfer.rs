//! A send or a receive: a header and then its data, with tags of their own.
//!
//! ```text
//!  sender:    part begins ──► header (state, length, type, place) ──► data ──► complete
//!  receiver:  announced ──► header ──► part begins ──► data ──► complete
//!                             └─ another length or type, or the sender's part failed ──► fail
//! ```
//! Data of more than [`PIECE_BYTES`] travels in pieces if one of the two needs that. A sender that does not asks the receiver,
//! once for all transfers between them in this direction, since their devices do not change:
//!
//! ```text
//!  sender:    header (asks) ────────────────► answer ──► data, whole or in pieces
//!  receiver:  header ──► answer: my device needs pieces
//! ```
//! After pieces a second header follows: the sender's part may have failed meanwhile.

use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::Announcement;

use crate::aware::{Way, way_of_part};
use crate::comm::Comm;
use crate::job::{Part, Request};
use crate::pieces::{At, PIECE_BYTES, Pieces, Place, Spares, Uses};
use crate::raw::MpiError;
use crate::text::{TEXT_BYTES, describe_with_place, hash, read_text, write_text};

/// The messages of a transfer that have tags of their own.
#[derive(Clone, Copy)]
enum Message {
    Header,
    /// Also the header after pieces.
    Data,
    Answer,
}

const MESSAGES: usize = 3;

/// How the data of a transfer travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    Whole,
    Pieces,
    /// As the receiver answers.
    Asks,
}

impl Cut {
    fn of(word: u64) -> Self {
        match word {
            0 => Self::Whole,
            1 => Self::Pieces,
            _ => Self::Asks,
        }
    }
}

const WORDS: usize = 4;

/// What the sender says of a transfer: whether its part has failed, the bytes that it sends, what it called, and how the bytes
/// travel.
pub(crate) struct Header {
    words: [u64; WORDS],
    text: [u8; TEXT_BYTES],
}

impl Header {
    fn new(call: &Announcement, part: &Part, cut: Cut) -> Self {
        let (state, text) = match part.failure() {
            Some(failure) => (1, failure.to_string()),
            None => (0, describe_with_place(call)),
        };
        let mut header = Self {
            words: [state, call.bytes() as u64, hash(call), cut as u64],
            text: [0; TEXT_BYTES],
        };
        write_text(&text, &mut header.text);
        header
    }

    fn bytes(&self) -> usize {
        self.words[1] as usize
    }

    fn cut(&self) -> Cut {
        Cut::of(self.words[3])
    }
}

/// The transfers from a device of one rank to a device of another, on this rank.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) comm: Comm,
    pub(crate) rank: usize,
    pub(crate) peer: usize,
    /// The number of its two devices among the pairs of devices of the ranks.
    pub(crate) devices: usize,
    /// Of a sender: whether the receiver needs pieces, once it has said so.
    pub(crate) receiver_cuts: Rc<Cell<Option<bool>>>,
    pub(crate) spares: Rc<Spares>,
}

/// The data of a part.
enum Data {
    /// From here.
    Whole(*mut u8),
    Pieces(Place),
}

impl Route {
    fn at(&self, message: Message) -> (usize, c_int) {
        let tag = self.devices * MESSAGES + message as usize;
        (self.peer, tag as c_int)
    }

    async fn send_header(&self, message: Message, header: &Header) -> Result<(), MpiError> {
        let words = bytemuck::bytes_of(&header.words);
        let bytes = [words, &header.text].concat();
        self.comm.send(self.at(message), &bytes).await
    }

    async fn receive_header(&self, message: Message) -> Result<Header, MpiError> {
        let mut bytes = [0; WORDS * 8 + TEXT_BYTES];
        self.comm.receive(self.at(message), &mut bytes).await?;
        let (words, text) = bytes.split_at(WORDS * 8);
        let mut header = Header {
            words: [0; WORDS],
            text: [0; TEXT_BYTES],
        };
        bytemuck::bytes_of_mut(&mut header.words).copy_from_slice(words);
        header.text.copy_from_slice(text);
        Ok(header)
    }

    /// Sends the data of a part, or its failure.
    pub(crate) async fn send(
        self,
        call: Announcement,
        part: Part,
    ) -> Result<Option<FailureRef>, MpiError> {
        let (way, bytes) = (way_of_part(&call, 1), call.bytes());
        let mut cut = match (way, self.receiver_cuts.get()) {
            _ if bytes <= PIECE_BYTES => Cut::Whole,
            _ if c_int::try_from(bytes).is_err() => Cut::Pieces,
            (Way::InPieces, _) | (_, Some(true)) => Cut::Pieces,
            (_, Some(false)) => Cut::Whole,
            (_, None) => Cut::Asks,
        };
        let uses = Uses {
            reads: true,
            writes: false,
        };
        // What fails the part comes before the header.
        let mut data = self.data(&call, &part, uses, cut);
        self.send_header(Message::Header, &Header::new(&call, &part, cut))
            .await?;
        if cut == Cut::Asks && data.is_some() {
            let mut answer = [0_u64];
            let bytes = bytemuck::bytes_of_mut(&mut answer);
            self.comm.receive(self.at(Message::Answer), bytes).await?;
            cut = Cut::of(answer[0]);
            if cut != Cut::Asks {
                self.receiver_cuts.set(Some(cut == Cut::Pieces));
            }
            data = self.data(&call, &part, uses, cut);
        }
        match data {
            None => {}
            Some(Data::Whole(start)) => {
                // SAFETY: the part has these bytes, and stays until the request has ended.
                unsafe { self.comm.send_from(self.at(Message::Data), start, bytes) }.await?;
            }
            Some(Data::Pieces(place)) => {
                let pieces = self.pieces(&call, &part, bytes, uses);
                pieces
                    .run(Some(place), |at, bytes| self.send_piece(at, bytes))
                    .await?;
                let header = Header::new(&call, &part, Cut::Pieces);
                self.send_header(Message::Data, &header).await?;
            }
        }
        Ok(None)
    }

    /// Receives the header of a transfer, and answers it if it asks.
    pub(crate) async fn expect(self, call: Announcement) -> Result<Header, MpiError> {
        let header = self.receive_header(Message::Header).await?;
        if header.cut() == Cut::Asks && self.failure(&header, &call).is_none() {
            let answer = [self.answer(&header, &call) as u64];
            let bytes = bytemuck::bytes_of(&answer);
            self.comm.send(self.at(Message::Answer), bytes).await?;
        }
        Ok(header)
    }

    /// Returns the answer to a header that asks.
    fn answer(&self, header: &Header, call: &Announcement) -> Cut {
        match way_of_part(call, 1) {
            // The way of another call says nothing of this one: the sender asks again.
            _ if self.mismatch(header, call).is_some() => Cut::Asks,
            Way::InPieces => Cut::Pieces,
            Way::ByHost | Way::ByAddress => Cut::Whole,
        }
    }

    /// Receives the data that the header describes. Returns why the part fails.
    pub(crate) async fn receive(
        self,
        call: Announcement,
        part: Part,
        header: Header,
    ) -> Result<Option<FailureRef>, MpiError> {
        if let Some(failure) = self.failure(&header, &call) {
            return Ok(Some(failure));
        }
        let failure = self.mismatch(&header, &call);
        let bytes = header.bytes();
        let cut = match header.cut() {
            Cut::Asks => self.answer(&header, &call),
            told => told,
        };
        let uses = Uses {
            reads: false,
            writes: true,
        };
        let data = match failure {
            None => self.data(&call, &part, uses, cut),
            Some(_) => None,
        };
        let place = match data {
            Some(Data::Pieces(place)) => Some(place),
            None if cut == Cut::Pieces => None,
            whole => {
                // What the part cannot take.
                let mut sink = Vec::<u64>::new();
                let target = match whole {
                    Some(Data::Whole(start)) => start,
                    _ => {
                        sink = vec![0; bytes.div_ceil(8)];
                        sink.as_mut_ptr().cast()
                    }
                };
                // SAFETY: the part has this length, or the sink, and both stay until the request has ended.
                unsafe { self.comm.receive_to(self.at(Message::Data), target, bytes) }.await?;
                drop(sink);
                return Ok(failure);
            }
        };
        let pieces = self.pieces(&call, &part, bytes, uses);
        pieces
            .run(place, |at, bytes| self.receive_piece(at, bytes))
            .await?;
        let header = self.receive_header(Message::Data).await?;
        Ok(failure.or_else(|| self.failure(&header, &call)))
    }

    /// Returns the data of the part. `None` if it has failed, or fails now.
    fn data(&self, call: &Announcement, part: &Part, uses: Uses, cut: Cut) -> Option<Data> {
        if way_of_part(call, 1) == Way::InPieces {
            let staging = part.with(call, |part| self.spares.take(part))?;
            return Some(Data::Pieces(Place::Staged(staging)));
        }
        let addresses = part.with(call, |part| part.addresses().map_err(Reason::Refused))?;
        let at = uses.at(addresses);
        Some(match cut {
            Cut::Pieces => Data::Pieces(Place::Whole(at)),
            Cut::Whole | Cut::Asks => Data::Whole(at.piece),
        })
    }

    fn pieces<'a>(
        &'a self,
        call: &'a Announcement,
        part: &'a Part,
        bytes: usize,
        uses: Uses,
    ) -> Pieces<'a> {
        Pieces {
            comm: &self.comm,
            call,
            part,
            bytes,
            uses,
            spares: &self.spares,
        }
    }

    fn send_piece(&self, at: At, bytes: usize) -> Request<'static> {
        // SAFETY: a piece stays until its request has ended.
        unsafe { self.comm.send_from(self.at(Message::Data), at.piece, bytes) }
    }

    fn receive_piece(&self, at: At, bytes: usize) -> Request<'static> {
        // SAFETY: as above.
        unsafe {
            self.comm
                .receive_to(self.at(Message::Data), at.piece, bytes)
        }
    }

    /// Returns the failure of the sender's part, if it has failed.
    fn failure(&self, header: &Header, call: &Announcement) -> Option<FailureRef> {
        let failed = header.words[0] != 0;
        failed.then(|| {
            let remote = Remote::Failed {
                rank: self.peer as u32,
                message: read_text(&header.text),
            };
            Failure::not_run(&call.name.into(), Reason::Remote(remote))
        })
    }

    /// Returns the failure of a receiver that called something else than the sender.
    fn mismatch(&self, header: &Header, call: &Announcement) -> Option<FailureRef> {
        let differs = header.words[2] != hash(call) || header.bytes() != call.bytes();
        differs.then(|| {
            let message = format!(
                "rank {} sends {}, and rank {} receives {}",
                self.peer,
                read_text(&header.text),
                self.rank,
                describe_with_place(call)
            );
            let remote = Remote::Mismatch { message };
            Failure::not_run(&call.name.into(), Reason::Remote(remote))
        })
    }
}
