//! Our null device: a launch only calls [`noop`](crate::noop) and completes at once.
//!
//! It runs on the device thread and has no thread of its own. Copies move real bytes between host and
//! pages, so that reads are real; kernels access no bytes. The tasks of a queue complete when their batch
//! ends, unless completion is withheld. Then the first queue never completes, and no queue that waits for
//! it does, as on a hung device.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_protocol::{
    Backend, BackendKernel, BoundSlice, Compiler, Cursor, CustomWork, DeviceProperties, Feature,
    HostContext, HostData, Kernel, KernelError, Landing, Launch, Open, OpenError, PageError,
    PageId, Pattern, Point, QueueId, Refused, Strided, TaskPoint,
};
use millstream_sync::timeline::Timeline;

use crate::noop::{self, Mark};

/// The number of queues, like a GPU whose streams overlap a little.
const QUEUES: usize = 4;

/// Every slice starts at a multiple of this.
const ALIGNMENT: u64 = 64;

/// The options of the null device.
#[derive(Clone, Default)]
pub(super) struct Null {
    /// While this is `true`, the first queue does not complete.
    pub(super) withheld: Arc<AtomicBool>,
}

/// The null device.
pub(super) struct NullDevice {
    properties: DeviceProperties,
    timelines: Vec<Arc<Timeline>>,
    /// Whether a queue never completes again, because it waits for a queue that does not.
    stuck: [bool; QUEUES],
    withheld: Arc<AtomicBool>,
    pages: Vec<Option<Vec<u8>>>,
}

impl Open for Null {
    type Backend = NullDevice;

    const NAME: &'static str = "null";

    fn open(self, _: HostContext) -> Result<NullDevice, OpenError> {
        Ok(NullDevice::new(self))
    }
}

impl NullDevice {
    pub(super) fn new(options: Null) -> Self {
        Self {
            properties: properties(),
            timelines: (0..QUEUES).map(|_| Arc::default()).collect(),
            stuck: [false; QUEUES],
            withheld: options.withheld,
            pages: Vec::new(),
        }
    }

    fn bytes(&mut self, slice: &BoundSlice) -> &mut [u8] {
        let page = slice
            .page
            .and_then(|page| self.pages.get_mut(page.0 as usize));
        match page {
            Some(Some(bytes)) => {
                &mut bytes[slice.offset as usize..(slice.offset + slice.len) as usize]
            }
            _ => &mut [],
        }
    }

    /// Returns `true` if the queue must not complete.
    #[inline]
    fn is_held(&self, queue: QueueId) -> bool {
        // Relaxed: a switch that may take effect at any later moment.
        self.stuck[queue.index()] || (queue.0 == 0 && self.withheld.load(Ordering::Relaxed))
    }
}

fn properties() -> DeviceProperties {
    DeviceProperties {
        backend: Null::NAME,
        name: "null".into(),
        queues: QUEUES,
        queue_priorities: Vec::new(),
        compute_units: 1,
        alignment: ALIGNMENT,
        pitch_alignment: ALIGNMENT,
        memory_bytes: None,
        max_allocation_bytes: 1 << 40,
        max_cube_count: [u32::MAX; 3],
        max_bindings: 32,
        max_queue_depth: 1024,
        features: BTreeSet::from([Feature::DynamicCubeCount]),
    }
}

/// Compiles a kernel to the marker that its name denotes.
struct NullCompiler;

impl Compiler for NullCompiler {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        let marks = [Mark::None, Mark::BeginCounting, Mark::EndCounting];
        let mark = marks
            .into_iter()
            .find(|mark| name_of(*mark) == &**kernel.name());
        Ok(Arc::new(mark.unwrap_or(Mark::None)))
    }
}

/// Returns the name of the kernel that denotes `mark`.
pub(super) fn name_of(mark: Mark) -> &'static str {
    match mark {
        Mark::None => "noop",
        Mark::BeginCounting => "begin counting",
        Mark::EndCounting => "end counting",
    }
}

impl Backend for NullDevice {
    type Resources = ();

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        &self.timelines[queue.index()]
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        Arc::new(NullCompiler)
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.pages.push(Some(vec![0; bytes as usize]));
        Ok(PageId(self.pages.len() as u32 - 1))
    }

    fn free(&mut self, page: PageId) {
        self.pages[page.0 as usize] = None;
    }

    #[inline(always)]
    fn launch(&mut self, _: QueueId, _: Cursor, launch: &Launch<'_>) -> Result<(), Refused> {
        for binding in launch.bindings {
            std::hint::black_box(binding.page);
        }
        let mark = launch.kernel.downcast_ref::<Mark>();
        noop::launched(mark.copied().unwrap_or(Mark::None));
        Ok(())
    }

    fn copy_in(
        &mut self,
        _: TaskPoint<'_>,
        target: &BoundSlice,
        _: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        self.bytes(target).copy_from_slice(source.bytes());
        Ok(())
    }

    fn copy_out(
        &mut self,
        _: TaskPoint<'_>,
        source: &BoundSlice,
        _: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        let (target, len) = landing.target();
        let bytes = self.bytes(source);
        assert_eq!(bytes.len(), len, "a landing has the size of its source");
        // SAFETY: the landing has `len` bytes, and only this queue may write there until its cursor is
        // published, which happens later.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len) };
        Ok(())
    }

    fn copy(&mut self, _: TaskPoint<'_>, _: &BoundSlice, _: &BoundSlice) -> Result<(), Refused> {
        Err(Refused::Task(
            "the null device has no copies: no measurement needs them".into(),
        ))
    }

    fn fill(&mut self, _: TaskPoint<'_>, _: &BoundSlice, _: Pattern) -> Result<(), Refused> {
        Err(Refused::Task(
            "the null device has no fills: no measurement needs them".into(),
        ))
    }

    fn custom(
        &mut self,
        _: TaskPoint<'_>,
        _: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        work(&mut ())
    }

    fn resources(&mut self, _: &[BoundSlice]) -> Result<Box<()>, Refused> {
        Ok(Box::new(()))
    }

    fn mark(&mut self, _: QueueId, _: Cursor) {}

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let other = &self.timelines[point.queue.index()];
        self.stuck[queue.index()] |= other.completed() < point.cursor;
        Ok(())
    }

    fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        if !self.is_held(queue) {
            self.timelines[queue.index()].publish(cursor);
        }
    }
}
