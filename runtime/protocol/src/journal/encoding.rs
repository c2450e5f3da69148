//! Entries as bytes, and back, in the encoding of `postcard`.
//!
//! Reading believes nothing. What an entry says is checked by serde, or by what `entry` and `code` derive from it, and takes no more
//! memory than a small multiple of the bytes there are: postcard passes a list's length to serde only if that many bytes are left, and serde
//! makes room for 1 MiB at most before elements have come. `tests/forged_logs.rs` counts.

use postcard::Error;
use postcard::ser_flavors::Flavor;
use serde::Deserialize;

use super::entry::Entry;

/// Appends an entry.
pub fn encode(entry: &Entry<'_>, to: &mut Vec<u8>) {
    let encoded = postcard::serialize_with_flavor(entry, Appended(to));
    // Every list knows its length, and room for bytes does not run out: there is no other error.
    debug_assert!(encoded.is_ok(), "{encoded:?}");
}

/// The most bytes that postcard writes for a number.
const NUMBER_BYTES_MAX: usize = 10;

/// Puts bytes behind those of a vector. Postcard's own flavors take the vector away, and lose it with an error.
struct Appended<'a>(&'a mut Vec<u8>);

impl Flavor for Appended<'_> {
    type Output = ();

    #[inline(always)]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline(always)]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        // A call of `memcpy` for each number made an entry take twice as long.
        if bytes.len() <= NUMBER_BYTES_MAX {
            bytes.iter().for_each(|byte| self.0.push(*byte));
        } else {
            self.0.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Takes the next entry from the front of the bytes. If there is none, tells why, and leaves what was not read.
pub(super) fn decode<'a>(from: &mut &'a [u8]) -> Result<Entry<'a>, &'static str> {
    let mut bytes = postcard::Deserializer::from_bytes(from);
    let entry = Entry::deserialize(&mut bytes).map_err(|error| what(&error));
    *from = bytes.finalize().unwrap_or_default();
    entry
}

/// What is wrong with bytes, as [`LogError::Corrupt`](super::LogError) says it.
pub(super) fn what(error: &Error) -> &'static str {
    match error {
        Error::DeserializeUnexpectedEnd => "it ends within an entry",
        Error::DeserializeBadVarint => "a number is longer than it can be",
        Error::DeserializeBadUtf8 => "a name is no text",
        Error::DeserializeBadBool | Error::DeserializeBadOption => "a truth value is neither",
        // Postcard keeps no text of serde's errors, or of ours below.
        _ => "there is no such value",
    }
}
