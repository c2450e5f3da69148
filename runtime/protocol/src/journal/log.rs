//! The log as a value, and its file format.
//!
//! ```text
//! "mslog\r\n\x1a" | version u16 | length u16 | head .. | length u64 | entries .. | digest u64
//! ```
//! Numbers are little endian. Head and entries are in postcard's encoding; the length before each is in bytes. The
//! digest covers everything between the magic number and itself. The magic number reveals a transfer that converts
//! line ends.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::encoding::{decode, reason};
use super::entry::Entry;

const MAGIC: [u8; 8] = *b"mslog\r\n\x1a";
/// The version that is written, and the only one that is read. Earlier ones had other encodings.
const VERSION: u16 = 4;
/// The longest name of a backend that a log keeps, so that the length of the head fits in 16 bits.
const BACKEND_BYTES_MAX: usize = u8::MAX as usize;

/// The head of a file. The order of the fields is the format.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    complete: bool,
    parts: (u32, u32),
    entries: u64,
    backend: &'a str,
}

/// The log of a device: what it accepted, in mailbox order.
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
    /// The numbers of the first and the last part of the device's log that it contains.
    parts: (u32, u32),
    entries: u64,
    complete: bool,
    /// Encoded entries. They decode: the code that makes a log of bytes has checked them.
    body: Vec<u8>,
}

/// Why a log cannot be read, written or appended to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Reading or writing failed.
    #[error("the submission log could not be read or written: {0}")]
    Io(io::Error),
    /// The bytes are not a submission log.
    #[error(
        "the bytes are not a submission log: they do not begin with its magic number; read a file that `SubmissionLog` wrote"
    )]
    Foreign,
    /// Another version wrote the log.
    #[error(
        "the submission log has version {found}, this program reads version {known}; {}",
        if found > known { "update the program" } else { "replay it with the release that wrote it" }
    )]
    Version {
        /// The log's version.
        found: u16,
        /// The version that this program reads.
        known: u16,
    },
    /// The bytes end before the log does.
    #[error(
        "the submission log is truncated: its end is missing; write it again from the device, or copy the whole file"
    )]
    Truncated,
    /// The bytes differ from those that were written.
    #[error(
        "the submission log is corrupt at byte {at} of its entries: {what}; copy the file again"
    )]
    Corrupt {
        /// The byte, counted from the start of the entries.
        at: u64,
        /// The reason.
        what: &'static str,
    },
    /// Entries are missing at the end of the log, so nothing can be appended.
    #[error(
        "part {last} of the submission log is incomplete: the device reached its limit; raise `log_submissions`, or take the log more often"
    )]
    Cut {
        /// The number of the last part.
        last: u32,
    },
    /// The appended part does not follow the last one.
    #[error(
        "part {given} does not follow part {last} of the submission log; append the parts in order"
    )]
    Order {
        /// The number of the last part.
        last: u32,
        /// The number of the given part.
        given: u32,
    },
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Io(error),
        }
    }
}

impl SubmissionLog {
    /// Creates the log of a device of this backend from encoded entries. `parts` has the numbers of its first and its
    /// last part. It is complete if no entry is missing at its end.
    pub fn new(
        backend: &str,
        parts: (u32, u32),
        entries: u64,
        complete: bool,
        body: Vec<u8>,
    ) -> Self {
        // At the end of a character, so that the name remains valid UTF-8.
        let end = backend.floor_char_boundary(BACKEND_BYTES_MAX);
        Self {
            backend: backend[..end].into(),
            parts,
            entries,
            complete,
            body,
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Returns `true` if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the length of the encoded entries, in bytes.
    pub fn size(&self) -> u64 {
        self.body.len() as u64
    }

    /// Returns the kind of the device that wrote the log: the first 255 bytes of its name. Any kind may replay it.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Returns the numbers of the parts of the device's log that it contains. Each take of the log is one part, from 0.
    pub fn parts(&self) -> std::ops::RangeInclusive<u32> {
        self.parts.0..=self.parts.1
    }

    /// Returns `true` if the log contains everything that the device accepted. A log that reached the device's limit
    /// is incomplete: it ends with the last entry that had room, and a replay is refused until
    /// [`SubmissionLog::accept_cut`] is called.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Marks an incomplete log as complete, also in a file, so that a replay may run it up to its end. Call it only
    /// if a replay of the beginning is sufficient.
    pub fn accept_cut(&mut self) {
        self.complete = true;
    }

    /// Returns the entries, in the order in which the device accepted them.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut bytes = &self.body[..];
        std::iter::from_fn(move || match bytes.is_empty() {
            true => None,
            false => decode(&mut bytes).ok(),
        })
    }

    /// Appends the next part of the device's log.
    ///
    /// # Errors
    /// [`LogError::Order`] if it is not the next part, [`LogError::Cut`] if this log is incomplete.
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

    /// Writes the log, with three writes; the caller buffers them if necessary.
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
        // The name was cut when the log was made, so that the head fits.
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

    /// Reads a log, and no byte beyond it.
    ///
    /// The memory for it depends on the bytes that are there, not on the lengths that they state: the bytes
    /// themselves, and while they are checked up to 40 times those of the largest entry. A caller that reads
    /// untrusted logs limits the bytes ([`Read::take`]).
    ///
    /// # Errors
    /// [`LogError`] for bytes that are not a log.
    pub fn read_from(mut from: impl Read) -> Result<Self, LogError> {
        let mut magic = Vec::new();
        let magic_size = MAGIC.len() as u64;
        from.by_ref().take(magic_size).read_to_end(&mut magic)?;
        if magic.is_empty() || !MAGIC.starts_with(&magic) {
            return Err(LogError::Foreign);
        }
        if magic.len() < MAGIC.len() {
            return Err(LogError::Truncated);
        }
        let version: [u8; 2] = read_array(&mut from)?;
        let (found, known) = (u16::from_le_bytes(version), VERSION);
        if found != known {
            return Err(LogError::Version { found, known });
        }
        let head_size: [u8; 2] = read_array(&mut from)?;
        let head = read_vec(&mut from, u16::from_le_bytes(head_size).into())?;
        let size: [u8; 8] = read_array(&mut from)?;
        let body = read_vec(&mut from, u64::from_le_bytes(size))?;
        let sum: [u8; 8] = read_array(&mut from)?;
        let parts: [&[u8]; 5] = [&version, &head_size, &head, &size, &body];
        let digest = parts
            .iter()
            .fold(Digest::default(), |digest, part| digest.with(part));
        let corrupt = |left: &[u8], what| LogError::Corrupt {
            at: (body.len() - left.len()) as u64,
            what,
        };
        if digest.number().to_le_bytes() != sum {
            return Err(corrupt(&[], "the digest does not match"));
        }
        let (head, rest) = postcard::take_from_bytes::<Head<'_>>(&head)
            .map_err(|error| corrupt(&body, reason(&error)))?;
        if !rest.is_empty() {
            return Err(corrupt(&body, "the head is shorter than its stated length"));
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
                "the number of entries differs from that in the head",
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

fn read_array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    from.read_exact(&mut array)?;
    Ok(array)
}

/// Reads `count` bytes into a vector that grows as they arrive.
fn read_vec(from: &mut impl Read, count: u64) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    from.take(count).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == count {
        true => Ok(bytes),
        false => Err(LogError::Truncated),
    }
}
