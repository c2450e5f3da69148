//! A send or a receive: a header and then its data, with tags of their own.
//!
//! ```text
//!  sender:    part begins ──► header (state, length, type, place) ──► data ──► complete
//!  receiver:  announced ──► header ──► part begins ──► data ──► complete
//!                             └─ another length or type, or the sender's part failed ──► fail
//! ```
//! Data of more than [`PIECE_BYTES`] travels in pieces if one of the two needs that. A sender that does not need it waits
//! for the answer of the receiver, as MPI itself does for data of this size:
//!
//! ```text
//!  sender:    header ───────────► answer ──► data, whole or in pieces
//!  receiver:  header ──► answer: my device needs pieces
//! ```
//! After pieces a second header follows: the sender's part may have failed meanwhile.

use std::ffi::c_int;
use std::rc::Rc;

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::Announcement;

use crate::aware::{Way, way_of_part};
use crate::comm::Comm;
use crate::part::{Part, Stage};
use crate::pieces::{At, PIECE_BYTES, Pieces, Place, Spares};
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

const WORDS: usize = 4;

/// What the sender says of a transfer: whether its part has failed, the bytes that it sends, what it called, and whether it
/// needs pieces.
struct Header([u64; WORDS + TEXT_BYTES / 8]);

impl Header {
    fn new(call: &Announcement, part: &Part, needs_pieces: bool) -> Self {
        let (state, text) = match part.failure() {
            Some(failure) => (1, failure.to_string()),
            None => (0, describe_with_place(call)),
        };
        let mut header = Self([0; _]);
        let (words, field) = header.0.split_at_mut(WORDS);
        words.copy_from_slice(&[state, call.bytes() as u64, hash(call), needs_pieces.into()]);
        write_text(&text, bytemuck::cast_slice_mut(field));
        header
    }

    fn bytes(&self) -> usize {
        self.0[1] as usize
    }

    fn has_failed(&self) -> bool {
        self.0[0] != 0
    }

    fn needs_pieces(&self) -> bool {
        self.0[3] != 0
    }

    /// Whether the sender waits for the answer of the receiver.
    fn asks(&self) -> bool {
        !self.has_failed() && !self.needs_pieces() && self.bytes() > PIECE_BYTES
    }

    fn text(&self) -> String {
        read_text(bytemuck::cast_slice(&self.0[WORDS..]))
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
    pub(crate) spares: Rc<Spares>,
}

impl Route {
    fn at(&self, message: Message) -> (usize, c_int) {
        let tag = self.devices * MESSAGES + message as usize;
        (self.peer, tag as c_int)
    }

    async fn send_header(&self, message: Message, header: &Header) -> Result<(), MpiError> {
        let bytes = bytemuck::cast_slice(&header.0);
        self.comm.send(self.at(message), bytes).await
    }

    async fn receive_header(&self, message: Message) -> Result<Header, MpiError> {
        let mut header = Header([0; _]);
        let bytes = bytemuck::cast_slice_mut(&mut header.0);
        self.comm.receive(self.at(message), bytes).await?;
        Ok(header)
    }

    /// Sends the data of a part once it has begun, or its failure.
    pub(crate) async fn send(
        self,
        call: Announcement,
        part: Part,
    ) -> Result<Option<FailureRef>, MpiError> {
        part.reach(Stage::Moves, true, &self.comm).await?;
        let (staged, bytes) = (is_staged(&call), call.bytes());
        // What fails the part comes before the header.
        let pieces = self.pieces(&call, &part, bytes);
        let place = pieces.place(staged);
        let needs_pieces = staged || c_int::try_from(bytes).is_err();
        let header = Header::new(&call, &part, needs_pieces);
        self.send_header(Message::Header, &header).await?;
        let mut is_cut = [u64::from(needs_pieces)];
        if header.asks() {
            let answer = bytemuck::bytes_of_mut(&mut is_cut);
            self.comm.receive(self.at(Message::Answer), answer).await?;
        }
        // SAFETY: the part, or the staging, has these bytes, and stays until the request has ended.
        let send =
            |at: At, bytes| unsafe { self.comm.send_from(self.at(Message::Data), at.piece, bytes) };
        match place {
            None => {}
            Some(Place::Whole(at)) if is_cut == [0] => send(at, bytes).await?,
            place => {
                pieces.run(place, send).await?;
                let header = Header::new(&call, &part, true);
                self.send_header(Message::Data, &header).await?;
            }
        }
        Ok(None)
    }

    /// Receives the header of a transfer, and answers it if it asks.
    async fn expect(&self, call: &Announcement) -> Result<Header, MpiError> {
        let header = self.receive_header(Message::Header).await?;
        if header.asks() {
            let answer = [u64::from(self.is_cut(&header, call))];
            let bytes = bytemuck::bytes_of(&answer);
            self.comm.send(self.at(Message::Answer), bytes).await?;
        }
        Ok(header)
    }

    /// Whether the data that a header describes travels in pieces. What the part cannot take does not, unless the sender
    /// needs that.
    fn is_cut(&self, header: &Header, call: &Announcement) -> bool {
        header.needs_pieces() || is_staged(call) && self.mismatch(header, call).is_none()
    }

    /// Receives the header, and once the part has begun the data that it describes. Returns why the part fails.
    pub(crate) async fn receive(
        self,
        call: Announcement,
        part: Part,
    ) -> Result<Option<FailureRef>, MpiError> {
        let header = self.expect(&call).await?;
        part.reach(Stage::Checked, false, &self.comm).await?;
        part.reach(Stage::Moves, true, &self.comm).await?;
        if let Some(failure) = self.failure(&header, &call) {
            return Ok(Some(failure));
        }
        let failure = self.mismatch(&header, &call);
        let bytes = header.bytes();
        let is_cut = self.is_cut(&header, &call);
        let pieces = self.pieces(&call, &part, bytes);
        let place = match failure {
            None => pieces.place(is_staged(&call)),
            Some(_) => None,
        };
        // SAFETY: the part, or what receives in its place, has these bytes, and stays until the request has ended.
        let receive = |at: At, bytes| unsafe {
            self.comm
                .receive_to(self.at(Message::Data), at.piece, bytes)
        };
        match place {
            Some(Place::Whole(at)) if !is_cut => {
                receive(at, bytes).await?;
                return Ok(failure);
            }
            None if !is_cut => {
                // What the part cannot take.
                let mut sink = vec![0_u8; bytes];
                self.comm.receive(self.at(Message::Data), &mut sink).await?;
                return Ok(failure);
            }
            place => pieces.run(place, receive).await?,
        }
        let header = self.receive_header(Message::Data).await?;
        Ok(failure.or_else(|| self.failure(&header, &call)))
    }

    fn pieces<'a>(&'a self, call: &'a Announcement, part: &'a Part, bytes: usize) -> Pieces<'a> {
        Pieces {
            comm: &self.comm,
            call,
            part,
            bytes,
            rank: self.rank,
            spares: &self.spares,
        }
    }

    /// Returns the failure of the sender's part, if it has failed.
    fn failure(&self, header: &Header, call: &Announcement) -> Option<FailureRef> {
        header.has_failed().then(|| {
            let remote = Remote::Failed {
                rank: self.peer as u32,
                message: header.text(),
            };
            Failure::not_run(&call.name.into(), Reason::Remote(remote))
        })
    }

    /// Returns the failure of a receiver that called something else than the sender.
    fn mismatch(&self, header: &Header, call: &Announcement) -> Option<FailureRef> {
        let differs = header.0[2] != hash(call) || header.bytes() != call.bytes();
        differs.then(|| {
            let message = format!(
                "rank {} sends {}, and rank {} receives {}",
                self.peer,
                header.text(),
                self.rank,
                describe_with_place(call)
            );
            let remote = Remote::Mismatch { message };
            Failure::not_run(&call.name.into(), Reason::Remote(remote))
        })
    }
}

/// Whether the part of this rank needs pieces.
fn is_staged(call: &Announcement) -> bool {
    way_of_part(call, 1) == Way::InPieces
}
