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
//! cursor passes with the last signalled value ([`Queue::value_of`]).
//!
//! A wait for a point is issued only after the point was flushed, that is, submitted. So several of our queues may share
//! one queue of Vulkan: what a submission waits for was submitted before it.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ash::vk;
use millstream_gpu::{Completer, Readback};
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::id::{Cursor, QueueId};
use millstream_protocol::message::HostBytes;
use millstream_sync::payload::panic_message;
use millstream_sync::timeline::Timeline;
use smallvec::SmallVec;

use crate::accesses::Accesses;
use crate::barriers::{STAGES, barrier, make_visible_to_host};
use crate::commands::Commands;
use crate::completer::{Batch, Staged, complete};
use crate::device::VulkanPoint;
use crate::driver::{Code, Context, Mapped, TimelineSemaphore};
use crate::trace::{Timestamp, Timing, Tracer};

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
    family: u32,
    timeline: Arc<Timeline>,
    semaphore: Arc<TimelineSemaphore>,
    /// `None` for a driven device, whose batches `poll` completes.
    completer: Option<Completer<Batch>>,
    /// The last issued cursor.
    issued: Cursor,
    /// The last cursor of the last flushed batch.
    submitted: Cursor,
    /// The last value that a submission signals. At most `submitted`; all cursors above it are marks without work.
    signalled: u64,
    /// The ended segments of the open batch.
    ended: Vec<Segment>,
    /// The open segment.
    open: Segment,
    accesses: Accesses,
    /// The number of barriers that were recorded between tasks.
    barriers: u64,
    /// Command buffers in flight, oldest first, each with the cursor of its batch.
    in_flight: VecDeque<(Cursor, Commands)>,
    /// The batches that `poll` completes, oldest first.
    to_poll: VecDeque<Batch>,
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

/// The configuration of a queue.
pub(crate) struct QueueConfig {
    pub(crate) id: QueueId,
    pub(crate) raw: vk::Queue,
    pub(crate) family: u32,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) semaphore: Arc<TimelineSemaphore>,
    pub(crate) completer: Option<Completer<Batch>>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// Most batches in flight.
    pub(crate) depth: usize,
}

impl Queue {
    pub(crate) fn new(context: &Arc<Context>, config: QueueConfig) -> Self {
        Self {
            id: config.id,
            context: context.clone(),
            raw: config.raw,
            family: config.family,
            timeline: config.timeline,
            semaphore: config.semaphore,
            completer: config.completer,
            issued: 0,
            submitted: 0,
            signalled: 0,
            ended: Vec::with_capacity(INLINE),
            open: Segment::default(),
            accesses: Accesses::default(),
            barriers: 0,
            in_flight: VecDeque::with_capacity(config.depth),
            to_poll: VecDeque::new(),
            free: Vec::new(),
            batch: Batch::default(),
            copies_out: false,
            tracer: config.tracer,
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
        let commands = match &mut self.open.commands {
            Some(commands) => commands,
            None => return Err(Code::of("vkBeginCommandBuffer")(vk::Result::NOT_READY)),
        };
        if needs_barrier {
            self.barriers += 1;
            // SAFETY: this thread records the command buffer.
            unsafe { barrier(&self.context, commands.raw()) };
        }
        if self.tracer.is_some() {
            self.started = commands.stamp().ok().flatten();
        }
        Ok(commands)
    }

    /// Returns the command buffer for commands of user code, after a barrier if the task needs one.
    pub(crate) fn record_foreign(
        &mut self,
        bindings: &[BoundSlice],
    ) -> Result<vk::CommandBuffer, Code> {
        let commands = self.record(bindings.iter())?;
        // User code may bind another pipeline.
        commands.bound = vk::Pipeline::null();
        Ok(commands.raw())
    }

    /// Submits everything that was recorded, and waits until it has completed. Blocks the calling thread.
    pub(crate) fn finish(&mut self) -> Result<(), Code> {
        self.end_segment()?;
        if self.ended.is_empty() {
            self.ended.push(std::mem::take(&mut self.open));
        }
        self.submit(None)?;
        // The command buffers stay in `ended` until the batch ends; nothing submits them again.
        self.finished
            .extend(self.ended.drain(..).filter_map(|segment| segment.commands));
        // SAFETY: only the device thread uses queues.
        unsafe { self.context.device.queue_wait_idle(self.raw) }
            .map_err(Code::of("vkQueueWaitIdle"))
    }

    /// Records a barrier between the commands of one task.
    pub(crate) fn separate(&mut self) -> Result<(), Code> {
        self.open_commands()?;
        if let Some(commands) = &self.open.commands {
            // SAFETY: this thread records the command buffer.
            unsafe { barrier(&self.context, commands.raw()) };
        }
        Ok(())
    }

    /// Makes sure that a command buffer is being recorded.
    fn open_commands(&mut self) -> Result<(), Code> {
        if self.open.commands.is_some() {
            return Ok(());
        }
        self.reclaim();
        let mut commands = match self.free.pop() {
            Some(commands) => commands,
            None => Commands::new(&self.context, self.family)?,
        };
        // SAFETY: free command buffers are not in flight (`reclaim`).
        unsafe { commands.begin() }?;
        self.open.commands = Some(commands);
        Ok(())
    }

    /// Moves the command buffers of completed batches to the free list.
    fn reclaim(&mut self) {
        let completed = self.timeline.completed();
        while let Some((_, commands)) = self
            .in_flight
            .pop_front_if(|(cursor, _)| *cursor <= completed)
        {
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
        let Ok(()) = self.open_commands() else { return };
        let end = self
            .open
            .commands
            .as_mut()
            .and_then(|commands| commands.stamp().ok()?);
        if let Some(end) = end {
            self.batch.timings.push(Timing { cursor, start, end });
        }
    }

    /// Adds a readback to the open batch.
    pub(crate) fn add_readback(&mut self, readback: Readback<Mapped>) {
        self.copies_out = true;
        self.batch.readbacks.push(readback);
    }

    /// Keeps a staging range until the open batch has completed.
    pub(crate) fn keep_staged(&mut self, staged: Staged) {
        self.batch.staged.push(staged);
    }

    /// Keeps the source of an upload until the open batch has completed.
    pub(crate) fn keep_source(&mut self, source: Box<dyn HostBytes>) {
        self.batch.sources.push(source);
    }

    /// Keeps a value until the open batch has completed.
    pub(crate) fn keep(&mut self, value: Box<dyn Any + Send>) {
        self.batch.kept.push(value);
    }

    /// Calls a function once the open batch is submitted. Drops it if the submission is refused.
    pub(crate) fn when_submitted(&mut self, call: WhenSubmitted) {
        self.when_submitted.push(call);
    }

    /// Makes later tasks wait until a semaphore of another queue or of the application has this value.
    pub(crate) fn wait_for(&mut self, semaphore: vk::Semaphore, value: u64) -> Result<(), Code> {
        self.end_segment()?;
        let waits = &mut self.open.waits;
        if let Some(known) = waits.iter_mut().find(|wait| wait.semaphore == semaphore) {
            known.value = known.value.max(value);
            return Ok(());
        }
        let wait = vk::SemaphoreSubmitInfo::default()
            .semaphore(semaphore)
            .value(value)
            .stage_mask(STAGES);
        waits.push(wait);
        Ok(())
    }

    /// Ends the open segment, if it has commands.
    fn end_segment(&mut self) -> Result<(), Code> {
        if let Some(code) = self.broken {
            return Err(code);
        }
        let Some(commands) = &mut self.open.commands else {
            return Ok(());
        };
        // On devices with unified memory the host may read any slice, through a guard.
        if std::mem::take(&mut self.copies_out) || self.context.gpu.has_unified_memory() {
            // SAFETY: this thread records the command buffer.
            unsafe { make_visible_to_host(&self.context, commands.raw()) };
        }
        if let Err(code) = commands.end() {
            // The command buffer is invalid now, and its tasks are lost with it.
            self.broken = Some(code);
            return Err(code);
        }
        self.ended.push(std::mem::take(&mut self.open));
        Ok(())
    }

    /// Submits the open batch: the semaphore reaches the last issued cursor once all its tasks have completed. A batch of
    /// marks alone is not submitted.
    pub(crate) fn flush(&mut self) -> Result<(), Code> {
        if self.issued == self.submitted {
            return Ok(());
        }
        let calls = std::mem::take(&mut self.when_submitted);
        self.submit_batch()?;
        for call in calls {
            let point = VulkanPoint::new(self.semaphore.clone(), self.signalled);
            // The panic of user code must not end the thread of the device.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| call(point))) {
                let why = panic_message(payload);
                tracing::error!(target: "millstream::vulkan", why, "a function of `when_submitted` panicked");
            }
        }
        Ok(())
    }

    fn submit_batch(&mut self) -> Result<(), Code> {
        self.end_segment()?;
        let is_finished = self.ended.is_empty() && !self.finished.is_empty();
        if !self.open.waits.is_empty() || is_finished {
            // Waits without later tasks: the signal must come after them. Or commands that have completed: the signal
            // makes what they wrote visible to other queues.
            self.ended.push(std::mem::take(&mut self.open));
        }
        let cursor = self.issued;
        if !self.ended.is_empty() {
            self.submit(Some(cursor))?;
            self.signalled = cursor;
        }
        let Self {
            ended,
            finished,
            in_flight,
            ..
        } = self;
        let commands = ended.drain(..).filter_map(|segment| segment.commands);
        let commands = commands.chain(finished.drain(..));
        in_flight.extend(commands.map(|commands| (cursor, commands)));
        self.submitted = cursor;
        let mut batch = Batch {
            cursor,
            value: self.signalled,
            ..std::mem::take(&mut self.batch)
        };
        if !batch.timings.is_empty() {
            batch.tracer.clone_from(&self.tracer);
        }
        match &self.completer {
            // This fails only if the thread has panicked. The device may use the memory of the batch.
            Some(completer) => self.to_poll.extend(completer.send(batch).err()),
            None => self.to_poll.push_back(batch),
        }
        Ok(())
    }

    /// Submits the ended segments. Signals `cursor` after them, if there is one.
    fn submit(&self, cursor: Option<Cursor>) -> Result<(), Code> {
        let commands: SmallVec<[_; INLINE]> = self
            .ended
            .iter()
            .map(|segment| {
                let commands = segment.commands.as_ref().map(Commands::raw);
                vk::CommandBufferSubmitInfo::default().command_buffer(commands.unwrap_or_default())
            })
            .collect();
        let signal = [vk::SemaphoreSubmitInfo::default()
            .semaphore(self.semaphore.raw())
            .value(cursor.unwrap_or_default())
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
        let signal = &signal[..usize::from(cursor.is_some())];
        let last = self.ended.len() - 1;
        let infos: SmallVec<[_; INLINE]> = self
            .ended
            .iter()
            .enumerate()
            .map(|(nth, segment)| {
                let count = usize::from(segment.commands.is_some());
                let info = vk::SubmitInfo2::default()
                    .wait_semaphore_infos(&segment.waits)
                    .command_buffer_infos(&commands[nth..nth + count]);
                match nth == last {
                    true => info.signal_semaphore_infos(signal),
                    false => info,
                }
            })
            .collect();
        // SAFETY: only the device thread uses queues. The command buffers are ended, and are kept until their batch has
        // completed, as are the semaphores, which live as long as the device.
        unsafe { self.context.submit(self.raw, &infos) }
    }

    /// Completes the batches of a driven device that have completed on the device. Returns `true` if there was one.
    pub(crate) fn poll(&mut self) -> Result<bool, Code> {
        if self.to_poll.is_empty() {
            return Ok(false);
        }
        let reached = self.semaphore.value()?;
        let mut any = false;
        while let Some(batch) = self.to_poll.pop_front_if(|batch| batch.value <= reached) {
            complete(self.id, batch, &self.timeline);
            any = true;
        }
        Ok(any)
    }

    /// Returns `true` if a batch is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        !self.to_poll.is_empty()
    }

    /// Waits until the queue is idle.
    pub(crate) fn wait_idle(&self) -> Result<(), Code> {
        // SAFETY: only the device thread uses queues, and when the device is dropped, the thread that drops it.
        unsafe { self.context.device.queue_wait_idle(self.raw) }
            .map_err(Code::of("vkQueueWaitIdle"))
    }

    /// Returns the number of barriers that were recorded between tasks.
    pub(crate) fn barriers(&self) -> u64 {
        self.barriers
    }

    pub(crate) fn family(&self) -> u32 {
        self.family
    }

    /// Returns the value of the queue's clock. Waits for the queue, which must be idle; called while the device is
    /// opened.
    pub(crate) fn now(&mut self) -> Result<u64, Code> {
        let mut commands = Commands::new(&self.context, self.family)?;
        // SAFETY: the command buffer is new.
        unsafe { commands.begin() }?;
        let Some((pool, query)) = commands.stamp()? else {
            return Ok(0);
        };
        commands.end()?;
        let buffers = [vk::CommandBufferSubmitInfo::default().command_buffer(commands.raw())];
        let info = [vk::SubmitInfo2::default().command_buffer_infos(&buffers)];
        let mut value = [0_u64];
        // Kept until the device is idle, also if a call below is refused.
        self.finished.push(commands);
        let device = &self.context.device;
        // SAFETY: no other thread uses the queue yet; the command buffer is alive until the queue is idle.
        unsafe {
            self.context.submit(self.raw, &info)?;
            device
                .queue_wait_idle(self.raw)
                .map_err(Code::of("vkQueueWaitIdle"))?;
            device
                .get_query_pool_results(pool, query, &mut value, vk::QueryResultFlags::TYPE_64)
                .map_err(Code::of("vkGetQueryPoolResults"))?;
        }
        Ok(value[0])
    }

    pub(crate) fn semaphore(&self) -> vk::Semaphore {
        self.semaphore.raw()
    }

    pub(crate) fn issued(&self) -> Cursor {
        self.issued
    }

    pub(crate) fn submitted(&self) -> Cursor {
        self.submitted
    }

    /// Returns the value of the semaphore at which this cursor, which was flushed, has passed.
    pub(crate) fn value_of(&self, cursor: Cursor) -> u64 {
        cursor.min(self.signalled)
    }

    pub(crate) fn completed(&self) -> Cursor {
        self.timeline.completed()
    }
}
