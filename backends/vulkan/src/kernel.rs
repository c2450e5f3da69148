//! Compiled kernels: their entry points, and the choice of one for a launch.

use std::ops::Range;
use std::sync::{Arc, Weak};

use millstream_gpu::{Variants, setters};

use crate::driver::{Context, Interface, Pipeline};

/// A compiled kernel. The server drops it once every task that was issued before its last handle was dropped has passed, so
/// no task uses the pipelines any more.
pub(crate) struct VulkanKernel {
    /// The entry points, from which each launch selects one.
    pub(crate) entries: Variants<Entry>,
    /// Words of metadata of each launch.
    pub(crate) metadata_words: usize,
    /// For a kernel in WGSL the place of each scalar in the push constants, which hold nothing else.
    pub(crate) immediates: Option<Vec<(Range<usize>, usize)>>,
}

/// One entry point. Its drop destroys the pipeline.
pub(crate) struct Entry {
    /// Weak: the runtime never drops the kernels that tasks of a lost device may use. The context destroys their
    /// pipelines.
    context: Weak<Context>,
    pub(crate) pipeline: Pipeline,
    pub(crate) interface: Interface,
}

impl Entry {
    /// Takes a pipeline, which the context keeps as well.
    pub(crate) fn new(context: &Arc<Context>, pipeline: Pipeline, interface: Interface) -> Self {
        context.keep_pipeline(pipeline);
        Self {
            context: Arc::downgrade(context),
            pipeline,
            interface,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(context) = self.context.upgrade() {
            context.destroy_pipeline(self.pipeline);
        }
    }
}

// Modules of users: how their entry points receive the arguments.

/// The options of a kernel with a source in SPIR-V, added by [`Kernel::with`](millstream_protocol::Kernel::with).
///
/// # Arguments
/// An entry point receives its arguments as one block:
///
/// 1. a `u64` for each binding, in declared order: the device address of its first byte, or 0 if it is empty;
/// 2. the packed scalars ([`Signature`](millstream_protocol::Signature)): sorted by type, each type from a
///    multiple of eight bytes on;
/// 3. the words of metadata, if any.
///
/// With [`VulkanLaunch::descriptors`] the buffers are storage buffers of descriptor set 0, numbered in declared order,
/// and the first words of the block are not addresses: each is the byte offset of the first element in the range of its
/// descriptor, because descriptors begin at multiples of a device's alignment.
///
/// The specialization constants 0, 1 and 2 are the threads of a cube ([`Kernel::threads`]), if the module has them, as
/// with `local_size_x_id = 0` in GLSL.
///
/// [`Kernel::threads`]: millstream_protocol::Kernel::threads
///
/// A launch has at most the cubes that one dispatch of the device may have; kernels of the IR may have more.
///
/// A block of at most 128 bytes is the push constants. Of a longer one the push constants hold the device address, a
/// `u64`. In GLSL:
///
/// ```glsl
/// #extension GL_EXT_buffer_reference : require
/// #extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
/// layout(local_size_x = 256) in;
/// layout(buffer_reference, std430) buffer Words { uint at[]; };
/// layout(push_constant) uniform Block { Words values; uint by; uint n; };
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct VulkanLaunch {
    /// The most words of metadata that a launch passes. Missing ones are 0.
    pub metadata_words: usize,
    /// Whether the buffers are descriptors instead of addresses.
    pub descriptors: bool,
}

setters! {
    VulkanLaunch:

    /// Sets the most words of metadata that a launch passes. Missing ones are 0.
    metadata_words(words: usize) => metadata_words = words;

    /// Sets whether the entry point receives its buffers as descriptors instead of addresses. The device must have the
    /// extension `VK_KHR_push_descriptor`.
    descriptors(enabled: bool) => descriptors = enabled;
}
