//! Memory pools: which range of which page a slice gets, and when a freed range may be used again.
//!
//! Pools are plain state machines of the device thread: no thread, no clock, no atomics, no I/O. Pages come from a
//! [`PageSource`], the backend. The pools know no slices, handles or streams; they deal in [`Reservation`]s and in the
//! [points](crate::points) that still use a freed range.
//!
//! ```text
//! bytes           where (Automatic)                               reuse before its points have passed
//! ..= small_max   block of a chunk: one bit          blocks       same class, covered points
//! ..= page / 4    range of a shared page             shared       same class, covered points
//! more            a page of its own, cached          whole_pages  up to 1/8 larger, covered points
//! Persistent      exact fit in pages of its own      persistent   never
//! Dedicated       a page of its own, not cached      whole_pages  never
//! ```
//!
//! The life of a range. I4: it is never handed out while a point of it is neither covered nor passed.
//! ```text
//!            reserve                release, no points left
//!   clean ------------> in use ------------------------------> clean
//!                        ^  |  release, points left
//!     reserve, all points|  v                       passed
//!     covered            +- busy -----------------------------> clean -> coalesced, page freed
//! ```

mod blocks;
mod class;
mod persistent;
mod reservation;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod whole_pages;

use millstream_protocol::{
    AllocationMode, Cursor, MemoryOptions, MemoryUsage, PageError, PageId, Point, QueueId,
};

use crate::points::Points;
use blocks::BusyRanges;
use class::{Class, REQUEST_BYTES_MAX};
use reservation::Origin;
pub use reservation::Reservation;
use store::{Place, Store};

/// The number of larger classes that are tried when the device has no page left: up to twice the size.
const LARGER_CLASSES: u16 = 8;

/// A source of pages: the backend.
pub trait PageSource {
    /// Allocates a page of at least `bytes` bytes whose start has the alignment of the device.
    ///
    /// # Errors
    /// Returns an error if the device has no such page now, or never has one, or is lost.
    fn allocate_page(&mut self, bytes: u64) -> Result<PageId, PageError>;

    /// Frees a page. Every point that used it has passed.
    fn free_page(&mut self, page: PageId);
}

/// A range that serves a request, and the points that still use it, all of which are covered.
type Found = (Origin, Points);

/// The memory pools of one device.
pub struct Pools {
    store: Store,
    busy_ranges: BusyRanges,
    /// What the pools hold, except for the bytes of all pages.
    usage: MemoryUsage,
    /// Counts the changes after which a reservation that found no range may find one.
    changes: u64,
}

impl Pools {
    /// Creates pools without pages, for a device whose slices start at multiples of `alignment`.
    pub fn new(options: MemoryOptions, alignment: u64) -> Self {
        Self {
            store: Store::new(&options, alignment),
            busy_ranges: BusyRanges::new(),
            usage: MemoryUsage::default(),
            changes: 0,
        }
    }

    /// Reserves a range of `bytes`, at least 1, that `queue` uses first.
    ///
    /// `covered` returns `true` if `queue` needs no wait for a point: the point is on `queue`, the clock of `queue`
    /// covers it, or it has passed. A freed range whose points are all covered is preferred. Its points are returned,
    /// because another queue that touches the slice later must wait for them. Any other range is clean and has no
    /// points (I4).
    ///
    /// # Errors
    /// Returns an error if the device has no page for it, even after the empty pages were freed.
    #[inline]
    pub fn reserve(
        &mut self,
        source: &mut dyn PageSource,
        bytes: u64,
        mode: AllocationMode,
        queue: QueueId,
        covered: &dyn Fn(Point) -> bool,
    ) -> Result<(Reservation, Points), PageError> {
        debug_assert!(bytes > 0, "a slice of no bytes needs no memory");
        if bytes > REQUEST_BYTES_MAX {
            return Err(PageError::TooLarge {
                limit: REQUEST_BYTES_MAX,
            });
        }
        if self.store.has_due() {
            self.trim(source);
        }
        let place = self.store.place(bytes, mode);
        let (origin, residue) = match self.find(place, queue, covered) {
            Some(found) => found,
            None => self.grow(source, place, queue, covered)?,
        };
        let reservation = self.store.reservation(origin, bytes);
        let usage = &mut self.usage;
        usage.in_use += reservation.bytes;
        usage.padding += reservation.bytes - bytes;
        usage.high_water = usage.high_water.max(usage.in_use);
        usage.live_slices += 1;
        if !residue.is_empty() {
            usage.waiting -= reservation.bytes;
        }
        Ok((reservation, residue))
    }

    /// Releases a range, with the points that still use it. Returns `true` if the range is busy: some point has not
    /// passed.
    #[inline]
    pub fn release(&mut self, reservation: Reservation, busy: Points) -> bool {
        let Reservation {
            origin,
            bytes,
            requested,
            ..
        } = reservation;
        let usage = &mut self.usage;
        debug_assert!(
            usage.live_slices > 0 && usage.in_use >= bytes,
            "a reservation is released once"
        );
        usage.live_slices -= 1;
        usage.in_use -= bytes;
        usage.padding -= bytes - requested;
        let is_busy = self.busy_ranges.push(origin, busy);
        if is_busy {
            usage.waiting += bytes;
        } else {
            self.changes += 1;
            self.store.free(origin);
        }
        is_busy
    }

    /// Marks the page of a range that is about to be released: it is freed before other pages when the device has no
    /// page left, and when there are more empty pages than are cached. Using the page again removes the mark.
    pub fn evict_first(&mut self, reservation: &Reservation) {
        self.store.evict_first(reservation.origin);
    }

    /// Records that everything on `queue` up to `cursor` has passed. Calls `clean` for each range that became clean.
    pub fn passed(&mut self, queue: QueueId, cursor: Cursor, mut clean: impl FnMut(&Reservation)) {
        let Self {
            store,
            busy_ranges,
            usage,
            changes,
        } = self;
        busy_ranges.pass(queue, cursor, |origin| {
            let reservation = store.reservation(origin, 0);
            usage.waiting -= reservation.bytes;
            *changes += 1;
            clean(&reservation);
            store.free(origin);
        });
    }

    /// Returns a number that grows with each change after which a reservation that found no range may find one: a range
    /// became clean, or a page went back to the device.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the least cursor on `queue` that a freed range waits for.
    ///
    /// A range with points on several queues waits for one of them at a time, and for the next once that has
    /// [passed](Self::passed). So the caller must query again after each call of `passed`.
    pub fn oldest_busy(&self, queue: QueueId) -> Option<Cursor> {
        self.busy_ranges.oldest(queue)
    }

    /// Returns `true` if any freed range waits for a point.
    #[inline]
    pub fn has_busy(&self) -> bool {
        self.usage.waiting > 0
    }

    /// Returns `true` if there is a page for [`trim`](Self::trim) to free.
    #[inline]
    pub fn has_due(&self) -> bool {
        self.store.has_due()
    }

    /// Frees pages that need not wait for a [`cleanup`](Self::cleanup): free pages of dedicated slices, and empty pages
    /// beyond those that are cached. Returns their bytes. Every reservation does this first.
    pub fn trim(&mut self, source: &mut dyn PageSource) -> u64 {
        let bytes = self.store.release_due(source);
        self.changes += u64::from(bytes > 0);
        bytes
    }

    /// Frees all empty pages. Returns their bytes.
    pub fn cleanup(&mut self, source: &mut dyn PageSource) -> u64 {
        let bytes = self.store.release_all(source);
        self.changes += u64::from(bytes > 0);
        bytes
    }

    /// Returns what the pools hold.
    pub fn usage(&self) -> MemoryUsage {
        let mut usage = self.usage.clone();
        usage.reserved = self.store.reserved();
        usage
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        self.store.pages()
    }

    /// Finds a range in the existing pages.
    #[inline]
    fn find(
        &mut self,
        place: Place,
        queue: QueueId,
        covered: &dyn Fn(Point) -> bool,
    ) -> Option<Found> {
        let reused = match place {
            Place::Block(class) | Place::Range(class) => {
                self.busy_ranges.take(class, queue, covered, |_| true)
            }
            Place::Large { least, .. } => self.find_large(least, queue, covered),
            Place::Persistent(_) | Place::Dedicated(_) => None,
        };
        reused.or_else(|| Some(clean(self.store.take(place)?)))
    }

    /// Finds a busy page of about the size, in the class of the size and the class above.
    fn find_large(
        &mut self,
        bytes: u64,
        queue: QueueId,
        covered: &dyn Fn(Point) -> bool,
    ) -> Option<Found> {
        let Self {
            store, busy_ranges, ..
        } = self;
        let class = Class::round_down(store.layout.units(bytes));
        [class, Class(class.0 + 1)].into_iter().find_map(|class| {
            busy_ranges.take(class, queue, covered, |origin| store.serves(*origin, bytes))
        })
    }

    /// Takes a range of a new page. If the device has none, frees the pages that are marked to be freed first and tries
    /// again, then frees all empty pages, then tries smaller pages, then existing ranges of up to twice the size.
    #[cold]
    fn grow(
        &mut self,
        source: &mut dyn PageSource,
        place: Place,
        queue: QueueId,
        covered: &dyn Fn(Point) -> bool,
    ) -> Result<Found, PageError> {
        let mut error = match self.store.grow(source, place) {
            Ok(origin) => return Ok(clean(origin)),
            Err(error) => error,
        };
        for free_pages in [Self::release_evict_first, Self::cleanup] {
            if error == PageError::Lost {
                return Err(error);
            }
            let returned = free_pages(self, source);
            // Chunks without a block in use were returned to their pages, so there may be room now.
            if let Some(origin) = self.store.take(place) {
                return Ok(clean(origin));
            }
            if returned > 0 {
                match self.store.grow(source, place) {
                    Ok(origin) => return Ok(clean(origin)),
                    Err(next) => error = next,
                }
            }
        }
        match self.store.grow_less(source, place, error) {
            Ok(origin) => Ok(clean(origin)),
            Err(PageError::Lost) => Err(PageError::Lost),
            Err(last) => self.find_larger(place, queue, covered).ok_or(last),
        }
    }

    fn release_evict_first(&mut self, source: &mut dyn PageSource) -> u64 {
        self.store.release_evict_first(source)
    }

    /// Finds an existing range of a larger class than `place`.
    fn find_larger(
        &mut self,
        place: Place,
        queue: QueueId,
        covered: &dyn Fn(Point) -> bool,
    ) -> Option<Found> {
        let (Place::Block(class) | Place::Range(class)) = place else {
            return None;
        };
        (class.0 + 1..=class.0 + LARGER_CLASSES).find_map(|larger| {
            let place = self.store.place_of_class(Class(larger))?;
            self.find(place, queue, covered)
        })
    }
}

fn clean(origin: Origin) -> Found {
    (origin, Points::new())
}

/// Returns the reservation of a range, for tests of other modules.
#[cfg(test)]
pub(super) fn test_reservation(page: u32, offset: u64, bytes: u64) -> Reservation {
    Reservation {
        page: millstream_protocol::PageId(page),
        origin: Origin::Dedicated(page),
        offset,
        bytes,
        requested: bytes,
    }
}
