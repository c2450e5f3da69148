//! Loaded code of the GPU.

use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUmodule};

use super::{Code, Context};

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`
const THREADS_MAX: u32 = 0;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const SHARED_DYNAMIC_MAX: u32 = 8;

/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
const LARGE_CLUSTERS: u32 = 14;

/// A loaded PTX text or binary.
pub(crate) struct Module {
    context: Arc<Context>,
    raw: CUmodule,
}

// SAFETY: the driver takes a module from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads code: PTX text that a 0 ends, or a binary. The context is current.
    pub(crate) fn load(context: &Arc<Context>, image: &[u8]) -> Result<Self, Code> {
        let mut raw: CUmodule = std::ptr::null_mut();
        // SAFETY: the image is a binary, whose header says how long it is, or a text that ends with 0
        // (`Image` sees to it).
        let answer = unsafe { (context.api().load_module)(&raw mut raw, image.as_ptr().cast()) };
        Code::check(answer)?;
        let context = context.clone();
        Ok(Self { context, raw })
    }

    /// A kernel of it by its entry point's name, loaded.
    pub(crate) fn function(self: &Arc<Self>, name: &str) -> Result<Function, Code> {
        let name = CString::new(name).map_err(|_| Code::NOT_FOUND)?;
        let api = self.context.api();
        let mut raw: CUfunction = std::ptr::null_mut();
        // SAFETY: the module lives, the name ends with 0.
        Code::check(unsafe { (api.function)(&raw mut raw, self.raw, name.as_ptr()) })?;
        if let Some(load) = api.load_function {
            // SAFETY: the function is the module's.
            Code::check(unsafe { load(raw) })?;
        }
        Ok(Function {
            module: self.clone(),
            raw,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.context.end("cuModuleUnload", |api| {
            // SAFETY: loaded once, unloaded once; no launch uses it any more.
            unsafe { (api.unload_module)(self.raw) }
        });
    }
}

/// A kernel that can be launched. Keeps its module.
pub(crate) struct Function {
    module: Arc<Module>,
    raw: CUfunction,
}

// SAFETY: the driver takes a function from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    #[inline]
    pub(crate) fn raw(&self) -> CUfunction {
        self.raw
    }

    fn attribute(&self, attribute: u32) -> Result<u32, Code> {
        let mut value = 0;
        // SAFETY: the function lives, the place for the answer is ours.
        let answer = unsafe {
            (self.module.context.api().function_attribute)(&raw mut value, attribute, self.raw)
        };
        Code::check(answer)?;
        Ok(value.max(0) as u32)
    }

    /// Most threads of a block, by its use of registers.
    pub(crate) fn threads_max(&self) -> Result<u32, Code> {
        self.attribute(THREADS_MAX)
    }

    fn set_attribute(&self, attribute: u32, value: i32) -> Result<(), Code> {
        let set = self.module.context.api().set_function_attribute;
        // SAFETY: the function lives.
        Code::check(unsafe { set(self.raw, attribute, value) })
    }

    /// Allows launches with so many bytes of dynamic shared memory.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<(), Code> {
        self.set_attribute(SHARED_DYNAMIC_MAX, bytes.min(i32::MAX as u32) as i32)
    }

    /// Allows clusters of more cubes than every GPU has room for.
    pub(crate) fn allow_large_clusters(&self) -> Result<(), Code> {
        self.set_attribute(LARGE_CLUSTERS, 1)
    }

    /// The bytes of each of its parameters.
    pub(crate) fn parameters(&self) -> Result<Vec<usize>, Code> {
        let info = self.module.context.api().parameter_info;
        let mut sizes = Vec::new();
        let (mut offset, mut bytes) = (0, 0);
        loop {
            // SAFETY: the function lives, the places for the answers are ours.
            let answer = unsafe { info(self.raw, sizes.len(), &raw mut offset, &raw mut bytes) };
            match Code::check(answer) {
                Ok(()) => sizes.push(bytes),
                // Past the last.
                Err(Code::INVALID_VALUE) => return Ok(sizes),
                Err(code) => return Err(code),
            }
        }
    }
}
