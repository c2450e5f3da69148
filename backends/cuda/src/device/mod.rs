//! The backend, which the device thread calls. It resolves bindings and submits work to streams, and never waits for
//! the GPU.
//!
//! | module | contents |
//! | --- | --- |
//! | `opening` | opens a device |
//! | `backend` | implements the trait `Backend` |
//! | `launching` | one launch; one launch of a product by cuBLASLt |
//! | `replaying` | one replay as a graph |
//! | `resources` | the resources of custom tasks and guards |

mod backend;
mod launching;
mod opening;
mod replaying;
mod resources;

use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUstream, CUtensorMap};
use millstream_gpu::{Pages, Staging, host_len};
use millstream_protocol::{BoundSlice, DeviceProperties, Point, QueueId, Refused};
pub use resources::CudaResources;
pub(crate) use resources::MemoryLocation;

use crate::completer::Shared;
use crate::driver::{Api, Code, Context, CurrentGuard, PagePool, Pinned};
use crate::kernel::CudaCompiler;
use crate::launch::{METADATA_WORDS_MAX, TENSOR_MAPS_MAX};
use crate::nvrtc::KernelCache;
use crate::product::Products;
use crate::queue::Queue;
use crate::replay::Replays;
use crate::trace::{CALLS_TIMED, Tracer};

/// An open GPU.
pub struct CudaDevice {
    properties: DeviceProperties,
    compiler: Arc<CudaCompiler>,
    /// Declared before `shared`, which holds the context, so that the queues are dropped first.
    pub(crate) queues: Vec<Queue>,
    pub(crate) staging: Staging<Pinned>,
    pub(crate) pages: Pages<CUdeviceptr>,
    /// The memory of the pages, and the workspaces of a library.
    pub(crate) pool: PagePool,
    pub(crate) pitch_max: u64,
    /// Scratch space for the metadata of one launch.
    pub(crate) metadata: Box<[u32; METADATA_WORDS_MAX]>,
    pub(crate) tensor_maps: Box<[CUtensorMap; TENSOR_MAPS_MAX]>,
    pub(crate) replays: Replays,
    pub(crate) products: Products,
    shared: Arc<Shared>,
    tracer: Arc<Tracer>,
    /// Whether spans are kept for the whole life of the device.
    is_traced: bool,
    /// Whether replays are issued task by task, so that each task has a span. A graph would have a single one.
    pub(crate) replay_per_task: bool,
    driven: bool,
    /// A caller makes the calls in place of the device thread.
    has_visitor: bool,
    /// Whether a wait between queues or the end of a batch was refused. The order of later tasks would not be
    /// guaranteed, so all of them are refused.
    order_lost: bool,
}

impl CudaDevice {
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.shared.context
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.shared.context.api()
    }

    /// Makes the context current until the guard is dropped. The application's threads have a current context of their own,
    /// a device thread runs foreign code in custom tasks only.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered, Refused> {
        if self.order_lost {
            return Err(Refused::Lost(
                "a wait between queues or the end of a batch failed earlier, so later tasks have no order".to_owned(),
            ));
        }
        Ok(self.enter_driver()?)
    }

    /// Returns the address of a binding, or 0 for an empty one.
    #[inline]
    pub(crate) fn address(&self, binding: &BoundSlice) -> Result<CUdeviceptr, Refused> {
        let page = self.pages.resolve(binding)?;
        Ok(page.map_or(0, |address| address + binding.offset))
    }

    /// Returns the address and the length of a binding.
    pub(crate) fn range_of(&self, binding: &BoundSlice) -> Result<(CUdeviceptr, usize), Refused> {
        Ok((self.address(binding)?, host_len(binding.len)?))
    }

    /// Prepares the next task of a queue: makes the context current and records the start event of its span.
    #[inline]
    fn begin(&mut self, queue: QueueId) -> Result<Entered, Refused> {
        let entered = self.enter()?;
        self.queues[queue.index()].begin();
        Ok(entered)
    }

    #[inline]
    fn enter_driver(&self) -> Result<Entered, Code> {
        let context = &self.shared.context;
        match self.driven || self.has_visitor {
            true => context.push_current().map(Some),
            false => context.enter_cached().map(|()| None),
        }
    }

    pub(crate) fn stream(&self, queue: QueueId) -> CUstream {
        self.queues[queue.index()].stream.raw
    }

    /// Returns the error of a task with several driver calls, one of which failed. If an earlier call was submitted
    /// (`started`), no event covers it and later tasks would not be ordered after it, so the device is lost.
    #[cold]
    pub(crate) fn partial_failure(&mut self, started: bool, refused: Refused) -> Refused {
        if !started {
            return refused;
        }
        self.order_lost = true;
        Refused::Lost(format!(
            "a task failed after a part of it was submitted: {refused}"
        ))
    }

    /// Enables spans with room for `room` spans per queue; 0 restores the setting from opening. Returns how many tasks
    /// a queue may have in flight.
    fn set_span_recording(&mut self, room: usize) -> usize {
        self.replay_per_task = room > 0;
        let is_on = self.tracer.spans.set_room(room);
        for queue in &mut self.queues {
            queue.tracer = is_on.then(|| self.tracer.clone());
        }
        let depth = self.properties.max_queue_depth;
        match room > 0 && !self.is_traced {
            true => depth / CALLS_TIMED,
            false => depth,
        }
    }

    fn wait_for(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let _entered = self.enter()?;
        if let Some(event) = self.queues[point.queue.index()].event_after(point.cursor)? {
            self.queues[queue.index()].stream.wait(&event)?;
        }
        Ok(())
    }
}

/// Keeps the context current for the calls of a backend's function: a drop restores the application's context. `None` if the
/// context stays current, on the device's thread.
type Entered = Option<CurrentGuard>;

impl Drop for CudaDevice {
    /// Waits for the queues, then frees the memory. What is retired, and the context, are released on another thread,
    /// unless the device is driven.
    fn drop(&mut self) {
        let KernelCache {
            found, compiled, ..
        } = self.compiler.cache.report();
        let device = &self.properties.name;
        tracing::debug!(target: "millstream::cuda", device, found, compiled, "kernels found in the cache and compiled");
        // The dropping thread may have another context current, or none.
        let context = self.shared.context.clone();
        context.with_current(|_| {
            for queue in &mut self.queues {
                let _ = queue.stream.synchronize();
            }
            self.queues.clear();
            context.end_retiring();
            self.products.free_all(&self.pool);
            self.pages.free_all().for_each(|page| self.pool.free(page));
        });
    }
}
