//! Encoding and decoding of entries, with `postcard`.
//!
//! Decoding trusts nothing. Serde, and what `entry` and `code` derive from it, check the values of an entry. The
//! memory for an entry is a small multiple of its bytes: postcard passes the length of a list to serde only if as
//! many bytes are left, and serde reserves at most 1 MiB before it has elements. `tests/forged_logs.rs` measures it.
//!
//! An encoder of our own writes as many bytes and takes 47 ns for a launch with three bindings instead of 108 (two
//! cores, in use), in 210 more lines whose format we would have to document and version. The
//! frame of a file is not postcard's: its CRC covers one value in memory, and a log is read from a stream.

use postcard::Error;
use postcard::ser_flavors::Flavor;
use serde::Deserialize;

use super::entry::Entry;

/// Appends an entry to `to`.
pub fn encode(entry: &Entry<'_>, to: &mut Vec<u8>) {
    let encoded = postcard::serialize_with_flavor(entry, Appended(to));
    // The lengths of all lists are known, and the output grows as needed: there is no other error.
    debug_assert!(encoded.is_ok(), "{encoded:?}");
}

/// The maximum number of bytes that postcard writes for a number.
const NUMBER_BYTES_MAX: usize = 10;

/// Appends bytes to a vector. Postcard's own flavors take the vector by value, and drop it after an error.
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
        // A call of `memcpy` for each number doubled the time for an entry.
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

/// Takes the next entry from the front of the bytes. On an error, returns the reason and leaves the bytes that were
/// not read.
pub(super) fn decode<'a>(from: &mut &'a [u8]) -> Result<Entry<'a>, &'static str> {
    let mut bytes = postcard::Deserializer::from_bytes(from);
    let entry = Entry::deserialize(&mut bytes).map_err(|error| reason(&error));
    *from = bytes.finalize().unwrap_or_default();
    entry
}

/// Returns the reason of a decoding error, for [`LogError::Corrupt`](super::LogError).
pub(super) fn reason(error: &Error) -> &'static str {
    match error {
        Error::DeserializeUnexpectedEnd => "the bytes end within an entry",
        Error::DeserializeBadVarint => "a number has too many bytes",
        Error::DeserializeBadUtf8 => "a name is not valid UTF-8",
        Error::DeserializeBadBool | Error::DeserializeBadOption => "a flag is neither 0 nor 1",
        // Postcard drops the messages of serde's errors, and of ours.
        _ => "a value is invalid",
    }
}
