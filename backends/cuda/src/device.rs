//! The backend: what the device thread calls. It resolves bindings and feeds streams; it never waits for the GPU.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUcontext, CUdevice_attribute, CUdeviceptr, CUstream};
use millstream_core::access::Access;
use millstream_core::backend::{
    Backend, BoundCount, BoundSlice, Compiler, CustomWork, HostContext, HostData, Launch, Place,
    Refused,
};
use millstream_core::error::OpenError;
use millstream_core::id::{Cursor, Point, QueueId};
use millstream_core::landing::Landing;
use millstream_core::layout::Strided;
use millstream_core::memory::{PageError, PageId};
use millstream_core::message::Pattern;
use millstream_core::properties::DeviceProperties;
use millstream_sync::timeline::Timeline;

use crate::completer::{Completer, Ending, Returning};
use crate::driver::{Api, Class, Code, Context, CuStream, Gpu, PagePool, refused};
use crate::kernel::{CudaCompiler, CudaKernel};
use crate::nvrtc::{Cache, Target};
use crate::pages::Pages;
use crate::properties::properties;
use crate::queue::Queue;
use crate::staging::{BLOCK_BYTES, Staged, Staging};

/// Parameters of a launch that need no heap.
const PARAMETERS_INLINE: usize = 40;

/// A GPU, opened.
pub struct CudaDevice {
    properties: DeviceProperties,
    compiler: Arc<CudaCompiler>,
    /// Before `ending`, which holds the context.
    queues: Vec<Queue>,
    staging: Staging,
    pages: Pages,
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
    pub(crate) fn open(gpu: Gpu, queues: usize, host: HostContext) -> Result<Self, OpenError> {
        let context = Context::retain(gpu)?;
        let gpu = context.gpu();
        let properties = properties(gpu, queues)?;
        let depth = properties.max_queue_depth;
        let pooled =
            gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
        let pool =
            PagePool::new(&context, pooled).map_err(|code| refused("cuMemPoolCreate", code))?;
        let timelines: Box<[Arc<Timeline>]> = (0..queues).map(|_| Arc::default()).collect();
        let ending = Arc::new(Ending {
            context: context.clone(),
            timelines: timelines.clone(),
            gone: host.gone.clone(),
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
                cache: Cache::new(Cache::default_folder()),
            }),
            queues: Vec::with_capacity(queues),
            staging: Staging::new(&context),
            pages: Pages::new(pool, properties.max_allocation_bytes),
            properties,
            ending,
            driven: host.driven,
            disordered: false,
        };
        for (index, timeline) in timelines.iter().enumerate() {
            let stream = CuStream::new(&context, 0)
                .map_err(|code| refused("cuStreamCreateWithPriority", code))?;
            let completer = match host.driven {
                true => None,
                false => Some(Completer::start(
                    QueueId(index as u8),
                    depth,
                    made.ending.clone(),
                    &host.spawner,
                )?),
            };
            let queue = Queue::new(&context, stream, timeline.clone(), completer, depth);
            made.queues.push(queue);
        }
        Ok(made)
    }

    fn api(&self) -> &'static Api {
        self.ending.context.api()
    }

    /// Makes the context current: the device thread changes when the device is driven, and others' code that ran here
    /// may have changed it.
    #[inline]
    fn enter(&self) -> Result<(), Refused> {
        if self.disordered {
            return Err(Refused::Lost("its queues are in no order".to_owned()));
        }
        self.ending
            .context
            .enter()
            .map_err(|code| self.refusal("cuCtxSetCurrent", code))
    }

    /// What a refused call means for its task, or for the device.
    #[cold]
    fn refusal(&self, call: &str, code: Code) -> Refused {
        let said = format!("the driver answered {code} to {call}");
        match code.class() {
            Class::Sticky => Refused::Lost(said),
            _ => Refused::Task(said),
        }
    }

    /// Checks a call's answer.
    #[inline]
    fn check(&self, call: &'static str, answer: u32) -> Result<(), Refused> {
        Code::check(answer).map_err(|code| self.refusal(call, code))
    }

    fn stream(&self, queue: QueueId) -> CUstream {
        self.queues[queue.index()].stream.raw()
    }

    /// Blocks for so many bytes, all before the first of them is used: a copy is refused whole or not at all.
    fn room(&mut self, bytes: usize) -> Result<Vec<Staged>, Refused> {
        let starts = (0..bytes).step_by(BLOCK_BYTES);
        let taken = starts.map(|start| self.staging.take((bytes - start).min(BLOCK_BYTES)));
        let taken: Result<Vec<_>, Code> = taken.collect();
        taken.map_err(|code| self.refusal("cuMemHostAlloc", code))
    }

    /// A task of several calls was refused at one of them. If one before it is under way, nobody waits for that, and
    /// what comes later would be in no order with it: that is the end.
    #[cold]
    fn cut_short(&mut self, begun: bool, refused: Refused) -> Refused {
        if !begun {
            return refused;
        }
        self.disordered = true;
        Refused::Lost(format!("a part of a task is under way, and {refused}"))
    }

    /// Copies these bytes to `target` in the queue's order.
    fn upload(&mut self, queue: QueueId, target: CUdeviceptr, bytes: &[u8]) -> Result<(), Refused> {
        let (mut target, room) = (target, self.room(bytes.len())?);
        for (nth, (part, staged)) in bytes.chunks(BLOCK_BYTES).zip(room).enumerate() {
            // SAFETY: the block is ours alone until the copy is given to the stream, and has room for a part.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), staged.start(), part.len()) };
            // SAFETY: the target is within a page (`resolve`), the block is kept until the copy has passed.
            let answer = unsafe {
                (self.api().copy_in)(
                    target,
                    staged.start().cast(),
                    part.len(),
                    self.stream(queue),
                )
            };
            // Kept all the same: a call that failed may have been given to the GPU.
            self.queues[queue.index()].keep(staged);
            self.check("cuMemcpyHtoDAsync", answer)
                .map_err(|refused| self.cut_short(nth > 0, refused))?;
            target += part.len() as u64;
        }
        Ok(())
    }
}

/// A length of the device as one of the host.
fn host_len(bytes: u64) -> Result<usize, Refused> {
    usize::try_from(bytes).map_err(|_| Refused::Task("it is longer than the host counts".into()))
}

impl Backend for CudaDevice {
    type Resources = CudaResources;

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
        let Some(kernel) = launch.kernel.downcast_ref::<CudaKernel>() else {
            return Err(Refused::Task(
                "it was compiled for another device".to_owned(),
            ));
        };
        let BoundCount::Static(cubes) = launch.count else {
            return Err(Refused::Task(
                "this device reads no cube count from its memory; give one from the host"
                    .to_owned(),
            ));
        };
        self.enter()?;
        let mut addresses = [0_u64; PARAMETERS_INLINE];
        let mut parameters = [std::ptr::null_mut::<c_void>(); PARAMETERS_INLINE];
        let count = launch.bindings.len() + kernel.scalars.len();
        if count > PARAMETERS_INLINE {
            return Err(Refused::Task(format!(
                "it has {count} parameters, this device takes {PARAMETERS_INLINE}"
            )));
        }
        for (place, binding) in launch.bindings.iter().enumerate() {
            addresses[place] = self.pages.resolve(binding)?;
        }
        let (pointers, values) = parameters.split_at_mut(launch.bindings.len());
        for (parameter, address) in pointers.iter_mut().zip(&mut addresses) {
            *parameter = (&raw mut *address).cast();
        }
        let scalars: &[u8] = bytemuck::cast_slice(launch.scalars);
        for (parameter, range) in values.iter_mut().zip(&kernel.scalars) {
            let Some(value) = scalars.get(range.clone()) else {
                return Err(Refused::Task("it has too few scalars".to_owned()));
            };
            // The driver only reads what parameters point at.
            *parameter = value.as_ptr().cast_mut().cast();
        }
        if !cubes.contains(&0) {
            let [x, y, z] = kernel.threads;
            // SAFETY: the function is loaded; there is a value for each of its parameters, of its size
            // (`check_parameters`), read during the call.
            let answer = unsafe {
                (self.api().launch)(
                    kernel.function.raw(),
                    cubes[0],
                    cubes[1],
                    cubes[2],
                    x,
                    y,
                    z,
                    kernel.shared_bytes,
                    self.stream(queue),
                    parameters.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            self.check("cuLaunchKernel", answer)?;
        }
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
        if layout.is_some() {
            return Err(Refused::Task(
                "copies of pitched tensors are not there yet".to_owned(),
            ));
        }
        self.enter()?;
        let address = self.pages.resolve(target)?;
        let bytes = source.bytes();
        if bytes.len() as u64 != target.len {
            let (from, to) = (bytes.len(), target.len);
            return Err(Refused::Task(format!(
                "the source has {from} bytes and the target {to}"
            )));
        }
        self.upload(place.queue, address, bytes)?;
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
        if layout.is_some() {
            return Err(Refused::Task(
                "copies of pitched tensors are not there yet".to_owned(),
            ));
        }
        self.enter()?;
        let mut address = self.pages.resolve(source)?;
        let from = self.room(host_len(source.len)?)?;
        for (nth, staged) in from.iter().enumerate() {
            // SAFETY: the source is within a page (`resolve`), the block is kept until the copy has passed.
            let answer = unsafe {
                (self.api().copy_out)(
                    staged.start().cast(),
                    address,
                    staged.bytes(),
                    self.stream(place.queue),
                )
            };
            if let Err(refused) = self.check("cuMemcpyDtoHAsync", answer) {
                // What was given to the stream before writes to its blocks yet.
                let queue = &mut self.queues[place.queue.index()];
                from.into_iter().for_each(|staged| queue.keep(staged));
                return Err(self.cut_short(nth > 0, refused));
            }
            address += staged.bytes() as u64;
        }
        let queue = &mut self.queues[place.queue.index()];
        queue.bring_back(Returning { landing, from });
        queue.issue(place.cursor);
        Ok(())
    }

    fn copy(
        &mut self,
        place: Place<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        if source.len != target.len {
            let (from, to) = (source.len, target.len);
            return Err(Refused::Task(format!(
                "the source has {from} bytes and the target {to}"
            )));
        }
        self.enter()?;
        let (from, to) = (self.pages.resolve(source)?, self.pages.resolve(target)?);
        if from.abs_diff(to) < source.len && source.len > 0 {
            return Err(Refused::Task(
                "copies that overlap are not there yet".to_owned(),
            ));
        }
        if source.len > 0 {
            // SAFETY: both ranges are within pages, and apart.
            let answer = unsafe {
                (self.api().copy)(to, from, host_len(source.len)?, self.stream(place.queue))
            };
            self.check("cuMemcpyDtoDAsync", answer)?;
        }
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn fill(
        &mut self,
        place: Place<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        self.enter()?;
        let address = self.pages.resolve(target)?;
        let stream = self.stream(place.queue);
        crate::fill::fill(self.api(), stream, address, host_len(target.len)?, pattern).map_err(
            |cut| {
                let refused = self.refusal(cut.call, cut.code);
                self.cut_short(cut.begun, refused)
            },
        )?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn custom(
        &mut self,
        place: Place<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        self.enter()?;
        let mut resources = self.bound(bindings)?;
        resources.stream = Some(self.stream(place.queue));
        work(&mut resources)?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<CudaResources>, Refused> {
        Ok(Box::new(self.bound(bindings)?))
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        self.queues[queue.index()].issue(cursor);
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let waited = self.wait_for(queue, point);
        // Whatever the code: the core takes it for the end, and so must everything that is still issued.
        self.disordered |= waited.is_err();
        waited
    }

    fn flush(&mut self, queue: QueueId, _cursor: Cursor) {
        let ended = match self.ending.context.enter() {
            Ok(()) => self.queues[queue.index()].flush(),
            entered => entered,
        };
        if let Err(code) = ended {
            // What was issued can be waited for by nobody: that is the end, whatever the code.
            self.disordered = true;
            self.ending.lose("cuEventRecord", code);
        }
    }

    fn pump(&mut self, budget: Duration) -> bool {
        if !self.driven || self.ending.context.enter().is_err() {
            return false;
        }
        let start = Instant::now();
        loop {
            let mut any = false;
            for queue in &mut self.queues {
                match queue.poll() {
                    Ok(passed) => any |= passed,
                    Err(code) => {
                        self.ending.lose("cuEventQuery", code);
                        return true;
                    }
                }
            }
            // The GPU works by itself: what is left of the budget is spent looking.
            if any || !self.queues.iter().any(Queue::is_busy) || start.elapsed() >= budget {
                return any;
            }
            std::thread::yield_now();
        }
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
        let (found, compiled) = self.compiler.cache.counts();
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
