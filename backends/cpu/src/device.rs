//! The backend, which the device thread calls. It resolves bindings, checks lengths and appends to queues. It never
//! waits, and it runs tasks only if it is pumped or if a caller steps in.

use std::mem::ManuallyDrop;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_host::{
    HostResources, QUEUE_DEPTH_MAX, check_copy, check_launch, check_pattern, foreign_kernel,
};
use millstream_protocol::{
    Backend, BoundCount, BoundSlice, Compiler, Cursor, CustomWork, DeviceProperties, Held,
    HostContext, HostData, Landing, Large, Launch, Open, OpenError, PageError, PageId, Pattern,
    Point, QueueId, Recovery, Refused, Span, StartOutcome, Strided, TaskPoint, Withdrawal,
    Withdrawals, threads::Thread,
};
use millstream_sync::facade::atomic::AtomicBool;
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::mailbox;
use millstream_sync::timeline::Timeline;

use crate::entry::{Before, Entry, Op, Source, Spares};
use crate::executor::{Executor, Lane};
use crate::kernel::{CpuCompiler, CpuKernel};
use crate::options::Cpu;
use crate::pages::Pages;
use crate::properties::properties;
use crate::queues::{Queue, Queues};
use crate::runner::Runner;
use crate::shared::Shared;
use crate::team::Team;
use crate::trace::SpanLog;
use crate::worker;
use crate::worker::Lanes;

/// An open CPU device.
pub struct CpuDevice {
    properties: DeviceProperties,
    compiler: Arc<CpuCompiler>,
    queues: Queues,
    shared: Arc<Shared>,
    /// The queues of a driven device.
    lanes: Option<Lanes>,
    workers: Vec<Thread<()>>,
    team: Team,
    pages: ManuallyDrop<Pages>,
    spares: Arc<Spares>,
}

impl Open for Cpu {
    type Backend = CpuDevice;

    const NAME: &'static str = "cpu";

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn open(self, context: HostContext) -> Result<CpuDevice, OpenError> {
        self.check()?;
        CpuDevice::open(&self, &context)
    }
}

impl CpuDevice {
    fn open(options: &Cpu, context: &HostContext) -> Result<Self, OpenError> {
        let epoch = Instant::now();
        let threads = if context.driven { 1 } else { options.threads };
        let (team, handles) = Team::start(threads, options.queues, context.spin, &context.spawner)?;
        let properties = properties(options, threads);
        let shared = Arc::new(Shared {
            timelines: (0..options.queues).map(|_| Arc::default()).collect(),
            stop: AtomicBool::new(false),
            spin: context.spin,
        });
        let mut device = Self {
            compiler: Arc::new(CpuCompiler {
                properties: properties.clone(),
                machine_code: options.machine_code,
            }),
            properties,
            pages: ManuallyDrop::new(Pages::new(options.memory_limit)),
            spares: Arc::default(),
            queues: Queues {
                shared: shared.clone(),
                all: Vec::with_capacity(options.queues),
                defers_wakes: false,
            },
            shared: shared.clone(),
            lanes: None,
            workers: Vec::with_capacity(options.queues),
            team,
        };
        let mut lanes = Vec::new();
        for (index, (timeline, handle)) in shared.timelines.iter().zip(handles).enumerate() {
            let id = QueueId(index as u8);
            let spans = Arc::new(SpanLog::new(epoch, context.trace_capacity));
            let runner = Runner {
                queue: id,
                timeline: timeline.clone(),
                table: context.table.clone(),
                team: handle,
                spans: spans.clone(),
                withdrawals: Withdrawals::default(),
            };
            // One more: the last task that has passed may lie there still.
            let (feed, inbox) = mailbox(QUEUE_DEPTH_MAX + 1, Arc::new(Gate::new()));
            let (lane, mut executor) = (Lane { inbox, runner }, None);
            if context.driven {
                lanes.push(lane);
            } else {
                let place = executor.insert(Executor::new(lane)).clone();
                let worker = worker::start(id, shared.clone(), place, &context.spawner)?;
                device.workers.push(worker);
            }
            device.queues.all.push(Queue {
                feed,
                before: Before::default(),
                spans,
                executor,
                wake_pending: false,
            });
        }
        if context.driven {
            device.lanes = Some(Lanes { shared, lanes });
        }
        Ok(device)
    }

    /// Appends a task with these bindings. `op` runs once, and only if all bindings resolve.
    fn push_task(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        op: impl FnOnce(Arc<str>, &mut Entry) -> Option<Op>,
    ) -> Result<(), Refused> {
        let (pages, spares) = (&self.pages, &self.spares);
        self.queues.push(place.queue, place.cursor, |entry| {
            bind((pages, spares), entry, bindings)?;
            if let Some(op) = op(place.name.clone(), entry) {
                entry.op = op;
            }
            Ok(())
        })
    }
}

/// Resolves these bindings and adds them to an entry.
#[inline]
fn bind(
    (pages, spares): (&Pages, &Arc<Spares>),
    entry: &mut Entry,
    bindings: &[BoundSlice],
) -> Result<(), Refused> {
    for binding in bindings {
        entry.bind(spares, *binding, pages.resolve(binding)?);
    }
    Ok(())
}

impl Backend for CpuDevice {
    type Resources = HostResources;

    const CALLS_RUN_CODE: bool = false;

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    #[inline]
    fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        &self.shared.timelines[queue.index()]
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        self.compiler.clone()
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
        let Some(kernel) = launch.kernel.downcast_ref::<CpuKernel>() else {
            return Err(foreign_kernel());
        };
        check_launch(&kernel.kernel, launch)?;
        let (pages, spares) = (&*self.pages, &self.spares);
        self.queues.push(queue, cursor, |entry| {
            bind((pages, spares), entry, launch.bindings)?;
            let count = match &launch.count {
                BoundCount::Static(counts) => Some(*counts),
                BoundCount::Dynamic(count) => {
                    bind((pages, spares), entry, slice::from_ref(count))?;
                    None
                }
            };
            entry.set_words(spares, launch.scalars);
            entry.set_metadata(spares, launch.metadata);
            let kernel = launch.kernel.clone().downcast();
            let kernel = kernel.map_err(|_other| foreign_kernel())?;
            entry.op = Op::Launch { kernel, count };
            Ok(())
        })
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        self.push_task(place, slice::from_ref(target), |name, entry| {
            let source = match source {
                HostData::Words { words, len } => {
                    let len = len.min(size_of_val(&words));
                    entry.set_few_words(&words[..len.div_ceil(size_of::<u64>())]);
                    Source::Words(len)
                }
                HostData::Owned(owned) => Source::Owned(owned),
            };
            Some(Op::CopyIn {
                name,
                source,
                layout: layout.cloned().map(Box::new),
            })
        })
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        self.push_task(place, slice::from_ref(source), |name, _| {
            Some(Op::CopyOut {
                name,
                landing,
                layout: layout.cloned().map(Box::new),
            })
        })
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        check_copy(source, target)?;
        self.push_task(place, &[*source, *target], |name, _| {
            Some(Op::Copy { name })
        })
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        check_pattern(pattern)?;
        self.push_task(place, slice::from_ref(target), |name, _| {
            Some(Op::Fill { name, pattern })
        })
    }

    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        self.push_task(place, bindings, |name, _| Some(Op::Custom { name, work }))
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<HostResources>, Refused> {
        let views = bindings
            .iter()
            .map(|binding| Ok((self.pages.resolve(binding)?, binding.access)))
            .collect::<Result<Vec<_>, Refused>>()?;
        // SAFETY: pages are initialized; the server keeps the pages and holds back conflicting tasks until the guard
        // is dropped.
        Ok(Box::new(unsafe {
            HostResources::new(views.into_iter(), None)
        }))
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        // If the worker has ended, the next task reports it to the server.
        let _ = self.queues.push(queue, cursor, |_| Ok(()));
    }

    fn forget(&mut self, queue: QueueId, bytes: &[BoundSlice]) {
        // If the worker has ended, the next task reports it to the server.
        if let Ok(queue) = self.queues.live(queue) {
            // A task of the replay comes before the next call.
            queue.before.stale = Some(bytes.into());
        }
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        self.queues.live(queue)?.before.wait_for(point);
        Ok(())
    }

    const WITHDRAWS_AT_BEGIN: bool = true;

    fn withdrawable(&mut self, queue: QueueId, task: Withdrawal) {
        // If the worker has ended, the next task reports it to the server.
        if let Ok(queue) = self.queues.live(queue) {
            queue.before.withdrawal = Some(task);
        }
    }

    fn flush(&mut self, _queue: QueueId, _cursor: Cursor) {
        // Nothing to do: a worker sees each task when it is queued, and publishes after each.
    }

    fn recovery(&mut self) -> Recovery {
        // A worker has ended; nothing outlives it but memory.
        Recovery::SameProcess
    }

    fn pump(&mut self, budget: Duration) -> bool {
        self.lanes.as_mut().is_some_and(|lanes| lanes.pump(budget))
    }

    fn defer_start(&mut self) {
        self.queues.defers_wakes = true;
    }

    fn start_deferred(&mut self, large: Large) -> StartOutcome {
        self.queues.start_deferred(large)
    }

    fn held(&self) -> Option<Arc<dyn Held>> {
        Some(self.queues.held())
    }

    fn take_spans(&mut self) -> Vec<Span> {
        let mut spans = Vec::new();
        for queue in &self.queues.all {
            queue.spans.take(&mut spans);
        }
        spans
    }

    fn record_spans(&mut self, capacity: usize) -> usize {
        for queue in &self.queues.all {
            queue.spans.set_capacity(capacity);
        }
        self.properties.max_queue_depth
    }

    fn busy_ns(&self, queue: QueueId) -> u64 {
        self.queues.all[queue.index()].spans.busy_ns()
    }
}

impl Drop for CpuDevice {
    /// Stops the workers after their current task; tasks that are left fail as not run. Joins the workers and the
    /// team, and frees the pages. On one of those threads, where a user's kernel may drop the last reference to the
    /// device, it joins nothing and leaks the pages in use.
    fn drop(&mut self) {
        self.shared.stop();
        let executors = self.queues.all.iter().flat_map(|queue| &queue.executor);
        executors.for_each(|executor| executor.gate.wake());
        if self.team.has_current_thread() {
            self.team.detach();
            return;
        }
        for worker in self.workers.drain(..) {
            // A panic of user code was caught and reported with its task. A worker that ends enters its door once
            // more, so no caller is inside after the join.
            let _ = worker.join();
        }
        self.lanes = None;
        // SAFETY: dropped once, here, and not used afterwards: no task runs any more.
        unsafe { ManuallyDrop::drop(&mut self.pages) };
    }
}
