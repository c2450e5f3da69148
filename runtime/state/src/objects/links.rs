//! Links from slots of the shared table to objects of the device thread.
//!
//! Clients take slots without the device, so an id exists before the device has seen it. [`Links`] maps a slot and its
//! generation to the key of the object in its slab.

use millstream_sync::slots::SlotId;

/// The kind of object that a slot stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A slice.
    Slice = 1,
    /// A stream.
    Stream = 2,
    /// A kernel, a recording or a client.
    Object = 3,
}

/// The number of low bits of a link that are the key: as many as handles need, of which there are fewer than 2^28.
const KEY_BITS: u32 = 28;
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;

/// A link, from high to low bits: the generation of the slot, the kind and the key. So one comparison checks generation
/// and kind. Zero is no link.
#[derive(Clone, Copy, Default)]
struct Link(u64);

impl Link {
    /// Returns the part of a link above its key.
    #[inline(always)]
    fn head(generation: u32, kind: Kind) -> u64 {
        u64::from(generation) << 4 | kind as u64
    }

    fn new(generation: u32, kind: Kind, key: u32) -> Self {
        debug_assert!(u64::from(key) <= KEY_MASK, "a key has {KEY_BITS} bits");
        Self(Self::head(generation, kind) << KEY_BITS | u64::from(key))
    }

    #[inline(always)]
    fn key(self) -> u32 {
        (self.0 & KEY_MASK) as u32
    }

    fn kind(self) -> Option<Kind> {
        let kinds = [Kind::Slice, Kind::Stream, Kind::Object];
        let code = self.0 >> KEY_BITS & 0xf;
        kinds.into_iter().find(|kind| *kind as u64 == code)
    }
}

/// The links of all slots.
#[derive(Default)]
pub(super) struct Links {
    /// By slot index.
    links: Vec<Link>,
}

impl Links {
    /// Links a slot to the object with this key.
    pub(super) fn set(&mut self, slot: SlotId, kind: Kind, key: u32) {
        let index = slot.index as usize;
        if self.links.len() <= index {
            self.links.resize(index + 1, Link::default());
        }
        self.links[index] = Link::new(slot.generation, kind, key);
    }

    /// Returns the key of the object that a slot of this generation stands for, if it is of this kind.
    #[inline(always)]
    pub(super) fn get(&self, slot: SlotId, kind: Kind) -> Option<u32> {
        let link = *self.links.get(slot.index as usize)?;
        (link.0 >> KEY_BITS == Link::head(slot.generation, kind)).then(|| link.key())
    }

    /// Returns the kind and the key of the object that the slot with this index stands for.
    pub(super) fn at(&self, index: u32) -> Option<(Kind, u32)> {
        let link = *self.links.get(index as usize)?;
        Some((link.kind()?, link.key()))
    }

    /// Removes the link of a slot.
    pub(super) fn take(&mut self, index: u32) {
        if let Some(link) = self.links.get_mut(index as usize) {
            *link = Link::default();
        }
    }
}
