//! What ranks tell each other of a call: a text, and its hash.

use std::fmt::{self, Display, Write};

use millstream_cluster::Announcement;

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
