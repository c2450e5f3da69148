//! Entries as bytes, and back, in the encoding of `postcard`; and how serde sees the types of the protocol in them.
//!
//! Reading believes nothing. What an entry says is checked here or by serde, and takes no more memory than a small
//! multiple of the bytes there are: postcard tells serde a list's length only if so many bytes are left, and serde
//! makes room for 1 MiB at most before elements have come. `tests/forged_logs.rs` counts.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use millstream_ir::DType;
use postcard::Error;
use postcard::ser_flavors::Flavor;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::entry::{Entry, Step, Work};
use crate::access::Access;
use crate::kernel::{BindingSpec, ScalarSpec, Share, Signature};
use crate::launch::Pattern;
use crate::layout::Strided;
use crate::memory::AllocationMode;
use crate::priority::Priority;

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

// What has a code is written as its place here. The compiler requires that none is left out, and that each is there.

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

/// Bytes in one piece, and read where they are.
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

/// Work that a recording may have: without bytes of its own, or another recording.
pub(super) fn recorded<'de, D: Deserializer<'de>>(from: D) -> Result<Work<'static>, D::Error> {
    Ok(match Work::deserialize(from)? {
        Work::Launch {
            kernel,
            count,
            scalars,
            metadata,
        } => Work::Launch {
            kernel,
            count,
            scalars,
            metadata,
        },
        Work::Copy => Work::Copy,
        Work::Fill(pattern) => Work::Fill(pattern),
        Work::Gap(name) => Work::Gap(name),
        Work::Upload { .. } | Work::Readback { .. } | Work::Mark | Work::Replay { .. } => {
            return Err(de::Error::custom("a task that is not recorded"));
        }
    })
}

/// The tasks of a recording. A launch without anything takes 7 bytes of a log and 120 in memory, so the list grows by
/// an eighth: while one that doubles is moved, there would be three times what it had.
pub(super) fn steps<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Step>, D::Error> {
    struct Steps;

    impl<'de> Visitor<'de> for Steps {
        type Value = Vec<Step>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the tasks of a recording")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Step>, A::Error> {
            let mut steps: Vec<Step> = Vec::new();
            while let Some(step) = seq.next_element::<Step>()? {
                let least = match step.work {
                    Work::Copy => 2,
                    Work::Fill(_) => 1,
                    _ => 0,
                };
                if step.parts.len() < least {
                    return Err(de::Error::custom("a task without what it works on"));
                }
                if steps.len() == steps.capacity() {
                    steps.reserve_exact(4 + steps.len() / 8);
                }
                steps.push(step);
            }
            Ok(steps)
        }
    }
    from.deserialize_seq(Steps)
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
            _ => Err(de::Error::custom("a pattern of no width")),
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
            _ => Err(de::Error::custom("a layout larger than any memory")),
        }
    }
}

/// Signatures, without the places of scalars: those follow from their types.
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

/// The type of elements, by its name: their order is that in which scalars are packed, and may change.
mod dtype {
    use super::*;

    pub(super) fn serialize<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(dtype.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        let dtype = DType::from_name(<&str>::deserialize(from)?);
        dtype.ok_or_else(|| de::Error::custom("no such element type"))
    }
}
