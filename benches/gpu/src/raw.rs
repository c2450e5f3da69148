//! Direct calls of the driver. Each method is one call and nothing else, so that only the driver is measured.
//!
//! The types own the driver's handles and destroy them when they are dropped. They are sound only within this program:
//! the caller that submits work to a stream waits for it before it drops memory that the work uses.

use std::ffi::{CStr, CString, c_char, c_void};

use libloading::Library;

use crate::error::BenchError;

macro_rules! functions {
    ($($name:ident($($type:ty),*);)*) => {
        /// The functions of the driver, looked up once, by their own names. Handles are numbers.
        #[allow(non_snake_case, reason = "these are the names of C")]
        struct Api {
            $($name: unsafe extern "C" fn($($type),*) -> u32,)*
        }

        impl Api {
            fn find(library: &'static Library) -> Result<Self, BenchError> {
                // SAFETY: the types are those of the driver's headers: handles and addresses are 64 bits, enumerations
                // unsigned numbers.
                unsafe {
                    Ok(Self {
                        $($name: *library
                            .get(stringify!($name))
                            .map_err(|_| BenchError::Function(stringify!($name)))?,)*
                    })
                }
            }
        }
    };
}

functions! {
    cuInit(u32);
    cuDeviceGet(*mut i32, i32);
    cuDeviceGetAttribute(*mut i32, u32, i32);
    cuDevicePrimaryCtxRetain(*mut u64, i32);
    cuDevicePrimaryCtxRelease_v2(i32);
    cuCtxSetCurrent(u64);
    cuModuleLoadData(*mut u64, *const c_void);
    cuModuleUnload(u64);
    cuModuleGetFunction(*mut u64, u64, *const c_char);
    cuStreamCreateWithPriority(*mut u64, u32, i32);
    cuStreamDestroy_v2(u64);
    cuStreamSynchronize(u64);
    cuStreamWaitEvent(u64, u64, u32);
    cuStreamWriteValue64_v2(u64, u64, u64, u32);
    cuGraphCreate(*mut u64, u32);
    cuGraphAddKernelNode_v2(*mut u64, u64, *const u64, usize, *const KernelNode);
    cuEventCreate(*mut u64, u32);
    cuEventDestroy_v2(u64);
    cuEventRecord(u64, u64);
    cuEventQuery(u64);
    cuLaunchKernel(u64, u32, u32, u32, u32, u32, u32, u32, u64, *mut *mut c_void, *mut *mut c_void);
    cuGraphInstantiateWithFlags(*mut u64, u64, u64);
    cuGraphLaunch(u64, u64);
    cuGraphExecKernelNodeSetParams_v2(u64, u64, *const KernelNode);
    cuGraphExecDestroy(u64);
    cuGraphDestroy(u64);
    cuMemAlloc_v2(*mut u64, usize);
    cuMemFree_v2(u64);
    cuMemHostAlloc(*mut u64, usize, u32);
    cuMemFreeHost(u64);
    cuMemPoolCreate(*mut u64, *const PoolProperties);
    cuMemPoolSetAttribute(u64, u32, *mut c_void);
    cuMemPoolDestroy(u64);
    cuMemAllocFromPoolAsync(*mut u64, usize, u64, u64);
    cuMemFreeAsync(u64, u64);
    cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, u64);
    cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, u64);
    cuMemcpyDtoDAsync_v2(u64, u64, usize, u64);
}

/// Calls a function of the driver and converts its code to a result.
macro_rules! call {
    ($gpu:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the handles belong to live values, the out pointers are valid, and memory outlives the work that uses
        // it, which each caller ensures (see the module).
        let code = unsafe { ($gpu.api.$name)($($argument),*) };
        match code {
            0 => Ok(()),
            code => Err(BenchError::Call { call: stringify!($name), code }),
        }
    }};
}

/// Creates an object of the driver, whose first argument is an out pointer, and owns it.
macro_rules! owned {
    ($gpu:expr, $create:ident($($argument:expr),*), $destroy:ident) => {{
        let mut raw = 0;
        call!($gpu, $create(&raw mut raw $(, $argument)*)).map(|()| Owned { gpu: $gpu, raw, destroy: $gpu.api.$destroy })
    }};
}

/// The names of the library, in the order in which the backend tries them.
const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `.._MINOR`
const CAPABILITY: [u32; 2] = [75, 76];
/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`
const UNTIMED: u32 = 2;
/// `CU_MEM_ALLOCATION_TYPE_PINNED` and `CU_MEM_LOCATION_TYPE_DEVICE`: pinned memory of a GPU.
const ON_A_GPU: u32 = 1;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: u32 = 4;
/// `CU_MEMHOSTALLOC_PORTABLE`
const PORTABLE: u32 = 1;
/// Threads of a block.
pub(crate) const THREADS: u32 = 32;

/// `CUmemPoolProps`
#[repr(C)]
struct PoolProperties {
    kind: u32,
    handles: u32,
    location: u32,
    gpu: i32,
    reserved: [u64; 9],
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[repr(C)]
struct KernelNode {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    parameters: *mut *mut c_void,
    rest: [u64; 3],
}

/// Loads the library and looks up its functions.
fn load() -> Result<Api, BenchError> {
    let mut last_error = String::new();
    for name in NAMES {
        // SAFETY: the initializers are the driver's, which run in each of its users.
        match unsafe { Library::new(name) } {
            // Never unloaded: the driver's threads run its code until the process ends.
            Ok(library) => return Api::find(Box::leak(Box::new(library))),
            Err(error) => last_error = error.to_string(),
        }
    }
    Err(BenchError::Library(last_error))
}

/// The first GPU, its primary context, and a module with the kernels.
pub(crate) struct Gpu {
    api: Api,
    device: i32,
    context: u64,
    module: u64,
}

impl Gpu {
    /// Opens the GPU, loads the kernels of this PTX, and makes the context current on the calling thread.
    pub(crate) fn open(ptx: &str) -> Result<Self, BenchError> {
        let mut gpu = Self {
            api: load()?,
            device: 0,
            context: 0,
            module: 0,
        };
        call!(gpu, cuInit(0))?;
        call!(gpu, cuDeviceGet(&raw mut gpu.device, 0))?;
        let (device, mut context, mut module) = (gpu.device, 0, 0);
        call!(gpu, cuDevicePrimaryCtxRetain(&raw mut context, device))?;
        gpu.context = context;
        gpu.bind()?;
        let text = CString::new(ptx).unwrap_or_default();
        call!(gpu, cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
        gpu.module = module;
        Ok(gpu)
    }

    /// Makes the context current on the calling thread.
    pub(crate) fn bind(&self) -> Result<(), BenchError> {
        call!(self, cuCtxSetCurrent(self.context))
    }

    /// Returns the compute capability, such as `9.0`.
    pub(crate) fn capability(&self) -> Result<String, BenchError> {
        let [mut major, mut minor] = [0; 2];
        for (part, attribute) in [&mut major, &mut minor].into_iter().zip(CAPABILITY) {
            let part = &raw mut *part;
            call!(self, cuDeviceGetAttribute(part, attribute, self.device))?;
        }
        Ok(format!("{major}.{minor}"))
    }

    /// Looks up a kernel of the module.
    pub(crate) fn kernel(&self, name: &CStr) -> Result<Kernel<'_>, BenchError> {
        let (gpu, mut function) = (self, 0);
        let (module, name) = (self.module, name.as_ptr());
        call!(gpu, cuModuleGetFunction(&raw mut function, module, name))?;
        Ok(Kernel { gpu, function })
    }

    pub(crate) fn stream(&self) -> Result<Stream<'_>, BenchError> {
        let created = owned!(
            self,
            cuStreamCreateWithPriority(NON_BLOCKING, 0),
            cuStreamDestroy_v2
        );
        created.map(Stream)
    }

    pub(crate) fn event(&self, timed: bool) -> Result<Event<'_>, BenchError> {
        let flags = if timed { 0 } else { UNTIMED };
        owned!(self, cuEventCreate(flags), cuEventDestroy_v2).map(Event)
    }

    pub(crate) fn memory(&self, bytes: usize) -> Result<Memory<'_>, BenchError> {
        let owned = owned!(self, cuMemAlloc_v2(bytes), cuMemFree_v2)?;
        Ok(Memory { owned, bytes })
    }

    /// Allocates pinned memory, filled with zeros.
    pub(crate) fn pinned(&self, bytes: usize) -> Result<Pinned<'_>, BenchError> {
        let pinned = Pinned(owned!(
            self,
            cuMemHostAlloc(bytes, PORTABLE),
            cuMemFreeHost
        )?);
        // SAFETY: new memory of `bytes` bytes.
        unsafe { pinned.start().cast::<u8>().write_bytes(0, bytes) };
        Ok(pinned)
    }

    /// Creates a memory pool that returns no memory to the system.
    pub(crate) fn pool(&self) -> Result<Pool<'_>, BenchError> {
        let properties = PoolProperties {
            kind: ON_A_GPU,
            handles: 0,
            location: ON_A_GPU,
            gpu: self.device,
            reserved: [0; 9],
        };
        let pool = owned!(
            self,
            cuMemPoolCreate(&raw const properties),
            cuMemPoolDestroy
        )?;
        let mut keep_all = u64::MAX;
        let value = (&raw mut keep_all).cast();
        call!(
            self,
            cuMemPoolSetAttribute(pool.raw, RELEASE_THRESHOLD, value)
        )?;
        Ok(Pool(pool))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.module != 0 {
            let _ = call!(self, cuModuleUnload(self.module));
        }
        if self.context != 0 {
            let _ = call!(self, cuDevicePrimaryCtxRelease_v2(self.device));
        }
    }
}

/// An object of the driver, which is destroyed when it is dropped.
struct Owned<'a> {
    gpu: &'a Gpu,
    raw: u64,
    destroy: unsafe extern "C" fn(u64) -> u32,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the function destroys objects of this kind, and this one is destroyed once.
        unsafe { (self.destroy)(self.raw) };
    }
}

/// A kernel, launched with one block of one warp.
#[derive(Clone, Copy)]
pub(crate) struct Kernel<'a> {
    gpu: &'a Gpu,
    function: u64,
}

impl Kernel<'_> {
    /// Launches the kernel.
    #[inline]
    pub(crate) fn launch(
        &self,
        stream: &Stream<'_>,
        parameters: &mut Parameters,
    ) -> Result<(), BenchError> {
        let (function, list) = (self.function, parameters.list());
        let (stream, none) = (stream.0.raw, std::ptr::null_mut());
        call!(
            self.gpu,
            cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, stream, list, none)
        )
    }

    /// Returns the launch as a node.
    fn node(&self, parameters: &mut Parameters) -> KernelNode {
        KernelNode {
            function: self.function,
            grid: [1; 3],
            block: [THREADS, 1, 1],
            shared: 0,
            parameters: parameters.list(),
            rest: [0; 3],
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
pub(crate) struct Stream<'a>(Owned<'a>);

impl Stream<'_> {
    /// Waits until all work of the stream has completed.
    pub(crate) fn synchronize(&self) -> Result<(), BenchError> {
        call!(self.0.gpu, cuStreamSynchronize(self.0.raw))
    }

    /// Makes the stream wait for an event.
    #[inline]
    pub(crate) fn wait_for(&self, event: &Event<'_>) -> Result<(), BenchError> {
        call!(self.0.gpu, cuStreamWaitEvent(self.0.raw, event.0.raw, 0))
    }

    /// Makes the stream write a word to this address.
    #[inline]
    pub(crate) fn write_value(&self, address: u64, value: u64) -> Result<(), BenchError> {
        call!(
            self.0.gpu,
            cuStreamWriteValue64_v2(self.0.raw, address, value, 0)
        )
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        let _ = self.synchronize();
    }
}

/// An event.
pub(crate) struct Event<'a>(Owned<'a>);

impl Event<'_> {
    #[inline]
    pub(crate) fn record(&self, stream: &Stream<'_>) -> Result<(), BenchError> {
        call!(self.0.gpu, cuEventRecord(self.0.raw, stream.0.raw))
    }

    /// Queries the event. An event that has not completed (`CUDA_ERROR_NOT_READY`) is not an error.
    #[inline]
    pub(crate) fn query(&self) -> Result<(), BenchError> {
        match call!(self.0.gpu, cuEventQuery(self.0.raw)) {
            Err(BenchError::Call { code: 600, .. }) => Ok(()),
            answer => answer,
        }
    }
}

/// GPU memory.
pub(crate) struct Memory<'a> {
    owned: Owned<'a>,
    bytes: usize,
}

impl Memory<'_> {
    pub(crate) fn address(&self) -> u64 {
        self.owned.raw
    }

    /// Copies all of it from the host. The caller keeps the source valid until the stream has completed the copy.
    pub(crate) fn copy_in(&self, from: *const c_void, on: &Stream<'_>) -> Result<(), BenchError> {
        let (gpu, to) = (self.owned.gpu, self.owned.raw);
        call!(gpu, cuMemcpyHtoDAsync_v2(to, from, self.bytes, on.0.raw))
    }

    /// Copies all of it to the host. The caller keeps the target valid until the stream has completed the copy.
    pub(crate) fn copy_out(&self, to: *mut c_void, on: &Stream<'_>) -> Result<(), BenchError> {
        let (gpu, from) = (self.owned.gpu, self.owned.raw);
        call!(gpu, cuMemcpyDtoHAsync_v2(to, from, self.bytes, on.0.raw))
    }

    /// Copies all of it to memory of the same size.
    pub(crate) fn copy_to(&self, to: &Memory<'_>, on: &Stream<'_>) -> Result<(), BenchError> {
        let (gpu, from, to) = (self.owned.gpu, self.owned.raw, to.owned.raw);
        call!(gpu, cuMemcpyDtoDAsync_v2(to, from, self.bytes, on.0.raw))
    }
}

/// Pinned host memory.
pub(crate) struct Pinned<'a>(Owned<'a>);

impl Pinned<'_> {
    pub(crate) fn start(&self) -> *mut c_void {
        self.0.raw as *mut c_void
    }
}

/// A memory pool.
pub(crate) struct Pool<'a>(Owned<'a>);

impl Pool<'_> {
    /// Allocates and frees memory in the stream's order: two calls.
    #[inline]
    pub(crate) fn allocate_and_free(
        &self,
        bytes: usize,
        stream: &Stream<'_>,
    ) -> Result<(), BenchError> {
        let (gpu, pool, stream, mut at) = (self.0.gpu, self.0.raw, stream.0.raw, 0);
        call!(
            gpu,
            cuMemAllocFromPoolAsync(&raw mut at, bytes, pool, stream)
        )?;
        call!(gpu, cuMemFreeAsync(at, stream))
    }
}

/// An instantiated graph of launches of one kernel.
pub(crate) struct Graph<'a> {
    executable: Owned<'a>,
    nodes: Vec<u64>,
    _graph: Owned<'a>,
}

impl<'a> Graph<'a> {
    /// Instantiates a graph of `count` launches, each of which depends on the one before.
    pub(crate) fn new(
        gpu: &'a Gpu,
        kernel: &Kernel<'_>,
        parameters: &mut Parameters,
        count: usize,
    ) -> Result<Self, BenchError> {
        let graph = owned!(gpu, cuGraphCreate(0), cuGraphDestroy)?;
        let (raw, node) = (graph.raw, kernel.node(parameters));
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            let before = nodes.last().copied();
            let (first, many) = (before.as_slice().as_ptr(), before.iter().len());
            let (mut added, node) = (0, &raw const node);
            call!(
                gpu,
                cuGraphAddKernelNode_v2(&raw mut added, raw, first, many, node)
            )?;
            nodes.push(added);
        }
        Ok(Self {
            executable: owned!(gpu, cuGraphInstantiateWithFlags(raw, 0), cuGraphExecDestroy)?,
            nodes,
            _graph: graph,
        })
    }

    #[inline]
    pub(crate) fn launch(&self, stream: &Stream<'_>) -> Result<(), BenchError> {
        let Owned { gpu, raw, .. } = self.executable;
        call!(gpu, cuGraphLaunch(raw, stream.0.raw))
    }

    /// Sets the parameters of every node for the following launches, by one call each.
    pub(crate) fn change_all(
        &self,
        kernel: &Kernel<'_>,
        parameters: &mut Parameters,
    ) -> Result<(), BenchError> {
        let Owned { gpu, raw, .. } = self.executable;
        let new = kernel.node(parameters);
        let mut nodes = self.nodes.iter();
        nodes.try_for_each(|node| {
            call!(
                gpu,
                cuGraphExecKernelNodeSetParams_v2(raw, *node, &raw const new)
            )
        })
    }
}

/// Formats a version of the driver.
pub(crate) fn version_text((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}
