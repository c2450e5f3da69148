//! The backend, which the device thread calls. A call checks and queues its task; [`step`]s run it.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use millstream_host::{HostResources, check_copy, check_launch, check_pattern, foreign_kernel};
use millstream_protocol::{
    Backend, BoundCount, BoundSlice, ClockSource, Compiler, Cursor, CustomWork, DeviceProperties,
    HostData, Landing, Launch, PageError, PageId, Pattern, Point, QueueId, Recovery, Refused,
    SliceId, Span, Strided, TaskPoint, Withdrawal, marks::mark_runtime_thread,
};
use millstream_sync::timeline::Timeline;

use crate::compiler::SimCompiler;
use crate::entry::{Item, LaunchOp, Op};
use crate::faults::{Call, Verdict};
use crate::kernel::SimKernel;
use crate::run::{Fate, Running, run};
use crate::shared::Shared;
use crate::shared::{Guard, SimResources};
use crate::state::{Event, State};
use crate::step::step;
use crate::stepper::Stepper;

/// One step in this many, on average, ends a pump, so that a driven device lags behind its calls by a random amount.
const STEPS_PER_PUMP: u64 = 8;

/// An open simulator.
pub struct SimDevice {
    pub(crate) properties: DeviceProperties,
    pub(crate) shared: Arc<Shared>,
    /// The name of its marks.
    pub(crate) mark: Arc<str>,
    /// The stepping thread; `None` if the device is driven.
    pub(crate) stepper: Option<Stepper>,
}

impl SimDevice {
    /// Queues a task over these bindings.
    fn push(
        &self,
        call: Call,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        op: Op,
    ) -> Result<(), Refused> {
        let (bindings, mut op) = (bindings.to_vec(), Some(op));
        self.shared.call(|state| {
            state.admit(call)?;
            state.push(place, bindings, &mut op)
        })
    }
}

impl Backend for SimDevice {
    type Resources = SimResources;

    const IS_SIMULATED: bool = true;

    const CALLS_RUN_CODE: bool = false;

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        &self.shared.timelines[queue.index()]
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        Arc::new(SimCompiler {
            properties: self.properties.clone(),
            shared: self.shared.clone(),
        })
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.shared.call(|state| {
            match state.judge(Call::Allocate) {
                Verdict::Proceeds => {}
                Verdict::Fails(_) => {
                    let free = Some(state.memory.free_bytes);
                    return Err(PageError::OutOfMemory { free });
                }
                Verdict::LosesDevice => return Err(PageError::Lost),
            }
            let page = state.memory.allocate(bytes)?;
            state.check(|checker| checker.page_allocated(page, bytes));
            state.record_numbers(Event::Allocated, u64::from(page.0), bytes);
            Ok(page)
        })
    }

    fn free(&mut self, page: PageId) {
        self.shared.call(|state| {
            let lost = state.lost;
            state.check(|checker| checker.page_freed(page, lost));
            state.memory.free(page);
            state.timing.page_freed(page);
            state.record_numbers(Event::Freed, u64::from(page.0), 0);
        });
    }

    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        let kernel: Arc<SimKernel> = launch
            .kernel
            .clone()
            .downcast()
            .map_err(|_| foreign_kernel())?;
        check_launch(&kernel.kernel, launch)?;
        let mut bindings = launch.bindings.to_vec();
        let count = match &launch.count {
            BoundCount::Static(counts) => Some(*counts),
            BoundCount::Dynamic(count) => {
                bindings.push(*count);
                None
            }
        };
        let name = launch.name;
        let place = TaskPoint {
            queue,
            cursor,
            name,
        };
        let op = LaunchOp {
            kernel,
            count,
            scalars: launch.scalars.to_vec(),
            metadata: launch.metadata.to_vec(),
        };
        self.push(Call::Launch, place, &bindings, Op::Launch(Box::new(op)))
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        let layout = layout.cloned();
        let bindings = slice::from_ref(target);
        self.push(Call::CopyIn, place, bindings, Op::CopyIn { source, layout })
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        let layout = layout.cloned();
        let bindings = slice::from_ref(source);
        self.push(
            Call::CopyOut,
            place,
            bindings,
            Op::CopyOut { landing, layout },
        )
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        check_copy(source, target)?;
        self.push(Call::Copy, place, &[*source, *target], Op::Copy)
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        check_pattern(pattern)?;
        self.push(
            Call::Fill,
            place,
            slice::from_ref(target),
            Op::Fill(pattern),
        )
    }

    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        self.push(Call::Custom, place, bindings, Op::Custom(work))
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<SimResources>, Refused> {
        let shared = &self.shared;
        let (views, number) = shared.call(|state| {
            state.admit(Call::Resources)?;
            let mut views = Vec::new();
            for bound in bindings {
                views.push((state.memory.resolve(bound)?.0, bound.access));
            }
            let checker = state.checker.as_mut();
            let number = checker.map(|checker| checker.host_begins(bindings));
            let fills = state.memory.queued(bindings);
            state.memory.ended(bindings);
            // SAFETY: the server keeps the pages, and every task that conflicts with the guard has passed.
            fills.into_iter().for_each(|fill| unsafe { fill.run() });
            Ok::<_, Refused>((views, number))
        })?;
        // SAFETY: pages are initialized; the server keeps the pages and holds back conflicting tasks until the guard
        // is dropped.
        let resources = unsafe { HostResources::new(views.into_iter(), None) };
        let shared = shared.clone();
        let guard = number.map(|number| Guard { shared, number });
        Ok(Box::new(SimResources {
            resources,
            _guard: guard,
        }))
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        let name = &self.mark;
        let place = TaskPoint {
            queue,
            cursor,
            name,
        };
        // A mark has no bindings and cannot be refused. A lost device still queues it, so that everything before it
        // is answered.
        let queued = self
            .shared
            .call(|state| state.push(place, Vec::new(), &mut Some(Op::Mark)));
        debug_assert!(queued.is_ok(), "the queue exists");
    }

    fn forget(&mut self, queue: QueueId, bytes: &[BoundSlice]) {
        self.shared
            .call(|state| state.queue(queue, |queue| queue.forgets.extend_from_slice(bytes)));
    }

    const WITHDRAWS_AT_BEGIN: bool = true;

    fn withdrawable(&mut self, queue: QueueId, task: Withdrawal) {
        self.shared
            .call(|state| state.queue(queue, |queue| queue.withdrawal = Some(task)));
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        self.shared.call(|state| {
            state.admit(Call::QueueWait)?;
            state.wait(queue, point);
            Ok(())
        })
    }

    fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        let point = Point::new(queue, cursor);
        self.shared.call(|state| state.flush(point));
    }

    fn recovery(&mut self) -> Recovery {
        Recovery::SameProcess
    }

    /// Runs a random number of steps and ignores the budget: a clock would make every run different.
    fn pump(&mut self, _budget: Duration) -> bool {
        if self.stepper.is_some() {
            return false;
        }
        let _mark = mark_runtime_thread();
        let mut stepped = false;
        while step(&self.shared) {
            stepped = true;
            let continues =
                |state: &mut State| !state.punctual && state.random.below(STEPS_PER_PUMP) > 0;
            if !self.shared.with(continues) {
                break;
            }
        }
        stepped
    }

    fn take_spans(&mut self) -> Vec<Span> {
        self.shared
            .with(|state| state.timing.spans.drain(..).collect())
    }

    fn record_spans(&mut self, capacity: usize) -> usize {
        let capacity = capacity.saturating_mul(self.properties.queues);
        self.shared
            .with(|state| state.timing.set_span_capacity(capacity));
        self.properties.max_queue_depth
    }

    fn clock(&self) -> ClockSource {
        ClockSource::Virtual
    }

    fn busy_ns(&self, queue: QueueId) -> u64 {
        self.shared.with(|state| state.timing.busy_ns(queue))
    }

    fn slice_reserved(&mut self, slice: SliceId, page: Option<PageId>, offset: u64, len: u64) {
        let Some(page) = page else { return };
        let range = offset..offset.saturating_add(len);
        self.shared.call(|state| {
            state.check(|checker| checker.slice_reserved(slice, page, range.clone()));
            state.memory.slice_reserved(page, range);
            state.record_numbers(Event::Reserved, u64::from(page.0), offset);
        });
    }

    fn slice_released(&mut self, slice: SliceId) {
        self.shared.call(|state| {
            state.check(|checker| checker.slice_released(slice));
            state.record_numbers(Event::Released, u64::from(slice.index()), 0);
        });
    }
}

impl Drop for SimDevice {
    /// The stepping thread ends after its current task; tasks that are left fail as not run. Joins the thread, except
    /// on the thread itself, where a user's kernel may drop the last reference to the device.
    fn drop(&mut self) {
        self.shared.with(|state| state.stopping = true);
        self.shared.holds.gate().wake();
        drop(self.stepper.take());
        let left = self.shared.with(|state| {
            let queues = state.queues.iter_mut();
            queues
                .flat_map(|queue| queue.items.drain(..))
                .collect::<Vec<_>>()
        });
        for item in left {
            if let Item::Task(entry) = item {
                let task = Running {
                    entry,
                    fate: Fate::Lost,
                    seed: 0,
                    checks: false,
                };
                run(&self.shared.table, task);
            }
        }
        self.shared
            .timelines
            .iter()
            .for_each(|timeline| timeline.end());
        let table = &self.shared.table;
        // The slot is still in use: the slice has a handle, or its last handle was dropped so late that the closing
        // device did not look again or did not reach the messages before the drop. `Report::slices_held` counts slices
        // that the device never looked at.
        let held = |slice: SliceId| {
            let slot = table.slot(slice.index());
            slot.is_some_and(|slot| slot.generation() == slice.generation())
        };
        self.shared.with(|state| {
            // Nothing is freed on a lost device.
            if !state.lost {
                state.check(|checker| checker.closed(held));
            }
        });
    }
}
