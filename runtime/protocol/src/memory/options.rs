//! Options of the memory pools, and the allocation mode of a slice.

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
