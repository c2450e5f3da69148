//! A device that is lost on command: the CPU with a switch.
//!
//! After the loss every call reports it, as that of a real device would. The loss happens at the nth launch or
//! allocation, or without a call, by the end of the queues' timelines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use millstream::backend::{
    Backend, BoundSlice, Compiler, CustomWork, Held, HostContext, HostData, Large, Launch, Open,
    Refused, Span, StartOutcome, TaskPoint,
};
use millstream::{
    Cpu, DeviceProperties, OpenError,
    device::{QueueId, Recovery},
    error::PageError,
};
use millstream_protocol::id::Point;
use millstream_protocol::landing::Landing;
use millstream_protocol::launch::Pattern;
use millstream_protocol::layout::Strided;
use millstream_protocol::memory::PageId;
use millstream_sync::timeline::Timeline;

type CpuDevice = <Cpu as Open>::Backend;

/// The CPU with a switch that loses it.
#[derive(Clone)]
pub(crate) struct Faulty {
    pub(crate) cpu: Cpu,
    pub(crate) switch: Arc<Switch>,
    pub(crate) recovery: Recovery,
}

/// Loses a [`Faulty`] device, and counts its calls.
#[derive(Default)]
pub(crate) struct Switch {
    /// The number of launches until the loss; 0 means never.
    launches_left: AtomicU64,
    /// The number of allocations until the loss; 0 means never.
    pages_left: AtomicU64,
    /// The next custom task loses it.
    custom_loses: AtomicBool,
    lost: AtomicBool,
    panics: AtomicBool,
    /// The number of pages that were freed after the loss.
    pub(crate) freed_lost: AtomicU64,
    /// The number of dropped backends.
    pub(crate) dropped: AtomicU64,
    /// The number of openings.
    pub(crate) opened: AtomicU64,
    timelines: std::sync::Mutex<Vec<Arc<Timeline>>>,
}

impl Switch {
    pub(crate) fn lose_at_launch(&self, nth: u64) {
        self.launches_left.store(nth, Ordering::SeqCst);
    }

    pub(crate) fn lose_at_page(&self, nth: u64) {
        self.pages_left.store(nth, Ordering::SeqCst);
    }

    pub(crate) fn lose_at_next_custom(&self) {
        self.custom_loses.store(true, Ordering::SeqCst);
    }

    /// Makes the next launch panic, like a bug of the backend.
    pub(crate) fn panic_at_next_launch(&self) {
        self.panics.store(true, Ordering::SeqCst);
    }

    /// Loses the device as if one of its own threads detected it.
    pub(crate) fn lose_now(&self) {
        self.lost.store(true, Ordering::SeqCst);
        let timelines = self.timelines.lock().unwrap().clone();
        timelines.iter().for_each(|timeline| timeline.end());
    }

    fn count_down(&self, left: &AtomicU64) {
        let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        if before == Ok(1) {
            self.lost.store(true, Ordering::SeqCst);
        }
    }

    fn check(&self) -> Result<(), Refused> {
        match self.lost.load(Ordering::SeqCst) {
            true => Err(Refused::Lost("the device fell off the bus".into())),
            false => Ok(()),
        }
    }
}

impl Open for Faulty {
    type Backend = FaultyDevice;

    const NAME: &'static str = "faulty";

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn open(self, context: HostContext) -> Result<FaultyDevice, OpenError> {
        let inner = self.cpu.open(context)?;
        let queues = 0..inner.properties().queues;
        let timelines = queues.map(|queue| inner.timeline(QueueId(queue as u8)).clone());
        *self.switch.timelines.lock().unwrap() = timelines.collect();
        self.switch.lost.store(false, Ordering::SeqCst);
        self.switch.opened.fetch_add(1, Ordering::SeqCst);
        Ok(FaultyDevice {
            inner,
            switch: self.switch,
            recovery: self.recovery,
        })
    }
}

pub(crate) struct FaultyDevice {
    inner: CpuDevice,
    switch: Arc<Switch>,
    recovery: Recovery,
}

impl Drop for FaultyDevice {
    fn drop(&mut self) {
        self.switch.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Backend for FaultyDevice {
    type Resources = <CpuDevice as Backend>::Resources;

    const CALLS_RUN_CODE: bool = CpuDevice::CALLS_RUN_CODE;

    fn defer_start(&mut self) {
        self.inner.defer_start();
    }

    fn start_deferred(&mut self, large: Large) -> StartOutcome {
        self.inner.start_deferred(large)
    }

    fn held(&self) -> Option<Arc<dyn Held>> {
        self.inner.held()
    }

    fn properties(&self) -> &DeviceProperties {
        self.inner.properties()
    }

    fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        self.inner.timeline(queue)
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        self.inner.compiler()
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.switch.count_down(&self.switch.pages_left);
        self.switch.check().map_err(|_| PageError::Lost)?;
        self.inner.allocate(bytes)
    }

    fn free(&mut self, page: PageId) {
        if self.switch.check().is_err() {
            self.switch.freed_lost.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.free(page);
    }

    fn launch(&mut self, queue: QueueId, cursor: u64, launch: &Launch<'_>) -> Result<(), Refused> {
        if self.switch.panics.swap(false, Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new("a bug of the backend"));
        }
        self.switch.count_down(&self.switch.launches_left);
        self.switch.check()?;
        self.inner.launch(queue, cursor, launch)
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        self.switch.check()?;
        self.inner.copy_in(place, target, layout, source)
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        self.switch.check()?;
        self.inner.copy_out(place, source, layout, landing)
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        self.switch.check()?;
        self.inner.copy(place, source, target)
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        self.switch.check()?;
        self.inner.fill(place, target, pattern)
    }

    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        if self.switch.custom_loses.swap(false, Ordering::SeqCst) {
            self.switch.lost.store(true, Ordering::SeqCst);
        }
        self.switch.check()?;
        self.inner.custom(place, bindings, work)
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<Self::Resources>, Refused> {
        self.switch.check()?;
        self.inner.resources(bindings)
    }

    fn mark(&mut self, queue: QueueId, cursor: u64) {
        // A lost device publishes no cursor.
        if self.switch.check().is_ok() {
            self.inner.mark(queue, cursor);
        }
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        self.switch.check()?;
        self.inner.queue_wait(queue, point)
    }

    fn flush(&mut self, queue: QueueId, cursor: u64) {
        self.inner.flush(queue, cursor);
    }

    fn recovery(&mut self) -> Recovery {
        self.recovery
    }

    fn pump(&mut self, budget: Duration) -> bool {
        self.inner.pump(budget)
    }

    fn take_spans(&mut self) -> Vec<Span> {
        self.inner.take_spans()
    }

    fn record_spans(&mut self, room: usize) -> usize {
        self.inner.record_spans(room)
    }
}
