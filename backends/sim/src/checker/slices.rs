//! The live slices and their places: pages, the slices on them, and the last occupant of every slot.

use std::collections::BTreeMap;
use std::ops::Range;

use millstream_protocol::{BoundSlice, PageId, SliceId};

use super::violation::{Bytes, Touch, Violation};
use crate::ranges::RangeMap;

/// The last slice that occupied a slot.
#[derive(Clone)]
struct Occupant {
    generation: u32,
    /// The slice's bytes, while it is live.
    at: Option<Bytes>,
}

struct Page {
    bytes: u64,
    /// The live slice over each byte.
    slices: RangeMap<Option<SliceId>>,
}

/// The live pages and slices.
#[derive(Default)]
pub(super) struct Slices {
    pages: BTreeMap<PageId, Page>,
    /// By slot, so this is never larger than the table of handles (I12).
    slots: BTreeMap<u32, Occupant>,
}

impl Slices {
    pub(super) fn page_allocated(&mut self, page: PageId, bytes: u64) {
        let slices = RangeMap::default();
        self.pages.insert(page, Page { bytes, slices });
    }

    pub(super) fn page_freed(&mut self, page: PageId, violations: &mut Vec<Violation>) {
        match self.pages.remove(&page) {
            None => violations.push(Violation::PageFreedTwice { page }),
            Some(freed) => {
                let slices = freed.slices(0..u64::MAX);
                violations.extend(slices.map(|(_, slice)| Violation::PageHasSlice { page, slice }));
            }
        }
    }

    pub(super) fn reserved(&mut self, slice: SliceId, at: Bytes, violations: &mut Vec<Violation>) {
        let occupant = self.slots.get(&slice.index());
        // Generations wrap, so only an equal one is certainly wrong.
        if occupant.is_some_and(|last| last.at.is_some() || last.generation == slice.generation()) {
            violations.push(Violation::ReservedTwice { slice });
        }
        match self.pages.get_mut(&at.page) {
            Some(page) if at.range.end <= page.bytes => {
                for (range, other) in page.slices(at.range.clone()) {
                    let bytes = Bytes {
                        page: at.page,
                        range,
                    };
                    violations.push(Violation::Overlap {
                        slice,
                        other,
                        bytes,
                    });
                }
                let range = at.range.clone();
                page.slices.update(range, |lying| *lying = Some(slice));
            }
            _ => violations.push(Violation::OutsidePage {
                slice,
                bytes: at.clone(),
            }),
        }
        let (generation, at) = (slice.generation(), Some(at));
        self.slots
            .insert(slice.index(), Occupant { generation, at });
    }

    pub(super) fn released(&mut self, slice: SliceId, violations: &mut Vec<Violation>) {
        let occupant = self.slots.get_mut(&slice.index());
        let ended = occupant
            .filter(|occupant| occupant.generation == slice.generation())
            .and_then(|occupant| occupant.at.take());
        let Some(at) = ended else {
            return violations.push(Violation::ReleasedTwice { slice });
        };
        if let Some(page) = self.pages.get_mut(&at.page) {
            // Another slice may have been reserved over some of the bytes.
            page.slices.update(at.range, |lying| {
                lying.take_if(|lying| *lying == slice);
            });
        }
    }

    /// Checks that a binding lies within its slice, and that the slice is live.
    pub(super) fn check_use(
        &self,
        bound: &BoundSlice,
        bytes: Bytes,
        user: &Touch,
    ) -> Option<Violation> {
        let user = || user.clone();
        let Some(occupant) = self.slots.get(&bound.slice.index()) else {
            return Some(Violation::NeverReserved { user: user() });
        };
        if occupant.generation != bound.slice.generation() {
            // The slot went to another slice, or has not reached this generation yet.
            let older = bound.slice.generation() < occupant.generation;
            return Some(match older {
                true => Violation::UseAfterRelease { user: user() },
                false => Violation::NeverReserved { user: user() },
            });
        }
        let Some(at) = &occupant.at else {
            return Some(Violation::UseAfterRelease { user: user() });
        };
        let starts = at.range.start + bound.slice_offset == bytes.range.start;
        if at.page == bytes.page && starts && bytes.range.end <= at.range.end {
            return None;
        }
        Some(Violation::OutsideSlice {
            user: user(),
            bytes,
        })
    }

    /// Reports what is still live after the device closed. `held` returns whether a slice has a handle.
    pub(super) fn leaks(&self, held: impl Fn(SliceId) -> bool, violations: &mut Vec<Violation>) {
        for (id, page) in &self.pages {
            let mut slices = page.slices(0..u64::MAX).peekable();
            if slices.peek().is_none() {
                let (page, bytes) = (*id, page.bytes);
                violations.push(Violation::PageLeaked { page, bytes });
            }
            for (range, slice) in slices.filter(|(_, slice)| !held(*slice)) {
                let bytes = Bytes { page: *id, range };
                violations.push(Violation::SliceLeaked { slice, bytes });
            }
        }
    }
}

impl Page {
    /// Iterates over the live slices within a range, each with its bytes there.
    fn slices(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, SliceId)> {
        let runs = self.slices.iter(range);
        runs.filter_map(|(part, slice)| Some((part, (*slice)?)))
    }
}
