//! Kernels: a name, a signature, and one or more sources.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use millstream::cuda::CudaLaunch;
use millstream::vulkan::VulkanLaunch;
use millstream::{Kernel, KernelHandle, Source};

use crate::argument::Layout;
use crate::client::ms_client;
use crate::handles::{destroy, get, give, objects};
use crate::native::{self, Function, Owner, ms_drop_fn, ms_kernel_fn};
use crate::sized::{bytes, read_array, read_struct, sized, text};
use crate::status::{Answer, Fault, ensure, exports};
use crate::types::{access_of, known_dtype};

/// A kernel that is compiled for a device. Any thread may launch it.
pub struct ms_kernel {
    pub(crate) handle: KernelHandle,
    pub(crate) layout: Layout,
}

objects!(ms_kernel: 7);

/// A declared buffer of a kernel.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_binding_desc {
    /// `sizeof(ms_binding_desc)`.
    pub size: u32,
    /// An `ms_access`.
    pub access: u32,
    /// An `ms_type`: that of its elements.
    pub dtype: u32,
    /// 0.
    pub reserved: u32,
    /// Its name, for errors.
    pub name: *const c_char,
}

/// A declared scalar of a kernel.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_scalar_desc {
    /// `sizeof(ms_scalar_desc)`.
    pub size: u32,
    /// An `ms_type`.
    pub dtype: u32,
    /// Its name, for errors.
    pub name: *const c_char,
}

/// The kind of a source.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_source_kind {
    /// A C function, for `cpu` and `sim`: `function`, `user`, `drop`.
    Native = 1,
    /// CUDA C, compiled when the kernel is made. The entry point has the kernel's name.
    CudaC = 2,
    /// PTX text.
    Ptx = 3,
    /// A compiled CUDA binary.
    Cubin = 4,
    /// A SPIR-V module. The entry point has the kernel's name, or is its only one.
    Spirv = 5,
    /// WGSL text.
    Wgsl = 6,
}

/// A source of a kernel.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_source {
    /// `sizeof(ms_source)`.
    pub size: u32,
    /// An `ms_source_kind`.
    pub kind: u32,
    /// The text or module, for all kinds but native; copied.
    pub data: *const c_void,
    /// Its length. 0: a text that ends with NUL.
    pub bytes: usize,
    /// The function of a native source.
    pub function: ms_kernel_fn,
    /// Is handed to `function` and `drop`.
    pub user: *mut c_void,
    /// Called once, with `user`, on any thread, when the kernel was made and no launch uses the function any more. If
    /// `ms_kernel_create` fails it is not called. May be NULL.
    pub drop: ms_drop_fn,
}

/// A kernel as its author declares it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_kernel_desc {
    /// `sizeof(ms_kernel_desc)`.
    pub size: u32,
    /// Not 0 if the kernel is right even if its buffers overlap and one of them is written.
    pub may_alias: u32,
    /// The name, which errors and timelines display.
    pub name: *const c_char,
    /// The buffers, in the order in which launches pass them.
    pub bindings: *const ms_binding_desc,
    /// Their number.
    pub binding_count: usize,
    /// The scalars, in the order in which launches pass them, after the buffers.
    pub scalars: *const ms_scalar_desc,
    /// Their number.
    pub scalar_count: usize,
    /// The sources. The device compiles the first that it understands.
    pub sources: *const ms_source,
    /// Their number.
    pub source_count: usize,
    /// The threads of a cube along each axis, on GPUs. All 0: 256, 1, 1.
    pub threads: [u32; 3],
    /// Bytes of shared memory of each cube beyond what the source declares.
    pub shared_bytes: u32,
    /// The most words of metadata of a launch (`ms_launch_with_metadata`), on GPUs. `cuda`: the entry point takes a struct
    /// of as many `unsigned` by value as its last parameter. `vulkan`: SPIR-V has them after the scalars. Shorter
    /// metadata is padded with zeros. 0: none.
    pub metadata_words: u32,
    /// 0.
    pub reserved: u32,
}

sized!(ms_binding_desc: 24, ms_scalar_desc: 16, ms_source: 48, ms_kernel_desc: 80);

exports! {
    /// Makes a kernel: compiles it for the client's device. Blocks meanwhile; the device goes on. Nothing of `desc` is
    /// used after the call but native functions.
    ///
    /// Errors: `COMPILE`; `UNSUPPORTED` if the device understands none of the sources, or lacks a compiler or a
    /// feature.
    fn ms_kernel_create(
        client: *const ms_client, desc: *const ms_kernel_desc, out: *mut *mut ms_kernel,
    ) {
        let mut owners = Vec::new();
        give(out, || {
            let client = get(client)?.0.clone();
            let handle = client.kernel(kernel_of(&read_struct(desc)?, &mut owners)?)?;
            let layout = Layout::of(&handle);
            Ok(ms_kernel { handle, layout })
        })?;
        owners.iter().for_each(|owner| owner.take());
        Ok(())
    }

    /// Destroys the handle of a kernel. Never blocks: launches that were added still run. NULL is fine.
    fn ms_kernel_destroy(kernel: *mut ms_kernel) {
        destroy(kernel)
    }
}

/// Returns the kernel, and adds the owners of what its functions use.
///
/// # Safety
/// The pointers of `desc` are NULL or valid.
unsafe fn kernel_of(desc: &ms_kernel_desc, owners: &mut Vec<Arc<Owner>>) -> Answer<Kernel> {
    // SAFETY: the caller's promise.
    let name = unsafe { text(desc.name, "name of the kernel")? };
    // SAFETY: as above.
    let bindings = unsafe { read_array(desc.bindings, desc.binding_count)? };
    // SAFETY: as above.
    let scalars = unsafe { read_array(desc.scalars, desc.scalar_count)? };
    // SAFETY: as above.
    let sources = unsafe { read_array(desc.sources, desc.source_count)? };
    let mut kernel = Kernel::new(name).shared_bytes(desc.shared_bytes);
    for binding in &bindings {
        let access = access_of(binding.access)?;
        // SAFETY: the caller's promise.
        let name = unsafe { text(binding.name, "name of a binding")? };
        kernel = kernel.raw_of(known_dtype(binding.dtype)?, name, access);
    }
    for scalar in &scalars {
        // SAFETY: the caller's promise.
        let name = unsafe { text(scalar.name, "name of a scalar")? };
        kernel = kernel.scalar_of(known_dtype(scalar.dtype)?, name);
    }
    if desc.may_alias != 0 {
        kernel = kernel.may_alias();
    }
    if desc.threads != [0; 3] {
        kernel = kernel.threads(desc.threads);
    }
    let words = desc.metadata_words as usize;
    if words > 0 {
        kernel = kernel
            .with(CudaLaunch::default().metadata_words(words))
            .with(VulkanLaunch::default().metadata_words(words));
    }
    for source in &sources {
        if source.kind == ms_source_kind::Native as u32 {
            let what = "`function` of a native source";
            let function = Function::new(source.function, source.user, source.drop, what)?;
            owners.push(function.owner.clone());
            kernel = native::add(kernel, function);
        } else {
            // SAFETY: the caller's promise.
            kernel = kernel.source(unsafe { source_of(source)? });
        }
    }
    Ok(kernel)
}

/// # Safety
/// The pointers of `source` are NULL or valid.
unsafe fn source_of(source: &ms_source) -> Answer<Source> {
    const CUDA_C: u32 = ms_source_kind::CudaC as u32;
    const PTX: u32 = ms_source_kind::Ptx as u32;
    const CUBIN: u32 = ms_source_kind::Cubin as u32;
    const SPIRV: u32 = ms_source_kind::Spirv as u32;
    const WGSL: u32 = ms_source_kind::Wgsl as u32;
    // SAFETY: the caller's promise.
    unsafe {
        match source.kind {
            CUDA_C => Ok(Source::CudaC(text_of(source)?)),
            PTX => Ok(Source::Ptx(text_of(source)?)),
            WGSL => Ok(Source::Wgsl(text_of(source)?)),
            CUBIN => Ok(Source::Cubin(bytes(source.data, source.bytes)?.into())),
            SPIRV => words_of(bytes(source.data, source.bytes)?).map(Source::SpirV),
            other => Err(Fault::argument(format!(
                "the kind of a source is unknown: {other}"
            ))),
        }
    }
}

/// # Safety
/// As [`source_of`].
unsafe fn text_of(source: &ms_source) -> Answer<Arc<str>> {
    if source.bytes == 0 {
        // SAFETY: the caller's promise.
        return Ok(unsafe { text(source.data.cast(), "text of a source")? }.into());
    }
    // SAFETY: the caller's promise.
    let given = str::from_utf8(unsafe { bytes(source.data, source.bytes)? });
    let invalid = |_| Fault::argument("the text of a source is not valid UTF-8");
    Ok(given.map_err(invalid)?.into())
}

fn words_of(module: &[u8]) -> Answer<Arc<[u32]>> {
    let (words, rest) = module.as_chunks::<4>();
    ensure!(
        !words.is_empty() && rest.is_empty(),
        "a SPIR-V module consists of words of 4 bytes, got {} bytes",
        module.len()
    );
    Ok(words.iter().map(|word| u32::from_ne_bytes(*word)).collect())
}
