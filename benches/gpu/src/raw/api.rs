//! The driver's functions that are measured or needed to measure, by their own names. Handles are numbers.

use std::ffi::{c_char, c_void};

use libloading::Library;

use super::{KernelNode, PoolProperties};
use crate::error::BenchError;

macro_rules! functions {
    ($($name:ident($($type:ty),*);)*) => {
        /// The functions of the driver, looked up once.
        #[allow(non_snake_case, reason = "these are the names of C")]
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> u32,)*
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
    cuMemHostAlloc(*mut *mut c_void, usize, u32);
    cuMemFreeHost(*mut c_void);
    cuMemPoolCreate(*mut u64, *const PoolProperties);
    cuMemPoolSetAttribute(u64, u32, *mut c_void);
    cuMemPoolDestroy(u64);
    cuMemAllocFromPoolAsync(*mut u64, usize, u64, u64);
    cuMemFreeAsync(u64, u64);
    cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, u64);
    cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, u64);
    cuMemcpyDtoDAsync_v2(u64, u64, usize, u64);
}

/// The names of the library, in the order in which the backend tries them.
const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];

/// Loads the library and looks up its functions.
pub(super) fn load() -> Result<Api, BenchError> {
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
