//! The live slices and their places: pages, the slices on them, and the last occupant of every slot.

use std::collections::BTreeMap;
use std::ops::Range;

use millstream_protocol::{BoundSlice, PageId, SliceId};

use super::violation::{Bytes, Touch, Violation};

/// The last slice that occupied a slot.
#[derive(Clone)]
struct Occupant {
    generation: u32,
    /// The slice's bytes, while it is live.
    at: Option<Bytes>,
}

struct Page {
    bytes: u64,
    /// The live slices on the page: end and id, by their first byte.
    slices: BTreeMap<u64, (u64, SliceId)>,
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
        let slices = BTreeMap::new();
        self.pages.insert(page, Page { bytes, slices });
    }

    pub(super) fn page_freed(&mut self, page: PageId, violations: &mut Vec<Violation>) {
        match self.pages.remove(&page) {
            None => violations.push(Violation::PageFreedTwice { page }),
            Some(freed) => {
                for (_, slice) in freed.slices.into_values() {
                    violations.push(Violation::PageHasSlice { page, slice });
                }
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
                for (range, other) in page.overlaps(&at.range) {
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
                if !at.range.is_empty() {
                    page.slices.insert(at.range.start, (at.range.end, slice));
                }
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
        if let Some(page) = self.pages.get_mut(&at.page)
            && page
                .slices
                .get(&at.range.start)
                .is_some_and(|(_, lying)| *lying == slice)
        {
            page.slices.remove(&at.range.start);
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
            if page.slices.is_empty() {
                let (page, bytes) = (*id, page.bytes);
                violations.push(Violation::PageLeaked { page, bytes });
            }
            for (start, (end, slice)) in &page.slices {
                if !held(*slice) {
                    let bytes = Bytes {
                        page: *id,
                        range: *start..*end,
                    };
                    violations.push(Violation::SliceLeaked {
                        slice: *slice,
                        bytes,
                    });
                }
            }
        }
    }
}

impl Page {
    fn overlaps(&self, range: &Range<u64>) -> Vec<(Range<u64>, SliceId)> {
        let part = |(start, (end, slice)): (&u64, &(u64, SliceId))| {
            let shared = range.start.max(*start)..range.end.min(*end);
            (!shared.is_empty()).then_some((shared, *slice))
        };
        // Live slices do not overlap, so of the slices that begin before the range only the last can reach into it.
        let before = self.slices.range(..range.start).next_back();
        let within = self.slices.range(range.start..range.end.max(range.start));
        before.into_iter().chain(within).filter_map(part).collect()
    }
}
