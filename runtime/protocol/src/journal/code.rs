//! The serde representation of what serde cannot derive: bytes, element types, and what must be checked.

use std::borrow::Cow;

use millstream_ir::DType;
use millstream_sync::slots::SlotId;
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::KernelId;
use crate::kernel::{Signature, SignatureFlags};
use crate::launch::Pattern;
use crate::layout::Strided;

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

// The flags are a byte, which was the one flag `may_alias` before there was a second.
impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let flags = self.flags();
        let flags = u8::from(flags.may_alias) | u8::from(flags.has_words) << 1;
        (self.bindings(), self.scalars(), flags).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (bindings, scalars, flags): (_, _, u8) = Deserialize::deserialize(from)?;
        if flags > 3 {
            return Err(de::Error::custom("unknown flags of a signature"));
        }
        let flags = SignatureFlags {
            may_alias: flags & 1 != 0,
            has_words: flags & 2 != 0,
        };
        Ok(Self::packed(bindings, scalars, flags))
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
