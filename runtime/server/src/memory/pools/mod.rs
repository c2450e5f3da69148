//! Memory pools: which range of which page a slice gets, and when a freed range may be used again.
//!
//! Plain state machines of the device thread: no thread, no clock, no atomics, no I/O. Pages come
//! from a [`PageSource`], the backend. The pools know nothing of slices, handles or streams; they
//! deal in [`Reservation`]s and in the [points](crate::points) that still use a freed range.
//!
//! ```text
//! asked bytes     where (Automatic)                               reuse before its points passed
//! 0               nowhere                                         -
//! ..= small_max   block of a chunk: one bit          blocks       same class, covered points
//! ..= page / 4    range of a shared page             shared       same class, covered points
//! more            a page of its own, cached          large        up to 1/8 larger, covered points
//! Persistent      exact fit in pages of its own      persistent   never
//! Dedicated       a page of its own, not cached      large        never
//! ```
//!
//! The life of a range (I4: never handed out while a point of it is neither covered nor passed):
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

/// How many larger classes are tried when the device has no page left: up to twice the size.
const LARGER_CLASSES: u16 = 8;

/// A range for a request.
enum Found {
    /// Nothing uses it.
    Clean(Origin),
    /// Points still use it, all of them covered.
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
}

impl Pools {
    /// Pools without a page, for a device whose slices start at multiples of `alignment`.
    pub fn new(options: MemoryOptions, alignment: u64) -> Self {
        Self {
            store: Store::new(&options, alignment),
            busy_ranges: BusyRanges::new(),
            in_use: 0,
            padding: 0,
            busy: 0,
            high_water: 0,
            live: 0,
        }
    }

    /// Reserves a range that is used first on `queue`.
    ///
    /// `covered` says of a point whether `queue` needs no wait for it: it is its own, its clock
    /// covers it, or it has passed. A freed range whose points are all covered is preferred, and
    /// the points come with it: another queue that touches the slice later must still wait for them.
    /// Any other range is clean, with no points (I4).
    ///
    /// # Errors
    /// When the device has no page for it, not even after the free ones were given back.
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

    /// Gives a range back, with the points that still use it.
    #[inline]
    pub fn release(&mut self, reservation: Reservation, busy: Points) {
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
            return;
        }
        self.in_use -= bytes;
        self.padding -= bytes - requested;
        if !busy.is_empty() && self.busy_ranges.push(origin, &busy) {
            self.busy += bytes;
        } else {
            self.store.free(origin);
        }
    }

    /// The page of a range that is about to be released goes back before others: when the device has no page
    /// left, and when there are more free ones than are kept. Unless it is used again before that.
    pub fn evict_first(&mut self, reservation: &Reservation) {
        self.store.evict_first(reservation.origin);
    }

    /// Everything on `queue` up to `cursor` has passed. Returns whether anything became free.
    pub fn passed(&mut self, queue: QueueId, cursor: Cursor) -> bool {
        let Self {
            store,
            busy_ranges,
            busy,
            ..
        } = self;
        busy_ranges.pass(queue, cursor, |origin| {
            *busy -= store.bytes(origin);
            store.free(origin);
        })
    }

    /// The oldest cursor on `queue` that a freed range waits for.
    ///
    /// A range that waits for several queues is counted at one of them, and at the next once that
    /// has [passed](Self::passed): ask again then.
    pub fn oldest_busy(&self, queue: QueueId) -> Option<Cursor> {
        self.busy_ranges.oldest(queue)
    }

    /// Does any freed range wait for a point?
    #[inline]
    pub fn has_busy(&self) -> bool {
        !self.busy_ranges.is_empty()
    }

    /// Is there a page for [`trim`](Self::trim) to give back?
    #[inline]
    pub fn has_due(&self) -> bool {
        self.store.has_due()
    }

    /// Gives pages back that need not wait for a [`cleanup`](Self::cleanup): of dedicated slices that
    /// are free, and more empty ones than are kept. Returns bytes. Every reserve does this first.
    pub fn trim(&mut self, source: &mut dyn PageSource) -> u64 {
        self.store.release_due(source)
    }

    /// Gives all empty pages back. Returns bytes.
    pub fn cleanup(&mut self, source: &mut dyn PageSource) -> u64 {
        self.store.release_all(source)
    }

    /// What the pools hold.
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

    /// A range among those that are there.
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

    /// A busy page of about the size, from the size's class and the one above.
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

    /// A range of a new page; if there is none, the spilled pages are given back and it is tried again, then
    /// all free pages, then with less, then with what is there of up to twice the size.
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
        // Chunks without a block in use went back to their pages: there may be room now.
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

    /// A range that is there, of a larger class than `place` asks for.
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
