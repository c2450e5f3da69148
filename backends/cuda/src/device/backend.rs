//! The implementation of [`Backend`], called by the device thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{
    Backend, BoundSlice, ClockSource, Compiler, Cursor, CustomWork, DeviceProperties, HostData,
    Landing, Large, Launch, PageError, PageId, Pattern, Plan, Point, Prepared, QueueId, Refused,
    Replay, Span, StartOutcome, Strided, TaskPoint,
};
use millstream_sync::payload::panic_message;
use millstream_sync::timeline::Timeline;

use super::{CudaDevice, CudaResources};
use crate::adopted::CudaRaw;
use crate::driver::{Code, context_may_have_changed};
use crate::fill::for_each_memset;
use crate::queue::Queue;
use crate::replay::{QueueStates, State};

impl Backend for CudaDevice {
    type Resources = CudaResources;

    const RUNS_WITHOUT_PUMP: bool = true;

    const BATCHES_ARE_COSTLY: bool = true;

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

    fn raw(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let streams = self.queues.iter().map(|queue| queue.stream.raw);
        Some(Arc::new(CudaRaw::new(&self.compiler, streams)))
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        let _entered = self.enter().map_err(|_| PageError::Lost)?;
        let (context, pool) = (&self.shared.context, &self.pool);
        self.pages.allocate(bytes, || {
            let size = usize::try_from(bytes.max(1));
            let size = size.map_err(|_| PageError::OutOfMemory { free: None })?;
            pool.allocate(size).map_err(|code| match code.is_sticky() {
                true => PageError::Lost,
                false => PageError::OutOfMemory {
                    free: context.free_bytes(),
                },
            })
        })
    }

    fn free(&mut self, page: PageId) {
        if let Ok(_entered) = self.enter()
            && let Some(address) = self.pages.free(page)
        {
            self.pool.free(address);
        }
    }

    fn trim(&mut self) {
        if let Ok(_entered) = self.enter()
            && let Err(code) = self.pool.trim()
        {
            tracing::debug!(target: "millstream::cuda", %code, "the driver refused to trim its pool");
        }
    }

    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        let _entered = self.begin(queue)?;
        self.launch_kernel(queue, launch, None)?;
        self.queues[queue.index()].issue(cursor);
        Ok(())
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        let _entered = self.begin(place.queue)?;
        self.upload(place.queue, target, layout, source)?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        let _entered = self.begin(place.queue)?;
        self.download(place.queue, source, layout, landing)?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        let _entered = self.begin(place.queue)?;
        self.copy_within(place.queue, source, target, None)?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        let (address, bytes) = self.range_of(target)?;
        let _entered = self.begin(place.queue)?;
        let stream = self.stream(place.queue);
        let mut started = false;
        let filled = for_each_memset(address, bytes, pattern, |memset| {
            // SAFETY: the range lies within a page (`resolve`), and every memset lies within the range.
            unsafe { memset.issue(self.api(), stream) }?;
            started = true;
            Ok(())
        });
        filled.map_err(|code: Code| self.partial_failure(started, code.into()))?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn prepare(&mut self, _plan: &Plan) -> Prepared {
        let states: QueueStates = self.queues.iter().map(|_| State::New).collect();
        Box::new(states)
    }

    fn replay(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &mut Prepared,
    ) -> Result<usize, (usize, Refused)> {
        match self.replay_as_graph(replay, prepared) {
            Ok(true) => Ok(replay.plan.tasks().len()),
            Ok(false) => replay.issue_part(self),
            Err(refused) => Err((0, refused)),
        }
    }

    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        let _entered = self.begin(place.queue)?;
        let mut resources = self.bound(bindings)?;
        resources.stream = Some(self.stream(place.queue));
        let worked = catch_unwind(AssertUnwindSafe(|| work(&resources)));
        context_may_have_changed();
        // Work submitted before a panic is still ordered before the task's cursor, as all of the work would be.
        worked.unwrap_or_else(|payload| Err(Refused::Panicked(panic_message(payload))))?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<CudaResources>, Refused> {
        Ok(Box::new(self.bound(bindings)?))
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        self.queues[queue.index()].skip(cursor);
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let waited = self.wait_for(queue, point);
        // The server treats any error as a loss, so no later task may be issued either.
        self.order_lost |= waited.is_err();
        waited
    }

    fn flush(&mut self, queue: QueueId, _cursor: Cursor) {
        let ended = match self.enter_driver() {
            Ok(_entered) => self.queues[queue.index()].flush(),
            Err(code) => Err(code),
        };
        if let Err(code) = ended {
            // No thread can wait for the issued tasks any more, so any code is a loss.
            self.order_lost = true;
            self.shared.lose(code);
        }
    }

    fn take_spans(&mut self) -> Vec<Span> {
        self.tracer.spans.take()
    }

    fn record_spans(&mut self, room: usize) -> usize {
        self.set_span_recording(room)
    }

    fn clock(&self) -> ClockSource {
        ClockSource::Device {
            name: "CUDA events",
        }
    }

    fn busy_ns(&self, queue: QueueId) -> u64 {
        self.tracer.spans.busy_ns(queue)
    }

    fn defer_start(&mut self) {
        self.has_visitor = true;
    }

    fn start_deferred(&mut self, _: Large) -> StartOutcome {
        self.has_visitor = false;
        StartOutcome::default()
    }

    fn pump(&mut self, _budget: Duration) -> bool {
        if !self.driven {
            return false;
        }
        let _current = match self.shared.context.push_current() {
            Ok(current) => current,
            Err(code) => {
                // The driver also reports earlier faults through this call.
                self.shared.lose(code);
                return true;
            }
        };
        let mut any = false;
        let polled = self.queues.iter_mut().try_for_each(|queue| {
            any |= queue.poll()?;
            Ok(())
        });
        if let Err(code) = polled {
            self.shared.lose(code);
            return true;
        }
        if !self.queues.iter().any(Queue::is_busy) {
            self.shared.context.release_retired();
        }
        any
    }

    fn has_running_tasks(&self) -> bool {
        self.driven && self.queues.iter().any(Queue::is_busy)
    }
}
