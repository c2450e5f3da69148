//! Encoding and decoding of entries, with `postcard`.
//!
//! Decoding trusts nothing. Serde, and what is derived from it here and in `entry`, check the values of an entry. The
//! memory for an entry is a small multiple of its bytes: postcard passes the length of a list to serde only if as
//! many bytes are left, and serde reserves at most 1 MiB before it has elements. `tests/forged_logs.rs` measures it.
//!
//! An encoder of our own writes as many bytes and takes 47 ns for a launch with three bindings instead of 108 (two
//! cores, in use), in 210 more lines whose format we would have to document and version. The
//! frame of a file is not postcard's: its CRC covers one value in memory, and a log is read from a stream.

use std::borrow::Cow;
use std::fmt;

use millstream_ir::DType;
use millstream_sync::slots::SlotId;
use postcard::Error;
use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::entry::Entry;
use crate::id::KernelId;
use crate::kernel::Signature;
use crate::launch::Pattern;
use crate::layout::Strided;

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

// The serde representation of what serde cannot derive: bytes, element types, and what must be checked.

/// Bytes as one run, borrowed from the input.
pub(super) mod bytes {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        bytes: &[u8],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Cow<'de, [u8]>, D::Error> {
        <&[u8]>::deserialize(from).map(Cow::Borrowed)
    }
}

/// Element types by name: their order, in which scalars are packed, may change.
pub(crate) mod dtype {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(dtype.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        let dtype = DType::from_name(<&str>::deserialize(from)?);
        dtype.ok_or_else(|| de::Error::custom("unknown element type"))
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (bindings, scalars, may_alias) = Deserialize::deserialize(from)?;
        Ok(Self::packed(bindings, scalars, may_alias))
    }
}

/// The slot of a kernel: at each position of a log it has one kernel, so the generation is not logged.
impl Serialize for KernelId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.index().serialize(to)
    }
}

impl<'de> Deserialize<'de> for KernelId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let index = Deserialize::deserialize(from)?;
        let generation = 0;
        Ok(Self(SlotId { index, generation }))
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.width, self.value).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Deserialize::deserialize(from)? {
            (width @ (1 | 2 | 4 | 8), value) => Ok(Self { value, width }),
            _ => Err(de::Error::custom(
                "the width of a pattern must be 1, 2, 4 or 8",
            )),
        }
    }
}

impl Serialize for Strided {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.element_bytes, &self.shape[..], &self.strides[..]).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Strided {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (bytes, shape, strides) = <(u64, Vec<u64>, Vec<u64>)>::deserialize(from)?;
        match Self::new(&shape, &strides, bytes) {
            Ok(layout) if bytes > 0 => Ok(layout),
            _ => Err(de::Error::custom("a layout exceeds the address space")),
        }
    }
}

// A 64-bit digest of bytes, for comparing runs. It does not protect against forgery.

/// A digest (FNV-1a, 64 bits) of bytes in order: equal bytes give equal digests on every machine.
///
/// ```
/// use millstream_protocol::journal::Digest;
/// let whole = Digest::default().with(b"two parts");
/// assert_eq!(Digest::default().with(b"two ").with(b"parts"), whole);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Returns the digest of the bytes so far followed by these.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }

    /// Returns the digest as a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}
