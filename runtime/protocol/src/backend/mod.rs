//! What a device must do: one trait over plain data.
//!
//! The duties are split. The server validates, orders and owns; a backend stays thin:
//! - every range it is given lies in a page that it allocated, and has the declared alignment;
//! - tasks of one queue are issued with strictly increasing cursors and run in that order;
//! - whatever must come first on another queue is named by a [`Backend::queue_wait`] just before;
//! - a page is freed only after every point that used it has passed.
//!
//! A backend never learns about logical streams, and none of its calls may wait for the device.
//!
//! # Failures while running
//! Routing failures (memory, refused launches) are the server's. A backend whose tasks can fail
//! while they run (the CPU: a kernel panics) settles them itself, in execution order, before it
//! publishes the cursor: see [`settle`](crate::settle).

mod held;
mod open;
mod plan;
mod task;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

pub use held::{Held, Large, LetGo};
use millstream_ir::{Blocking, Program};
use millstream_sync::timeline::Timeline;
pub use open::{HostContext, Open};
pub use plan::{BoundPlan, Call, Plan, Replay, Step};
pub use task::{BoundCount, BoundSlice, HostData, Launch, Place};

use crate::error::{KernelError, Refused};
use crate::failure::FailureRef;
use crate::health::Recovery;
use crate::id::{Cursor, Point, QueueId, SliceId};
use crate::kernel::{BackendKernel, Kernel};
use crate::landing::Landing;
use crate::launch::Pattern;
use crate::layout::Strided;
use crate::memory::{PageError, PageId};
use crate::message::CustomWork;
use crate::profile::ClockSource;
use crate::properties::DeviceProperties;

/// Makes kernels runnable. Called on the threads of those who prepare kernels, never on the device thread.
pub trait Compiler: Send + Sync + 'static {
    /// Compiles the first source of `kernel` that the device understands. May take long.
    ///
    /// # Errors
    /// When there is no such source, or it does not compile; [`KernelError::Lost`] when the device is gone, which
    /// the device's thread is told then.
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError>;

    /// How a program can be cut up beside the usual way, as a kernel's extension may ask ([`Kernel::with`]). Nothing, where there is
    /// nothing to choose.
    fn blockings(&self, program: &Program) -> Vec<Blocking> {
        let _ = program;
        Vec::new()
    }
}

/// When a task ran, in nanoseconds since the backend was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Which task.
    pub point: Point,
    /// When it started.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Its failure, if it failed as it ran and the backend knows of it.
    pub failure: Option<FailureRef>,
}

/// What a device keeps for the replays of one plan.
pub type Prepared = Box<dyn Any + Send>;

/// One device.
pub trait Backend: Send + 'static {
    /// What a custom task is given ([`CustomWork`]), and what a guard holds.
    type Resources: Send + 'static;

    /// Does a driven device of this kind go on without [`Backend::pump`]? Then [`Backend::is_under_way`] is asked.
    const WORKS_BY_ITSELF: bool = false;

    /// What the device is.
    fn properties(&self) -> &DeviceProperties;

    /// The published progress of `queue`.
    fn timeline(&self, queue: QueueId) -> &Arc<Timeline>;

    /// What compiles kernels for this device.
    fn compiler(&self) -> Arc<dyn Compiler>;

    /// What the device is to code that knows this kind of backend: handles of a driver's, say. Asked once.
    fn raw(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// A page of at least `bytes`, initialized or not, aligned to the device's alignment.
    ///
    /// # Errors
    /// When the device has no such page.
    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError>;

    /// Frees a page. Every point that used it has passed.
    fn free(&mut self, page: PageId);

    /// Runs a kernel.
    ///
    /// # Errors
    /// When the device refuses it; then it has not been queued.
    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused>;

    /// Copies from the host. The layout, if there is one, says where the dense bytes of the source go.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn copy_in(
        &mut self,
        place: Place<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused>;

    /// Copies to the host. The layout, if there is one, says where the dense bytes of the landing come from.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn copy_out(
        &mut self,
        place: Place<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused>;

    /// Copies `source` to `target`, which has as many bytes. Clients are refused copies between ranges that overlap.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn copy(
        &mut self,
        place: Place<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused>;

    /// Fills `target` with a pattern, again and again. It is whole patterns: its offset and its length are multiples of the
    /// pattern's width.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn fill(
        &mut self,
        place: Place<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused>;

    /// Runs user code on the queue with the backend's own resources for the bindings.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn custom(
        &mut self,
        place: Place<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused>;

    /// The resources of these bindings for use outside the queues, by a guard. Everything that
    /// conflicts has completed, and nothing that conflicts is issued until the guard is gone.
    ///
    /// # Errors
    /// When the device cannot give them out.
    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<Self::Resources>, Refused>;

    /// Gets ready for replays of a plan. What the device keeps for them comes back at each, and is dropped on another thread once
    /// the recording is gone and everything that was issued has passed.
    fn prepare(&mut self, plan: &Plan) -> Prepared {
        let _ = plan;
        Box::new(())
    }

    /// Runs a plan: each task at its cursor, as if by a call of its own, which is what is done here. A device that runs more than
    /// one queue's work at a time may run tasks side by side that the plan's order leaves apart.
    ///
    /// # Errors
    /// Which task, from 0, was refused, and why. Those before it are issued, those behind it are not.
    fn replay(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &mut Prepared,
    ) -> Result<(), (usize, Refused)> {
        let _ = prepared;
        replay.issue_all(self)
    }

    /// Nothing runs, in order: the cursor passes once everything before it has. Infallible, because
    /// what failed to be queued still keeps its place in the order.
    fn mark(&mut self, queue: QueueId, cursor: Cursor);

    /// Failures that tasks left in these bytes before are none of what is issued to `queue` from here on: it defines what it reads there.
    /// Takes no cursor. Called before a replay whose temporaries hold what is left of another.
    ///
    /// A device whose tasks can fail while they run heals the bytes when the queue comes to this place, by
    /// [`settle::outputs`](crate::settle::outputs). Any other has nothing to do.
    fn forget(&mut self, queue: QueueId, bytes: &[BoundSlice]) {
        let _ = (queue, bytes);
    }

    /// What is issued to `queue` from here on waits, on the device, until `point` has passed. The point was flushed
    /// ([`Backend::flush`]), at the earliest by the call just before this one, and may lie within the batch that ended there.
    ///
    /// # Errors
    /// When the device is lost.
    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused>;

    /// A batch ends: the timeline of `queue` must publish at least up to `cursor` without further calls.
    fn flush(&mut self, queue: QueueId, cursor: Cursor);

    /// What helps, now that the device is lost: a call has answered [`Refused::Lost`] or
    /// [`PageError::Lost`], or the timeline of a queue has ended, which is how a backend tells a loss that
    /// it notices by itself, from any thread. Asked once. What the server is about may
    /// still call; no page is allocated or freed any more.
    ///
    /// After [`Recovery::NewProcess`], the default, the value is leaked: it is never dropped. After
    /// [`Recovery::SameProcess`] it is dropped before the device is opened again, off the device thread
    /// and with its pages not freed and tasks perhaps in flight; only where user code may still look at
    /// its memory it is leaked as well.
    fn recovery(&mut self) -> Recovery {
        Recovery::NewProcess
    }

    /// Runs queued work on the calling thread for about `budget` and says whether any ran or has passed. Waits for
    /// nothing. Only a device that was opened as driven needs it.
    fn pump(&mut self, budget: Duration) -> bool {
        let _ = budget;
        false
    }

    /// May the calls of this trait come from any thread, one at a time? Then a thread that is about to wait for a device
    /// that runs by itself may make them itself while the device's thread sleeps, between [`Backend::hold_back`] and
    /// [`Backend::let_go`].
    const CALLERS_STEP_IN: bool = false;

    /// From here on what is issued need not be begun: [`Backend::let_go`] follows, whatever happens.
    fn hold_back(&mut self) {}

    /// Begins what was issued since [`Backend::hold_back`]: small tasks may run on the calling thread, but no code of users.
    /// `large` says what becomes of the others. Waits for nothing.
    fn let_go(&mut self, large: Large) -> LetGo {
        let _ = large;
        LetGo::default()
    }

    /// Runs what [`Large::Hold`] holds; asked once, when the device is opened. None: nothing is ever held.
    fn held(&self) -> Option<Arc<dyn Held>> {
        None
    }

    /// Is something under way that passes without [`Backend::pump`], and tells nobody when it has? Who waits for a driven
    /// device looks again soon then.
    fn is_under_way(&self) -> bool {
        false
    }

    /// Spans recorded since the last call, in any order. Only with tracing on, or while [`Backend::record_spans`] says so. Those
    /// of what a timeline has published are among them, if they were recorded.
    fn take_spans(&mut self) -> Vec<Span> {
        Vec::new()
    }

    /// From here on the spans of tasks are recorded, each task's by itself, also those of a replay; room for so many of each queue
    /// is needed between two calls of [`Backend::take_spans`]. With 0 only what the device was opened with is recorded again.
    /// Answers how many tasks a queue may have in flight meanwhile, so that no call waits.
    fn record_spans(&mut self, room: usize) -> usize {
        let _ = room;
        self.properties().max_queue_depth
    }

    /// Which clock spans are read from.
    fn clock(&self) -> ClockSource {
        ClockSource::HOST
    }

    /// Nanoseconds in which `queue` ran tasks, where it is measured.
    fn busy_ns(&self, queue: QueueId) -> u64 {
        let _ = queue;
        0
    }

    /// A slice begins at this range. For checkers that look at slices rather than pages.
    fn slice_reserved(&mut self, slice: SliceId, page: Option<PageId>, offset: u64, len: u64) {
        let _ = (slice, page, offset, len);
    }

    /// A slice ends; its range may be given to another.
    fn slice_released(&mut self, slice: SliceId) {
        let _ = slice;
    }
}

/// The failure of the first binding that the task reads and whose bytes are poisoned.
pub type Verdict = Result<(), FailureRef>;
