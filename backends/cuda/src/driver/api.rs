//! The driver's library and the functions that the backend calls, with the types of cudarc. Functions that only newer
//! drivers have are optional.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext,
    CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUlaunchConfig,
    CUmemAccessDesc, CUmemPoolProps, CUmemoryPool, CUmodule, CUstream, CUtensorMap, CUuuid,
};
use libloading::Library;

use crate::library::functions;

/// The library's names on the supported systems.
const NAMES: [&str; 2] = ["cuda", "nvcuda"];
/// The name under which NVIDIA's driver installs it.
const INSTALLED: &str = if cfg!(windows) {
    "nvcuda.dll"
} else {
    "libcuda.so.1"
};

functions! {
    /// The driver's functions.
    struct Api;
    needed {
        error_name = cuGetErrorName(c_uint, *mut *const c_char);
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
}

/// Returns the driver's functions, looked up once.
///
/// # Errors
/// The library or a function is missing; the message says what to do.
pub(crate) fn api() -> Result<&'static Api, &'static str> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let find = || {
        let missing = |symbol| {
            format!(
                "the CUDA driver library has no function `{symbol}`; update NVIDIA's driver to CUDA {} or later",
                super::version_text(super::VERSION_MIN)
            )
        };
        Api::of(library()?).map_err(missing)
    };
    API.get_or_init(find).as_ref().map_err(String::as_str)
}

/// Returns the driver's functions for graphs, looked up once, or `None` if the driver lacks one of them.
pub(crate) fn graph_api() -> Option<&'static GraphApi> {
    static API: OnceLock<Option<GraphApi>> = OnceLock::new();
    API.get_or_init(|| GraphApi::of(library().ok()?).ok())
        .as_ref()
}

/// Returns the driver's library, loaded once and never unloaded: its threads and ours may run its code until the process
/// ends.
fn library() -> Result<&'static Library, &'static str> {
    static DRIVER: OnceLock<Result<Library, String>> = OnceLock::new();
    DRIVER.get_or_init(find).as_ref().map_err(String::as_str)
}

fn find() -> Result<Library, String> {
    let candidates = NAMES
        .iter()
        .flat_map(|name| cudarc::get_lib_name_candidates(name));
    let mut why = String::new();
    for candidate in candidates {
        // SAFETY: the library's initializers are the driver's own, which every user of the driver runs.
        match unsafe { Library::new(&candidate) } {
            Ok(library) => return Ok(library),
            // The system says whether this file is absent or broken, in its own language.
            Err(error) if candidate == INSTALLED => why = with_causes(&error),
            Err(_) => {}
        }
    }
    Err(format!(
        "the CUDA driver library `{INSTALLED}` cannot be loaded; install NVIDIA's driver, or choose another backend: {why}"
    ))
}

/// Formats an error with its chain of causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<_> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
