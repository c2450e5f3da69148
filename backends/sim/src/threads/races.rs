//! Finds races between the threads of a launch.
//!
//! # Intervals
//! Barriers divide the run of a cube into *intervals*, which are numbered through the whole launch, since cubes run one
//! after the other. A launch has nothing that orders two cubes. So an access races with a conflicting earlier one
//! - of another cube: its interval comes before the first one of the cube that runs;
//! - of another thread in the same interval.
//!
//! Shared arrays are others in each cube, so the first case does not concern them.
//!
//! # State
//! For each element and each kind of access, [`Recent`] keeps the last access and, if there is one, an earlier access
//! that would race with the last one if their kinds conflicted: of another cube, or of another thread of the same
//! interval. These two suffice: if any access of that kind races with a later one, then one of the two does. Say that
//! the later one is of thread `t`.
//! - If it is in a new cube, the last access races with it.
//! - If the last access is of an earlier interval of the same cube, so are all others of this cube, and none of them races.
//!   One of another cube races, and it is kept.
//! - If the last access is of the same interval and of another thread than `t`, it races. If it is of `t`, another thread's
//!   access of this interval races, and one is kept unless one of another cube is, which races, too.
//!
//! The model `recent_accesses_find_every_race` compares this with the list of all accesses.

use std::num::NonZeroU64;
use std::ops::Range;

use super::memory::Buffer;
use super::mistake::AccessKind;

/// An access: by whom, when, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Access {
    interval: NonZeroU64,
    /// The index of the thread in its cube.
    pub(super) thread: u32,
    /// The index of the step.
    pub(super) step: u32,
}

impl Access {
    /// Whether it races with a later access of a kind that conflicts. `cube` is the first interval of the later one's cube.
    fn races(self, later: Self, cube: NonZeroU64) -> bool {
        self.interval < cube || self.interval == later.interval && self.thread != later.thread
    }
}

/// The last access of a kind, and another one: see the module.
#[derive(Clone, Copy, Default)]
struct Recent {
    last: Option<Access>,
    other: Option<Access>,
}

impl Recent {
    fn all(self) -> impl Iterator<Item = Access> {
        [self.other, self.last].into_iter().flatten()
    }

    /// Returns an access that races with a later one of a kind that conflicts.
    fn racing(self, later: Access, cube: NonZeroU64) -> Option<Access> {
        self.all().find(|access| access.races(later, cube))
    }

    fn record(&mut self, access: Access, cube: NonZeroU64) {
        *self = Self {
            other: self.racing(access, cube),
            last: Some(access),
        };
    }
}

/// The accesses to an element, by kind, in the order of [`AccessKind::ALL`].
#[derive(Clone, Copy, Default)]
struct Element([Recent; AccessKind::ALL.len()]);

impl Element {
    /// Returns an earlier access that races with this one. If there is none, records this one.
    fn access(
        &mut self,
        kind: AccessKind,
        access: Access,
        cube: NonZeroU64,
    ) -> Option<(AccessKind, Access)> {
        for (other, recent) in AccessKind::ALL.into_iter().zip(&mut self.0) {
            if other.conflicts(kind)
                && let Some(found) = recent.racing(access, cube)
            {
                return Some((other, found));
            }
        }
        for (other, recent) in AccessKind::ALL.into_iter().zip(&mut self.0) {
            if other == kind {
                recent.record(access, cube);
            }
        }
        None
    }
}

impl Element {
    /// Returns whether an access may have stored the element in this interval or a later one.
    fn is_stored_since(&self, interval: NonZeroU64) -> bool {
        let kinds = AccessKind::ALL.into_iter().zip(&self.0);
        let mut stores = kinds.filter(|(kind, _)| !kind.only_loads());
        stores.any(|(_, recent)| recent.last.is_some_and(|last| last.interval >= interval))
    }
}

/// Elements of a page. A page is allocated at the first access to one of them.
const PAGE: usize = 256;

/// The elements of a buffer, or of several that overlap.
struct Region {
    bytes: Range<usize>,
    /// The size of the smallest element, and the distance of two addresses at which accesses are recorded. Elements are
    /// aligned, so two that overlap have an address in common.
    grain: usize,
    pages: Vec<Option<Box<[Element]>>>,
}

impl Region {
    fn element(&mut self, address: usize) -> &mut Element {
        let index = (address - self.bytes.start) / self.grain;
        let new = || vec![Element::default(); PAGE].into_boxed_slice();
        &mut self.pages[index / PAGE].get_or_insert_with(new)[index % PAGE]
    }
}

/// Returns the regions of these buffers, and the region of each buffer.
fn regions(buffers: &[Buffer]) -> (Vec<Region>, Vec<usize>) {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|param| buffers[*param].address(0));
    let (mut regions, mut of) = (Vec::<Region>::new(), vec![0; buffers.len()]);
    for param in order {
        let (buffer, grain) = (buffers[param], buffers[param].element_bytes());
        let bytes = buffer.address(0)..buffer.address(buffer.len);
        match regions.last_mut() {
            Some(last) if bytes.start < last.bytes.end => {
                last.bytes.end = last.bytes.end.max(bytes.end);
                last.grain = last.grain.min(grain);
            }
            _ => regions.push(Region {
                bytes,
                grain,
                pages: Vec::new(),
            }),
        }
        of[param] = regions.len() - 1;
    }
    for region in &mut regions {
        let elements = region.bytes.len().div_ceil(region.grain);
        region.pages.resize_with(elements.div_ceil(PAGE), || None);
    }
    (regions, of)
}

/// The accesses of a launch.
pub(super) struct Races {
    regions: Vec<Region>,
    /// The region of each buffer.
    region_of: Vec<usize>,
    /// The elements of shared arrays.
    shared: Vec<Vec<Element>>,
    /// The first load in this interval of an element of a shared array that no thread of the cube has stored: the array, the
    /// index, and the access.
    unset: Option<(usize, usize, Access)>,
    interval: NonZeroU64,
    /// The cubes so far: the first interval of each, and its index.
    cubes: Vec<(NonZeroU64, u64)>,
}

impl Races {
    /// Starts a launch with these buffers, and shared arrays of these lengths.
    pub(super) fn new(buffers: &[Buffer], shared: impl Iterator<Item = usize>) -> Self {
        let (regions, region_of) = regions(buffers);
        Self {
            regions,
            region_of,
            shared: shared.map(|len| vec![Element::default(); len]).collect(),
            unset: None,
            interval: NonZeroU64::MIN,
            cubes: Vec::new(),
        }
    }

    /// The next cube begins.
    pub(super) fn cube(&mut self, index: u64) {
        self.barrier();
        self.cubes.push((self.interval, index));
    }

    /// The threads of the cube have met at a barrier.
    pub(super) fn barrier(&mut self) {
        self.interval = self.interval.saturating_add(1);
    }

    /// Returns the index of the cube of an access.
    pub(super) fn cube_of(&self, access: Access) -> u64 {
        let later = self
            .cubes
            .partition_point(|(first, _)| *first <= access.interval);
        later.checked_sub(1).map_or(0, |at| self.cubes[at].1)
    }

    /// Returns the access that a thread makes now.
    pub(super) fn now(&self, thread: u32, step: usize) -> Access {
        Access {
            interval: self.interval,
            thread,
            step: step as u32,
        }
    }

    /// Records an access to an element of a buffer, unless it races: returns the earlier access then, and its kind.
    pub(super) fn buffer(
        &mut self,
        (param, buffer): (usize, Buffer),
        index: usize,
        kind: AccessKind,
        access: Access,
    ) -> Option<(AccessKind, Access)> {
        let cube = self.cubes.last().map_or(self.interval, |(first, _)| *first);
        let region = &mut self.regions[self.region_of[param]];
        let bytes = buffer.address(index)..buffer.address(index + 1);
        bytes
            .step_by(region.grain)
            .find_map(|address| region.element(address).access(kind, access, cube))
    }

    /// Likewise for an element of a shared array.
    pub(super) fn shared(
        &mut self,
        array: usize,
        index: usize,
        kind: AccessKind,
        access: Access,
    ) -> Option<(AccessKind, Access)> {
        let element = &mut self.shared[array][index];
        let racing = element.access(kind, access, NonZeroU64::MIN);
        let cube = self
            .cubes
            .last()
            .map_or(NonZeroU64::MIN, |(first, _)| *first);
        if racing.is_none() && kind.only_loads() && !element.is_stored_since(cube) {
            self.unset.get_or_insert((array, index, access));
        }
        racing
    }

    /// Returns the load in this interval of an element that no thread has stored. To be asked at the end of the interval: if
    /// another thread stores the element in the interval, the two race, which is reported instead.
    pub(super) fn unset(&self) -> Option<(usize, usize, Access)> {
        self.unset
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What may happen next: a barrier, a new cube, or an access.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Barrier,
        Cube,
        Access(AccessKind, u32),
    }

    fn event() -> impl Strategy<Value = Event> {
        let kind = prop_oneof![
            6 => Just(AccessKind::Load),
            1 => Just(AccessKind::Store),
            2 => Just(AccessKind::Atomic),
            2 => Just(AccessKind::AtomicLoad),
        ];
        prop_oneof![
            2 => Just(Event::Barrier),
            1 => Just(Event::Cube),
            6 => (kind, 0..3_u32).prop_map(|(kind, thread)| Event::Access(kind, thread)),
        ]
    }

    proptest! {
        /// Two accesses of each kind find a race if and only if the list of all accesses has one.
        #[test]
        fn recent_accesses_find_every_race(events in prop::collection::vec(event(), 1..24)) {
            let mut races = Races::new(&[], [1].into_iter());
            races.cube(0);
            // The cube, the interval in it, the thread, and the kind of each access.
            let (mut all, mut cube, mut interval) = (Vec::new(), 0, 0);
            let mut element = Element::default();
            for event in events {
                match event {
                    Event::Barrier => {
                        races.barrier();
                        interval += 1;
                    }
                    Event::Cube => {
                        cube += 1;
                        races.cube(cube);
                        interval = 0;
                    }
                    Event::Access(kind, thread) => {
                        let access = races.now(thread, 0);
                        let first = races.cubes.last().unwrap().0;
                        let conflicts = |it: &&(u64, u32, u32, AccessKind)| {
                            it.3.conflicts(kind)
                                && (it.0 != cube || it.1 == interval && it.2 != thread)
                        };
                        let expected = all.iter().any(|it| conflicts(&it));
                        let found = element.access(kind, access, first);
                        prop_assert_eq!(found.is_some(), expected);
                        if let Some((earlier, access)) = found {
                            let named = (races.cube_of(access), access.thread, earlier);
                            prop_assert!(all.iter().filter(conflicts).any(|it| (it.0, it.2, it.3) == named));
                            break;
                        }
                        all.push((cube, interval, thread, kind));
                    }
                }
            }
        }
    }
}
