//! The header of a transfer.

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::Announcement;

use crate::check::{TEXT_BYTES, describe_with_place, hash, read_text, write_text};
use crate::end::End;
use crate::raw::{MpiError, Request};
use crate::running::Outcome;

/// The bytes of a header: what was called, and a text.
const BYTES: usize = WORDS * 8 + TEXT_BYTES;

const WORDS: usize = 4;

/// How the data of a transfer travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    Whole,
    Pieces,
    /// As the receiver answers.
    Asks,
}

impl Cut {
    /// Returns it as a word of a message.
    pub(crate) fn word(self) -> u64 {
        match self {
            Self::Whole => 0,
            Self::Pieces => 1,
            Self::Asks => 2,
        }
    }

    pub(crate) fn of(word: u64) -> Self {
        match word {
            0 => Self::Whole,
            1 => Self::Pieces,
            _ => Self::Asks,
        }
    }
}

/// What the sender says of a transfer: whether its part has failed, the bytes that it sends, what it called, and how the bytes
/// travel.
pub(crate) struct Header(Box<[u8; BYTES]>);

impl Header {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; BYTES]))
    }

    /// Writes what this rank sends.
    pub(crate) fn write(&mut self, call: &Announcement, part: Option<&Outcome>, cut: Cut) {
        let (state, text) = match part {
            Some(Err(failure)) => (1_u64, failure.to_string()),
            _ => (0, describe_with_place(call)),
        };
        let words = [state, call.bytes() as u64, hash(call), cut.word()];
        for (place, word) in self.0.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        write_text(&text, &mut self.0[WORDS * 8..]);
    }

    /// Returns the failure of the sender's part, if it has failed.
    pub(crate) fn failure(&self, call: &Announcement, sender: usize) -> Option<FailureRef> {
        let failed = self.word(0) != 0;
        failed.then(|| {
            let remote = Remote::Failed {
                rank: sender as u32,
                message: read_text(&self.0[WORDS * 8..]),
            };
            Failure::not_run(&call.name.into(), Reason::Remote(remote))
        })
    }

    /// Returns the number of bytes that the sender sends.
    pub(crate) fn bytes(&self) -> usize {
        self.word(1) as usize
    }

    /// Returns how the bytes travel.
    pub(crate) fn cut(&self) -> Cut {
        Cut::of(self.word(3))
    }

    /// Returns the failure of a receiver, with its rank, that called something else than the sender.
    pub(crate) fn mismatch(
        &self,
        call: &Announcement,
        (sender, receiver): (usize, usize),
    ) -> Option<FailureRef> {
        let differs = self.word(2) != hash(call) || self.bytes() != call.bytes();
        differs.then(|| {
            let message = format!(
                "rank {sender} sends {}, and rank {receiver} receives {}",
                read_text(&self.0[WORDS * 8..]),
                describe_with_place(call)
            );
            Failure::not_run(
                &call.name.into(),
                Reason::Remote(Remote::Mismatch { message }),
            )
        })
    }

    fn word(&self, index: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[index * 8..][..8]);
        u64::from_ne_bytes(bytes)
    }

    /// Starts to send it.
    ///
    /// # Safety
    /// It stays as it is until the request has completed.
    pub(crate) unsafe fn send(&self, end: End) -> Result<Request, MpiError> {
        // SAFETY: the caller's promise.
        unsafe { end.send(self.0.as_ptr(), BYTES) }
    }

    /// Starts to receive it.
    ///
    /// # Safety
    /// It stays where it is, and nothing else accesses it, until the request has completed.
    pub(crate) unsafe fn receive(&mut self, end: End) -> Result<Request, MpiError> {
        // SAFETY: the caller's promise.
        unsafe { end.receive(self.0.as_mut_ptr(), BYTES) }
    }
}
