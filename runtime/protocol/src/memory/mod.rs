//! Pages of device memory, and the options of the pools that divide them.

use std::fmt;

// Options of the memory pools, and the allocation mode of a slice.

/// How the memory of a slice is reserved.
// The order of the variants is their code in a submission log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum AllocationMode {
    /// By size: blocks, ranges of shared pages, or whole pages. Freed memory is reused soon.
    #[default]
    Automatic,
    /// For long-lived slices, such as weights: an exact fit in pages that no short-lived slice shares. A freed range
    /// serves only requests of the same size until its page is empty.
    Persistent,
    /// A page of its own, which is returned to the device once it is freed and its points have passed.
    Dedicated,
}

/// Options of the memory pools of one device.
///
/// The pools clamp values that are out of range: a page has at least 256 times the alignment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryOptions {
    /// The size of a shared page in bytes. Larger pages need fewer calls of the driver. The largest slice that shares
    /// a page is a quarter of it. If the device has no page of this size, the pools request halves of it.
    pub page_bytes: u64,
    /// The largest slice that is a block of a chunk, in bytes. Larger slices are coalesced with free neighbours when
    /// they are freed.
    pub small_max: u64,
    /// Gives every slice a page of its own, which is returned when it is free: for checkers that inspect the
    /// allocations of the device.
    pub isolate: bool,
    /// The maximum number of empty pages that are kept; further ones are returned to the device at the next cleanup
    /// (`ComputeClient::memory_cleanup`). Allocating a page costs a driver tens of microseconds.
    pub max_pages_cached: usize,
}

macro_rules! setters {
    ($($name:ident: $type:ty;)*) => {
        impl MemoryOptions {$(
            #[doc = concat!("Sets [`", stringify!($name), "`](field@Self::", stringify!($name), ").")]
            #[must_use]
            pub fn $name(mut self, $name: $type) -> Self {
                self.$name = $name;
                self
            }
        )*}
    };
}

setters! {
    page_bytes: u64;
    small_max: u64;
    isolate: bool;
    max_pages_cached: usize;
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

// Pages: the unit in which a backend allocates device memory, and the pools divide it.

/// A page of a backend. The backend assigns the number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageId(pub u32);

impl PageId {
    /// No page. A backend must not assign this number.
    pub const NONE: PageId = PageId(u32::MAX);
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

/// Why a page cannot be allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// There is no memory at the moment; there may be after other pages are freed.
    #[error("the device is out of memory")]
    OutOfMemory {
        /// The free bytes, if the device reports them.
        free: Option<u64>,
    },
    /// The page is larger than the device ever allocates.
    #[error("the page exceeds the device's largest allocation of {limit} bytes")]
    TooLarge {
        /// The largest page, in bytes.
        limit: u64,
    },
    /// The device is lost.
    #[error("the device was lost")]
    Lost,
}
