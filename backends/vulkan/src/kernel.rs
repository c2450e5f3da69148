//! Compiled kernels: their entry points, and the choice of one for a launch.

use std::ops::Range;
use std::sync::{Arc, Weak};

use millstream_gpu::Variants;

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
    pub(crate) arguments: Arguments,
}

impl Entry {
    /// Takes a pipeline, which the context keeps as well.
    pub(crate) fn new(context: &Arc<Context>, pipeline: Pipeline, arguments: Arguments) -> Self {
        context.keep_pipeline(pipeline);
        Self {
            context: Arc::downgrade(context),
            pipeline,
            arguments,
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

/// How an entry point receives its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Arguments {
    /// Bytes of the parameter block.
    pub(crate) parameter_bytes: u32,
    /// Whether the push constants hold the address of the parameter block instead of the block.
    pub(crate) is_spilled: bool,
    /// Whether the block ends with the grid.
    pub(crate) has_grid: bool,
    /// Whether a launch may be several dispatches: modules of users do not know the place of a dispatch in its launch.
    pub(crate) is_divisible: bool,
    /// The number of buffers that are descriptors; `None` if the buffers are addresses.
    pub(crate) descriptors: Option<u32>,
    /// The threads of a cube.
    pub(crate) threads: [u32; 3],
}

impl Arguments {
    /// Returns the interface of the pipeline.
    pub(crate) fn interface(&self) -> Interface {
        Interface {
            push_bytes: match self.is_spilled {
                true => size_of::<u64>() as u32,
                false => self.parameter_bytes,
            },
            descriptors: self.descriptors.unwrap_or_default(),
            threads: self.threads,
        }
    }

    /// Whether the buffers are descriptors.
    #[inline]
    pub(crate) fn has_descriptors(&self) -> bool {
        self.descriptors.is_some()
    }
}
