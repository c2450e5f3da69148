//! The backend: what the device thread calls. It resolves bindings and feeds streams; it never waits for the GPU.
//!
//! | module | what |
//! | --- | --- |
//! | `opening` | a context, streams and a pool become a device |
//! | `backend` | the calls, each to where its subject is |
//! | `launching`, `products` | one launch; one of a product by the library |
//! | `replaying` | one replay, as a graph |
//! | `resources` | what custom tasks and guards get |

mod backend;
mod launching;
mod opening;
mod products;
mod replaying;
mod resources;

use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUstream, CUtensorMap};
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::error::Refused;
use millstream_protocol::id::{Point, QueueId};
use millstream_protocol::properties::DeviceProperties;
pub(crate) use opening::Plan;
pub use resources::CudaResources;
pub(crate) use resources::Home;

use crate::completer::Ending;
use crate::driver::{Api, Class, Code, Context};
use crate::kernel::CudaCompiler;
use crate::launch::{METADATA_WORDS_MAX, TENSOR_MAPS_MAX};
use crate::nvrtc::KernelCache;
use crate::pages::Pages;
use crate::product::Products;
use crate::queue::Queue;
use crate::replay::Replays;
use crate::staging::Staging;
use crate::trace::{CALLS_TIMED, Tracer};

/// A GPU, opened.
pub struct CudaDevice {
    properties: DeviceProperties,
    compiler: Arc<CudaCompiler>,
    /// Before `ending`, which holds the context.
    pub(crate) queues: Vec<Queue>,
    pub(crate) staging: Staging,
    pub(crate) pages: Pages,
    pub(crate) pitch_max: u64,
    /// Metadata of the launch that is being made.
    pub(crate) metadata: Box<[u32; METADATA_WORDS_MAX]>,
    pub(crate) tensor_maps: Box<[CUtensorMap; TENSOR_MAPS_MAX]>,
    pub(crate) replays: Replays,
    pub(crate) products: Products,
    ending: Arc<Ending>,
    /// Made when somebody asks for spans for the first time.
    tracer: Option<Arc<Tracer>>,
    /// Spans that were asked for when the device was opened.
    spans_kept: usize,
    /// Replays are issued task by task, each with its times: a graph of the driver has none but its own.
    pub(crate) one_by_one: bool,
    driven: bool,
    /// A wait between queues, or the end of a batch, was refused: what came after it would be in no order.
    disordered: bool,
}

impl CudaDevice {
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.ending.context
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.ending.context.api()
    }

    /// Makes the context current. A driven device is called on threads of others, whose code may have changed it; the
    /// device's own thread runs others' code in custom tasks alone.
    #[inline]
    pub(crate) fn enter(&self) -> Result<(), Refused> {
        if self.disordered {
            return Err(Refused::Lost("its queues are in no order".to_owned()));
        }
        self.enter_driver()
            .map_err(|code| self.refusal("cuCtxSetCurrent", code))
    }

    /// Where the bytes of a binding are, and how many.
    pub(crate) fn place_of(&self, binding: &BoundSlice) -> Result<(CUdeviceptr, usize), Refused> {
        Ok((self.pages.resolve(binding)?, host_len(binding.len)?))
    }

    /// A task is about to be given to a queue's stream.
    #[inline]
    fn begin(&mut self, queue: QueueId) -> Result<(), Refused> {
        self.enter()?;
        self.queues[queue.index()].begin();
        Ok(())
    }

    #[inline]
    fn enter_driver(&self) -> Result<(), Code> {
        let context = &self.ending.context;
        match self.driven {
            true => context.enter(),
            false => context.stay(),
        }
    }

    /// What a refused call means for its task, or for the device.
    #[cold]
    pub(crate) fn refusal(&self, call: &str, code: Code) -> Refused {
        let said = format!("the driver answered {code} to {call}");
        match code.class() {
            Class::Sticky => Refused::Lost(said),
            _ => Refused::Task(said),
        }
    }

    /// Checks a call's answer.
    #[inline]
    pub(crate) fn check(&self, call: &'static str, answer: u32) -> Result<(), Refused> {
        Code::check(answer).map_err(|code| self.refusal(call, code))
    }

    pub(crate) fn stream(&self, queue: QueueId) -> CUstream {
        self.queues[queue.index()].stream.raw()
    }

    /// A task of several calls was refused at one of them. If one before it is under way, nobody waits for that, and
    /// what comes later would be in no order with it: that is the end.
    #[cold]
    pub(crate) fn cut_short(&mut self, begun: bool, refused: Refused) -> Refused {
        if !begun {
            return refused;
        }
        self.disordered = true;
        Refused::Lost(format!("a part of a task is under way, and {refused}"))
    }

    /// Has queues note when tasks run: as the device was opened, or with room for so many spans of each. Says how many tasks
    /// a queue may have in flight.
    fn record_spans_in(&mut self, room: usize) -> usize {
        let depth = self.properties.max_queue_depth;
        let queues = self.queues.len();
        let kept = self.spans_kept.max(room.saturating_mul(queues));
        self.one_by_one = room > 0;
        if room > 0 && self.tracer.is_none() {
            let context = &self.ending.context;
            let made = self.enter_driver();
            let made = made.and_then(|()| Tracer::new(context, queues, kept));
            // Without it tasks have no times, which profiles say.
            self.tracer = made.ok().map(Arc::new);
        }
        let tracer = self.tracer.clone().filter(|_| kept > 0);
        if let Some(tracer) = &tracer {
            tracer.set_capacity(kept);
        }
        for queue in &mut self.queues {
            queue.tracer = tracer.clone();
        }
        match self.spans_kept {
            0 if room > 0 => depth / CALLS_TIMED,
            _ => depth,
        }
    }

    fn wait_for(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        self.enter()?;
        let event = self.queues[point.queue.index()].event_behind(point.cursor);
        let event = event.map_err(|code| self.refusal("cuEventRecord", code))?;
        match event {
            Some(event) => self.queues[queue.index()]
                .stream
                .wait(&event)
                .map_err(|code| self.refusal("cuStreamWaitEvent", code)),
            None => Ok(()),
        }
    }
}

/// A length of the device as one of the host.
pub(crate) fn host_len(bytes: u64) -> Result<usize, Refused> {
    usize::try_from(bytes).map_err(|_| Refused::Task("it is longer than the host counts".into()))
}

impl Drop for CudaDevice {
    /// Queues end after what they were given; then memory goes back, and the context last.
    fn drop(&mut self) {
        let KernelCache {
            found, compiled, ..
        } = self.compiler.cache.report();
        let device = &self.properties.name;
        tracing::debug!(target: "millstream::cuda", device, found, compiled, "kernels found compiled on disk, and compiled");
        // Whoever drops it may have another context current, or none.
        let context = self.ending.context.clone();
        let _current = context.lend();
        for queue in &mut self.queues {
            let _ = queue.stream.synchronize();
        }
        self.queues.clear();
        self.products.end(&self.pages);
        self.pages.end();
    }
}
