//! The driver's library and the functions that the backend calls, with the types of cudarc. Functions that only newer
//! drivers have are optional.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::LazyLock;

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext,
    CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUlaunchConfig,
    CUmemAccessDesc, CUmemPoolProps, CUmemoryPool, CUmodule, CUstream, CUtensorMap, CUuuid,
};
use libloading::Library;

use super::Code;
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
    needed -> Code = |_, call, number| Code::check(call, number) => {
        error_name = cuGetErrorName(code: c_uint, name: *mut *const c_char);
        init = cuInit(flags: c_uint);
        driver_version = cuDriverGetVersion(version: *mut c_int);
        device_count = cuDeviceGetCount(count: *mut c_int);
        device = cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
        device_name = cuDeviceGetName(name: *mut c_char, room: c_int, device: CUdevice);
        device_uuid = cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
        device_memory = cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
        device_attribute = cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
        retain_context = cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
        release_context = cuDevicePrimaryCtxRelease_v2(device: CUdevice);
        set_context = cuCtxSetCurrent(context: CUcontext);
        push_context = cuCtxPushCurrent_v2(context: CUcontext);
        pop_context = cuCtxPopCurrent_v2(popped: *mut CUcontext);
        context_device = cuCtxGetDevice(device: *mut CUdevice);
        stream_context = cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
        priority_range = cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
        memory_info = cuMemGetInfo_v2(free: *mut usize, all: *mut usize);
        create_pool = cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps);
        destroy_pool = cuMemPoolDestroy(pool: CUmemoryPool);
        trim_pool = cuMemPoolTrimTo(pool: CUmemoryPool, bytes: usize);
        set_pool_attribute = cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
        allocate_from_pool = cuMemAllocFromPoolAsync(
            address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream
        );
        free_async = cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
        allocate = cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
        free = cuMemFree_v2(address: CUdeviceptr);
        allocate_host = cuMemHostAlloc(start: *mut *mut c_void, bytes: usize, flags: c_uint);
        free_host = cuMemFreeHost(start: *mut c_void);
        copy_in = cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
        copy_out = cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
        copy = cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
        copy_peer = cuMemcpyPeerAsync(
            to: CUdeviceptr, context: CUcontext, from: CUdeviceptr, of: CUcontext, bytes: usize, stream: CUstream
        );
        reaches_peer = cuDeviceCanAccessPeer(reaches: *mut c_int, device: CUdevice, peer: CUdevice);
        set_pool_access = cuMemPoolSetAccess(pool: CUmemoryPool, list: *const CUmemAccessDesc, count: usize);
        copy_rows = cuMemcpy2DAsync_v2(rows: *const CUDA_MEMCPY2D, stream: CUstream);
        fill_8 = cuMemsetD8Async(address: CUdeviceptr, value: u8, count: usize, stream: CUstream);
        fill_16 = cuMemsetD16Async(address: CUdeviceptr, value: u16, count: usize, stream: CUstream);
        fill_32 = cuMemsetD32Async(address: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);
        fill_8_2d = cuMemsetD2D8Async(
            address: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream
        );
        create_stream = cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
        destroy_stream = cuStreamDestroy_v2(stream: CUstream);
        synchronize_stream = cuStreamSynchronize(stream: CUstream);
        is_capturing = cuStreamIsCapturing(stream: CUstream, status: *mut c_uint);
        exchange_capture_mode = cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
        stream_wait = cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
        create_event = cuEventCreate(event: *mut CUevent, flags: c_uint);
        destroy_event = cuEventDestroy_v2(event: CUevent);
        record = cuEventRecord(event: CUevent, stream: CUstream);
        elapsed = cuEventElapsedTime(ms: *mut f32, from: CUevent, to: CUevent);
        query_event = cuEventQuery(event: CUevent);
        synchronize_event = cuEventSynchronize(event: CUevent);
        load_module = cuModuleLoadDataEx(
            module: *mut CUmodule, image: *const c_void, count: c_uint, options: *const c_uint,
            values: *mut *mut c_void
        );
        unload_module = cuModuleUnload(module: CUmodule);
        function = cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
        function_attribute = cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction);
        set_function_attribute = cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int);
        parameter_info = cuFuncGetParamInfo(
            function: CUfunction, index: usize, offset: *mut usize, bytes: *mut usize
        );
        launch_with = cuLaunchKernelEx(
            config: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void,
            extra: *mut *mut c_void
        );
        launch = cuLaunchKernel(
            function: CUfunction, x: c_uint, y: c_uint, z: c_uint, threads_x: c_uint, threads_y: c_uint,
            threads_z: c_uint, shared_bytes: c_uint, stream: CUstream, parameters: *mut *mut c_void,
            extra: *mut *mut c_void
        );
    }
    optional {
        // Since 12.4: loads a function now. Otherwise its first launch does so, under the context's lock.
        load_function = cuFuncLoad(CUfunction);
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
    needed -> Code = |_, call, number| Code::check(call, number) => {
        create = cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
        destroy = cuGraphDestroy(graph: CUgraph);
        add_kernel = cuGraphAddKernelNode_v2(
            node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
            of: *const CUDA_KERNEL_NODE_PARAMS
        );
        add_copy = cuGraphAddMemcpyNode(
            node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
            of: *const CUDA_MEMCPY3D, context: CUcontext
        );
        add_memset = cuGraphAddMemsetNode(
            node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
            of: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext
        );
        instantiate = cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: u64);
        destroy_exec = cuGraphExecDestroy(exec: CUgraphExec);
        set_kernel = cuGraphExecKernelNodeSetParams_v2(
            exec: CUgraphExec, node: CUgraphNode, to: *const CUDA_KERNEL_NODE_PARAMS
        );
        set_copy = cuGraphExecMemcpyNodeSetParams(
            exec: CUgraphExec, node: CUgraphNode, to: *const CUDA_MEMCPY3D, context: CUcontext
        );
        set_memset = cuGraphExecMemsetNodeSetParams(
            exec: CUgraphExec, node: CUgraphNode, to: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext
        );
        launch = cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    }
}

/// Returns the driver's functions, looked up once.
///
/// # Errors
/// The library or a function is missing; the message says what to do.
pub(crate) fn api() -> Result<&'static Api, &'static str> {
    static API: LazyLock<Result<Api, String>> = LazyLock::new(|| {
        let missing = |symbol| {
            format!(
                "the CUDA driver library has no function `{symbol}`; update NVIDIA's driver to CUDA {} or later",
                super::version_text(super::VERSION_MIN)
            )
        };
        Api::of(library()?).map_err(missing)
    });
    API.as_ref().map_err(String::as_str)
}

/// Returns the driver's functions for graphs, looked up once, or `None` if the driver lacks one of them.
pub(crate) fn graph_api() -> Option<&'static GraphApi> {
    static API: LazyLock<Option<GraphApi>> = LazyLock::new(|| GraphApi::of(library().ok()?).ok());
    API.as_ref()
}

/// Returns the driver's library, loaded once and never unloaded: its threads and ours may run its code until the process
/// ends.
fn library() -> Result<&'static Library, &'static str> {
    static DRIVER: LazyLock<Result<Library, String>> = LazyLock::new(find);
    DRIVER.as_ref().map_err(String::as_str)
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
