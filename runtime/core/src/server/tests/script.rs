//! The scripted backend: it runs nothing by itself. Every call goes to the [`Ledger`], which a test
//! reads and which completes tasks when the test says so.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_sync::timeline::Timeline;

use crate::backend::{
    Backend, BackendKernel, BoundCount, BoundSlice, Compiler, CustomWork, HostData, Launch, Place,
    Refused,
};
use crate::error::KernelError;
use crate::id::{Cursor, Point, QueueId, SliceId};
use crate::kernel::Kernel;
use crate::landing::Landing;
use crate::layout::Strided;
use crate::memory::{PageError, PageId};
use crate::message::Pattern;
use crate::properties::DeviceProperties;

use super::bytes::Effect;
use super::ledger::Ledger;

/// The ledger, shared with the test.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    pub(super) fn new(ledger: Ledger) -> Self {
        Self(Arc::new(Mutex::new(ledger)))
    }

    /// The ledger. After a failed check it is looked at no more, only dropped.
    pub(super) fn get(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a host function gets: its bindings' bytes, for as long as it keeps this.
pub(super) struct HeldBytes {
    ledger: Shared,
    host: u64,
    bindings: Vec<BoundSlice>,
}

impl HeldBytes {
    /// The host function ends and has done this.
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
        let properties = DeviceProperties {
            backend: "script",
            name: "script".into(),
            queues,
            compute_units: 1,
            alignment: 16,
            pitch_alignment: 16,
            memory_bytes: Some(memory_bytes),
            max_allocation_bytes: memory_bytes,
            max_cube_count: [u32::MAX; 3],
            max_bindings: 64,
            max_queue_depth: usize::MAX,
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

    fn refuses_copy(&mut self) -> bool {
        let mut ledger = self.ledger.get();
        match ledger.refuse_copy {
            Some(0) => {
                ledger.refuse_copy = None;
                true
            }
            Some(left) => {
                ledger.refuse_copy = Some(left - 1);
                false
            }
            None => false,
        }
    }

    fn numbered(
        &mut self,
        point: Point,
        bindings: &[BoundSlice],
        number: u64,
        effect: Effect,
    ) -> Result<(), Refused> {
        let mut ledger = self.ledger.get();
        if ledger.refused.contains(&number) {
            return Err(Refused::Task("scripted".into()));
        }
        ledger.task(point, bindings, effect);
        ledger.note(number, point);
        ledger.tick();
        Ok(())
    }
}

fn at(place: &Place<'_>) -> Point {
    Point::new(place.queue, place.cursor)
}

fn refused() -> Result<(), Refused> {
    Err(Refused::Task("scripted".into()))
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
        self.numbered(
            Point::new(queue, cursor),
            &bindings,
            number,
            Effect::Compute(number),
        )
    }

    fn copy_in(
        &mut self,
        place: Place<'_>,
        target: &BoundSlice,
        _layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        if self.refuses_copy() {
            return refused();
        }
        let bytes = source.bytes()[..target.len as usize].to_vec();
        self.take(at(&place), &[*target], Effect::Store(bytes), "copy in");
        Ok(())
    }

    fn copy_out(
        &mut self,
        place: Place<'_>,
        source: &BoundSlice,
        _layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        if self.refuses_copy() {
            return refused();
        }
        let bytes = self.ledger.get().memory.bytes(source).to_vec();
        let (target, len) = landing.target();
        assert_eq!(len, bytes.len());
        // SAFETY: the landing has room for `len` bytes, and nobody reads them before the cursor passes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len) };
        self.take(at(&place), &[*source], Effect::None, "copy out");
        Ok(())
    }

    fn copy(
        &mut self,
        place: Place<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        if self.refuses_copy() {
            return refused();
        }
        self.take(at(&place), &[*source, *target], Effect::Copy, "copy");
        Ok(())
    }

    fn fill(
        &mut self,
        place: Place<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        let number = pattern.value;
        self.numbered(at(&place), &[*target], number, Effect::Compute(number))
    }

    fn custom(
        &mut self,
        place: Place<'_>,
        bindings: &[BoundSlice],
        _work: CustomWork,
    ) -> Result<(), Refused> {
        self.take(at(&place), bindings, Effect::None, "custom");
        Ok(())
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
        }))
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        self.take(Point::new(queue, cursor), &[], Effect::None, "mark");
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let mut ledger = self.ledger.get();
        ledger.wait(queue, point);
        ledger.tick();
        Ok(())
    }

    fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        let mut ledger = self.ledger.get();
        ledger.flush(queue, cursor);
        ledger.tick();
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
