//! Direct calls of the driver, by cudarc's table of its functions. Each method is one call and nothing else, so that only
//! the driver is measured.
//!
//! The types own the driver's handles and destroy them when they are dropped. They are sound only within this program:
//! the caller that submits work to a stream waits for it before it drops memory that the work uses.

use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;

use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice_attribute as Attribute, CUdeviceptr,
    CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUmemAllocationType, CUmemLocationType,
    CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUmodule, CUresult, CUstream,
};

use crate::error::BenchError;

/// Calls a function of the driver and converts its code to a result.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the handles belong to live values, the out pointers are valid, and memory outlives the work that uses
        // it, which each caller ensures (see the module).
        match unsafe { sys::$name($($argument),*) } {
            CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(BenchError::Call { call: stringify!($name), code }),
        }
    }};
}

/// Calls a function whose first argument is an out pointer, and returns the value.
macro_rules! made {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let mut made = MaybeUninit::uninit();
        // SAFETY: a function that succeeds has written its result.
        call!($name(made.as_mut_ptr() $(, $argument)*)).map(|()| unsafe { made.assume_init() })
    }};
}

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`
const UNTIMED: u32 = 2;
/// `CU_MEMHOSTALLOC_PORTABLE`
const PORTABLE: u32 = 1;
/// Threads of a block.
pub(crate) const THREADS: u32 = 32;

/// The first GPU, its primary context, and a module with the kernels.
pub(crate) struct Gpu {
    device: i32,
    context: CUcontext,
    module: CUmodule,
}

// SAFETY: handles of the driver, which any thread may use.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// Opens the GPU, loads the kernels of this PTX, and makes the context current on the calling thread.
    pub(crate) fn open(ptx: &str) -> Result<Self, BenchError> {
        call!(cuInit(0))?;
        let device = made!(cuDeviceGet(0))?;
        let mut gpu = Self {
            device,
            context: made!(cuDevicePrimaryCtxRetain(device))?,
            module: std::ptr::null_mut(),
        };
        gpu.bind()?;
        let text = CString::new(ptx).unwrap_or_default();
        gpu.module = made!(cuModuleLoadData(text.as_ptr().cast()))?;
        Ok(gpu)
    }

    /// Makes the context current on the calling thread.
    pub(crate) fn bind(&self) -> Result<(), BenchError> {
        call!(cuCtxSetCurrent(self.context))
    }

    /// Returns the compute capability, such as `9.0`.
    pub(crate) fn capability(&self) -> Result<String, BenchError> {
        let attribute = |attribute| made!(cuDeviceGetAttribute(attribute, self.device));
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(format!("{major}.{minor}"))
    }

    /// Looks up a kernel of the module.
    pub(crate) fn kernel(&self, name: &CStr) -> Result<Kernel, BenchError> {
        made!(cuModuleGetFunction(self.module, name.as_ptr())).map(Kernel)
    }

    pub(crate) fn stream(&self) -> Result<Stream, BenchError> {
        let raw = made!(cuStreamCreateWithPriority(NON_BLOCKING, 0))?;
        Ok(Stream(Owned(raw, sys::cuStreamDestroy_v2)))
    }

    pub(crate) fn event(&self, timed: bool) -> Result<Event, BenchError> {
        let raw = made!(cuEventCreate(if timed { 0 } else { UNTIMED }))?;
        Ok(Event(Owned(raw, sys::cuEventDestroy_v2)))
    }

    pub(crate) fn memory(&self, bytes: usize) -> Result<Memory, BenchError> {
        let owned = Owned(made!(cuMemAlloc_v2(bytes))?, sys::cuMemFree_v2);
        Ok(Memory { owned, bytes })
    }

    /// Allocates pinned memory, filled with zeros.
    pub(crate) fn pinned(&self, bytes: usize) -> Result<Pinned, BenchError> {
        let start = made!(cuMemHostAlloc(bytes, PORTABLE))?;
        // SAFETY: new memory of `bytes` bytes.
        unsafe { start.cast::<u8>().write_bytes(0, bytes) };
        Ok(Pinned(Owned(start, sys::cuMemFreeHost)))
    }

    /// Creates a memory pool that returns no memory to the system.
    pub(crate) fn pool(&self) -> Result<Pool, BenchError> {
        // SAFETY: plain numbers, for which 0 is valid.
        let mut properties: CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.id = self.device;
        let pool = made!(cuMemPoolCreate(&raw const properties))?;
        let pool = Pool(Owned(pool, sys::cuMemPoolDestroy));
        let keeps = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let mut all = u64::MAX;
        call!(cuMemPoolSetAttribute(
            pool.0.0,
            keeps,
            (&raw mut all).cast()
        ))?;
        Ok(pool)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !self.module.is_null() {
            let _ = call!(cuModuleUnload(self.module));
        }
        let _ = call!(cuDevicePrimaryCtxRelease_v2(self.device));
    }
}

/// An object of the driver, and the function that destroys it when it is dropped.
struct Owned<H: Copy>(H, unsafe fn(H) -> CUresult);

// SAFETY: handles of the driver, which any thread may use.
unsafe impl<H: Copy> Send for Owned<H> {}
// SAFETY: as above.
unsafe impl<H: Copy> Sync for Owned<H> {}

impl<H: Copy> Drop for Owned<H> {
    fn drop(&mut self) {
        // SAFETY: the function destroys objects of this kind, and this one is destroyed once.
        unsafe { self.1(self.0) };
    }
}

/// A kernel, launched with one block of one warp.
pub(crate) struct Kernel(CUfunction);

// SAFETY: as for owned handles.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Launches the kernel.
    #[inline]
    pub(crate) fn launch(
        &self,
        stream: &Stream,
        parameters: &mut Parameters,
    ) -> Result<(), BenchError> {
        let (list, none) = (parameters.list(), std::ptr::null_mut());
        call!(cuLaunchKernel(
            self.0, 1, 1, 1, THREADS, 1, 1, 0, stream.0.0, list, none
        ))
    }

    /// Returns the launch as a node.
    fn node(&self, parameters: &mut Parameters) -> CUDA_KERNEL_NODE_PARAMS {
        CUDA_KERNEL_NODE_PARAMS {
            func: self.0,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: THREADS,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: parameters.list(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        }
    }
}

/// The parameters of a kernel, eight bytes each; a narrower parameter reads the lower bytes.
pub(crate) struct Parameters {
    /// The values that the pointers point to.
    _values: Box<[u64]>,
    pointers: Box<[*mut c_void]>,
}

impl Parameters {
    pub(crate) fn new(values: &[u64]) -> Self {
        let mut values: Box<[u64]> = values.into();
        let pointers = values.iter_mut().map(|value| (&raw mut *value).cast());
        Self {
            pointers: pointers.collect(),
            _values: values,
        }
    }

    fn list(&mut self) -> *mut *mut c_void {
        self.pointers.as_mut_ptr()
    }
}

/// A stream. Dropping it waits for its work.
pub(crate) struct Stream(Owned<CUstream>);

impl Stream {
    /// Waits until all work of the stream has completed.
    pub(crate) fn synchronize(&self) -> Result<(), BenchError> {
        call!(cuStreamSynchronize(self.0.0))
    }

    /// Makes the stream wait for an event.
    #[inline]
    pub(crate) fn wait_for(&self, event: &Event) -> Result<(), BenchError> {
        call!(cuStreamWaitEvent(self.0.0, event.0.0, 0))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.synchronize();
    }
}

/// An event.
pub(crate) struct Event(Owned<CUevent>);

impl Event {
    #[inline]
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), BenchError> {
        call!(cuEventRecord(self.0.0, stream.0.0))
    }

    /// Queries the event. An event that has not completed is not an error.
    #[inline]
    pub(crate) fn query(&self) -> Result<(), BenchError> {
        match call!(cuEventQuery(self.0.0)) {
            Err(BenchError::Call {
                code: CUresult::CUDA_ERROR_NOT_READY,
                ..
            }) => Ok(()),
            answer => answer,
        }
    }
}

/// GPU memory.
pub(crate) struct Memory {
    owned: Owned<CUdeviceptr>,
    bytes: usize,
}

impl Memory {
    pub(crate) fn address(&self) -> u64 {
        self.owned.0
    }

    /// Copies all of it from the host. The caller keeps the source valid until the stream has completed the copy.
    pub(crate) fn copy_in(&self, from: *const c_void, on: &Stream) -> Result<(), BenchError> {
        call!(cuMemcpyHtoDAsync_v2(self.owned.0, from, self.bytes, on.0.0))
    }

    /// Copies all of it to the host. The caller keeps the target valid until the stream has completed the copy.
    pub(crate) fn copy_out(&self, to: *mut c_void, on: &Stream) -> Result<(), BenchError> {
        call!(cuMemcpyDtoHAsync_v2(to, self.owned.0, self.bytes, on.0.0))
    }

    /// Copies all of it to memory of the same size.
    pub(crate) fn copy_to(&self, to: &Memory, on: &Stream) -> Result<(), BenchError> {
        let (to, from) = (to.owned.0, self.owned.0);
        call!(cuMemcpyDtoDAsync_v2(to, from, self.bytes, on.0.0))
    }
}

/// Pinned host memory.
pub(crate) struct Pinned(Owned<*mut c_void>);

impl Pinned {
    pub(crate) fn start(&self) -> *mut c_void {
        self.0.0
    }
}

/// A memory pool.
pub(crate) struct Pool(Owned<CUmemoryPool>);

impl Pool {
    /// Allocates and frees memory in the stream's order: two calls.
    #[inline]
    pub(crate) fn allocate_and_free(
        &self,
        bytes: usize,
        stream: &Stream,
    ) -> Result<(), BenchError> {
        let at = made!(cuMemAllocFromPoolAsync(bytes, self.0.0, stream.0.0))?;
        call!(cuMemFreeAsync(at, stream.0.0))
    }
}

/// An instantiated graph of launches of one kernel.
pub(crate) struct Graph {
    executable: Owned<CUgraphExec>,
    nodes: Vec<CUgraphNode>,
    _graph: Owned<CUgraph>,
}

impl Graph {
    /// Instantiates a graph of `count` launches, each of which depends on the one before.
    pub(crate) fn new(
        kernel: &Kernel,
        parameters: &mut Parameters,
        count: usize,
    ) -> Result<Self, BenchError> {
        let graph = Owned(made!(cuGraphCreate(0))?, sys::cuGraphDestroy);
        let (raw, node) = (graph.0, kernel.node(parameters));
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            let before = nodes.last().copied();
            let (first, many) = (before.as_slice().as_ptr(), before.iter().len());
            let node = &raw const node;
            nodes.push(made!(cuGraphAddKernelNode_v2(raw, first, many, node))?);
        }
        let executable = made!(cuGraphInstantiateWithFlags(raw, 0))?;
        Ok(Self {
            executable: Owned(executable, sys::cuGraphExecDestroy),
            nodes,
            _graph: graph,
        })
    }

    #[inline]
    pub(crate) fn launch(&self, stream: &Stream) -> Result<(), BenchError> {
        call!(cuGraphLaunch(self.executable.0, stream.0.0))
    }

    /// Sets the parameters of every node for the following launches, by one call each.
    pub(crate) fn change_all(
        &self,
        kernel: &Kernel,
        parameters: &mut Parameters,
    ) -> Result<(), BenchError> {
        let (graph, new) = (self.executable.0, kernel.node(parameters));
        let mut nodes = self.nodes.iter();
        let set = |node: &CUgraphNode| {
            call!(cuGraphExecKernelNodeSetParams_v2(
                graph,
                *node,
                &raw const new
            ))
        };
        nodes.try_for_each(set)
    }
}
