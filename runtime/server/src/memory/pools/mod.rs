//! Memory pools: which range of which page a slice gets, and when a freed range may be used again.
//!
//! Pools are plain state machines of the device thread: no thread, no clock, no atomics, no I/O. Pages come from a
//! [`PageSource`], the backend. The pools know no slices, handles or streams; they deal in [`Reservation`]s and in the
//! [points](crate::points) that still use a freed range.
//!
//! ```text
//! bytes           where (Automatic)                               reuse before its points have passed
//! 0               nowhere                                         -
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
mod busy_heaps;
mod busy_ranges;
mod class;
mod persistent;
mod reservation;
mod shared;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod whole_pages;

use millstream_protocol::id::{Cursor, Point, QueueId};
use millstream_protocol::memory::PageError;
use millstream_protocol::memory::{AllocationMode, MemoryOptions};

use crate::points::Points;
use busy_ranges::{BusyRanges, Taken};
use class::{Class, REQUEST_BYTES_MAX};
use reservation::Origin;
pub use reservation::{PoolUsage, Reservation, ReserveError};
pub use source::PageSource;
use store::{Place, Store};

/// The number of larger classes that are tried when the device has no page left: up to twice the size.
const LARGER_CLASSES: u16 = 8;

/// A range that serves a request.
enum Found {
    /// Clean: nothing uses it.
    Clean(Origin),
    /// Busy: points still use it, and all of them are covered.
    Reused(Taken),
}

/// The memory pools of one device.
pub struct Pools {
    store: Store,
    busy_ranges: BusyRanges,
    in_use: u64,
    padding: u64,
    busy: u64,
    high_water: u64,
    live: u64,
    /// Counts the changes after which a reservation that found no range may find one.
    changes: u64,
}

impl Pools {
    /// Creates pools without pages, for a device whose slices start at multiples of `alignment`.
    pub fn new(options: MemoryOptions, alignment: u64) -> Self {
        Self {
            store: Store::new(&options, alignment),
            busy_ranges: BusyRanges::new(),
            in_use: 0,
            padding: 0,
            busy: 0,
            high_water: 0,
            live: 0,
            changes: 0,
        }
    }

    /// Reserves a range that `queue` uses first.
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
    ) -> Result<(Reservation, Points), ReserveError> {
        if bytes == 0 {
            self.live += 1;
            return Ok((Reservation::EMPTY, Points::new()));
        }
        if bytes > REQUEST_BYTES_MAX {
            return Err(ReserveError::TooLarge {
                requested: bytes,
                limit: REQUEST_BYTES_MAX,
            });
        }
        if self.store.has_due() {
            self.trim(source);
        }
        let place = self.store.place(bytes, mode);
        let found = match self.find(place, queue, covered) {
            Some(found) => found,
            None => match self.grow(source, place, queue, covered) {
                Ok(found) => found,
                Err(error) => return Err(self.refusal(bytes, error)),
            },
        };
        let origin = match &found {
            Found::Clean(origin) => *origin,
            Found::Reused(taken) => taken.origin,
        };
        let reservation = self.store.reservation(origin, bytes);
        self.in_use += reservation.bytes;
        self.padding += reservation.bytes - bytes;
        self.high_water = self.high_water.max(self.in_use);
        self.live += 1;
        match &found {
            Found::Clean(_) => Ok((reservation, Points::new())),
            Found::Reused(taken) => {
                self.busy -= reservation.bytes;
                Ok((reservation, self.busy_ranges.residue(taken)))
            }
        }
    }

    /// Releases a range, with the points that still use it.
    #[inline]
    pub fn release(&mut self, reservation: Reservation, busy: Points) {
        self.release_range(reservation, busy);
    }

    /// As [`release`](Self::release); returns `true` if the range is busy: some point has not passed.
    #[inline]
    pub(super) fn release_range(&mut self, reservation: Reservation, busy: Points) -> bool {
        let Reservation {
            origin,
            bytes,
            requested,
            ..
        } = reservation;
        debug_assert!(
            self.live > 0 && self.in_use >= bytes,
            "a reservation is released once"
        );
        self.live -= 1;
        if origin == Origin::Empty {
            return false;
        }
        self.in_use -= bytes;
        self.padding -= bytes - requested;
        let is_busy = !busy.is_empty() && self.busy_ranges.push(origin, &busy);
        if is_busy {
            self.busy += bytes;
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

    /// Records that everything on `queue` up to `cursor` has passed. Returns `true` if any range became clean.
    pub fn passed(&mut self, queue: QueueId, cursor: Cursor) -> bool {
        self.passed_with(queue, cursor, |_| ())
    }

    /// As [`passed`](Self::passed); calls `clean` for each range that became clean.
    pub(super) fn passed_with(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        mut clean: impl FnMut(&Reservation),
    ) -> bool {
        let Self {
            store,
            busy_ranges,
            busy,
            changes,
            ..
        } = self;
        busy_ranges.pass(queue, cursor, |origin| {
            *busy -= store.bytes(origin);
            *changes += 1;
            clean(&store.reservation(origin, 0));
            store.free(origin);
        })
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
        !self.busy_ranges.is_empty()
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
    pub fn usage(&self) -> PoolUsage {
        PoolUsage {
            reserved: self.store.reserved(),
            in_use: self.in_use,
            padding: self.padding,
            busy: self.busy,
            high_water: self.high_water,
            live: self.live,
            pages: self.store.pages() as u64,
        }
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
        match reused {
            Some(taken) => Some(Found::Reused(taken)),
            None => self.store.take(place).map(Found::Clean),
        }
    }

    /// Finds a busy page of about the size, in the class of the size and the class above.
    fn find_large(
        &mut self,
        bytes: u64,
        queue: QueueId,
        covered: &dyn Fn(Point) -> bool,
    ) -> Option<Taken> {
        let Self {
            store, busy_ranges, ..
        } = self;
        let class = Class::round_down(store.layout.units(bytes));
        [class, Class(class.0 + 1)].into_iter().find_map(|class| {
            busy_ranges.take(class, queue, covered, |origin| store.serves(origin, bytes))
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
            Ok(Some(origin)) => return Ok(Found::Clean(origin)),
            Ok(None) => PageError::OutOfMemory { free: None },
            Err(PageError::Lost) => return Err(PageError::Lost),
            Err(error) => error,
        };
        if self.store.release_evict_first(source) > 0 {
            match self.store.grow(source, place) {
                Ok(Some(origin)) => return Ok(Found::Clean(origin)),
                Ok(None) => {}
                Err(PageError::Lost) => return Err(PageError::Lost),
                Err(next) => error = next,
            }
        }
        let returned = self.cleanup(source);
        // Chunks without a block in use were returned to their pages, so there may be room now.
        if let Some(origin) = self.store.take(place) {
            return Ok(Found::Clean(origin));
        }
        if returned > 0 {
            match self.store.grow(source, place) {
                Ok(Some(origin)) => return Ok(Found::Clean(origin)),
                Ok(None) => {}
                Err(next) => error = next,
            }
        }
        match self.store.grow_less(source, place, error) {
            Ok(Some(origin)) => Ok(Found::Clean(origin)),
            Ok(None) => Err(error),
            Err(PageError::Lost) => Err(PageError::Lost),
            Err(last) => self.find_larger(place, queue, covered).ok_or(last),
        }
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

    fn refusal(&self, requested: u64, error: PageError) -> ReserveError {
        ReserveError::new(requested, self.store.reserved(), self.busy, error)
    }
}

/// Returns the reservation of a range, for tests of other modules.
#[cfg(test)]
pub(super) fn test_reservation(page: u32, offset: u64, bytes: u64) -> Reservation {
    Reservation {
        page: millstream_protocol::memory::PageId(page),
        origin: Origin::Dedicated(page),
        offset,
        bytes,
        requested: bytes,
    }
}
