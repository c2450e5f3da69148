//! The serde representation of what serde cannot derive: bytes, element types, and what must be checked.

use std::borrow::Cow;

use millstream_sync::slots::SlotId;
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::KernelId;
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
