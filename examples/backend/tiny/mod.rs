//! A device with host memory, one queue and kernels in Rust.
//!
//! The runtime validates, orders and owns; the backend only executes calls. Every call here runs on the device thread
//! and returns at once.
//!
//! | module | contents |
//! | --- | --- |
//! | `memory` | pages, and bindings as ranges of pages |
//! | `kernel` | chooses a source, and runs cubes |
//! | `queue` | runs tasks, and settles their outcomes |

#![allow(unreachable_pub, reason = "written as a separate crate would write it")]

mod kernel;
mod memory;
mod queue;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::backend::host_memory::{HostResources, check_launch, read_counts};
use millstream::backend::{
    Backend, BoundCount, BoundSlice, Compiler, Cursor, CustomWork, HostContext, HostData, Landing,
    Launch, Open, PageId, Pattern, Point, Refused, Span, Strided, TaskPoint, Thread, Timeline,
    for_each_run,
};
use millstream::{
    DeviceProperties, Kernel, OpenError,
    device::{Feature, QueueId, Recovery, ThreadRole},
    error::PageError,
};

use kernel::{TinyCompiler, run_cubes};
use memory::{Pages, View};
use queue::{Done, Job, Queue, Work};

/// Every page, and therefore every slice, starts at a multiple of this.
const ALIGNMENT: u64 = 64;

/// The options of the device.
#[derive(Clone, Default)]
pub struct Tiny {
    memory_limit: Option<u64>,
}

impl Tiny {
    /// Limits the memory of the device.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }
}

impl Open for Tiny {
    type Backend = TinyDevice;

    const NAME: &'static str = "tiny";

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn open(self, context: HostContext) -> Result<TinyDevice, OpenError> {
        let queue = Arc::new(Queue::new(context.table, context.trace_capacity));
        // A driven device starts no thread: `pump` runs its tasks.
        let thread = match context.driven {
            true => None,
            false => {
                let queue = queue.clone();
                let serve = move || queue.serve();
                Some(
                    context
                        .spawner
                        .spawn(ThreadRole::Queue, "tiny-queue", serve)?,
                )
            }
        };
        Ok(TinyDevice {
            properties: properties(),
            queue,
            thread,
            pages: Pages::new(self.memory_limit),
        })
    }
}

fn properties() -> DeviceProperties {
    DeviceProperties {
        backend: Tiny::NAME,
        name: "a tiny device".into(),
        queues: 1,
        queue_priorities: Vec::new(),
        compute_units: 1,
        alignment: ALIGNMENT,
        pitch_alignment: ALIGNMENT,
        memory_bytes: None,
        max_allocation_bytes: 1 << 40,
        max_cube_count: [u32::MAX; 3],
        max_bindings: 64,
        max_queue_depth: 1024,
        features: BTreeSet::from([
            Feature::NativeKernels,
            Feature::DynamicCubeCount,
            Feature::F64,
            Feature::F16,
            Feature::Bf16,
            Feature::I64,
        ]),
    }
}

/// The device.
pub struct TinyDevice {
    properties: DeviceProperties,
    queue: Arc<Queue>,
    thread: Option<Thread<()>>,
    pages: Pages,
}

impl TinyDevice {
    fn views(&self, slices: &[BoundSlice]) -> Result<Vec<View>, Refused> {
        slices.iter().map(|slice| self.pages.view(slice)).collect()
    }

    fn push(&self, place: TaskPoint<'_>, bindings: &[BoundSlice], work: Work) {
        self.queue.push(Job {
            cursor: place.cursor,
            name: place.name.clone(),
            bindings: bindings.into(),
            work: Some(work),
            landing: None,
        });
    }
}

impl Backend for TinyDevice {
    /// The resources of custom tasks and guards: bindings as slices.
    type Resources = HostResources;

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn timeline(&self, _queue: QueueId) -> &Arc<Timeline> {
        &self.queue.timeline
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        Arc::new(TinyCompiler::new(self.properties.clone()))
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.pages.allocate(bytes)
    }

    fn free(&mut self, page: PageId) {
        self.pages.free(page);
    }

    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        let kernel = launch.kernel.clone().downcast::<Kernel>();
        let kernel = kernel.map_err(|_| {
            Refused::Task(
                "the kernel was compiled for another device; prepare it on this one".into(),
            )
        })?;
        check_launch(&kernel, launch)?;
        let (views, mut bindings) = (self.views(launch.bindings)?, launch.bindings.to_vec());
        // A dynamic count is read when the launch starts, so it is a further binding.
        let (known, read) = match launch.count {
            BoundCount::Static(counts) => (counts, None),
            BoundCount::Dynamic(slice) => {
                bindings.push(slice);
                ([0; 3], Some(self.pages.view(&slice)?))
            }
        };
        let (scalars, metadata) = (launch.scalars.to_vec(), launch.metadata.to_vec());
        let work = move || {
            let views: Vec<_> = views.iter().map(View::native).collect();
            // SAFETY: the memory is initialized, and the runtime orders writers before or after this task.
            let counts = read.map_or(known, |view| unsafe { read_counts(view.native()) });
            run_cubes(&kernel, (&views, &scalars, &metadata), counts)
        };
        let name = launch.name;
        let place = TaskPoint {
            queue,
            cursor,
            name,
        };
        self.push(place, &bindings, Box::new(work));
        Ok(())
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        let (view, layout) = (self.pages.view(target)?, layout.cloned());
        let work = move || {
            let (to, from) = (view.native(), source.bytes());
            for_each_run(
                layout.as_ref(),
                to.bytes,
                from.len() as u64,
                |strided, dense, bytes| {
                    // SAFETY: both ranges lie within their buffers, and no other task accesses the target now.
                    unsafe {
                        let target = to.pointer.add(strided);
                        from.as_ptr()
                            .add(dense)
                            .copy_to_nonoverlapping(target, bytes);
                    }
                },
            )?;
            Ok(Done::Written)
        };
        self.push(place, &[*target], Box::new(work));
        Ok(())
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        let (view, layout, lands) = (self.pages.view(source)?, layout.cloned(), landing.clone());
        let work = move || {
            let (from, (target, len)) = (view.native(), lands.target());
            for_each_run(
                layout.as_ref(),
                from.bytes,
                len as u64,
                |strided, dense, bytes| {
                    // SAFETY: both ranges lie within their buffers. The landing belongs to this queue until the cursor
                    // has passed.
                    unsafe {
                        let source = from.pointer.add(strided);
                        source.copy_to_nonoverlapping(target.add(dense), bytes);
                    }
                },
            )?;
            Ok(Done::Written)
        };
        self.queue.push(Job {
            cursor: place.cursor,
            name: place.name.clone(),
            bindings: vec![*source],
            work: Some(Box::new(work)),
            landing: Some(landing),
        });
        Ok(())
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        let (from, to) = (self.pages.view(source)?, self.pages.view(target)?);
        let work = move || {
            let (from, to) = (from.native(), to.native());
            let bytes = from.bytes.min(to.bytes) as usize;
            // SAFETY: both have at least `bytes` bytes, and no other task accesses the target now.
            unsafe { from.pointer.copy_to(to.pointer, bytes) };
            Ok(Done::Written)
        };
        self.push(place, &[*source, *target], Box::new(work));
        Ok(())
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        let view = self.pages.view(target)?;
        let work = move || {
            let (to, bytes) = (view.native(), pattern.bytes());
            let width = usize::from(pattern.width);
            for at in 0..to.bytes as usize {
                // SAFETY: `at` is within the target, which no other task accesses now.
                unsafe { to.pointer.add(at).write(bytes[at % width]) };
            }
            Ok(Done::Written)
        };
        self.push(place, &[*target], Box::new(work));
        Ok(())
    }

    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        let views = self.views(bindings)?;
        let accesses: Vec<_> = bindings.iter().map(|binding| binding.access).collect();
        let work = move || {
            let bound = views.iter().map(View::native).zip(accesses);
            // SAFETY: as for a launch. The resources are dropped before the task ends.
            let resources = unsafe { HostResources::new(bound, Some(QueueId(0))) };
            work(&resources).map_err(|refused| refused.to_string())?;
            Ok(Done::Written)
        };
        self.push(place, bindings, Box::new(work));
        Ok(())
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<HostResources>, Refused> {
        let views = self.views(bindings)?;
        let bound = views
            .iter()
            .map(View::native)
            .zip(bindings.iter().map(|of| of.access));
        // SAFETY: until the guard is dropped, the runtime keeps the pages and orders conflicting tasks after the guard.
        Ok(Box::new(unsafe { HostResources::new(bound, None) }))
    }

    fn mark(&mut self, _queue: QueueId, cursor: Cursor) {
        self.queue.push(Job {
            cursor,
            name: "mark".into(),
            bindings: Vec::new(),
            work: None,
            landing: None,
        });
    }

    fn forget(&mut self, _queue: QueueId, bytes: &[BoundSlice]) {
        self.queue.push(Job {
            cursor: 0,
            name: "forget".into(),
            bindings: bytes.into(),
            work: None,
            landing: None,
        });
    }

    fn queue_wait(&mut self, _queue: QueueId, _point: Point) -> Result<(), Refused> {
        Ok(()) // the device has only one queue
    }

    fn flush(&mut self, _queue: QueueId, _cursor: Cursor) {} // tasks run without a flush

    fn pump(&mut self, budget: Duration) -> bool {
        let start = Instant::now();
        let mut ran = false;
        while self.thread.is_none() && !(ran && start.elapsed() >= budget) && self.queue.step() {
            ran = true;
        }
        ran
    }

    fn recovery(&mut self) -> Recovery {
        Recovery::SameProcess // only memory outlives the device
    }

    fn take_spans(&mut self) -> Vec<Span> {
        self.queue.take_spans()
    }

    fn record_spans(&mut self, room: usize) -> usize {
        self.queue.keep_spans(room);
        self.properties.max_queue_depth
    }
}

impl Drop for TinyDevice {
    fn drop(&mut self) {
        self.queue.stop();
        if let Some(thread) = self.thread.take_if(|thread| !thread.is_current()) {
            let _ = thread.join(); // `Queue::run` has caught panics of user code
        }
        self.queue.end();
    }
}
