//! The clean ranges: one interface to the four kinds of pages.
//!
//! A store knows pages and holes, and no points. A range that is in use or busy is not part of it; [`Store::free`]
//! returns it once it is clean.

use millstream_protocol::{AllocationMode, MemoryOptions, PageError, PageId};

use super::PageSource;
use super::blocks::Blocks;
use super::class::{Class, Layout, chunk_units};
use super::persistent::PersistentPages;
use super::reservation::{Origin, Reservation};
use super::shared::SharedPages;
use super::whole_pages::{WholePages, serves};

/// A persistent slice of more than 1/8 of a page gets a page of its own.
const PERSISTENT_PART: u64 = 8;

/// The place of a slice, by its size and mode.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// A block of a chunk.
    Block(Class),
    /// A range of a shared page.
    Range(Class),
    /// A whole page of at least `least` bytes, preferably of `bytes` bytes, cached afterwards.
    Large {
        /// The bytes that hold the slice.
        least: u64,
        /// The same, rounded up in steps, so that pages serve slices of similar sizes.
        bytes: u64,
    },
    /// This number of units of a persistent page.
    Persistent(u32),
    /// A whole page of this number of bytes, freed afterwards.
    Dedicated(u64),
}

/// All pages and their clean ranges.
pub(super) struct Store {
    pub(super) layout: Layout,
    isolate: bool,
    cached_max: usize,
    blocks: Blocks,
    shared: SharedPages,
    whole: WholePages,
    persistent: PersistentPages,
    /// The bytes of all pages.
    reserved: u64,
}

impl Store {
    pub(super) fn new(options: &MemoryOptions, alignment: u64) -> Self {
        let layout = Layout::new(options, alignment);
        Self {
            isolate: options.isolate,
            cached_max: options.max_pages_cached,
            blocks: Blocks::new(&layout),
            shared: SharedPages::new(&layout),
            whole: WholePages::default(),
            persistent: PersistentPages::default(),
            reserved: 0,
            layout,
        }
    }

    /// Returns the place of a slice of `bytes`, which is not 0.
    #[inline]
    pub(super) fn place(&self, bytes: u64, mode: AllocationMode) -> Place {
        let units = self.layout.units(bytes);
        match mode {
            AllocationMode::Automatic if !self.isolate => self
                .place_of_class(Class::round_up(units))
                .unwrap_or_else(|| Place::Large {
                    least: self.layout.bytes(units),
                    bytes: self.layout.large_bytes(bytes),
                }),
            AllocationMode::Persistent
                if !self.isolate && units <= self.layout.page_units / PERSISTENT_PART =>
            {
                Place::Persistent(units as u32)
            }
            _ => Place::Dedicated(self.layout.bytes(units)),
        }
    }

    /// Returns the place of slices of a class, if they share pages.
    #[inline]
    pub(super) fn place_of_class(&self, class: Class) -> Option<Place> {
        if class <= self.layout.small_max {
            Some(Place::Block(class))
        } else {
            (class.units() <= self.layout.range_max).then_some(Place::Range(class))
        }
    }

    /// Takes a clean range of an existing page.
    #[inline]
    pub(super) fn take(&mut self, place: Place) -> Option<Origin> {
        match place {
            Place::Block(class) => {
                let (chunk, block) = self
                    .blocks
                    .take(class)
                    .or_else(|| self.take_from_new_chunk(class))?;
                Some(Origin::Block {
                    block,
                    class,
                    chunk,
                })
            }
            Place::Range(class) => {
                let range = self.shared.take(class.units() as u32)?;
                Some(Origin::Range { class, range })
            }
            Place::Large { least, .. } => self.whole.take(least).map(|page| self.cached_page(page)),
            Place::Persistent(units) => self.persistent.take(units).map(Origin::Persistent),
            Place::Dedicated(_) => None,
        }
    }

    #[cold]
    fn take_from_new_chunk(&mut self, class: Class) -> Option<(u32, u8)> {
        let range = self.shared.take(chunk_units(class))?;
        self.blocks.add(class, range, self.shared.range(range));
        self.blocks.take(class)
    }

    /// Allocates a page of the full size and takes a range of it.
    pub(super) fn grow(
        &mut self,
        source: &mut dyn PageSource,
        place: Place,
    ) -> Result<Origin, PageError> {
        match place {
            Place::Block(_) | Place::Range(_) => {
                self.add_shared(source, self.layout.page_units)?;
            }
            Place::Persistent(_) => {
                let units = self.layout.page_units;
                let id = self.add_page(source, self.layout.bytes(units))?;
                self.persistent.add(id, units as u32);
            }
            Place::Large { bytes, .. } => {
                let page = self.add_whole(source, bytes)?;
                return Ok(self.cached_page(page));
            }
            Place::Dedicated(bytes) => {
                return self.add_whole(source, bytes).map(Origin::Dedicated);
            }
        }
        self.take(place)
            .ok_or(PageError::OutOfMemory { free: None })
    }

    /// Allocates a page that is smaller than the full size, and takes a range of it. `error`, the result of the last
    /// attempt, and the errors that follow determine how much smaller.
    pub(super) fn grow_less(
        &mut self,
        source: &mut dyn PageSource,
        place: Place,
        mut error: PageError,
    ) -> Result<Origin, PageError> {
        let needed = match place {
            Place::Block(class) => u64::from(chunk_units(class)),
            Place::Range(class) => class.units(),
            // Exactly this size: it replaces the whole persistent page.
            Place::Persistent(units) => {
                let page = self.add_whole(source, self.layout.bytes(u64::from(units)))?;
                return Ok(Origin::Dedicated(page));
            }
            Place::Large { least, bytes } if least < bytes => {
                let page = self.add_whole(source, least)?;
                return Ok(self.cached_page(page));
            }
            Place::Large { .. } | Place::Dedicated(_) => return Err(error),
        };
        let mut units = self.layout.page_units;
        loop {
            let available = match error {
                PageError::OutOfMemory { free: Some(bytes) }
                | PageError::TooLarge { limit: bytes } => self.layout.units_in(bytes),
                PageError::OutOfMemory { free: None } => u64::MAX,
                PageError::Lost => return Err(error),
            };
            let less = Class::round_down(available.min(units / 2))
                .units()
                .max(needed);
            if less > available || less >= units {
                return Err(error);
            }
            units = less;
            match self.add_shared(source, units) {
                Ok(()) => return self.take(place).ok_or(error),
                Err(next) => error = next,
            }
        }
    }

    /// Frees a range, which is clean.
    #[inline]
    pub(super) fn free(&mut self, origin: Origin) {
        match origin {
            Origin::Block { block, chunk, .. } => {
                if let Some(range) = self.blocks.free(chunk, block) {
                    self.shared.free(range);
                }
            }
            Origin::Range { range, .. } => self.shared.free(range),
            Origin::Page { page, .. } => self.whole.cache(page),
            Origin::Dedicated(page) => self.whole.set_due(page),
            Origin::Persistent(range) => self.persistent.free(range),
        }
    }

    /// Marks the page of a range: it is freed before others, unless it is used again. Persistent pages are not marked.
    pub(super) fn evict_first(&mut self, origin: Origin) {
        match origin {
            Origin::Block { chunk, .. } => self.shared.evict_first(self.blocks.range(chunk)),
            Origin::Range { range, .. } => self.shared.evict_first(range),
            Origin::Page { page, .. } => self.whole.evict_first(page),
            Origin::Dedicated(_) | Origin::Persistent(_) => {}
        }
    }

    /// Returns `true` if a busy whole page may serve a large slice of `bytes`.
    #[inline]
    pub(super) fn serves(&self, origin: Origin, bytes: u64) -> bool {
        matches!(origin, Origin::Page { page, .. } if serves(self.whole.page(page).bytes, bytes))
    }

    /// Returns the reservation of a range.
    #[inline]
    pub(super) fn reservation(&self, origin: Origin, requested: u64) -> Reservation {
        let (page, offset, units) = match origin {
            Origin::Block {
                block,
                class,
                chunk,
            } => self.blocks.place(chunk, block, class),
            Origin::Range { range, .. } => {
                let range = self.shared.range(range);
                (range.page, u64::from(range.offset), u64::from(range.units))
            }
            Origin::Page { page, .. } | Origin::Dedicated(page) => {
                let page = self.whole.page(page);
                return Reservation {
                    page: page.id,
                    origin,
                    offset: 0,
                    bytes: page.bytes,
                    requested,
                };
            }
            Origin::Persistent(range) => self.persistent.place(range),
        };
        Reservation {
            page,
            origin,
            offset: self.layout.bytes(offset),
            bytes: self.layout.bytes(units),
            requested,
        }
    }

    /// Returns the bytes of all pages.
    #[inline]
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns the number of pages.
    pub(super) fn pages(&self) -> usize {
        self.shared.pages() + self.whole.pages() + self.persistent.pages()
    }

    /// Returns `true` if there is a page to free: a dedicated one that is clean, or an empty one beyond those that are
    /// cached.
    #[inline]
    pub(super) fn has_due(&self) -> bool {
        self.whole.has_due()
            || self.shared.empty() + self.whole.cached() + self.persistent.empty() > self.cached_max
    }

    /// Frees the pages that are due. Returns their bytes.
    pub(super) fn release_due(&mut self, source: &mut dyn PageSource) -> u64 {
        let due = self.whole.release_due(source);
        self.reserved -= due;
        due + self.release_cached(source, self.cached_max)
    }

    /// Frees the empty pages that are marked. Returns their bytes.
    pub(super) fn release_evict_first(&mut self, source: &mut dyn PageSource) -> u64 {
        self.free_idle_chunks();
        let bytes = self.whole.release_evict_first(source, usize::MAX)
            + self.layout.bytes(self.shared.release_evict_first(source));
        self.reserved -= bytes;
        bytes
    }

    fn free_idle_chunks(&mut self) {
        while let Some(range) = self.blocks.remove_idle() {
            self.shared.free(range);
        }
    }

    /// Frees all empty pages. Returns their bytes.
    pub(super) fn release_all(&mut self, source: &mut dyn PageSource) -> u64 {
        self.free_idle_chunks();
        let due = self.whole.release_due(source);
        self.reserved -= due;
        due + self.release_cached(source, 0)
    }

    /// Frees empty pages until `keep` are left: whole pages first, the largest before others.
    fn release_cached(&mut self, source: &mut dyn PageSource, keep: usize) -> u64 {
        let others = self.shared.empty() + self.persistent.empty();
        let mut bytes = self
            .whole
            .release_cached(source, keep.saturating_sub(others));
        let units = self
            .persistent
            .release_empty(source, keep.saturating_sub(self.shared.empty()));
        bytes += self
            .layout
            .bytes(units + self.shared.release_empty(source, keep));
        self.reserved -= bytes;
        bytes
    }

    fn add_shared(&mut self, source: &mut dyn PageSource, units: u64) -> Result<(), PageError> {
        let id = self.add_page(source, self.layout.bytes(units))?;
        self.shared.add(id, units as u32);
        Ok(())
    }

    fn add_whole(&mut self, source: &mut dyn PageSource, bytes: u64) -> Result<u32, PageError> {
        let id = self.add_page(source, bytes)?;
        Ok(self.whole.add(id, bytes))
    }

    /// Returns the origin of a whole page that is cached afterwards.
    fn cached_page(&self, page: u32) -> Origin {
        let class = Class::round_down(self.layout.units(self.whole.page(page).bytes));
        Origin::Page { class, page }
    }

    fn add_page(&mut self, source: &mut dyn PageSource, bytes: u64) -> Result<PageId, PageError> {
        let id = source.allocate_page(bytes)?;
        self.reserved += bytes;
        Ok(id)
    }
}
