//! What the device thread calls.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::backend::{
    Backend, BoundSlice, Compiler, HostData, Launch, Place, Plan, Prepared, Replay, Span,
};
use millstream_protocol::error::Refused;
use millstream_protocol::id::{Cursor, Point, QueueId};
use millstream_protocol::landing::Landing;
use millstream_protocol::launch::Pattern;
use millstream_protocol::layout::Strided;
use millstream_protocol::memory::{PageError, PageId};
use millstream_protocol::message::CustomWork;
use millstream_protocol::profile::ClockSource;
use millstream_protocol::properties::DeviceProperties;
use millstream_sync::payload::panic_message;
use millstream_sync::timeline::Timeline;

use super::{CudaDevice, CudaResources};
use crate::adopted::CudaRaw;
use crate::driver::context_may_have_changed;
use crate::fill::sets;
use crate::queue::Queue;
use crate::replay::Known;

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
        self.upload(place.queue, target, layout, source)?;
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
        let (address, bytes) = self.place_of(target)?;
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

    fn prepare(&mut self, _plan: &Plan) -> Prepared {
        Box::new(Known::new(self.queues.len()))
    }

    fn replay(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &mut Prepared,
    ) -> Result<(), (usize, Refused)> {
        match self.replay_as_graph(replay, prepared) {
            Ok(true) => Ok(()),
            Ok(false) => replay.issue_all(self),
            Err(refused) => Err((0, refused)),
        }
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
        let tracer = self.tracer.as_ref();
        tracer.map_or_else(Vec::new, |tracer| tracer.take())
    }

    fn record_spans(&mut self, room: usize) -> usize {
        self.record_spans_in(room)
    }

    fn clock(&self) -> ClockSource {
        ClockSource::Device {
            name: "CUDA events",
        }
    }

    fn busy_ns(&self, queue: QueueId) -> u64 {
        // Of some tasks it would be no time in use of the queue.
        let tracer = self.tracer.as_ref().filter(|_| self.spans_kept > 0);
        tracer.map_or(0, |tracer| tracer.busy_ns(queue))
    }

    fn pump(&mut self, _budget: Duration) -> bool {
        if !self.driven {
            return false;
        }
        if let Err(code) = self.ending.context.enter() {
            // Also how the driver tells of what broke before.
            self.ending.lose("cuCtxSetCurrent", code);
            return true;
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
