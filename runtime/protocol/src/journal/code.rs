//! The serde representation of the protocol's types in entries: enums by a code, element types by name.

use std::borrow::Cow;
use std::sync::Arc;

use millstream_ir::DType;
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::access::Access;
use crate::kernel::{BindingSpec, ScalarSpec, Share, Signature};
use crate::launch::Pattern;
use crate::layout::Strided;
use crate::memory::AllocationMode;
use crate::priority::Priority;

// The code of a variant is its position here. The compiler requires that the variants match those of the original enum.

#[derive(Serialize, Deserialize)]
#[serde(remote = "Access")]
pub(super) enum AccessCode {
    Read,
    Write,
    ReadWrite,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Share")]
enum ShareCode {
    Whole,
    Chunks,
    Atomic,
    Raw,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Priority")]
pub(super) enum PriorityCode {
    Low,
    Normal,
    High,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AllocationMode")]
enum ModeCode {
    Automatic,
    Persistent,
    Dedicated,
}

pub(super) mod mode {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Mode(#[serde(with = "ModeCode")] AllocationMode);

    pub(in super::super) fn serialize<S: Serializer>(
        mode: &Option<AllocationMode>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        mode.map(Mode).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<AllocationMode>, D::Error> {
        let mode = Option::<Mode>::deserialize(from)?;
        Ok(mode.map(|Mode(mode)| mode))
    }
}

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

/// Signatures without the places of scalars, which follow from their types.
pub(super) mod signature {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Binding(
        Arc<str>,
        #[serde(with = "AccessCode")] Access,
        #[serde(with = "dtype")] DType,
        #[serde(with = "ShareCode")] Share,
    );

    #[derive(Serialize, Deserialize)]
    struct Scalar(Arc<str>, #[serde(with = "dtype")] DType);

    pub(in super::super) fn serialize<S: Serializer>(
        signature: &Signature,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let binding =
            |spec: &BindingSpec| Binding(spec.name.clone(), spec.access, spec.dtype, spec.share);
        let bindings: Vec<Binding> = signature.bindings().iter().map(binding).collect();
        let scalar = |spec: &ScalarSpec| Scalar(spec.name.clone(), spec.dtype);
        let scalars: Vec<Scalar> = signature.scalars().iter().map(scalar).collect();
        (bindings, scalars, signature.aliases()).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Signature, D::Error> {
        let (bindings, scalars, aliases) = <(Vec<Binding>, Vec<Scalar>, bool)>::deserialize(from)?;
        let mut signature = Signature::default();
        for Binding(name, access, dtype, share) in bindings {
            signature.push_binding(BindingSpec {
                name,
                access,
                dtype,
                share,
            });
        }
        signature.push_scalars(scalars.into_iter().map(|Scalar(name, dtype)| (name, dtype)));
        if aliases {
            signature.set_may_alias();
        }
        Ok(signature)
    }
}

/// Element types by name: their order, in which scalars are packed, may change.
mod dtype {
    use super::*;

    pub(super) fn serialize<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(dtype.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        let dtype = DType::from_name(<&str>::deserialize(from)?);
        dtype.ok_or_else(|| de::Error::custom("unknown element type"))
    }
}
