//! Compiled kernels: their entry points, and the choice of one for a launch.

use std::ops::Range;
use std::sync::{Arc, Weak};

use ash::vk;
use millstream_ir::lower::{self, Kind, Limits};
use millstream_ir::{Blocking, Program};
use millstream_protocol::properties::DeviceProperties;

use crate::driver::{Context, Pipeline};

/// Cubes of 256 threads that a multiprocessor of a GPU runs at once.
const CUBES_PER_UNIT: u32 = 6;

/// A compiled kernel.
pub(crate) struct VulkanKernel {
    /// Weak: the runtime never drops the kernels that tasks of a lost device may use. The context destroys their
    /// pipelines.
    context: Weak<Context>,
    /// The entry points, from which each launch of a program selects one. Never empty.
    pub(crate) entries: Vec<Entry>,
    /// `None` for a module of the user.
    program: Option<Arc<Program>>,
    blocking: Blocking,
    limits: Limits,
    /// Words of metadata of each launch.
    pub(crate) metadata_words: usize,
    /// For a kernel in WGSL the place of each scalar in the push constants, which hold nothing else.
    pub(crate) immediates: Option<Vec<(Range<usize>, usize)>>,
}

/// One entry point.
pub(crate) struct Entry {
    /// The launches that it is for; `None` if the program is not a nest.
    pub(crate) kind: Option<Kind>,
    pub(crate) pipeline: Pipeline,
    /// Bytes of the parameter block.
    pub(crate) parameter_bytes: u32,
    /// Whether the push constants hold the address of the parameter block instead of the block.
    pub(crate) is_spilled: bool,
    /// Whether the block ends with the grid.
    pub(crate) has_grid: bool,
    /// Whether a launch may be several dispatches: modules of users do not know the place of a dispatch in its launch.
    pub(crate) is_divisible: bool,
    /// Whether the buffers are descriptors.
    pub(crate) has_descriptors: bool,
}

impl Entry {
    /// Returns the pipeline and its layout.
    #[inline]
    pub(crate) fn pipeline(&self) -> (vk::Pipeline, vk::PipelineLayout) {
        (self.pipeline.raw, self.pipeline.layout)
    }
}

impl VulkanKernel {
    /// Creates a kernel without entry points. `program` is `None` for a module of the user.
    pub(crate) fn new(
        context: &Arc<Context>,
        properties: &DeviceProperties,
        program: Option<Arc<Program>>,
        blocking: Blocking,
    ) -> Self {
        Self {
            context: Arc::downgrade(context),
            entries: Vec::new(),
            program,
            blocking,
            limits: Limits {
                cubes_at_once: properties.compute_units as u32 * CUBES_PER_UNIT,
            },
            metadata_words: 0,
            immediates: None,
        }
    }

    /// Returns the entry point and the cube count of a launch. `cubes` is the count that the caller passed, which only an
    /// SSA function uses. Allocates nothing.
    pub(crate) fn select(
        &self,
        cubes: [u32; 3],
        words: &[u64],
        addresses: &[u64],
    ) -> (&Entry, [u32; 3]) {
        let first = &self.entries[0];
        match self.program.as_deref() {
            Some(Program::Nest(nest)) => {
                let geometry = lower::geometry(nest, words, addresses, self.limits, self.blocking);
                let of_kind = |entry: &&Entry| entry.kind == Some(geometry.kind);
                let found = self.entries.iter().find(of_kind);
                (found.unwrap_or(first), [geometry.cubes, 1, 1])
            }
            Some(Program::Matmul(matmul)) => {
                let tiles = lower::tiles(matmul, words, self.blocking);
                (first, [tiles.cubes, 1, 1])
            }
            _ => (first, cubes),
        }
    }
}

impl Drop for VulkanKernel {
    /// The server drops a kernel once every task that was issued before its last handle was dropped has passed, so no
    /// task uses the pipelines any more.
    fn drop(&mut self) {
        let Some(context) = self.context.upgrade() else {
            return;
        };
        let pipelines = self.entries.iter().map(|entry| entry.pipeline);
        pipelines.for_each(|pipeline| context.destroy_pipeline(pipeline));
    }
}
