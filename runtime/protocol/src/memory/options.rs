//! How the pools behave, and how one slice is to be reserved.

/// How a slice is to be reserved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AllocationMode {
    /// By size: blocks, ranges of shared pages, whole pages. What was freed is used again soon.
    #[default]
    Automatic,
    /// For what stays, such as weights: an exact fit in pages that nothing short-lived shares. A
    /// freed range serves only its own size until its page is empty.
    Persistent,
    /// A page of its own, which goes back to the device when it was freed and its points passed.
    Dedicated,
}

/// Options of the pools of one device.
///
/// Values that make no sense are brought into range by the pools: a page
/// has at least 256 times the alignment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryOptions {
    /// Size of a shared page. Larger pages mean fewer calls of the driver; a quarter of a page is
    /// the largest slice that shares one. A device that has no such page is asked for halves of it.
    pub page_bytes: u64,
    /// Largest slice that is a block of a chunk. Larger ones are coalesced with their neighbours
    /// when they are freed.
    pub small_max: u64,
    /// Every slice gets a page of its own, which is returned when it is free: for checkers that
    /// look at allocations of the device.
    pub isolate: bool,
    /// Most empty pages that are kept; more go back to the device at the next cleanup
    /// (`ComputeClient::memory_cleanup`). A page costs a driver tens of microseconds.
    pub max_pages_cached: usize,
}

impl MemoryOptions {
    /// Sets [`page_bytes`](Self::page_bytes).
    #[must_use]
    pub fn page_bytes(mut self, bytes: u64) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// Sets [`small_max`](Self::small_max).
    #[must_use]
    pub fn small_max(mut self, bytes: u64) -> Self {
        self.small_max = bytes;
        self
    }

    /// Sets [`isolate`](Self::isolate).
    #[must_use]
    pub fn isolate(mut self, isolate: bool) -> Self {
        self.isolate = isolate;
        self
    }

    /// Sets [`max_pages_cached`](Self::max_pages_cached).
    #[must_use]
    pub fn max_pages_cached(mut self, pages: usize) -> Self {
        self.max_pages_cached = pages;
        self
    }
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            page_bytes: 64 << 20,
            small_max: 32 << 10,
            isolate: false,
            max_pages_cached: 32,
        }
    }
}
