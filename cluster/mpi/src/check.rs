//! What the ranks compare before data moves: whether they called the same.

use millstream_cluster::Announcement;

use crate::raw::{Comm, MpiError, Request, leak};

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

/// FNV-1a, which is the same in every build.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A comparison in flight.
///
/// All ranks take the greatest of their hash and of its complement. Both agree if and only if all hashes are equal, so
/// one small reduction is enough, and every rank comes to the same conclusion.
pub(crate) struct Check {
    request: Request,
    /// The own numbers, and those of all. MPI accesses them until the request has completed.
    numbers: Box<[u64; 4]>,
}

impl Check {
    pub(crate) fn start(comm: Comm, description: &str) -> Result<Self, MpiError> {
        let hash = hash(description);
        let mut numbers = Box::new([hash, !hash, 0, 0]);
        let (own, all) = numbers.split_at_mut(2);
        // SAFETY: the check keeps the numbers until the request has completed.
        let request = unsafe { Request::start_greatest(comm, own, all) }?;
        Ok(Self { request, numbers })
    }

    /// Returns whether all ranks called the same, once it is known.
    pub(crate) fn outcome(&mut self) -> Result<Option<bool>, MpiError> {
        let done = self.request.has_completed()?;
        let [_, _, greatest, complement] = *self.numbers;
        Ok(done.then_some(greatest == !complement))
    }

    /// Waits for the end of the request, with or without an error.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.request.has_completed().unwrap_or(true)
    }
}

impl Drop for Check {
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
