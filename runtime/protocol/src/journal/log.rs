//! The log as a value, and as a file.
//!
//! ```text
//! "mslog\r\n\x1a" | version u16 | length u16 | head .. | length u64 | entries .. | digest u64
//! ```
//! Little endian. Head and entries are in postcard's encoding, each in as many bytes as the length before it says. The digest is
//! of everything between the first field and itself. The start shows what a transfer as text does to line ends.

use std::cmp::Ordering;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::encoding::{decode, what};
use super::entry::Entry;

const MAGIC: [u8; 8] = *b"mslog\r\n\x1a";
/// The version that is written, and the only one that is read. 1 was an encoding of our own.
const VERSION: u16 = 2;
/// The longest name of a backend that a log keeps: the length of a head must fit in 16 bits.
const BACKEND_BYTES_MAX: usize = u8::MAX as usize;

/// What a file says of its log. The order of the fields is the format.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    complete: bool,
    parts: (u32, u32),
    entries: u64,
    backend: &'a str,
}

/// What a device took, in mailbox order.
///
/// ```no_run
/// # fn f(log: &millstream_protocol::journal::SubmissionLog) -> Result<(), Box<dyn std::error::Error>> {
/// use millstream_protocol::journal::SubmissionLog;
/// log.write_to(std::fs::File::create("match.mslog")?)?;
/// let again = SubmissionLog::read_from(std::fs::File::open("match.mslog")?)?;
/// assert_eq!(&again, log);
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SubmissionLog {
    backend: Box<str>,
    /// The first and the last part in it.
    parts: (u32, u32),
    entries: u64,
    complete: bool,
    /// Entries, encoded. They decode: whoever makes a log of bytes has tried.
    body: Vec<u8>,
}

/// Why bytes are no log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Reading or writing failed.
    #[error("the submission log could not be read or written: {0}")]
    Io(io::Error),
    /// The bytes are something else.
    #[error("this is no submission log: it does not begin as one")]
    Foreign,
    /// It was written by a later version.
    #[error(
        "the submission log has version {found}, this program reads version {known}; update it"
    )]
    Newer {
        /// The log's version.
        found: u16,
        /// The one that is known.
        known: u16,
    },
    /// It was written by an earlier version.
    #[error(
        "the submission log has version {found}, this program reads version {known}; replay it with the release that wrote it"
    )]
    Older {
        /// The log's version.
        found: u16,
        /// The one that is known.
        known: u16,
    },
    /// There is less than it says.
    #[error("the submission log is cut off: its end is missing")]
    Truncated,
    /// The bytes are not those that were written.
    #[error("the submission log is damaged at byte {at} of its entries: {what}")]
    Corrupt {
        /// Where.
        at: u64,
        /// What does not fit.
        what: &'static str,
    },
    /// Entries are missing at the end, so nothing can be put behind them.
    #[error(
        "part {last} of the submission log ends where there was no room for more; let the device keep more, or take it more often"
    )]
    Cut {
        /// The last part.
        last: u32,
    },
    /// Parts are put together that do not follow each other.
    #[error("part {given} does not follow part {last} of the submission log")]
    Order {
        /// The last part so far.
        last: u32,
        /// The part that was given.
        given: u32,
    },
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl SubmissionLog {
    /// The log of a device of this backend: `parts` of it, of which the first has this number and the last that one, with so many
    /// entries, as bytes. It is complete if none is missing at its end.
    pub fn new(
        backend: &str,
        parts: (u32, u32),
        entries: u64,
        complete: bool,
        body: Vec<u8>,
    ) -> Self {
        // Between characters: what was written is to be text again.
        let end = backend.floor_char_boundary(BACKEND_BYTES_MAX);
        Self {
            backend: backend[..end].into(),
            parts,
            entries,
            complete,
            body,
        }
    }

    /// How many entries it has.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Has it none?
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes that its entries take.
    pub fn size(&self) -> u64 {
        self.body.len() as u64
    }

    /// The kind of device that wrote it, by the first 255 bytes of its name. Any kind may replay it.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Which parts of the device's log it has, counted from 0, one each time the log is taken.
    pub fn parts(&self) -> std::ops::RangeInclusive<u32> {
        self.parts.0..=self.parts.1
    }

    /// Is everything in it that the device had taken? Not, once it was longer than the device was allowed to keep:
    /// then it ends with the last entry that there was room for, and a replay is refused until
    /// [`SubmissionLog::accept_cut`] is called.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Takes what is there for all there is: a log that was cut can be replayed up to its end then, and says that it
    /// is complete, also in a file. To be called by who knows that he replays the beginning only.
    pub fn accept_cut(&mut self) {
        self.complete = true;
    }

    /// The entries, in the order in which the device took them.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut bytes = &self.body[..];
        std::iter::from_fn(move || match bytes.is_empty() {
            true => None,
            false => decode(&mut bytes).ok(),
        })
    }

    /// Puts the next part behind this one, so that both are one log.
    ///
    /// # Errors
    /// [`LogError::Order`] if it is not the next, [`LogError::Cut`] if nothing can follow.
    pub fn append(&mut self, next: &Self) -> Result<(), LogError> {
        let (last, given) = (self.parts.1, next.parts.0);
        if !self.complete {
            return Err(LogError::Cut { last });
        }
        if last.checked_add(1) != Some(given) {
            return Err(LogError::Order { last, given });
        }
        self.body.extend_from_slice(&next.body);
        self.entries += next.entries;
        (self.parts.1, self.complete) = (next.parts.1, next.complete);
        Ok(())
    }

    /// Writes it. The caller buffers, if that is worth it: there are three writes.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn write_to(&self, mut to: impl Write) -> Result<(), LogError> {
        let head = Head {
            complete: self.complete,
            parts: self.parts,
            entries: self.entries,
            backend: &self.backend,
        };
        let head = postcard::to_stdvec(&head).map_err(io::Error::other)?;
        let mut start = MAGIC.to_vec();
        start.extend_from_slice(&VERSION.to_le_bytes());
        // The name was cut to what fits when the log was made.
        start.extend_from_slice(&(head.len() as u16).to_le_bytes());
        start.extend_from_slice(&head);
        start.extend_from_slice(&(self.body.len() as u64).to_le_bytes());
        let digest = Digest::default()
            .with(&start[MAGIC.len()..])
            .with(&self.body);
        to.write_all(&start)?;
        to.write_all(&self.body)?;
        to.write_all(&digest.number().to_le_bytes())?;
        Ok(to.flush()?)
    }

    /// Reads one, and not a byte beyond it. Takes memory for what is there, not for what the log says that there
    /// is: the bytes, and while they are looked through up to 40 times those of the largest entry. Who reads logs of
    /// strangers bounds the bytes ([`Read::take`]).
    ///
    /// # Errors
    /// [`LogError`]: every way in which bytes can be no log.
    pub fn read_from(mut from: impl Read) -> Result<Self, LogError> {
        let mut magic = [0; MAGIC.len()];
        let begun = fill(&mut from, &mut magic)?;
        if magic[..begun] != MAGIC[..begun] || begun == 0 {
            return Err(LogError::Foreign);
        }
        if begun < MAGIC.len() {
            return Err(LogError::Truncated);
        }
        let version: [u8; 2] = whole(&mut from)?;
        let (found, known) = (u16::from_le_bytes(version), VERSION);
        match found.cmp(&known) {
            Ordering::Less => return Err(LogError::Older { found, known }),
            Ordering::Greater => return Err(LogError::Newer { found, known }),
            Ordering::Equal => {}
        }
        let head_size: [u8; 2] = whole(&mut from)?;
        let head = exactly(&mut from, u16::from_le_bytes(head_size).into())?;
        let size: [u8; 8] = whole(&mut from)?;
        let body = exactly(&mut from, u64::from_le_bytes(size))?;
        let sum: [u8; 8] = whole(&mut from)?;
        let parts: [&[u8]; 5] = [&version, &head_size, &head, &size, &body];
        let digest = parts
            .iter()
            .fold(Digest::default(), |digest, part| digest.with(part));
        let corrupt = |left: &[u8], what| LogError::Corrupt {
            at: (body.len() - left.len()) as u64,
            what,
        };
        if digest.number().to_le_bytes() != sum {
            return Err(corrupt(&[], "its digest is another"));
        }
        let (head, rest) = postcard::take_from_bytes::<Head<'_>>(&head)
            .map_err(|error| corrupt(&body, what(&error)))?;
        if !rest.is_empty() {
            return Err(corrupt(&body, "its head has another length than it says"));
        }
        let mut left = &body[..];
        let mut counted = 0;
        while !left.is_empty() {
            decode(&mut left).map_err(|what| corrupt(left, what))?;
            counted += 1;
        }
        if counted != head.entries {
            return Err(corrupt(
                &[],
                "it has another number of entries than it says",
            ));
        }
        let (parts, complete) = (head.parts, head.complete);
        Ok(Self::new(head.backend, parts, counted, complete, body))
    }
}

impl std::fmt::Debug for SubmissionLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (backend, parts, entries) = (&self.backend, self.parts(), self.entries);
        write!(
            f,
            "SubmissionLog({backend}, parts {parts:?}, {entries} entries, {} bytes)",
            self.size()
        )
    }
}

/// Reads until `room` is full or there is no more, and tells how much there was.
fn fill(from: &mut impl Read, room: &mut [u8]) -> Result<usize, LogError> {
    let mut filled = 0;
    while filled < room.len() {
        match from.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

fn whole<const N: usize>(from: &mut impl Read) -> Result<[u8; N], LogError> {
    let mut room = [0; N];
    match fill(from, &mut room)? {
        filled if filled == N => Ok(room),
        _ => Err(LogError::Truncated),
    }
}

/// So many bytes, in room that grows as they come.
fn exactly(from: &mut impl Read, count: u64) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    from.take(count).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == count {
        true => Ok(bytes),
        false => Err(LogError::Truncated),
    }
}
