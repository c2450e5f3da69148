//! Pages of device memory, and where bindings lie in them.

use std::sync::Arc;

use ash::vk;
use millstream_protocol::{BoundSlice, Refused};

use crate::driver::Buffer;

/// The allocated pages. The memory of a freed one lives on as long as aliases of it.
pub(crate) type Pages = millstream_gpu::Pages<Arc<Buffer>>;

/// Where a binding lies. An empty one has a null buffer and address 0.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Location {
    pub(crate) buffer: vk::Buffer,
    /// The offset of the first byte in the buffer.
    pub(crate) offset: u64,
    /// The device address of the first byte.
    pub(crate) address: u64,
}

impl Location {
    /// Returns where a binding lies.
    #[inline]
    pub(crate) fn of(binding: &BoundSlice, pages: &Pages) -> Result<Self, Refused> {
        let page = pages.resolve(binding)?;
        Ok(page.map_or(Self::default(), |page| Self {
            buffer: page.raw,
            offset: binding.offset,
            address: page.address + binding.offset,
        }))
    }
}
