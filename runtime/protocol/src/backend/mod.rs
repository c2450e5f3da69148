//! The [`Backend`] trait: what a device must do, over plain data. Its documentation states the duties of both sides.

mod open;
mod plan;
mod task;
mod waiting;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use millstream_ir::{Blocking, Program};
use millstream_sync::timeline::Timeline;
pub use open::{HostContext, Open};
pub use plan::{BoundPlan, Call, Plan, Replay, Step};
pub use task::{BoundCount, BoundSlice, HostData, Launch, TaskPoint};
pub use waiting::{CompletionWait, Held, Large, StartOutcome};

use crate::cancel::Withdrawal;
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

/// Compiles kernels. Called on the threads that prepare kernels, never on the device thread.
pub trait Compiler: Send + Sync + 'static {
    /// Compiles the first source of `kernel` that the device understands. May take long.
    ///
    /// # Errors
    /// If there is no such source, or it does not compile; [`KernelError::Lost`] if the device is lost, which the
    /// caller then reports to the device thread.
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError>;

    /// Returns the blockings of a program besides the default one. A kernel selects one with an extension
    /// ([`Kernel::with`]). Empty if there is no choice.
    fn blockings(&self, program: &Program) -> Vec<Blocking> {
        let _ = program;
        Vec::new()
    }
}

/// The run time of a task, in nanoseconds since the backend was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// The point of the task.
    pub point: Point,
    /// The start.
    pub start_ns: u64,
    /// The end.
    pub end_ns: u64,
    /// The failure of the task, if it failed while it ran and the backend knows the failure.
    pub failure: Option<FailureRef>,
}

/// The state that a device keeps for the replays of one plan.
pub type Prepared = Box<dyn Any + Send>;

/// One device: what it must do, over plain data.
///
/// The server validates, orders and owns; a backend stays thin. It never learns about streams, clients or hazards. One
/// thread at a time makes the calls: the device thread; or a caller that is about to wait, while that thread sleeps,
/// between [`Backend::defer_start`] and [`Backend::start_deferred`]; or, on a driven device, a thread that
/// pumps it or waits.
///
/// # What the server guarantees
/// - Every range lies in a page that the backend allocated, and is aligned as declared. Counts and lengths are within
///   the [properties](DeviceProperties).
/// - The cursors of one queue increase strictly, over all calls that take one.
/// - If a task must come after a point of another queue, a [`Backend::queue_wait`] for that point comes just before
///   the task. The point was flushed before.
/// - A page is freed only after every point that used it has passed.
/// - A compiled kernel is dropped only after every task that may use it has passed, on any thread; never if such a task
///   was lost.
/// - If a call refuses a task, [`Backend::mark`] follows with the same cursor.
///
/// # What a backend must do
/// - No call waits for the device. A call that makes a task only enqueues it.
/// - The tasks of one queue run in the order of their cursors.
/// - When a task ends, the backend settles its failure ([`settle`](crate::settle)), drops what the task owned, and
///   only then publishes the cursor on the queue's timeline. Callers wait for the publication, so nothing may follow
///   it.
/// - After [`Backend::flush`], the timeline reaches the flushed cursor without further calls.
/// - A loss is reported by [`Refused::Lost`] or [`PageError::Lost`] from a call, or from any thread by
///   [`DeviceStatus::set_lost`](crate::device_status::DeviceStatus::set_lost) and then the end of the timelines.
///
/// # The order of calls
/// Two queues, the task on queue 1 reads what the first task on queue 0 writes:
///
/// ```text
///   call                         queue 0                          queue 1
///   launch(q0, cursor 1, write)  enqueued
///   launch(q0, cursor 2, ..)     enqueued
///   flush(q0, cursor 2)          event recorded after cursor 2
///   queue_wait(q1, q0 at 1)                                       waits for that event
///   launch(q1, cursor 1, read)                                    enqueued after the wait
///   copy_out(q1, cursor 2) Err                                    not enqueued
///   mark(q1, cursor 2)                                            keeps the place of the refused task
///   flush(q1, cursor 2)                                           event recorded after cursor 2
/// ```
/// The point `q0 at 1` lies inside the batch that ended with cursor 2: a backend with one event per batch waits for
/// that event. The flush may come in the call just before the wait, so a backend whose `flush` hands work to another
/// thread must make the wait hold until the event exists.
///
/// A recording calls [`Backend::prepare`] once. Each replay is one [`Backend::replay`], which takes a cursor for each
/// task, after a [`Backend::forget`] if temporaries hold failures of an earlier replay.
///
/// # Failures
/// The server handles failures that are known when a task is issued: no memory, a refused call, an input that failed. A
/// backend whose tasks can fail while they run (on the CPU a kernel panics) settles these itself, in execution order,
/// before it publishes the cursor: see [`settle`](crate::settle).
///
/// # Tests
/// The suite in `tests/conformance` runs on any backend. The simulator checks every access against the waits that were
/// issued, and the fake CUDA driver (`tests/cuda/fake`) checks the driver calls of the CUDA backend.
pub trait Backend: Send + 'static {
    /// The argument of a custom task ([`CustomWork`]), and the content of a guard.
    type Resources: Send + 'static;

    /// Whether a driven device of this kind makes progress without [`Backend::pump`]. If so, callers that wait query
    /// [`Backend::has_running_tasks`].
    const RUNS_WITHOUT_PUMP: bool = false;

    /// Whether the device is simulated, and its runs must not depend on the time of the machine. If so, the limit of user
    /// code in a step of a driven device is a number of jobs instead of a time.
    const IS_SIMULATED: bool = false;

    /// Returns the properties of the device.
    fn properties(&self) -> &DeviceProperties;

    /// Returns the timeline of `queue`, on which the backend publishes its progress.
    fn timeline(&self, queue: QueueId) -> &Arc<Timeline>;

    /// Returns the compiler of the device.
    fn compiler(&self) -> Arc<dyn Compiler>;

    /// Returns the device for code that is specific to this kind of backend, such as handles of its driver. Called
    /// once.
    fn raw(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// Allocates a page of at least `bytes`, aligned to the device's alignment. Its contents may be uninitialized.
    ///
    /// # Errors
    /// If the device has no such page.
    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError>;

    /// Frees a page. Every point that used it has passed.
    fn free(&mut self, page: PageId);

    /// Returns memory of freed pages that the backend keeps for later ones to the device. Follows the frees of a requested
    /// cleanup. May take long.
    fn trim(&mut self) {}

    /// Runs a kernel.
    ///
    /// # Errors
    /// If the device refuses the task. The task is then not enqueued, and [`Backend::mark`] follows with its cursor.
    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused>;

    /// Copies from the host. The layout, if there is one, gives the places of the dense bytes of the source in the
    /// target.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused>;

    /// Copies to the host. The layout, if there is one, gives the places of the dense bytes of the landing in the
    /// source.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused>;

    /// Copies `source` to `target`, which has the same length. The ranges do not overlap: clients refuse such copies.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused>;

    /// Fills `target` with repetitions of a pattern. The offset and the length are multiples of the pattern's width.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused>;

    /// Runs user code on the queue, with the backend's resources for the bindings.
    ///
    /// # Errors
    /// As [`Backend::launch`].
    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused>;

    /// Returns the resources of these bindings for a guard, which uses them outside the queues. Every conflicting
    /// task has completed, and none is issued until the guard is dropped.
    ///
    /// # Errors
    /// If the device cannot provide the resources.
    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<Self::Resources>, Refused>;

    /// Prepares replays of a plan. Each replay of the plan receives the returned state. The state is dropped on another
    /// thread once the recording is dropped and all of its issued replays have passed.
    fn prepare(&mut self, plan: &Plan) -> Prepared {
        let _ = plan;
        Box::new(())
    }

    /// Runs a plan: each task at its cursor, as by a separate call, which is the default. A device that runs several
    /// tasks at a time may run tasks concurrently if the plan's order does not order them.
    ///
    /// Returns the index of the first task that is not issued yet: the number of tasks of the plan if it runs by one
    /// call, and the end of [`Replay::part`] if its tasks are issued one by one. The server issues the rest, part by
    /// part, with [`Replay::issue_part`].
    ///
    /// # Errors
    /// The index of the refused task, from 0, and the reason. Tasks before it are issued, tasks after it are not.
    fn replay(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &mut Prepared,
    ) -> Result<usize, (usize, Refused)> {
        let _ = prepared;
        replay.issue_part(self)
    }

    /// Enqueues a task without work: its cursor passes once everything before it has. Infallible, because a task that
    /// could not be enqueued still keeps its place in the order.
    fn mark(&mut self, queue: QueueId, cursor: Cursor);

    /// Ends the failures that earlier tasks left in these bytes: tasks that are issued to `queue` from here on define
    /// what they read there. Takes no cursor. The server calls it before a replay whose temporaries hold data of an
    /// earlier replay.
    ///
    /// A device whose tasks can fail while they run heals the bytes when the queue reaches this place, with
    /// [`settle::outputs`](crate::settle::outputs). Any other device does nothing.
    fn forget(&mut self, queue: QueueId, bytes: &[BoundSlice]) {
        let _ = (queue, bytes);
    }

    /// Makes tasks that are issued to `queue` from here on wait, on the device, until `point` has passed. The point was
    /// flushed ([`Backend::flush`]), possibly by the call just before this one, and may lie inside the flushed batch.
    ///
    /// # Errors
    /// If the device is lost.
    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused>;

    /// Whether the backend begins its tasks itself and can skip one that was withdrawn meanwhile. If so, the server calls
    /// [`Backend::withdrawable`].
    const WITHDRAWS_AT_BEGIN: bool = false;

    /// The next task of `queue`, whose call follows, may be withdrawn until it begins. When the queue has come to one of
    /// its cursors and would run its work, it calls [`Withdrawals::reason`](crate::cancel::Withdrawals::reason); with a
    /// reason the work does not run and fails with [`Failure::not_run`](crate::failure::Failure::not_run). Takes no
    /// cursor.
    fn withdrawable(&mut self, queue: QueueId, task: Withdrawal) {
        let _ = (queue, task);
    }

    /// Ends a batch: the timeline of `queue` must reach at least `cursor` without further calls.
    fn flush(&mut self, queue: QueueId, cursor: Cursor);

    /// Returns how the lost device can be opened again. The server calls it once, after a call has returned
    /// [`Refused::Lost`] or [`PageError::Lost`], or after the timeline of a queue has ended, which is how a backend
    /// reports a loss that it notices outside of calls, from any thread. Calls that belong to work in progress may
    /// still follow, but no page is allocated or freed any more.
    ///
    /// After [`Recovery::NewProcess`], the default, the backend is leaked: it is never dropped. After
    /// [`Recovery::SameProcess`] it is dropped before the device is opened again, off the device thread, with its
    /// pages not freed and possibly with tasks in flight. It is leaked as well if user code may still access its
    /// memory.
    fn recovery(&mut self) -> Recovery {
        Recovery::NewProcess
    }

    /// Runs queued tasks on the calling thread for about `budget`. Returns `true` if a task ran or passed. Does not
    /// wait. Only a device that was opened as driven needs it.
    fn pump(&mut self, budget: Duration) -> bool {
        let _ = budget;
        false
    }

    /// Whether the calls of this trait run the code of custom tasks. That code may take a lock that a caller holds, so
    /// callers make no calls once such a task was sent.
    const CALLS_RUN_CODE: bool = true;

    /// Whether ending a batch costs much more than a task, as a submission to a driver may. Then a caller makes calls
    /// with the last message before an expected wait, or the one before it: with an earlier one it would only end a
    /// batch early.
    const BATCHES_ARE_COSTLY: bool = false;

    /// A caller makes the calls until [`Backend::start_deferred`], which always follows, in place of the device thread. The
    /// backend may delay the start of the tasks until then.
    fn defer_start(&mut self) {}

    /// Starts the tasks that were issued since [`Backend::defer_start`]. Small tasks may run on the calling thread, but
    /// no user code. `large` decides about the others. Does not wait.
    fn start_deferred(&mut self, large: Large) -> StartOutcome {
        let _ = large;
        StartOutcome::default()
    }

    /// Returns the runner of tasks that [`Large::Hold`] holds. Called once, when the device is opened. `None` if the
    /// backend never holds tasks.
    fn held(&self) -> Option<Arc<dyn Held>> {
        None
    }

    /// Returns `true` if work is in progress that completes without [`Backend::pump`] and notifies no waker. A caller
    /// that waits for a driven device then waits by [`Backend::completion_wait`], or polls again soon.
    fn has_running_tasks(&self) -> bool {
        false
    }

    /// Returns the object by which callers of a driven device wait for its tasks. Called once, when the device is
    /// opened. `None` if the driver cannot wait for a bounded time; callers then poll.
    fn completion_wait(&self) -> Option<Arc<dyn CompletionWait>> {
        None
    }

    /// Returns the spans recorded since the last call, in any order. Spans are recorded only with tracing enabled, or
    /// after [`Backend::record_spans`]. The recorded spans of all published cursors are included.
    fn take_spans(&mut self) -> Vec<Span> {
        Vec::new()
    }

    /// Starts to record the span of each task, also of each task of a replay. Between two calls of
    /// [`Backend::take_spans`] the backend needs room for `room` spans of each queue. With 0 it records again only
    /// what it was opened with. Returns the number of tasks that a queue may have in flight meanwhile, so that no
    /// call waits.
    fn record_spans(&mut self, room: usize) -> usize {
        let _ = room;
        self.properties().max_queue_depth
    }

    /// Returns the clock of the spans.
    fn clock(&self) -> ClockSource {
        ClockSource::HOST
    }

    /// Returns the time in nanoseconds in which `queue` ran tasks, or 0 if the backend does not measure it.
    fn busy_ns(&self, queue: QueueId) -> u64 {
        let _ = queue;
        0
    }

    /// Notifies the backend that a slice begins at this range. For checkers, which track slices instead of pages.
    fn slice_reserved(&mut self, slice: SliceId, page: Option<PageId>, offset: u64, len: u64) {
        let _ = (slice, page, offset, len);
    }

    /// Notifies the backend that a slice ends; its range may be given to another slice.
    fn slice_released(&mut self, slice: SliceId) {
        let _ = slice;
    }
}

/// `Ok`, or the failure of the first binding that the task reads and whose bytes are poisoned.
pub type Verdict = Result<(), FailureRef>;
