//! Submission: ends segments, submits batches, and completes them where no thread does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ash::vk;
use millstream_protocol::{Cursor, Large};
use millstream_sync::payload::{self, panic_message};
use smallvec::SmallVec;

use super::{INLINE, Queue};
use crate::barriers::make_visible_to_host;
use crate::completer::{Batch, complete};
use crate::driver::Code;
use crate::held::Sent;
use crate::waits::VulkanPoint;

impl Queue {
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
        self.wait_idle()
    }

    /// Ends the open segment, if it has commands.
    pub(super) fn end_segment(&mut self) -> Result<(), Code> {
        if let Some(code) = self.broken {
            return Err(code);
        }
        let Some(commands) = &mut self.open.commands else {
            return Ok(());
        };
        // On devices with unified memory the host may read any slice, through a guard.
        if std::mem::take(&mut self.copies_out) || self.context.gpu.has_unified_memory() {
            // SAFETY: this thread records the command buffer.
            unsafe { make_visible_to_host(&self.context, commands.raw) };
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
        if let Err(code) = self.submit_batch() {
            // Code of users: its destructors may block.
            calls
                .into_iter()
                .for_each(|call| payload::end(Box::new(call)));
            return Err(code);
        }
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
            self.signals(cursor);
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
        let before = std::mem::replace(&mut self.submitted, cursor);
        let mut batch = std::mem::take(&mut self.batch);
        (batch.cursor, batch.value) = (cursor, self.signalled);
        if !batch.timings.is_empty() {
            batch.tracer.clone_from(&self.tracer);
        }
        match self.defers {
            true => {
                if self.deferred.is_empty() {
                    self.before_deferred = before;
                }
                self.deferred.push(batch);
            }
            false => self.hand_over(batch),
        }
        Ok(())
    }

    /// Hands a batch over to the thread that completes it, or to [`Queue::poll`].
    fn hand_over(&mut self, batch: Batch) {
        let (Some(completer), Some(holder)) = (&self.completer, &self.holder) else {
            self.to_poll.push_back(batch);
            return self.aim();
        };
        let refused = completer.send(holder.sent(batch, self.timeline.completed()));
        // This fails only if the thread has panicked. The device may use the memory of the batch.
        self.to_poll
            .extend(refused.err().and_then(Sent::into_batch));
    }

    /// Defers the hand-over of batches.
    pub(crate) fn defer_start(&mut self) {
        self.defers = self.completer.is_some();
    }

    /// Hands the deferred batches over, or holds them for the caller if everything before them has completed. Returns
    /// `true` if there were any.
    pub(crate) fn start_deferred(&mut self, large: Large) -> bool {
        self.defers = false;
        let Some(last) = self.deferred.last().map(|batch| batch.cursor) else {
            return false;
        };
        if large == Large::Hold
            && let Some(holder) = &mut self.holder
        {
            let completed = self.timeline.completed();
            holder.hold(&mut self.deferred, self.before_deferred, last, completed);
        }
        let mut deferred = std::mem::take(&mut self.deferred);
        deferred.drain(..).for_each(|batch| self.hand_over(batch));
        // Keeps the capacity (I9).
        self.deferred = deferred;
        true
    }

    /// Submits the ended segments. Signals `cursor` after them, if there is one.
    fn submit(&self, cursor: Option<Cursor>) -> Result<(), Code> {
        let commands: SmallVec<[_; INLINE]> = self
            .ended
            .iter()
            .map(|segment| {
                let commands = segment.commands.as_ref().map(|commands| commands.raw);
                vk::CommandBufferSubmitInfo::default().command_buffer(commands.unwrap_or_default())
            })
            .collect();
        let signal = [vk::SemaphoreSubmitInfo::default()
            .semaphore(self.semaphore.raw)
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
        // SAFETY: one thread at a time makes the calls of the backend, and no other thread uses queues. The command
        // buffers are ended, and are kept until their batch has completed, as are the semaphores, which live as long as
        // the device or are kept by their task.
        let submitted = unsafe {
            let device = &self.context.device;
            device.queue_submit2(self.raw, &infos, vk::Fence::null())
        };
        submitted.map_err(Code::of("vkQueueSubmit2"))
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
        if any {
            self.aim();
        }
        Ok(any)
    }

    /// Makes the oldest batch in flight the target of waits. All earlier ones were published.
    fn aim(&self) {
        self.target
            .set(self.to_poll.front().map(|batch| batch.value));
    }

    /// Returns `true` if a batch is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        !self.to_poll.is_empty()
    }

    /// Waits until the queue is idle.
    pub(crate) fn wait_idle(&self) -> Result<(), Code> {
        // SAFETY: one thread at a time makes the calls of the backend, or drops the device.
        unsafe { self.context.device.queue_wait_idle(self.raw) }
            .map_err(Code::of("vkQueueWaitIdle"))
    }
}
