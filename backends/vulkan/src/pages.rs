//! Pages of device memory, and where bindings lie in them.

use std::sync::Arc;

use ash::vk;
use millstream_protocol::{BoundSlice, PageError, PageId, Refused};

use crate::driver::{Buffer, Context, Purpose};

/// Where a binding lies. An empty one has a null buffer and address 0.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Location {
    pub(crate) buffer: vk::Buffer,
    /// The offset of the first byte in the buffer.
    pub(crate) offset: u64,
    /// The device address of the first byte.
    pub(crate) address: u64,
}

/// A range of memory, by which two bindings at different times can be compared: a later page may have the number of a
/// freed one, and even its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The serial number of the page; 0 if the binding has no page.
    page: u64,
    offset: u64,
    len: u64,
}

/// The allocated pages.
pub(crate) struct Pages {
    context: Arc<Context>,
    table: millstream_gpu::Pages<Arc<Buffer>>,
}

impl Pages {
    /// Creates the table of pages of a device, which have at most `limit` bytes in total.
    pub(crate) fn new(context: &Arc<Context>, limit: u64) -> Self {
        Self {
            context: context.clone(),
            table: millstream_gpu::Pages::new(context.gpu.max_allocation_bytes, limit),
        }
    }

    /// Allocates a page.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.table.allocate(bytes, || {
            let created = Buffer::new(&self.context, bytes, Purpose::Page);
            created.map(Arc::new).map_err(|code| match code.is_loss() {
                true => PageError::Lost,
                false => PageError::OutOfMemory { free: None },
            })
        })
    }

    /// Frees a page. Its memory lives on as long as aliases of it.
    pub(crate) fn free(&mut self, id: PageId) {
        drop(self.table.free(id));
    }

    /// Returns where a binding lies.
    #[inline]
    pub(crate) fn resolve(&self, binding: &BoundSlice) -> Result<Location, Refused> {
        let page = self.buffer(binding)?;
        Ok(page.map_or(Location::default(), |page| Location {
            buffer: page.raw,
            offset: binding.offset,
            address: page.address + binding.offset,
        }))
    }

    /// Returns the buffer of the page that a binding lies in; `None` if it is empty.
    #[inline]
    pub(crate) fn buffer(&self, binding: &BoundSlice) -> Result<Option<&Arc<Buffer>>, Refused> {
        self.table.resolve(binding)
    }

    /// Returns the place of a binding.
    #[inline]
    pub(crate) fn place(&self, binding: &BoundSlice) -> Place {
        Place {
            page: self.table.serial(binding.page),
            offset: binding.offset,
            len: binding.len,
        }
    }

    /// Leaks all pages: the device may still use them.
    #[cold]
    pub(crate) fn leak_all(&mut self) {
        self.table.free_all().for_each(std::mem::forget);
    }

    /// Frees all pages.
    pub(crate) fn free_all(&mut self) {
        drop(self.table.free_all());
    }
}
