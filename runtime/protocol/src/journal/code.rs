//! Entries as bytes, and back. Codes are only ever added, at the end of their list; a change of what is there
//! needs another version of the format.

use std::borrow::Cow;

use millstream_ir::DType;

use super::entry::{Count, Entry, Part, Step, Work};
use super::wire::{Bytes, Garbled, put, put_one_of, put_text};
use crate::access::Access;
use crate::kernel::{BindingSpec, Share, Signature};
use crate::launch::Pattern;
use crate::layout::Strided;
use crate::memory::AllocationMode;
use crate::priority::Priority;
use crate::recording::WordSlot;

const ACCESSES: [Access; 3] = [Access::Read, Access::Write, Access::ReadWrite];
const SHARES: [Share; 4] = [Share::Whole, Share::Chunks, Share::Atomic, Share::Raw];
const PRIORITIES: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];
const MODES: [Option<AllocationMode>; 4] = [
    None,
    Some(AllocationMode::Automatic),
    Some(AllocationMode::Persistent),
    Some(AllocationMode::Dedicated),
];
/// Their numbers in a log. It is not `DType::ALL`, whose order may change: a log's may not without a new version.
const DTYPES: [DType; 13] = [
    DType::F64,
    DType::I64,
    DType::U64,
    DType::F32,
    DType::I32,
    DType::U32,
    DType::F16,
    DType::Bf16,
    DType::I16,
    DType::U16,
    DType::I8,
    DType::U8,
    DType::Bool,
];

/// The fewest bytes that things in lists take: what their fields take, a number being a byte at least.
mod least {
    pub(super) const WORD: usize = 1;
    pub(super) const AXIS: usize = 2;
    /// Slice, offset, length, access.
    pub(super) const PART: usize = 4;
    /// One byte that says that there is none; and the part that it is of follows.
    pub(super) const LAYOUT: usize = 1 + PART;
    /// A word, a slot.
    pub(super) const SLOT: usize = 2;
    /// A fill and its part: what else is recorded takes more.
    pub(super) const STEP: usize = 4 + PART;
    /// The length of a name, access, type, share.
    pub(super) const BINDING: usize = 4;
    /// The length of a name, type.
    pub(super) const SCALAR: usize = 2;
}

/// Appends an entry.
pub fn encode(entry: &Entry<'_>, to: &mut Vec<u8>) {
    match entry {
        Entry::Stream {
            client,
            priority,
            weight,
        } => {
            to.push(0);
            put(to, u64::from(*client));
            put_one_of(to, &PRIORITIES, priority);
            put(to, u64::from(*weight));
        }
        Entry::Kernel { name, signature } => {
            to.push(1);
            put_text(to, name);
            put_signature(to, signature);
        }
        Entry::Recording { steps } => {
            // A recording without slots is written as it was when there were none.
            let has_slots = steps.iter().any(|step| !step.slots.is_empty());
            to.push(if has_slots { 8 } else { 2 });
            put(to, steps.len() as u64);
            for step in steps {
                put_work(to, &step.work);
                put_parts(to, &step.parts);
                if has_slots {
                    put_slots(to, &step.slots);
                }
            }
        }
        Entry::Parameter { bytes } => {
            to.push(7);
            put(to, *bytes);
        }
        Entry::Slice {
            stream,
            bytes,
            mode,
        } => {
            to.push(3);
            put(to, u64::from(*stream));
            put(to, *bytes);
            put_one_of(to, &MODES, mode);
        }
        Entry::Task {
            stream,
            work,
            parts,
        } => {
            to.push(4);
            put(to, u64::from(*stream));
            put_work(to, work);
            put_parts(to, parts);
        }
        Entry::Dropped { object } => {
            to.push(5);
            put(to, u64::from(*object));
        }
        Entry::Withdrawn { entry, cancelled } => {
            to.push(6);
            put(to, *entry);
            to.push(u8::from(*cancelled));
        }
    }
}

/// Takes the next entry.
pub(super) fn decode<'a>(from: &mut Bytes<'a>) -> Result<Entry<'a>, Garbled> {
    Ok(match from.byte()? {
        0 => Entry::Stream {
            client: from.small()?,
            priority: from.one_of(&PRIORITIES, "there is no such priority")?,
            weight: from.small()?,
        },
        1 => Entry::Kernel {
            name: from.text()?,
            signature: signature(from)?,
        },
        code @ (2 | 8) => {
            let step = |from: &mut Bytes<'_>| {
                Ok(Step {
                    work: recorded(from)?,
                    parts: from.list(least::PART, part)?,
                    slots: match code {
                        8 => from.list(least::SLOT, slot)?,
                        _ => Vec::new(),
                    },
                })
            };
            let steps = from.list(least::STEP, step)?;
            Entry::Recording { steps }
        }
        3 => Entry::Slice {
            stream: from.small()?,
            bytes: from.number()?,
            mode: from.one_of(&MODES, "there is no such allocation mode")?,
        },
        4 => Entry::Task {
            stream: from.small()?,
            work: work(from)?,
            parts: from.list(least::PART, part)?,
        },
        5 => Entry::Dropped {
            object: from.small()?,
        },
        6 => Entry::Withdrawn {
            entry: from.number()?,
            cancelled: from.flag()?,
        },
        7 => Entry::Parameter {
            bytes: from.number()?,
        },
        _ => return from.garbled("there is no such entry"),
    })
}

fn put_work(to: &mut Vec<u8>, work: &Work<'_>) {
    match work {
        Work::Launch {
            kernel,
            count,
            scalars,
            metadata,
        } => {
            to.push(0);
            put(to, u64::from(*kernel));
            match count {
                Count::Static(cubes) => {
                    to.push(0);
                    cubes.iter().for_each(|cubes| put(to, u64::from(*cubes)));
                }
                Count::Dynamic => to.push(1),
            }
            put(to, scalars.len() as u64);
            scalars.iter().for_each(|word| put(to, *word));
            put(to, metadata.len() as u64);
            metadata.iter().for_each(|word| put(to, u64::from(*word)));
        }
        Work::Upload { bytes, layout } => {
            to.push(1);
            put(to, bytes.len() as u64);
            to.extend_from_slice(bytes);
            put_layout(to, layout.as_deref());
        }
        Work::Readback { tag, layouts } => {
            to.push(2);
            to.push(u8::from(tag.is_some()));
            tag.iter().for_each(|tag| put(to, *tag));
            put(to, layouts.len() as u64);
            layouts
                .iter()
                .for_each(|layout| put_layout(to, layout.as_deref()));
        }
        Work::Copy => to.push(3),
        Work::Fill(pattern) => {
            to.extend_from_slice(&[4, pattern.width]);
            put(to, pattern.value);
        }
        Work::Mark => to.push(5),
        Work::Replay { recording, words } => {
            to.push(if words.is_empty() { 6 } else { 8 });
            put(to, u64::from(*recording));
            if !words.is_empty() {
                put(to, words.len() as u64);
                words.iter().for_each(|word| put(to, *word));
            }
        }
        Work::Gap(name) => {
            to.push(7);
            put_text(to, name);
        }
    }
}

fn work<'a>(from: &mut Bytes<'a>) -> Result<Work<'a>, Garbled> {
    Ok(match from.byte()? {
        0 => Work::Launch {
            kernel: from.small()?,
            count: match from.flag()? {
                false => Count::Static([from.small()?, from.small()?, from.small()?]),
                true => Count::Dynamic,
            },
            scalars: from.list(least::WORD, Bytes::number)?,
            metadata: from.list(least::WORD, Bytes::small)?,
        },
        1 => {
            let count = from.count(1)?;
            Work::Upload {
                bytes: Cow::Borrowed(from.take(count)?),
                layout: layout(from)?,
            }
        }
        2 => Work::Readback {
            tag: from.flag()?.then(|| from.number()).transpose()?,
            layouts: from.list(least::LAYOUT, layout)?,
        },
        3 => Work::Copy,
        4 => match from.byte()? {
            width @ (1 | 2 | 4 | 8) => Work::Fill(Pattern {
                width,
                value: from.number()?,
            }),
            _ => return from.garbled("a pattern has a width that none has"),
        },
        5 => Work::Mark,
        6 => Work::Replay {
            recording: from.small()?,
            words: Vec::new(),
        },
        7 => Work::Gap(from.text()?),
        8 => Work::Replay {
            recording: from.small()?,
            words: from.list(least::WORD, Bytes::number)?,
        },
        _ => return from.garbled("there is no such task"),
    })
}

/// Work that a recording may have: without bytes of its own, or another recording.
fn recorded(from: &mut Bytes<'_>) -> Result<Work<'static>, Garbled> {
    Ok(match work(from)? {
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
            return from.garbled("a recording has a task that is not recorded");
        }
    })
}

fn put_parts(to: &mut Vec<u8>, parts: &[Part]) {
    put(to, parts.len() as u64);
    for part in parts {
        put(to, u64::from(part.slice));
        put(to, part.offset);
        put(to, part.len);
        put_one_of(to, &ACCESSES, &part.access);
    }
}

fn part(from: &mut Bytes<'_>) -> Result<Part, Garbled> {
    Ok(Part {
        slice: from.small()?,
        offset: from.number()?,
        len: from.number()?,
        access: from.one_of(&ACCESSES, "there is no such access")?,
    })
}

fn put_slots(to: &mut Vec<u8>, slots: &[WordSlot]) {
    put(to, slots.len() as u64);
    for slot in slots {
        put(to, u64::from(slot.word));
        put(to, u64::from(slot.slot));
    }
}

fn slot(from: &mut Bytes<'_>) -> Result<WordSlot, Garbled> {
    Ok(WordSlot {
        word: from.small()?,
        slot: from.small()?,
    })
}

fn put_layout(to: &mut Vec<u8>, layout: Option<&Strided>) {
    let Some(layout) = layout else {
        return to.push(0);
    };
    to.push(1);
    put(to, layout.element_bytes);
    put(to, layout.shape.len() as u64);
    for (axis, stride) in layout.shape.iter().zip(&layout.strides) {
        put(to, *axis);
        put(to, *stride);
    }
}

fn layout(from: &mut Bytes<'_>) -> Result<Option<Box<Strided>>, Garbled> {
    if !from.flag()? {
        return Ok(None);
    }
    let element_bytes = from.number()?;
    let axes = from.list(least::AXIS, |from| Ok((from.number()?, from.number()?)))?;
    let (shape, strides): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
    match Strided::new(&shape, &strides, element_bytes) {
        Ok(layout) if element_bytes > 0 => Ok(Some(Box::new(layout))),
        _ => from.garbled("a layout is larger than any memory"),
    }
}

fn put_signature(to: &mut Vec<u8>, signature: &Signature) {
    put(to, signature.bindings().len() as u64);
    for binding in signature.bindings() {
        put_text(to, &binding.name);
        put_one_of(to, &ACCESSES, &binding.access);
        put_one_of(to, &DTYPES, &binding.dtype);
        put_one_of(to, &SHARES, &binding.share);
    }
    put(to, signature.scalars().len() as u64);
    for scalar in signature.scalars() {
        put_text(to, &scalar.name);
        put_one_of(to, &DTYPES, &scalar.dtype);
    }
    to.push(u8::from(signature.aliases()));
}

fn signature(from: &mut Bytes<'_>) -> Result<Signature, Garbled> {
    let mut signature = Signature::default();
    for _ in 0..from.count(least::BINDING)? {
        signature.push_binding(BindingSpec {
            name: from.text()?,
            access: from.one_of(&ACCESSES, "there is no such access")?,
            dtype: from.one_of(&DTYPES, "there is no such element type")?,
            share: from.one_of(&SHARES, "there is no such share")?,
        });
    }
    let scalar = |from: &mut Bytes<'_>| {
        let name = from.text()?;
        Ok((name, from.one_of(&DTYPES, "there is no such element type")?))
    };
    signature.push_scalars(from.list(least::SCALAR, scalar)?);
    if from.flag()? {
        signature.set_may_alias();
    }
    Ok(signature)
}
