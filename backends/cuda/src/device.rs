//! The backend: what the device thread calls. It resolves bindings and feeds streams; it never waits for the GPU.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{CUcontext, CUdevice_attribute, CUdeviceptr, CUstream, CUtensorMap};
use millstream_core::access::Access;
use millstream_core::backend::{
    Backend, BoundSlice, Compiler, CustomWork, HostContext, HostData, Launch, Place, Refused, Span,
};
use millstream_core::error::OpenError;
use millstream_core::host_memory::panic_message;
use millstream_core::id::{Cursor, Point, QueueId, RecordingId};
use millstream_core::landing::Landing;
use millstream_core::layout::Strided;
use millstream_core::memory::{PageError, PageId};
use millstream_core::message::Pattern;
use millstream_core::properties::DeviceProperties;
use millstream_core::stream::Priority;
use millstream_sync::timeline::Timeline;

use crate::adopted::{CudaRaw, KernelCache};
use crate::completer::{Completer, Ending};
use crate::driver::{
    Api, Class, Code, Context, CuStream, PagePool, context_may_have_changed, refused,
};
use crate::fill::sets;
use crate::kernel::CudaCompiler;
use crate::launch::{METADATA_WORDS_MAX, TENSOR_MAPS_MAX};
use crate::nvrtc::{Cache, Target};
use crate::pages::Pages;
use crate::properties::properties;
use crate::queue::{Queue, QueueParts};
use crate::replay::{Action, Replays};
use crate::staging::Staging;
use crate::trace::Tracer;
use crate::word::Word;

/// What was chosen of a device.
pub(crate) struct Plan {
    pub(crate) queues: usize,
    /// Of each queue; none, where all are alike.
    pub(crate) priorities: Vec<Priority>,
    /// Streams of others, for the first queues.
    pub(crate) streams: Vec<CuStream>,
    pub(crate) cache: Cache,
}

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
    ending: Arc<Ending>,
    driven: bool,
    /// A wait between queues, or the end of a batch, was refused: what came after it would be in no order.
    disordered: bool,
}

/// Memory of the GPU as a custom task or a guard sees it.
pub struct CudaResources {
    /// Each binding: address, bytes, access. An address of 0 has no bytes.
    bindings: Vec<(CUdeviceptr, u64, Access)>,
    /// The queue's stream; none for a guard.
    stream: Option<CUstream>,
    context: CUcontext,
}

// SAFETY: addresses and a stream's handle, which the driver takes on any thread.
unsafe impl Send for CudaResources {}

impl CudaResources {
    /// The address of binding `index`, its bytes and its access.
    pub fn binding(&self, index: usize) -> Option<(CUdeviceptr, u64, Access)> {
        self.bindings.get(index).copied()
    }

    /// The driver's context, the GPU's primary one. It is current while a custom task runs.
    pub fn context(&self) -> CUcontext {
        self.context
    }

    /// The driver's stream of the queue, in a custom task: what is given to it here runs in the task's place.
    pub fn stream(&self) -> Option<CUstream> {
        self.stream
    }
}

impl CudaDevice {
    pub(crate) fn open(
        context: &Arc<Context>,
        plan: Plan,
        host: HostContext,
    ) -> Result<Self, OpenError> {
        let Plan {
            queues,
            priorities,
            streams,
            cache,
        } = plan;
        let gpu = context.gpu();
        let levels = context
            .priorities()
            .map_err(|code| refused("cuCtxGetStreamPriorityRange", code))?;
        let properties = properties(gpu, queues, priorities)?;
        let depth = properties.max_queue_depth;
        let pooled =
            gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
        let pool =
            PagePool::new(context, pooled).map_err(|code| refused("cuMemPoolCreate", code))?;
        let timelines: Box<[Arc<Timeline>]> = (0..queues).map(|_| Arc::default()).collect();
        let tracer = match host.trace_capacity {
            0 => None,
            capacity => {
                let stream = CuStream::new(context, 0);
                let tracer = stream
                    .and_then(|stream| Tracer::new(context, &stream, queues, capacity))
                    .map_err(|code| refused("cuEventRecord", code))?;
                Some(Arc::new(tracer))
            }
        };
        let ending = Arc::new(Ending {
            context: context.clone(),
            timelines: timelines.clone(),
            gone: host.gone.clone(),
            tracer: tracer.clone(),
        });
        let mut made = Self {
            compiler: Arc::new(CudaCompiler {
                context: context.clone(),
                properties: properties.clone(),
                target: Target::of(
                    gpu.attribute(
                        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                    )?,
                    gpu.attribute(
                        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                    )?,
                ),
                cache,
            }),
            queues: Vec::with_capacity(queues),
            staging: Staging::new(context),
            pages: Pages::new(pool, properties.max_allocation_bytes),
            pitch_max: gpu
                .attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH)?
                .max(0) as u64,
            metadata: Box::new([0; METADATA_WORDS_MAX]),
            tensor_maps: Box::new([CUtensorMap { opaque: [0; 16] }; TENSOR_MAPS_MAX]),
            replays: Replays::default(),
            properties,
            ending,
            driven: host.driven,
            disordered: false,
        };
        let writes =
            gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)?;
        let mut words = match host.driven && writes != 0 {
            true => Word::all(context, queues).map_err(|code| refused("cuMemHostAlloc", code))?,
            false => Vec::new(),
        };
        let mut adopted = streams.into_iter();
        for (index, timeline) in timelines.iter().enumerate() {
            let id = QueueId(index as u8);
            let priority = made.properties.queue_priorities.get(index);
            let level = priority.map_or(0, |priority| levels[*priority as usize]);
            let stream = match adopted.next() {
                Some(stream) => stream,
                None => CuStream::new(context, level)
                    .map_err(|code| refused("cuStreamCreateWithPriority", code))?,
            };
            let completer = match host.driven {
                true => None,
                false => Some(Completer::start(
                    id,
                    depth,
                    made.ending.clone(),
                    &host.spawner,
                )?),
            };
            let parts = QueueParts {
                id,
                context: context.clone(),
                timeline: timeline.clone(),
                completer,
                word: words.pop(),
                tracer: tracer.clone(),
                depth,
            };
            let queue = Queue::new(stream, parts);
            made.queues.push(queue);
        }
        Ok(made)
    }

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
}

/// A length of the device as one of the host.
pub(crate) fn host_len(bytes: u64) -> Result<usize, Refused> {
    usize::try_from(bytes).map_err(|_| Refused::Task("it is longer than the host counts".into()))
}

impl Backend for CudaDevice {
    type Resources = CudaResources;

    const WORKS_BY_ITSELF: bool = true;

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    #[inline]
    fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        &self.ending.timelines[queue.index()]
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        self.compiler.clone()
    }

    fn raw(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let context = &self.ending.context;
        let streams = self.queues.iter().map(|queue| queue.stream.raw());
        Some(Arc::new(CudaRaw::new(context, streams, &self.compiler)))
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.enter().map_err(|_| PageError::Lost)?;
        let context = &self.ending.context;
        self.pages
            .allocate(bytes, || context.free_bytes())
            .map_err(|why| why.unwrap_or(PageError::Lost))
    }

    fn free(&mut self, page: PageId) {
        if self.enter().is_ok() {
            self.pages.free(page);
        }
    }

    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        if let Some(task) = self.replays.task(cursor) {
            return self.launch_kernel(queue, launch, Some(task));
        }
        self.begin(queue)?;
        self.launch_kernel(queue, launch, None)?;
        self.queues[queue.index()].issue(cursor);
        Ok(())
    }

    fn copy_in(
        &mut self,
        place: Place<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        self.begin(place.queue)?;
        self.upload(place.queue, target, layout, source.bytes())?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn copy_out(
        &mut self,
        place: Place<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        self.begin(place.queue)?;
        self.download(place.queue, source, layout, landing)?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn copy(
        &mut self,
        place: Place<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        if let Some(task) = self.replays.task(place.cursor) {
            return self.move_bytes(place.queue, source, target, Some(task));
        }
        self.begin(place.queue)?;
        self.move_bytes(place.queue, source, target, None)?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn fill(
        &mut self,
        place: Place<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        let (address, bytes) = (self.pages.resolve(target)?, host_len(target.len)?);
        if let Some(task) = self.replays.task(place.cursor) {
            return sets(address, bytes, pattern, |set| {
                self.replays.push(task, Action::Set(set));
                Ok(())
            });
        }
        self.begin(place.queue)?;
        let stream = self.stream(place.queue);
        let mut begun = false;
        let filled = sets(address, bytes, pattern, |set| {
            // SAFETY: the range is within a page (`resolve`), and all of its sets are within the range.
            unsafe { set.issue(self.api(), stream) }?;
            begun = true;
            Ok(())
        });
        filled.map_err(|(call, code)| {
            let refused = self.refusal(call, code);
            self.cut_short(begun, refused)
        })?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn begin_replay(&mut self, queue: QueueId, recording: RecordingId, tasks: usize) {
        self.replays.begin(queue, recording, tasks);
    }

    fn end_replay(&mut self, queue: QueueId) -> Result<(), (usize, Refused)> {
        self.end_taking(queue)
    }

    fn recording_released(&mut self, recording: RecordingId) -> Option<Box<dyn Any + Send>> {
        self.replays.release(recording)
    }

    fn custom(
        &mut self,
        place: Place<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        self.begin(place.queue)?;
        let mut resources = self.bound(bindings)?;
        resources.stream = Some(self.stream(place.queue));
        let worked = catch_unwind(AssertUnwindSafe(|| work(&mut resources)));
        context_may_have_changed();
        // What it had given to the stream until it panicked comes before the task's cursor, as all of it would.
        worked.unwrap_or_else(|payload| Err(Refused::Panicked(panic_message(payload))))?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<CudaResources>, Refused> {
        Ok(Box::new(self.bound(bindings)?))
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        self.queues[queue.index()].pass(cursor);
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let waited = self.wait_for(queue, point);
        // Whatever the code: the core takes it for the end, and so must everything that is still issued.
        self.disordered |= waited.is_err();
        waited
    }

    fn flush(&mut self, queue: QueueId, _cursor: Cursor) {
        let ended = match self.enter_driver() {
            Ok(()) => self.queues[queue.index()].flush(),
            entered => entered,
        };
        if let Err(code) = ended {
            // What was issued can be waited for by nobody: that is the end, whatever the code.
            self.disordered = true;
            self.ending.lose("cuEventRecord", code);
        }
    }

    fn take_spans(&mut self) -> Vec<Span> {
        self.ending
            .tracer
            .as_ref()
            .map_or_else(Vec::new, |tracer| tracer.take())
    }

    fn busy_ns(&self, queue: QueueId) -> u64 {
        self.ending
            .tracer
            .as_ref()
            .map_or(0, |tracer| tracer.busy_ns(queue))
    }

    fn pump(&mut self, _budget: Duration) -> bool {
        if !self.driven || self.ending.context.enter().is_err() {
            return false;
        }
        let mut any = false;
        let polled = self.queues.iter_mut().try_for_each(|queue| {
            any |= queue.poll()?;
            Ok(())
        });
        // A context that is gone writes no words.
        let checked = polled.and_then(|()| match any {
            true => Ok(()),
            false => self.queues.iter().try_for_each(Queue::check),
        });
        if let Err(code) = checked {
            self.ending.lose("cuStreamQuery", code);
            return true;
        }
        any
    }

    fn is_under_way(&self) -> bool {
        self.driven && self.queues.iter().any(Queue::is_busy)
    }
}

impl CudaDevice {
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

    fn bound(&self, bindings: &[BoundSlice]) -> Result<CudaResources, Refused> {
        let bound = bindings
            .iter()
            .map(|binding| Ok((self.pages.resolve(binding)?, binding.len, binding.access)));
        Ok(CudaResources {
            bindings: bound.collect::<Result<_, Refused>>()?,
            stream: None,
            context: self.ending.context.raw(),
        })
    }
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
        let _ = self.ending.context.enter();
        for queue in &mut self.queues {
            let _ = queue.stream.synchronize();
        }
        self.queues.clear();
    }
}
