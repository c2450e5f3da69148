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
