//! A 64-bit digest of bytes, for comparing runs. It does not protect against forgery.

use std::fmt;

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
