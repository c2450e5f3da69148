//! The driver functions that the backend calls, with the types of cudarc; return values are plain numbers.
//!
//! All of them are looked up when a device is opened: a driver without one of them is a typed error at that time, not a
//! panic at the first call. Functions that only newer drivers have are optional.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext,
    CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUlaunchConfig,
    CUmemAccessDesc, CUmemPoolProps, CUmemoryPool, CUmodule, CUstream, CUtensorMap, CUuuid,
};
use libloading::Library;

use super::library::library;

macro_rules! functions {
    (
        $(#[$about:meta])*
        struct $table:ident;
        needed { $($name:ident = $symbol:ident($($type:ty),*);)* }
        optional { $($maybe:ident = $maybe_symbol:ident($($maybe_type:ty),*);)* }
    ) => {
        $(#[$about])*
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($type),*) -> u32,)*
            $(pub(crate) $maybe: Option<unsafe extern "C" fn($($maybe_type),*) -> u32>,)*
        }

        impl $table {
            fn of(library: &'static Library) -> Result<Self, &'static str> {
                // SAFETY: the types are those of the driver's headers, except for the return type: the ABI of a C enum
                                // is that of an unsigned number.
                unsafe {
                    Ok(Self {
                        $($name: *library
                            .get(stringify!($symbol))
                            .map_err(|_| stringify!($symbol))?,)*
                        $($maybe: library.get(stringify!($maybe_symbol)).ok().map(|found| *found),)*
                    })
                }
            }
        }
    };
}

functions! {
    /// The driver's functions.
    struct Api;
    needed {
        init = cuInit(c_uint);
        driver_version = cuDriverGetVersion(*mut c_int);
        device_count = cuDeviceGetCount(*mut c_int);
        device = cuDeviceGet(*mut CUdevice, c_int);
        device_name = cuDeviceGetName(*mut c_char, c_int, CUdevice);
        device_uuid = cuDeviceGetUuid_v2(*mut CUuuid, CUdevice);
        device_memory = cuDeviceTotalMem_v2(*mut usize, CUdevice);
        device_attribute = cuDeviceGetAttribute(*mut c_int, c_uint, CUdevice);
        retain_context = cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
        release_context = cuDevicePrimaryCtxRelease_v2(CUdevice);
        set_context = cuCtxSetCurrent(CUcontext);
        push_context = cuCtxPushCurrent_v2(CUcontext);
        pop_context = cuCtxPopCurrent_v2(*mut CUcontext);
        context_device = cuCtxGetDevice(*mut CUdevice);
        stream_context = cuStreamGetCtx(CUstream, *mut CUcontext);
        priority_range = cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int);
        memory_info = cuMemGetInfo_v2(*mut usize, *mut usize);
        create_pool = cuMemPoolCreate(*mut CUmemoryPool, *const CUmemPoolProps);
        destroy_pool = cuMemPoolDestroy(CUmemoryPool);
        trim_pool = cuMemPoolTrimTo(CUmemoryPool, usize);
        set_pool_attribute = cuMemPoolSetAttribute(CUmemoryPool, c_uint, *mut c_void);
        allocate_from_pool = cuMemAllocFromPoolAsync(*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
        free_async = cuMemFreeAsync(CUdeviceptr, CUstream);
        allocate = cuMemAlloc_v2(*mut CUdeviceptr, usize);
        free = cuMemFree_v2(CUdeviceptr);
        allocate_host = cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        free_host = cuMemFreeHost(*mut c_void);
        copy_in = cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
        copy_out = cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
        copy = cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
        copy_peer = cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
        reaches_peer = cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);
        set_pool_access = cuMemPoolSetAccess(CUmemoryPool, *const CUmemAccessDesc, usize);
        copy_rows = cuMemcpy2DAsync_v2(*const CUDA_MEMCPY2D, CUstream);
        fill_8 = cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
        fill_16 = cuMemsetD16Async(CUdeviceptr, u16, usize, CUstream);
        fill_8_2d = cuMemsetD2D8Async(CUdeviceptr, usize, u8, usize, usize, CUstream);
        fill_32 = cuMemsetD32Async(CUdeviceptr, c_uint, usize, CUstream);
        create_stream = cuStreamCreateWithPriority(*mut CUstream, c_uint, c_int);
        destroy_stream = cuStreamDestroy_v2(CUstream);
        synchronize_stream = cuStreamSynchronize(CUstream);
        query_stream = cuStreamQuery(CUstream);
        stream_wait = cuStreamWaitEvent(CUstream, CUevent, c_uint);
        create_event = cuEventCreate(*mut CUevent, c_uint);
        destroy_event = cuEventDestroy_v2(CUevent);
        record = cuEventRecord(CUevent, CUstream);
        elapsed = cuEventElapsedTime(*mut f32, CUevent, CUevent);
        query_event = cuEventQuery(CUevent);
        synchronize_event = cuEventSynchronize(CUevent);
        load_module = cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *const c_uint, *mut *mut c_void);
        unload_module = cuModuleUnload(CUmodule);
        function = cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
        function_attribute = cuFuncGetAttribute(*mut c_int, c_uint, CUfunction);
        set_function_attribute = cuFuncSetAttribute(CUfunction, c_uint, c_int);
        parameter_info = cuFuncGetParamInfo(CUfunction, usize, *mut usize, *mut usize);
        launch_with = cuLaunchKernelEx(*const CUlaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
        launch = cuLaunchKernel(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
            *mut *mut c_void, *mut *mut c_void
        );
    }
    optional {
        // Since 12.4: loads a function now. Otherwise its first launch does so, under the context's lock.
        load_function = cuFuncLoad(CUfunction);
        // Since 11.7: a stream writes a value to memory.
        write_value = cuStreamWriteValue64_v2(CUstream, CUdeviceptr, u64, c_uint);
        // Since 12.0: tensor maps. Enums are numbers here.
        encode_tiled = cuTensorMapEncodeTiled(
            *mut CUtensorMap, c_uint, c_uint, *mut c_void, *const u64, *const u64, *const u32, *const u32,
            c_uint, c_uint, c_uint, c_uint
        );
        encode_im2col = cuTensorMapEncodeIm2col(
            *mut CUtensorMap, c_uint, c_uint, *mut c_void, *const u64, *const u64, *const i32, *const i32,
            c_uint, c_uint, *const u32, c_uint, c_uint, c_uint, c_uint
        );
    }
}

functions! {
    /// The driver's functions for graphs, since 12.0.
    struct GraphApi;
    needed {
        create = cuGraphCreate(*mut CUgraph, c_uint);
        destroy = cuGraphDestroy(CUgraph);
        add_kernel = cuGraphAddKernelNode_v2(
            *mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_KERNEL_NODE_PARAMS
        );
        add_copy = cuGraphAddMemcpyNode(
            *mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_MEMCPY3D, CUcontext
        );
        add_memset = cuGraphAddMemsetNode(
            *mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_MEMSET_NODE_PARAMS, CUcontext
        );
        instantiate = cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
        destroy_exec = cuGraphExecDestroy(CUgraphExec);
        set_kernel = cuGraphExecKernelNodeSetParams_v2(CUgraphExec, CUgraphNode, *const CUDA_KERNEL_NODE_PARAMS);
        set_copy = cuGraphExecMemcpyNodeSetParams(CUgraphExec, CUgraphNode, *const CUDA_MEMCPY3D, CUcontext);
        set_memset = cuGraphExecMemsetNodeSetParams(
            CUgraphExec, CUgraphNode, *const CUDA_MEMSET_NODE_PARAMS, CUcontext
        );
        launch = cuGraphLaunch(CUgraphExec, CUstream);
    }
    optional {}
}

/// Why the driver cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Absent {
    #[error("{0}")]
    Library(&'static str),
    #[error(
        "the CUDA driver library has no function `{0}`; update NVIDIA's driver to CUDA {min} or later",
        min = super::version_text(super::VERSION_MIN)
    )]
    Function(&'static str),
}

/// Returns the driver's functions, looked up once.
///
/// # Errors
/// The library or a function is missing; the message says what to do.
pub(crate) fn api() -> Result<&'static Api, Absent> {
    static API: OnceLock<Result<Api, Absent>> = OnceLock::new();
    let found = API.get_or_init(|| {
        let library = library().map_err(Absent::Library)?;
        Api::of(library).map_err(Absent::Function)
    });
    found.as_ref().map_err(Clone::clone)
}

/// Returns the driver's functions for graphs, looked up once, or `None` if the driver lacks one of them.
pub(crate) fn graph_api() -> Option<&'static GraphApi> {
    static API: OnceLock<Option<GraphApi>> = OnceLock::new();
    API.get_or_init(|| GraphApi::of(library().ok()?).ok())
        .as_ref()
}
