//! The scripted backend: it runs nothing on its own. Every call goes to the [`Ledger`], which a test reads and which
//! completes tasks when the test says so.

use std::any::Any;
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_protocol::{
    Backend, BackendKernel, BoundCount, BoundSlice, Compiler, Cursor, CustomWork, DeviceProperties,
    HostData, Kernel, KernelError, Landing, Launch, PageError, PageId, Pattern, Point, QueueId,
    Refused, SliceId, Span, Strided, TaskPoint,
};
use millstream_sync::timeline::Timeline;

use super::bytes::Effect;
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

/// The resources of user code. A host function gets the bytes of its bindings for as long as it keeps this value; a
/// custom task gets a place to record its effect.
pub(super) struct HeldBytes {
    ledger: Shared,
    host: u64,
    bindings: Vec<BoundSlice>,
    /// The number of the launch whose effect a custom task has.
    pub(super) number: Cell<u64>,
}

impl HeldBytes {
    /// Returns the number of numbered tasks that were issued.
    pub(super) fn tasks_so_far(&self) -> usize {
        self.ledger.get().issues.len()
    }

    /// Ends the host function, which had this effect.
    pub(super) fn end(self, effect: Effect) {
        self.ledger
            .get()
            .host_ends(self.host, &self.bindings, effect);
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

    fn take(&mut self, point: Point, bindings: &[BoundSlice], effect: Effect, what: &'static str) {
        let mut ledger = self.ledger.get();
        ledger.note_other(point, what);
        ledger.task(point, bindings, effect);
        ledger.tick();
    }

    /// Takes a copy, or refuses it.
    fn copy_as(
        &mut self,
        place: &TaskPoint<'_>,
        bindings: &[BoundSlice],
        effect: Effect,
        (what, refused): (&'static str, &'static str),
    ) -> Result<(), Refused> {
        if self.ledger.get().refuses_copy(bindings) {
            return self.refuse(refused);
        }
        self.take(at(place), bindings, effect, what);
        Ok(())
    }

    fn refuse(&self, what: &'static str) -> Result<(), Refused> {
        self.ledger.get().coverage.note(what);
        Err(Refused::Task("scripted".into()))
    }

    fn numbered(
        &mut self,
        point: Point,
        bindings: &[BoundSlice],
        number: u64,
        (what, refused): (&'static str, &'static str),
    ) -> Result<(), Refused> {
        let mut ledger = self.ledger.get();
        if ledger.refused.contains(&number) {
            drop(ledger);
            return self.refuse(refused);
        }
        ledger.coverage.note(what);
        ledger.task(point, bindings, Effect::Compute(number));
        ledger.note(number, point);
        ledger.tick();
        Ok(())
    }
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
        let mut what = ("launch", "refused launch");
        if let BoundCount::Dynamic(count) = launch.count {
            bindings.push(count);
            what.0 = "dynamic launch";
        }
        let number = launch.scalars.first().copied().unwrap_or(0);
        self.numbered(Point::new(queue, cursor), &bindings, number, what)
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        _layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        let bytes = source.bytes()[..target.len as usize].to_vec();
        let what = ("copy in", "refused copy in");
        self.copy_as(&place, &[*target], Effect::Store(bytes), what)
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        _layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        let what = ("copy out", "refused copy out");
        self.copy_as(&place, &[*source], Effect::None, what)?;
        let bytes = self.ledger.get().memory.bytes(source).to_vec();
        let (target, len) = landing.target();
        assert_eq!(len, bytes.len());
        // SAFETY: the landing has room for `len` bytes, and no thread reads them before the call returns.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len) };
        Ok(())
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        let what = ("copy", "refused copy");
        self.copy_as(&place, &[*source, *target], Effect::Copy, what)
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        let what = ("fill", "refused fill");
        self.numbered(at(&place), &[*target], pattern.value, what)
    }

    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        if self.ledger.get().refuse_resources {
            return Err(Refused::Task("scripted".into()));
        }
        let held = HeldBytes {
            ledger: self.ledger.clone(),
            host: 0,
            bindings: bindings.to_vec(),
            number: Cell::new(0),
        };
        if work(&held).is_err() {
            return self.refuse("refused custom task");
        }
        let what = ("custom task", "refused custom task");
        self.numbered(at(&place), bindings, held.number.get(), what)
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<HeldBytes>, Refused> {
        if self.ledger.get().refuse_resources {
            return Err(Refused::Task("scripted".into()));
        }
        let host = self.ledger.get().host_begins(bindings);
        Ok(Box::new(HeldBytes {
            ledger: self.ledger.clone(),
            host,
            bindings: bindings.to_vec(),
            number: Cell::new(0),
        }))
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        self.take(Point::new(queue, cursor), &[], Effect::None, "mark");
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let mut ledger = self.ledger.get();
        if ledger.memory.lost {
            return Err(Refused::Lost("unplugged".into()));
        }
        ledger.wait(queue, point);
        ledger.tick();
        Ok(())
    }

    fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        let mut ledger = self.ledger.get();
        ledger.flush(queue, cursor);
        ledger.tick();
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
