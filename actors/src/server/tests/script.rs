//! The scripted backend: it runs nothing on its own. Every call goes to the [`Ledger`], which a test reads and which
//! completes tasks when the test says so.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_protocol::{
    Backend, BackendKernel, BoundCount, BoundSlice, Compiler, Cursor, CustomWork, DeviceProperties,
    HostData, Kernel, KernelError, Landing, Launch, PageError, PageId, Pattern, Point, QueueId,
    Refused, SliceId, Span, Strided, TaskPoint,
};
use millstream_sync::timeline::Timeline;

use super::ledger::Ledger;

/// The ledger, shared with the test.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    pub(super) fn new(ledger: Ledger) -> Self {
        Self(Arc::new(Mutex::new(ledger)))
    }

    /// Returns the ledger. After a failed check it is not read any more, only dropped.
    pub(super) fn get(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The resources of user code: the bytes of its bindings, for as long as it keeps this value.
pub(super) struct HeldBytes {
    ledger: Shared,
    host: u64,
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.ledger.get().host_ends(self.host);
    }
}

pub(super) struct Script {
    pub(super) ledger: Shared,
    properties: DeviceProperties,
    timelines: Vec<Arc<Timeline>>,
}

impl Script {
    pub(super) fn new(ledger: Shared, memory_bytes: u64) -> Self {
        let queues = ledger.get().queues();
        let max_queue_depth = ledger.get().driver_depth;
        let properties = DeviceProperties {
            backend: "script",
            name: "script".into(),
            queues,
            queue_priorities: Vec::new(),
            compute_units: 1,
            alignment: 16,
            pitch_alignment: 16,
            memory_bytes: Some(memory_bytes),
            max_allocation_bytes: memory_bytes,
            max_cube_count: [u32::MAX; 3],
            max_bindings: 64,
            max_queue_depth,
            features: Default::default(),
        };
        let timelines = (0..queues)
            .map(|queue| ledger.get().timeline(QueueId(queue as u8)))
            .collect();
        Self {
            ledger,
            properties,
            timelines,
        }
    }

    fn take(&mut self, point: Point, bindings: &[BoundSlice], what: &'static str) {
        let mut ledger = self.ledger.get();
        ledger.note_other(point, what);
        ledger.task(point, bindings);
    }

    /// Takes a copy, or refuses it.
    fn copy_as(
        &mut self,
        place: &TaskPoint<'_>,
        bindings: &[BoundSlice],
        what: &'static str,
    ) -> Result<(), Refused> {
        if self.ledger.get().refuses_copy() {
            return Err(refusal());
        }
        self.take(at(place), bindings, what);
        Ok(())
    }

    fn numbered(
        &mut self,
        point: Point,
        bindings: &[BoundSlice],
        number: u64,
    ) -> Result<(), Refused> {
        let mut ledger = self.ledger.get();
        if ledger.refused.contains(&number) {
            return Err(refusal());
        }
        ledger.task(point, bindings);
        ledger.note(number, point);
        Ok(())
    }
}

fn refusal() -> Refused {
    Refused::Task("scripted".into())
}

fn at(place: &TaskPoint<'_>) -> Point {
    Point::new(place.queue, place.cursor)
}

impl Backend for Script {
    type Resources = HeldBytes;

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        &self.timelines[queue.index()]
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        Arc::new(NoCompiler)
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.ledger.get().memory.allocate(bytes)
    }

    fn free(&mut self, page: PageId) {
        self.ledger.get().free(page);
    }

    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        let mut bindings = launch.bindings.to_vec();
        if let BoundCount::Dynamic(count) = launch.count {
            bindings.push(count);
        }
        let number = launch.scalars.first().copied().unwrap_or(0);
        self.numbered(Point::new(queue, cursor), &bindings, number)
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        _layout: Option<&Strided>,
        _source: HostData,
    ) -> Result<(), Refused> {
        self.copy_as(&place, &[*target], "copy in")
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        _layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        self.copy_as(&place, &[*source], "copy out")?;
        let (target, len) = landing.target();
        assert_eq!(len as u64, source.len);
        // SAFETY: the landing has room for `len` bytes, and no thread reads them before the call returns.
        unsafe { std::ptr::write_bytes(target, 0, len) };
        Ok(())
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        self.copy_as(&place, &[*source, *target], "copy")
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        self.numbered(at(&place), &[*target], pattern.value)
    }

    fn custom(
        &mut self,
        _place: TaskPoint<'_>,
        _bindings: &[BoundSlice],
        _work: CustomWork,
    ) -> Result<(), Refused> {
        Err(refusal())
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<HeldBytes>, Refused> {
        let mut ledger = self.ledger.get();
        if ledger.refuse_resources {
            return Err(refusal());
        }
        Ok(Box::new(HeldBytes {
            ledger: self.ledger.clone(),
            host: ledger.host_begins(bindings),
        }))
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        self.take(Point::new(queue, cursor), &[], "mark");
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let mut ledger = self.ledger.get();
        if ledger.memory.lost {
            return Err(Refused::Lost("unplugged".into()));
        }
        ledger.wait(queue, point);
        Ok(())
    }

    fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        self.ledger.get().flush(queue, cursor);
    }

    fn take_spans(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.ledger.get().spans)
    }

    fn slice_reserved(&mut self, slice: SliceId, page: Option<PageId>, offset: u64, len: u64) {
        if let Some(page) = page {
            self.ledger.get().memory.reserve(slice, page, offset, len);
        }
    }

    fn slice_released(&mut self, slice: SliceId) {
        self.ledger.get().memory.release(slice);
    }
}

struct NoCompiler;

impl Compiler for NoCompiler {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        Ok(kernel.clone() as Arc<dyn Any + Send + Sync>)
    }
}
