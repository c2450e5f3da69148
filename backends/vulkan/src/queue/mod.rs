//! The device thread's side of a queue: the command buffer that is being recorded, and the batches in flight.
//!
//! # Protocol
//! A batch is one call of `vkQueueSubmit2`. It consists of *segments*: a wait for another queue in the middle of a batch
//! ends the open segment, because a command buffer waits as a whole, and only later tasks must wait.
//!
//! ```text
//!  calls                           recorded                                 submitted by flush(cursor 3)
//!  launch (cursor 1)               commands A: dispatch                     SubmitInfo { commands A }
//!  queue_wait(queue 1 at 7)        A ends
//!  launch (cursor 2)               commands B: dispatch                     SubmitInfo { waits: queue 1 >= 7,
//!  copy   (cursor 3, reads 2)      commands B: barrier, copy                             commands B, signals: 3 }
//! ```
//! The signal covers all commands before it in the order of submission, so one value per batch suffices, and a wait for
//! a cursor in the middle of a batch waits for the value of its end, which is the next value above.
//!
//! A batch without commands and waits, such as that of a sync after everything was submitted, is not submitted: its
//! cursor passes with the last signalled value ([`Queue::awaited`]).
//!
//! A wait for a point is issued only after the point was flushed, that is, submitted. So several of our queues may share
//! one queue of Vulkan: what a submission waits for was submitted before it.

mod known;
mod submission;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use ash::vk;
use millstream_gpu::{BatchMemory, Completer, Readback};
use millstream_protocol::{BoundSlice, Cursor, QueueId};
use millstream_sync::timeline::Timeline;
use smallvec::SmallVec;

use crate::accesses::Accesses;
use crate::adopted::AdoptedQueue;
use crate::barriers::barrier;
use crate::commands::Commands;
use crate::completer::{Batch, Shared};
use crate::driver::{Code, Context, Mapped, TimelineSemaphore};
use crate::held::{Ends, Holder, Line, Sent};
use crate::trace::{Timestamp, Timing, Tracer};
use crate::waits::Target;
use crate::waits::VulkanPoint;

use known::Known;
pub(crate) use known::Recorded;
use known::Set;

/// The number of segments of a batch, and of waits of a segment, that need no allocation.
const INLINE: usize = 4;

/// A function to call once a batch is submitted, with the point after it.
pub(crate) type WhenSubmitted = Box<dyn FnOnce(VulkanPoint) + Send>;

type Waits = SmallVec<[vk::SemaphoreSubmitInfo<'static>; INLINE]>;

/// A queue of the device.
pub(crate) struct Queue {
    id: QueueId,
    context: Arc<Context>,
    raw: vk::Queue,
    pub(crate) family: u32,
    timeline: Arc<Timeline>,
    semaphore: Arc<TimelineSemaphore>,
    /// `None` for a driven device, whose batches `poll` completes.
    completer: Option<Completer<Sent>>,
    /// The batches that a caller completes; `None` for a driven device.
    holder: Option<Holder>,
    /// Whether batches are deferred until `start_deferred`.
    defers: bool,
    /// The deferred batches, oldest first.
    deferred: Vec<Batch>,
    /// The last cursor before them that was flushed.
    before_deferred: Cursor,
    /// The last issued cursor.
    issued: Cursor,
    /// The last cursor of the last flushed batch.
    pub(crate) submitted: Cursor,
    /// The last value that a submission signals. At most `submitted`; all cursors above it are marks without work.
    signalled: u64,
    /// The value before it.
    signalled_before: u64,
    /// What the tasks of the open batch come after, and what those of the last submitted one did.
    known: Known,
    signalled_known: Known,
    /// The ended segments of the open batch.
    ended: Vec<Segment>,
    /// The open segment.
    open: Segment,
    accesses: Accesses,
    /// The number of barriers that were recorded between tasks.
    pub(crate) barriers: u64,
    /// What was set aside while a secondary command buffer is recorded.
    set_aside: Option<Set>,
    /// Command buffers in flight, oldest first, each with the cursor of its batch.
    in_flight: VecDeque<(Cursor, Commands)>,
    /// The batches that `poll` completes, oldest first.
    to_poll: VecDeque<Batch>,
    /// The first of them, for threads that wait.
    pub(crate) target: Arc<Target>,
    /// Command buffers that no submission uses.
    free: Vec<Commands>,
    /// What the tasks of the open batch need.
    batch: Batch,
    /// Whether the open segment writes memory that the host may read.
    copies_out: bool,
    /// `Some` while spans are recorded.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The timestamp before the task that is being recorded.
    started: Option<Timestamp>,
    /// The functions to call once the open batch is submitted.
    when_submitted: Vec<WhenSubmitted>,
    /// Command buffers of the open batch that were submitted already.
    finished: Vec<Commands>,
    /// The error after which a command buffer can be neither submitted nor recorded: no batch can be submitted any more.
    broken: Option<Code>,
}

/// A part of a batch: waits, then commands.
#[derive(Default)]
struct Segment {
    waits: Waits,
    commands: Option<Commands>,
}

impl Queue {
    /// Creates a queue with at most `depth` batches in flight.
    pub(crate) fn new(
        id: QueueId,
        AdoptedQueue { family, raw }: AdoptedQueue,
        shared: &Shared,
        (semaphore, completer): (Arc<TimelineSemaphore>, Option<Completer<Sent>>),
        depth: usize,
    ) -> Self {
        let timeline = shared.timelines[id.index()].clone();
        let thread = completer.as_ref().map(Completer::sender);
        let holder = thread.map(|thread| {
            Holder::new(Ends {
                id,
                semaphore: semaphore.clone(),
                timeline: timeline.clone(),
                thread,
                reached: 0,
            })
        });
        Self {
            target: Target::new(semaphore.clone()),
            id,
            context: shared.context.clone(),
            raw,
            family,
            timeline,
            semaphore,
            holder,
            defers: false,
            deferred: Vec::new(),
            before_deferred: 0,
            completer,
            issued: 0,
            submitted: 0,
            signalled: 0,
            signalled_before: 0,
            known: Known::default(),
            signalled_known: Known::default(),
            ended: Vec::with_capacity(INLINE),
            open: Segment::default(),
            accesses: Accesses::default(),
            barriers: 0,
            set_aside: None,
            in_flight: VecDeque::with_capacity(depth),
            to_poll: VecDeque::new(),
            free: Vec::new(),
            batch: Batch::default(),
            copies_out: false,
            tracer: None,
            started: None,
            when_submitted: Vec::new(),
            finished: Vec::new(),
            broken: None,
        }
    }

    /// Returns the command buffer for a task with these bindings, after a barrier if the task conflicts with an earlier
    /// one.
    pub(crate) fn record<'a>(
        &mut self,
        bindings: impl Iterator<Item = &'a BoundSlice> + Clone,
    ) -> Result<&mut Commands, Code> {
        self.open_commands()?;
        let needs_barrier = self.accesses.add(bindings);
        if needs_barrier {
            self.barriers += 1;
            self.separate()?;
        }
        if self.tracer.is_some() {
            self.started = self.open_commands()?.stamp().ok().flatten();
        }
        self.open_commands()
    }

    /// Returns the command buffer for commands of user code, after a barrier if the task needs one.
    pub(crate) fn record_foreign(
        &mut self,
        bindings: &[BoundSlice],
    ) -> Result<vk::CommandBuffer, Code> {
        let commands = self.record(bindings.iter())?;
        // User code may bind another pipeline.
        commands.bound = vk::Pipeline::null();
        Ok(commands.raw)
    }

    /// Records a barrier between the commands of one task.
    pub(crate) fn separate(&mut self) -> Result<(), Code> {
        let commands = self.open_commands()?.raw;
        // SAFETY: this thread records the command buffer.
        unsafe { barrier(&self.context, commands) };
        Ok(())
    }

    /// Returns the command buffer that is being recorded.
    fn open_commands(&mut self) -> Result<&mut Commands, Code> {
        if self.open.commands.is_none() {
            self.reclaim();
            let mut commands = match self.free.pop() {
                Some(commands) => commands,
                None => Commands::new(&self.context, self.family)?,
            };
            // SAFETY: free command buffers are not in flight (`reclaim`).
            unsafe { commands.begin() }?;
            self.open.commands = Some(commands);
        }
        let none = || Code::of("vkBeginCommandBuffer")(vk::Result::NOT_READY);
        self.open.commands.as_mut().ok_or_else(none)
    }

    /// Moves the command buffers of completed batches to the free list.
    fn reclaim(&mut self) {
        let completed = self.timeline.completed();
        while let Some((_, mut commands)) = self
            .in_flight
            .pop_front_if(|(cursor, _)| *cursor <= completed)
        {
            commands.release();
            self.free.push(commands);
        }
    }

    /// Notes that the task at this cursor is recorded.
    #[inline]
    pub(crate) fn issue(&mut self, cursor: Cursor) {
        self.issued = cursor;
        if let Some(start) = self.started.take() {
            self.stamp_end(cursor, start);
        }
    }

    /// Notes a cursor without commands.
    pub(crate) fn skip(&mut self, cursor: Cursor) {
        self.started = None;
        self.issued = cursor;
    }

    /// Writes the timestamp after a task. A task without times is better than a refused task.
    #[cold]
    fn stamp_end(&mut self, cursor: Cursor, start: Timestamp) {
        let commands = self.open_commands();
        if let Ok(Some(end)) = commands.and_then(Commands::stamp) {
            self.batch.timings.push(Timing { cursor, start, end });
        }
    }

    /// Adds a readback to the open batch.
    pub(crate) fn add_readback(&mut self, readback: Readback<Mapped>) {
        self.copies_out = true;
        self.batch.memory.readbacks.push(readback);
    }

    /// Returns the memory that the copies of the open batch use.
    pub(crate) fn memory(&mut self) -> &mut BatchMemory<Mapped> {
        &mut self.batch.memory
    }

    /// Keeps a value until the open batch has completed.
    pub(crate) fn keep(&mut self, value: Box<dyn Any + Send>) {
        self.batch.kept.push(value);
    }

    /// Calls a function once the open batch is submitted. Drops it if the submission is refused.
    pub(crate) fn when_submitted(&mut self, call: WhenSubmitted) {
        self.when_submitted.push(call);
    }

    /// Returns the line of held batches; `None` for a driven device.
    pub(crate) fn line(&self) -> Option<Arc<Line>> {
        self.holder.as_ref().map(|holder| holder.line().clone())
    }
}

impl Drop for Queue {
    /// Ends the queue's thread, which first completes all batches. The device is idle or lost.
    fn drop(&mut self) {
        if let Some(holder) = &self.holder {
            holder.close();
        }
        self.completer = None;
        // The thread ends early after a loss.
        let left = self.line();
        std::iter::from_fn(|| left.as_ref()?.take()).for_each(drop);
    }
}
