//! The backend: the simulator, which checks every call (I2, I3, I4), and completes only the tasks that a test completes.
//! The [`Ledger`] beside it notes the calls, and says which of them are refused.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{
    Backend, BoundCount, BoundSlice, Compiler, Cursor, CustomWork, DeviceProperties, HostContext,
    HostData, Landing, Launch, MAX_QUEUES, Open, PageError, PageId, Pattern, Point, QueueId,
    Refused, SliceId, Span, Strided, Table, TaskPoint, threads::Spawner,
};
use millstream_sim::{Checks, Findings, Holds, Sim, SimDevice, SimResources};
use millstream_sync::facade::SpinPolicy;
use millstream_sync::timeline::Timeline;

/// A call of the backend that matters for order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    /// A launch or a fill: the queue and its number.
    Run(u8, u64),
    /// Another task: the queue and its kind.
    Other(u8, &'static str),
    /// A wait: the queue, and the point that it waits for.
    Wait(u8, u8, Cursor),
    /// The end of a batch: the queue and the cursor.
    Flush(u8, Cursor),
}

/// The calls so far, and what is refused.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) calls: Vec<Call>,
    /// The last cursor of each queue.
    pub(super) issued: [Cursor; MAX_QUEUES],
    /// The most tasks in flight on a queue that the driver takes without blocking (I12).
    pub(super) driver_depth: Option<usize>,
    /// The numbers of launches and fills to refuse.
    pub(super) refused: HashSet<u64>,
    /// The call of a copy to refuse, counted down.
    pub(super) refuse_copy: Option<u32>,
    /// Whether host functions are refused their resources.
    pub(super) refuse_resources: bool,
    /// Whether the device is lost: it takes no pages, and none may be freed.
    pub(super) lost: bool,
    /// The requests of pages so far, refused ones included.
    pub(super) page_requests: u64,
    /// The numbers of live pages and of live slices.
    pub(super) live: (usize, usize),
    /// The slices that have ever had memory.
    pub(super) reserved: HashSet<SliceId>,
}

pub(super) struct Script {
    pub(super) ledger: Ledger,
    properties: DeviceProperties,
    sim: SimDevice,
    findings: Findings,
    /// Each queue is held except while a test completes one of its tasks.
    holds: Holds,
}

impl Script {
    pub(super) fn new(
        ledger: Ledger,
        queues: usize,
        memory_bytes: u64,
        table: &Arc<Table>,
    ) -> Self {
        let sim = Sim::seed(1).queues(queues).memory_bytes(memory_bytes);
        let sim = sim.checks(Checks::Panic).punctual().without_data();
        let (findings, holds) = (sim.findings(), sim.holds());
        (0..queues).for_each(|queue| holds.hold(QueueId(queue as u8)));
        let context = HostContext {
            driven: true,
            table: table.clone(),
            trace_capacity: 64,
            spin: SpinPolicy::never(),
            gone: Arc::default(),
            spawner: Spawner::default(),
        };
        let sim = sim.open(context).expect("the simulator opens");
        let max_queue_depth = ledger.driver_depth.unwrap_or(usize::MAX);
        let properties = DeviceProperties {
            max_queue_depth,
            ..sim.properties().clone()
        };
        Self {
            ledger,
            properties,
            sim,
            findings,
            holds,
        }
    }

    /// Completes the next task of a queue, if it was flushed and its waits have passed.
    pub(super) fn step(&mut self, queue: usize) -> bool {
        let queue = QueueId(queue as u8);
        let timeline = self.sim.timeline(queue).clone();
        let before = timeline.completed();
        self.holds.release(queue);
        while timeline.completed() == before && self.sim.pump(Duration::ZERO) {}
        self.holds.hold(queue);
        timeline.completed() > before
    }

    /// Notes a task.
    fn take(&mut self, point: Point, call: Call) {
        let completed = self.sim.timeline(point.queue).completed();
        let ledger = &mut self.ledger;
        ledger.calls.push(call);
        let issued = &mut ledger.issued[point.queue.index()];
        *issued += 1;
        assert_eq!(point.cursor, *issued, "cursors go up by one");
        assert!(
            point.cursor - completed <= self.properties.max_queue_depth as u64,
            "the driver would block at {point:?} (I12)"
        );
    }

    /// Notes a copy, or refuses it.
    fn copy_as(&mut self, place: &TaskPoint<'_>, what: &'static str) -> Result<(), Refused> {
        let ledger = &mut self.ledger;
        let left = ledger.refuse_copy;
        ledger.refuse_copy = left.and_then(|left| left.checked_sub(1));
        if left == Some(0) {
            return Err(refusal());
        }
        self.take(at(place), Call::Other(place.queue.0, what));
        Ok(())
    }

    /// Notes a numbered task, or refuses it.
    fn numbered(&mut self, place: &TaskPoint<'_>, number: u64) -> Result<(), Refused> {
        if self.ledger.refused.contains(&number) {
            return Err(refusal());
        }
        self.take(at(place), Call::Run(place.queue.0, number));
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
    type Resources = SimResources;

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        self.sim.timeline(queue)
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        self.sim.compiler()
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        let ledger = &mut self.ledger;
        ledger.page_requests += 1;
        if ledger.lost {
            return Err(PageError::Lost);
        }
        let page = self.sim.allocate(bytes)?;
        ledger.live.0 += 1;
        Ok(page)
    }

    fn free(&mut self, page: PageId) {
        let ledger = &mut self.ledger;
        assert!(!ledger.lost, "{page} of a lost device is freed");
        ledger.live.0 -= 1;
        self.sim.free(page);
    }

    /// A launch is a custom task for the simulator, since its kernel may have any bindings.
    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        let name = launch.name;
        let place = TaskPoint {
            queue,
            cursor,
            name,
        };
        self.numbered(&place, launch.scalars.first().copied().unwrap_or(0))?;
        match launch.count {
            BoundCount::Static(_) => {
                let nothing = Box::new(|_: &dyn std::any::Any| Ok(()));
                self.sim.custom(place, launch.bindings, nothing)
            }
            // It has no cubes, so it touches nothing.
            BoundCount::Dynamic(_) => {
                self.sim.mark(queue, cursor);
                Ok(())
            }
        }
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        self.copy_as(&place, "copy in")?;
        self.sim.copy_in(place, target, layout, source)
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        self.copy_as(&place, "copy out")?;
        self.sim.copy_out(place, source, layout, landing)
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        self.copy_as(&place, "copy")?;
        self.sim.copy(place, source, target)
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        self.numbered(&place, pattern.value)?;
        self.sim.fill(place, target, pattern)
    }

    fn custom(
        &mut self,
        _place: TaskPoint<'_>,
        _bindings: &[BoundSlice],
        _work: CustomWork,
    ) -> Result<(), Refused> {
        Err(refusal())
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<SimResources>, Refused> {
        if self.ledger.refuse_resources {
            return Err(refusal());
        }
        self.sim.resources(bindings)
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        self.take(Point::new(queue, cursor), Call::Other(queue.0, "mark"));
        self.sim.mark(queue, cursor);
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let ledger = &mut self.ledger;
        if ledger.lost {
            return Err(Refused::Lost("unplugged".into()));
        }
        let wait = Call::Wait(queue.0, point.queue.0, point.cursor);
        ledger.calls.push(wait);
        self.sim.queue_wait(queue, point)?;
        let implied = self.findings.figures().waits.implied;
        assert_eq!(implied, 0, "{queue} waits for {point} in vain (I3)");
        Ok(())
    }

    fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        let call = Call::Flush(queue.0, cursor);
        self.ledger.calls.push(call);
        self.sim.flush(queue, cursor);
    }

    fn take_spans(&mut self) -> Vec<Span> {
        self.sim.take_spans()
    }

    fn slice_reserved(&mut self, slice: SliceId, page: Option<PageId>, offset: u64, len: u64) {
        if page.is_some() {
            let ledger = &mut self.ledger;
            ledger.live.1 += 1;
            ledger.reserved.insert(slice);
        }
        self.sim.slice_reserved(slice, page, offset, len);
    }

    fn slice_released(&mut self, slice: SliceId) {
        self.ledger.live.1 -= 1;
        self.sim.slice_released(slice);
    }
}
