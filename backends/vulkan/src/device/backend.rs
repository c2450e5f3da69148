//! The implementation of [`Backend`], called by the device thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{
    Backend, BoundSlice, ClockSource, Compiler, CompletionWait, Cursor, CustomWork,
    DeviceProperties, Held, HostData, Landing, Large, Launch, PageError, PageId, Pattern, Plan,
    Point, Prepared, QueueId, Recovery, Refused, Replay, Span, StartOutcome, Strided, TaskPoint,
};
use millstream_sync::payload::panic_message;
use millstream_sync::timeline::Timeline;

use super::resources::with_current;
use super::{VulkanDevice, VulkanResources};
use crate::driver::{Buffer, Purpose};
use crate::held::Lines;
use crate::queue::Queue;

impl Backend for VulkanDevice {
    type Resources = VulkanResources;

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

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.enter().map_err(|_| PageError::Lost)?;
        self.pages.allocate(bytes, || {
            let created = Buffer::new(&self.context, bytes, Purpose::Page);
            created.map(Arc::new).map_err(|code| match code.is_loss() {
                true => PageError::Lost,
                false => PageError::OutOfMemory { free: None },
            })
        })
    }

    fn free(&mut self, page: PageId) {
        drop(self.pages.free(page));
    }

    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        self.enter()?;
        self.launch_kernel(queue, launch)?;
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
        self.enter()?;
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
        self.enter()?;
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
        self.enter()?;
        self.copy_within(place.queue, source, target)?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        self.enter()?;
        self.fill_with(place.queue, target, pattern)?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn prepare(&mut self, plan: &Plan) -> Prepared {
        self.prepare_replays(plan)
    }

    fn replay(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &mut Prepared,
    ) -> Result<usize, (usize, Refused)> {
        match self.replay_recorded(replay, prepared) {
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
        self.enter()?;
        let mut resources = self.bound(bindings)?;
        let queue = &mut self.queues[place.queue.index()];
        resources.commands.set(queue.record_foreign(bindings)?);
        resources.barriers = queue.barriers;
        let work = || catch_unwind(AssertUnwindSafe(|| work(&resources)));
        let worked = with_current(queue, work);
        // Commands that were recorded before a panic are still ordered before the task's cursor, as all of them would
        // be.
        worked.unwrap_or_else(|payload| Err(Refused::Panicked(panic_message(payload))))?;
        self.queues[place.queue.index()].issue(place.cursor);
        Ok(())
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<VulkanResources>, Refused> {
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
        if self.order_lost {
            return;
        }
        if let Err(code) = self.queues[queue.index()].flush() {
            self.lose(&code);
        }
    }

    fn recovery(&mut self) -> Recovery {
        Recovery::SameProcess
    }

    fn defer_start(&mut self) {
        self.queues.iter_mut().for_each(Queue::defer_start);
    }

    fn start_deferred(&mut self, large: Large) -> StartOutcome {
        let mut outcome = StartOutcome::default();
        for (index, queue) in self.queues.iter_mut().enumerate() {
            outcome.queues |= u64::from(queue.start_deferred(large)) << index;
        }
        outcome
    }

    fn held(&self) -> Option<Arc<dyn Held>> {
        let lines: Vec<_> = self.queues.iter().filter_map(Queue::line).collect();
        Some(Arc::new(Lines(lines)))
    }

    fn pump(&mut self, _budget: Duration) -> bool {
        if !self.driven {
            return false;
        }
        if let Some(code) = self.waits.as_ref().and_then(|waits| waits.loss()) {
            self.lose(&code);
            return true;
        }
        let mut any = false;
        let polled = self.queues.iter_mut().try_for_each(|queue| {
            any |= queue.poll()?;
            Ok(())
        });
        if let Err(code) = polled {
            self.lose(&code);
            return true;
        }
        any
    }

    fn has_running_tasks(&self) -> bool {
        self.driven && self.queues.iter().any(Queue::is_busy)
    }

    fn completion_wait(&self) -> Option<Arc<dyn CompletionWait>> {
        let waits = self.waits.clone()?;
        Some(waits)
    }

    fn take_spans(&mut self) -> Vec<Span> {
        let tracer = self.tracer.as_ref();
        tracer.map_or_else(Vec::new, |tracer| tracer.spans.take())
    }

    fn record_spans(&mut self, room: usize) -> usize {
        self.set_span_recording(room);
        self.properties.max_queue_depth
    }

    fn clock(&self) -> ClockSource {
        ClockSource::Device {
            name: "Vulkan timestamps",
        }
    }

    fn busy_ns(&self, queue: QueueId) -> u64 {
        let tracer = self.tracer.as_ref();
        tracer.map_or(0, |tracer| tracer.spans.busy_ns(queue))
    }
}
