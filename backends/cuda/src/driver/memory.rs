//! Memory of the GPU, and pinned memory of the host.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUdeviceptr, CUmemAllocationType, CUmemLocationType, CUmemPoolProps, CUmemoryPool,
};

use super::context::log_failure;
use super::retired::Retired;
use super::{Code, Context, CuStream};

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: u32 = 4;
/// `CU_MEMHOSTALLOC_PORTABLE`: every context of the process may use the memory. The flag for write-combined memory is
/// not set, because the processor reads readbacks, and such reads would be slow.
const PORTABLE: u32 = 1;

/// Allocates and frees pages, from a memory pool of the driver if the GPU has one. The pool keeps freed memory for
/// later pages. Its stream runs nothing but allocations and frees.
pub(crate) struct PagePool {
    context: Arc<Context>,
    stream: CuStream,
    /// `None` if the GPU has no pools; pages are then allocated one by one.
    pub(crate) pool: Option<CUmemoryPool>,
}

// SAFETY: the driver accepts a pool on any thread.
unsafe impl Send for PagePool {}

impl PagePool {
    /// Creates an allocator of pages, with a memory pool of the driver if `pooled`.
    pub(crate) fn new(context: &Arc<Context>, pooled: bool) -> Result<Self, Code> {
        let stream = CuStream::new(context, 0)?;
        let mut pages = Self {
            context: context.clone(),
            stream,
            pool: None,
        };
        if pooled {
            // SAFETY: a plain C struct for which all zeros is a valid value: its enums have a variant 0.
            let mut properties: CUmemPoolProps = unsafe { std::mem::zeroed() };
            properties.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            properties.location.id = context.gpu.device;
            let mut pool: CUmemoryPool = std::ptr::null_mut();
            let api = context.api();
            // SAFETY: the properties describe device memory of this GPU, and are only read during the call.
            unsafe { api.create_pool(&raw mut pool, &raw const properties) }?;
            pages.pool = Some(pool);
            let mut keep_all = u64::MAX;
            // SAFETY: the attribute is a 64-bit number, and is only read during the call.
            unsafe { api.set_pool_attribute(pool, RELEASE_THRESHOLD, (&raw mut keep_all).cast()) }?;
        }
        Ok(pages)
    }

    /// Allocates device memory that every stream may use as soon as this returns.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<CUdeviceptr, Code> {
        let api = self.context.api();
        let mut address: CUdeviceptr = 0;
        let Some(pool) = self.pool else {
            // SAFETY: the out pointer is valid.
            return unsafe { api.allocate(&raw mut address, bytes) }.map(|()| address);
        };
        let mut allocate = || {
            // SAFETY: pool and stream are alive; the out pointer is valid.
            unsafe { api.allocate_from_pool(&raw mut address, bytes, pool, self.stream.raw) }
        };
        match allocate() {
            // The pool may keep freed memory in pieces that are too small.
            Err(code) if code.number == Code::OUT_OF_MEMORY => {
                self.trim()?;
                allocate()?;
            }
            allocated => allocated?,
        }
        // The memory is valid once the stream has reached the allocation. Nothing but allocations and frees runs on
        // the stream, so this returns soon.
        let reached = self.stream.synchronize();
        reached
            .map(|()| address)
            .inspect_err(|_| self.free(address))
    }

    /// Returns the freed memory that the pool keeps to the GPU, for other pools and programs.
    pub(crate) fn trim(&self) -> Result<(), Code> {
        let Some(pool) = self.pool else { return Ok(()) };
        // Nothing but allocations and frees runs on the stream, so this returns soon. The pool can return only what its
        // frees have reached.
        self.stream.synchronize()?;
        // SAFETY: the pool is alive.
        unsafe { self.context.api().trim_pool(pool, 0) }
    }

    /// Frees memory that no stream uses any more.
    pub(crate) fn free(&self, address: CUdeviceptr) {
        let api = self.context.api();
        // SAFETY: the address is from `allocate`, is freed once, and all uses have completed.
        log_failure(unsafe {
            match self.pool {
                Some(_) => api.free_async(address, self.stream.raw),
                None => api.free(address),
            }
        });
    }
}

impl Drop for PagePool {
    /// Destroys the pool. The driver first completes the frees that are pending on the stream.
    fn drop(&mut self) {
        if let Some(pool) = self.pool {
            // SAFETY: created once, destroyed once.
            self.context
                .destroy(|api| unsafe { api.destroy_pool(pool) });
        }
    }
}

/// Pinned memory of the host, which the GPU reads and writes directly in copies.
pub struct Pinned {
    context: Arc<Context>,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory; its users synchronize their accesses.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Code> {
        let mut start: *mut c_void = std::ptr::null_mut();
        // SAFETY: the out pointer is valid.
        unsafe { context.api().allocate_host(&raw mut start, bytes, PORTABLE) }?;
        // Treats success with a null pointer as out of memory.
        let no_memory = Code::new("cuMemHostAlloc", Code::OUT_OF_MEMORY);
        Ok(Self {
            context: context.clone(),
            start: NonNull::new(start.cast()).ok_or(no_memory)?,
            bytes,
        })
    }

    /// Returns the start of the memory, which has one address as long as the value lives.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Pinned {
    /// No copy uses the memory any more. Does not wait for the GPU (`Context::retire`).
    fn drop(&mut self) {
        self.context.retire(Retired::Pinned(self.start.cast()));
    }
}
