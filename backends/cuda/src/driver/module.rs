//! Loaded GPU code.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUmodule};

use super::retired::Retired;
use super::{Code, Context};

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`
const THREADS_MAX: u32 = 0;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const SHARED_DYNAMIC_MAX: u32 = 8;

/// `CU_JIT_ERROR_LOG_BUFFER`
const ERROR_LOG: u32 = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`
const ERROR_LOG_BYTES: u32 = 6;
/// Bytes of the log of the driver's compiler. It cuts longer ones.
const LOG_BYTES: usize = 16 << 10;

/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
const LARGE_CLUSTERS: u32 = 14;

/// A loaded PTX text or binary.
pub(crate) struct Module {
    context: Arc<Context>,
    raw: CUmodule,
}

// SAFETY: the driver accepts a module on any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// Why the driver does not load code: its code, and the log of its compiler, which is empty if it compiled nothing.
pub(crate) struct LoadError {
    pub(crate) code: Code,
    pub(crate) log: String,
}

impl Module {
    /// Loads PTX text that ends with a zero byte, or a binary. The context must be current.
    ///
    /// The driver may wait for all work of the context meanwhile, and other threads for the driver.
    pub(crate) fn load(context: &Arc<Context>, image: &[u8]) -> Result<Self, LoadError> {
        let mut raw: CUmodule = std::ptr::null_mut();
        let mut log = vec![0_u8; LOG_BYTES];
        let options = [ERROR_LOG, ERROR_LOG_BYTES];
        // The driver takes the size in place of a pointer, and returns the size of the log in the same place.
        let mut values: [*mut c_void; 2] = [
            log.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(LOG_BYTES),
        ];
        // SAFETY: the image is a binary whose header contains its length, or text that ends with a zero byte
        // (`CudaCompiler::image` checks both). The buffer has the size that its option says.
        unsafe {
            context.api().load_module(
                &raw mut raw,
                image.as_ptr().cast(),
                options.len() as u32,
                options.as_ptr(),
                values.as_mut_ptr(),
            )
        }
        .map_err(|code| {
            let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
            let log = String::from_utf8_lossy(text).trim().to_owned();
            LoadError { code, log }
        })?;
        let context = context.clone();
        Ok(Self { context, raw })
    }

    /// Loads the function with this entry point name.
    pub(crate) fn function(self: &Arc<Self>, name: &str) -> Result<Function, Code> {
        const CALL: &str = "cuModuleGetFunction";
        let name = CString::new(name).map_err(|_| Code::new(CALL, Code::NOT_FOUND))?;
        let api = self.context.api();
        let mut raw: CUfunction = std::ptr::null_mut();
        // SAFETY: the module is alive, and the name ends with a zero byte.
        unsafe { api.function(&raw mut raw, self.raw, name.as_ptr()) }?;
        if let Some(load) = api.load_function {
            // SAFETY: the function belongs to a live module.
            Code::check("cuFuncLoad", unsafe { load(raw) })?;
        }
        Ok(Function {
            module: self.clone(),
            raw,
        })
    }
}

impl Drop for Module {
    /// No launch uses the module any more. Does not wait for the GPU ([`Context::retire`]).
    fn drop(&mut self) {
        self.context.retire(Retired::Module(self.raw));
    }
}

/// A loaded entry point, which keeps its module alive.
pub(crate) struct Function {
    module: Arc<Module>,
    pub(crate) raw: CUfunction,
}

// SAFETY: the driver accepts a function on any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Returns the most threads of a block that its registers allow.
    pub(crate) fn threads_max(&self) -> Result<u32, Code> {
        let mut value = 0;
        let api = self.module.context.api();
        // SAFETY: the function is alive, and the out pointer is valid.
        unsafe { api.function_attribute(&raw mut value, THREADS_MAX, self.raw) }?;
        Ok(value.max(0) as u32)
    }

    fn set_attribute(&self, attribute: u32, value: i32) -> Result<(), Code> {
        let api = self.module.context.api();
        // SAFETY: the function is alive.
        unsafe { api.set_function_attribute(self.raw, attribute, value) }
    }

    /// Allows launches with `bytes` bytes of dynamic shared memory.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<(), Code> {
        self.set_attribute(SHARED_DYNAMIC_MAX, bytes.min(i32::MAX as u32) as i32)
    }

    /// Allows clusters larger than the portable size ([`CLUSTER_PORTABLE`](crate::launch::CLUSTER_PORTABLE)).
    pub(crate) fn allow_large_clusters(&self) -> Result<(), Code> {
        self.set_attribute(LARGE_CLUSTERS, 1)
    }

    /// Returns the size of each parameter in bytes.
    pub(crate) fn parameters(&self) -> Result<Vec<usize>, Code> {
        let api = self.module.context.api();
        let mut sizes = Vec::new();
        let (mut offset, mut bytes) = (0, 0);
        loop {
            // SAFETY: the function is alive, and the out pointers are valid.
            match unsafe {
                api.parameter_info(self.raw, sizes.len(), &raw mut offset, &raw mut bytes)
            } {
                Ok(()) => sizes.push(bytes),
                // The index is past the last parameter.
                Err(code) if code.number == Code::INVALID_VALUE => return Ok(sizes),
                Err(code) => return Err(code),
            }
        }
    }
}
