//! Memory of the GPU, and memory of the host that the GPU reaches by itself.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUdeviceptr, CUmemAllocationType, CUmemLocationType, CUmemPoolProps, CUmemoryPool,
};

use super::context::told;
use super::{Code, Context, CuStream};

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: u32 = 4;
/// Any context of the process may use it. Not write-combined: what is read back is read by the processor.
const PORTABLE: u32 = 1;

/// Where pages come from: a pool of the driver's that keeps what it has, and a stream of its own, on which nothing
/// is ever waited for but allocations.
pub(crate) struct PagePool {
    context: Arc<Context>,
    stream: CuStream,
    /// None where the GPU has no pools: then pages are allocated one by one.
    pool: Option<CUmemoryPool>,
}

// SAFETY: the driver takes a pool from any thread.
unsafe impl Send for PagePool {}

impl PagePool {
    /// A pool, or, with `pooled` false, none.
    pub(crate) fn new(context: &Arc<Context>, pooled: bool) -> Result<Self, Code> {
        let stream = CuStream::new(context, 0)?;
        let mut made = Self {
            context: context.clone(),
            stream,
            pool: None,
        };
        if pooled {
            // SAFETY: a plain structure of C, of which all zeros is a value: its enumerations have a 0.
            let mut properties: CUmemPoolProps = unsafe { std::mem::zeroed() };
            properties.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            properties.location.id = context.gpu().device;
            let mut pool: CUmemoryPool = std::ptr::null_mut();
            let api = context.api();
            // SAFETY: the properties are those of device memory of our GPU, and are read during the call.
            Code::check(unsafe { (api.create_pool)(&raw mut pool, &raw const properties) })?;
            made.pool = Some(pool);
            let mut keep_all = u64::MAX;
            // SAFETY: the attribute is a 64-bit number, read during the call.
            Code::check(unsafe {
                (api.set_pool_attribute)(pool, RELEASE_THRESHOLD, (&raw mut keep_all).cast())
            })?;
        }
        Ok(made)
    }

    pub(crate) fn raw(&self) -> Option<CUmemoryPool> {
        self.pool
    }

    /// Device memory, which every stream may use at once.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<CUdeviceptr, Code> {
        let api = self.context.api();
        let mut address: CUdeviceptr = 0;
        let Some(pool) = self.pool else {
            // SAFETY: the place for the answer is ours.
            Code::check(unsafe { (api.allocate)(&raw mut address, bytes) })?;
            return Ok(address);
        };
        // SAFETY: pool and stream live.
        Code::check(unsafe {
            (api.allocate_from_pool)(&raw mut address, bytes, pool, self.stream.raw())
        })?;
        // The memory is there in the order of the pool's stream, on which nothing runs: this waits for nobody.
        let there = self.stream.synchronize();
        there.map(|()| address).inspect_err(|_| self.free(address))
    }

    /// Gives memory back that no stream uses any more.
    pub(crate) fn free(&self, address: CUdeviceptr) {
        let api = self.context.api();
        // SAFETY: it is of `allocate`, is given back once, and every use of it is over.
        let answer = unsafe {
            match self.pool {
                Some(_) => (api.free_async)(address, self.stream.raw()),
                None => (api.free)(address),
            }
        };
        told("cuMemFree", answer);
    }
}

impl Drop for PagePool {
    /// What has been given back goes in the order of the stream, which the driver sees to.
    fn drop(&mut self) {
        if let Some(pool) = self.pool {
            self.context.end("cuMemPoolDestroy", |api| {
                // SAFETY: made once, ended once.
                unsafe { (api.destroy_pool)(pool) }
            });
        }
    }
}

/// Memory of the host that is locked in place, so that the GPU copies to and from it by itself.
pub(crate) struct Pinned {
    context: Arc<Context>,
    start: NonNull<u8>,
}

// SAFETY: it is plain memory; who may touch it when is the business of its user.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Code> {
        let mut start: *mut c_void = std::ptr::null_mut();
        // SAFETY: the place for the answer is ours.
        let answer = unsafe { (context.api().allocate_host)(&raw mut start, bytes, PORTABLE) };
        Code::check(answer)?;
        Ok(Self {
            context: context.clone(),
            // A driver that answers success with no memory is not believed.
            start: NonNull::new(start.cast()).ok_or(Code::OUT_OF_MEMORY)?,
        })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.context.end("cuMemFreeHost", |api| {
            // SAFETY: it is of `cuMemHostAlloc`, and no copy uses it any more.
            unsafe { (api.free_host)(self.start.as_ptr().cast()) }
        });
    }
}
