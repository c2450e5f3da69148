//! Direct calls of the driver. Each method is one call and nothing else, so that only the driver is measured.
//!
//! The types own the driver's handles and destroy them when they are dropped. They are sound only within this program:
//! the caller that submits work to a stream waits for it before it drops memory that the work uses.

mod api;
mod graph;
mod memory;
mod stream;

use std::ffi::{CStr, CString, c_void};

use crate::error::BenchError;
use api::Api;
pub(crate) use graph::Graph;
pub(crate) use memory::Memory;
pub(crate) use stream::Stream;

/// Calls a function of the driver and converts its code to a result.
macro_rules! call {
    ($gpu:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the handles belong to live values, the out pointers are valid, and memory outlives the work that uses
        // it, which each caller ensures (see the module).
        let code = unsafe { ($gpu.api.$name)($($argument),*) };
        match code {
            0 => Ok(()),
            code => Err($crate::error::BenchError::Call { call: stringify!($name), code }),
        }
    }};
}
use call;

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `.._MINOR`
const CAPABILITY: [u32; 2] = [75, 76];

/// `CUmemPoolProps`
#[repr(C)]
struct PoolProperties {
    kind: u32,
    handles: u32,
    location: u32,
    gpu: i32,
    security: *mut c_void,
    reserved: [u64; 8],
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[repr(C)]
struct KernelNode {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
    kernel: u64,
    context: u64,
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
            api: api::load()?,
            device: 0,
            context: 0,
            module: 0,
        };
        call!(gpu, cuInit(0))?;
        call!(gpu, cuDeviceGet(&raw mut gpu.device, 0))?;
        let (device, mut context) = (gpu.device, 0);
        call!(gpu, cuDevicePrimaryCtxRetain(&raw mut context, device))?;
        gpu.context = context;
        gpu.bind()?;
        let text = CString::new(ptx).unwrap_or_default();
        let mut module = 0;
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
        let mut parts = [0; 2];
        for (part, attribute) in parts.iter_mut().zip(CAPABILITY) {
            call!(
                self,
                cuDeviceGetAttribute(&raw mut *part, attribute, self.device)
            )?;
        }
        Ok(format!("{}.{}", parts[0], parts[1]))
    }

    /// Looks up a kernel of the module.
    pub(crate) fn kernel(&self, name: &CStr) -> Result<Kernel<'_>, BenchError> {
        let mut function = 0;
        call!(
            self,
            cuModuleGetFunction(&raw mut function, self.module, name.as_ptr())
        )?;
        Ok(Kernel {
            gpu: self,
            function,
        })
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

/// A kernel, launched with one block of one warp.
#[derive(Clone, Copy)]
pub(crate) struct Kernel<'a> {
    gpu: &'a Gpu,
    function: u64,
}

/// Threads of a block.
pub(crate) const THREADS: u32 = 32;

impl Kernel<'_> {
    /// Launches the kernel.
    #[inline]
    pub(crate) fn launch(
        &self,
        stream: &Stream<'_>,
        parameters: &mut Parameters,
    ) -> Result<(), BenchError> {
        let (function, list) = (self.function, parameters.list());
        let none = std::ptr::null_mut();
        call!(
            self.gpu,
            cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, stream.raw, list, none)
        )
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
        let pointers = values
            .iter_mut()
            .map(|value| (&raw mut *value).cast())
            .collect();
        Self {
            _values: values,
            pointers,
        }
    }

    fn list(&mut self) -> *mut *mut c_void {
        self.pointers.as_mut_ptr()
    }
}

/// Formats a version of the driver.
pub(crate) fn version_text((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}
