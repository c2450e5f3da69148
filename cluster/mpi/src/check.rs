//! What the ranks compare before data moves: whether they called the same.
//!
//! MPI does not check it: calls with other sizes, types or operations return success with wrong data, or crash (seen
//! on Open MPI 5.0.11). The check starts when a call is made, before its data is ready, and usually ends before. A
//! small call has its hash and its data in one exchange (`record`): an all-reduce of 1 KiB between two ranks takes 6.4
//! to 7.6 us more than MPI's (`benches/RESULTS.md`).

use std::fmt::{self, Display, Write};

use millstream_cluster::Announcement;

use crate::raw::{Comm, MpiError, Request, leak};
use crate::record::{Own, RANKS_MAX, Records};

/// The bytes of the text in which a rank describes its call, or its failure, to others.
pub(crate) const TEXT_BYTES: usize = 512;

/// Returns the description with the place of the call.
pub(crate) fn describe_with_place(call: &Announcement) -> String {
    format!("{call} at {}", call.place)
}

/// Writes a text to a field of fixed size, cut at a character.
pub(crate) fn write_text(text: &str, field: &mut [u8]) {
    let end = text.floor_char_boundary(field.len());
    field[..end].copy_from_slice(&text.as_bytes()[..end]);
    field[end..].fill(0);
}

/// Reads a text that [`write_text`] wrote.
pub(crate) fn read_text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]).into_owned()
}

/// Returns the hash of a text, by FNV-1a, which is the same in every build.
pub(crate) fn hash(text: impl Display) -> u64 {
    struct Fnv(u64);
    impl fmt::Write for Fnv {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            self.0 = piece.bytes().fold(self.0, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            Ok(())
        }
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    // It returns no error.
    let _ = write!(hash, "{text}");
    hash.0
}

/// What the ranks have found out by a comparison.
pub(crate) enum Verdict {
    /// They called different things.
    Differ,
    /// All called the same. The data moves next, in pieces if a rank needs that.
    Same { in_pieces: bool },
    /// All called the same small call. The part of this rank has failed.
    Failed(usize),
    /// All called the same small call, whose data has arrived.
    Arrived(Records),
}

/// A comparison in flight. All ranks of a group use the same kind.
pub(crate) enum Check {
    /// In a group of many ranks.
    Greatest(Greatest),
    /// In a group of few ranks; `true` for a small call.
    Records(Option<Records>, bool),
}

impl Check {
    /// Starts the comparison. `part` is the part of a small call, and `None` for any other. `in_pieces`: this rank needs the
    /// call to be cut into pieces.
    pub(crate) fn start(
        comm: Comm,
        size: usize,
        call: &Announcement,
        part: Option<&Own<'_>>,
        in_pieces: bool,
    ) -> Result<Self, MpiError> {
        let hash = hash(call);
        if size > RANKS_MAX {
            return Greatest::start(comm, hash, in_pieces).map(Self::Greatest);
        }
        let later = match in_pieces {
            true => Own::InPieces,
            false => Own::Later,
        };
        let records = Records::start(comm, size, hash, part.unwrap_or(&later))?;
        Ok(Self::Records(Some(records), part.is_some()))
    }

    /// Returns the outcome once it is known.
    pub(crate) fn outcome(&mut self) -> Result<Option<Verdict>, MpiError> {
        match self {
            Self::Greatest(greatest) => greatest.outcome(),
            Self::Records(place, is_small) => {
                let Some(mut records) = place.take() else {
                    return Ok(None);
                };
                if !records.have_arrived()? {
                    *place = Some(records);
                    return Ok(None);
                }
                let verdict = match records.failed_rank() {
                    _ if !records.are_equal() => Verdict::Differ,
                    Some(rank) => Verdict::Failed(rank),
                    None if *is_small => Verdict::Arrived(records),
                    None => Verdict::Same {
                        in_pieces: records.are_in_pieces(),
                    },
                };
                Ok(Some(verdict))
            }
        }
    }

    /// Returns `true` once the request has ended, with or without an error.
    pub(crate) fn has_ended(&mut self) -> bool {
        match self {
            Self::Greatest(greatest) => greatest.request.has_completed().unwrap_or(true),
            Self::Records(records, _) => records
                .as_mut()
                .is_none_or(|records| records.have_arrived().unwrap_or(true)),
        }
    }
}

/// A comparison among many ranks.
///
/// All ranks take the greatest of their hash and of its complement. Both agree if and only if all hashes are equal, so
/// one small reduction is enough, and every rank comes to the same conclusion. The third number is 1 if a rank needs pieces.
pub(crate) struct Greatest {
    request: Request,
    /// The own numbers, and those of all. MPI accesses them until the request has completed.
    numbers: Box<[u64; 6]>,
}

impl Greatest {
    fn start(comm: Comm, hash: u64, in_pieces: bool) -> Result<Self, MpiError> {
        let mut numbers = Box::new([hash, !hash, u64::from(in_pieces), 0, 0, 0]);
        let (own, all) = numbers.split_at_mut(3);
        // SAFETY: the check keeps the numbers until the request has completed.
        let request = unsafe { Request::start_greatest(comm, own, all) }?;
        Ok(Self { request, numbers })
    }

    fn outcome(&mut self) -> Result<Option<Verdict>, MpiError> {
        let done = self.request.has_completed()?;
        let [.., greatest, complement, pieces] = *self.numbers;
        let verdict = match greatest == !complement {
            true => Verdict::Same {
                in_pieces: pieces != 0,
            },
            false => Verdict::Differ,
        };
        Ok(done.then_some(verdict))
    }
}

impl Drop for Greatest {
    fn drop(&mut self) {
        if self.request.is_in_flight() {
            leak(std::mem::take(&mut self.numbers));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_a_character() {
        let mut field = [7; 5];
        write_text("abcdä", &mut field);
        assert_eq!(read_text(&field), "abcd");
        write_text("x", &mut field);
        assert_eq!(
            (read_text(&field).as_str(), field),
            ("x", [b'x', 0, 0, 0, 0])
        );
    }
}
