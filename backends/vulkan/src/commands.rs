//! Command buffers of a queue, each with its own pool and room for parameters. They are reused once their submission
//! has completed.
//!
//! A secondary command buffer is recorded once, and then executed by any number of others. They keep it until their
//! submissions have completed.

use std::sync::Arc;

use ash::vk;
use millstream_gpu::{BLOCK_BYTES as POOLED_BYTES, Staged, Staging};
use millstream_sync::credit::Credit;

use crate::driver::{Code, Context, Mapped, Purpose};
use crate::properties::QUEUE_DEPTH_MAX;
use crate::trace::Timestamp;

/// Bytes of a block of stored bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// The most timestamps of a command buffer: two for each task that a queue may have in flight.
const TIMESTAMPS_MAX: u32 = 2 * QUEUE_DEPTH_MAX as u32;
/// Bytes of a copy: three counts, and whether they were replaced.
const COPY_BYTES: usize = 16;
/// Stored bytes start at multiples of this.
const ALIGNMENT: usize = 16;

/// Where the first of stored bytes lies.
#[derive(Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) buffer: vk::Buffer,
    pub(crate) offset: u64,
    /// The device address.
    pub(crate) address: u64,
}

/// A command buffer.
pub(crate) struct Commands {
    context: Arc<Context>,
    pool: vk::CommandPool,
    pub(crate) raw: vk::CommandBuffer,
    /// The secondary command buffers that this one executes.
    executed: Vec<Arc<Commands>>,
    /// What a secondary command buffer takes of the device's budget.
    charge: Option<(Arc<Credit>, u64)>,
    /// Stored bytes: parameters of dispatches that do not fit push constants, sources of fills, cube counts. The number of
    /// blocks is bounded by the number of tasks of a batch (I12).
    blocks: Vec<Staged<Mapped>>,
    /// The block that is being filled, and the bytes used in it.
    filled: (usize, usize),
    /// The places of checked cube counts in the blocks.
    counts: Vec<(usize, usize)>,
    /// The pipeline that was bound last.
    pub(crate) bound: vk::Pipeline,
    /// Timestamps, created when the first one is written.
    timestamps: vk::QueryPool,
    /// The number of timestamps written since the last reset; `None` if they must be reset before the next one.
    stamped: Option<u32>,
}

impl Commands {
    pub(crate) fn new(context: &Arc<Context>, family: u32) -> Result<Self, Code> {
        let flags = vk::CommandPoolCreateFlags::TRANSIENT;
        Self::with_level(context, family, vk::CommandBufferLevel::PRIMARY, flags)
    }

    /// Creates a secondary command buffer that is being recorded.
    pub(crate) fn secondary(context: &Arc<Context>, family: u32) -> Result<Self, Code> {
        let flags = vk::CommandPoolCreateFlags::empty();
        let created = Self::with_level(context, family, vk::CommandBufferLevel::SECONDARY, flags)?;
        let inherited = vk::CommandBufferInheritanceInfo::default();
        // A replay may begin while an earlier one is in flight.
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE)
            .inheritance_info(&inherited);
        // SAFETY: the command buffer is new.
        unsafe { context.device.begin_command_buffer(created.raw, &info) }
            .map_err(Code::of("vkBeginCommandBuffer"))?;
        Ok(created)
    }

    fn with_level(
        context: &Arc<Context>,
        family: u32,
        level: vk::CommandBufferLevel,
        flags: vk::CommandPoolCreateFlags,
    ) -> Result<Self, Code> {
        let device = &context.device;
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(family)
            .flags(flags);
        // SAFETY: the device has a queue of the family.
        let pool = unsafe { device.create_command_pool(&info, None) }
            .map_err(Code::of("vkCreateCommandPool"))?;
        let mut commands = Self {
            context: context.clone(),
            pool,
            raw: vk::CommandBuffer::null(),
            executed: Vec::new(),
            charge: None,
            blocks: Vec::new(),
            filled: (0, 0),
            counts: Vec::new(),
            bound: vk::Pipeline::null(),
            timestamps: vk::QueryPool::null(),
            stamped: None,
        };
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(level)
            .command_buffer_count(1);
        // SAFETY: the pool is alive, and only this thread uses it.
        let buffers = unsafe { device.allocate_command_buffers(&info) }
            .map_err(Code::of("vkAllocateCommandBuffers"))?;
        commands.raw = buffers.first().copied().unwrap_or_default();
        Ok(commands)
    }

    /// Starts recording.
    ///
    /// # Safety
    /// An earlier submission of the command buffer has completed.
    pub(crate) unsafe fn begin(&mut self) -> Result<(), Code> {
        self.report_counts();
        self.bound = vk::Pipeline::null();
        self.filled = (0, 0);
        self.stamped = None;
        let device = &self.context.device;
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: as the caller guarantees.
        unsafe {
            device
                .reset_command_pool(self.pool, vk::CommandPoolResetFlags::empty())
                .map_err(Code::of("vkResetCommandPool"))?;
            device
                .begin_command_buffer(self.raw, &info)
                .map_err(Code::of("vkBeginCommandBuffer"))
        }
    }

    /// Writes a timestamp once everything before has completed. Returns `None` if there is no more room for one.
    pub(crate) fn stamp(&mut self) -> Result<Option<Timestamp>, Code> {
        let device = &self.context.device;
        if self.timestamps == vk::QueryPool::null() {
            let info = vk::QueryPoolCreateInfo::default()
                .query_type(vk::QueryType::TIMESTAMP)
                .query_count(TIMESTAMPS_MAX);
            // SAFETY: the info is valid.
            self.timestamps = unsafe { device.create_query_pool(&info, None) }
                .map_err(Code::of("vkCreateQueryPool"))?;
        }
        let query = self.stamped.unwrap_or_else(|| {
            // SAFETY: this thread records the command buffer; the results of its last submission were read.
            unsafe {
                device.cmd_reset_query_pool(self.raw, self.timestamps, 0, TIMESTAMPS_MAX);
            }
            0
        });
        if query == TIMESTAMPS_MAX {
            return Ok(None);
        }
        let stage = vk::PipelineStageFlags2::BOTTOM_OF_PIPE;
        self.stamped = Some(query + 1);
        // SAFETY: this thread records the command buffer, and the query was reset.
        unsafe { device.cmd_write_timestamp2(self.raw, stage, self.timestamps, query) };
        Ok(Some((self.timestamps, query)))
    }

    /// Executes a secondary command buffer, which has ended, and keeps it until the submission has completed.
    pub(crate) fn execute(&mut self, secondary: &Arc<Commands>) {
        self.executed.push(secondary.clone());
        // What is bound is undefined afterwards.
        self.bound = vk::Pipeline::null();
        // SAFETY: this thread records the command buffer; the other one has ended, and may be used several times at once.
        unsafe {
            let device = &self.context.device;
            device.cmd_execute_commands(self.raw, &[secondary.raw]);
        }
    }

    /// Takes what the command buffer keeps, with these bytes of commands, from a budget. Returns `false` if the budget has
    /// too few bytes left.
    pub(crate) fn charge(&mut self, budget: &Arc<Credit>, bytes: u64) -> bool {
        let bytes = bytes + (self.blocks.len() * BLOCK_BYTES) as u64;
        let is_taken = budget.try_acquire(bytes).is_ok();
        self.charge = is_taken.then(|| (budget.clone(), bytes));
        is_taken
    }

    /// Releases what was kept for the submission, which has completed.
    pub(crate) fn release(&mut self) {
        self.executed.clear();
    }

    /// Ends recording.
    pub(crate) fn end(&mut self) -> Result<(), Code> {
        // SAFETY: the command buffer is being recorded.
        unsafe { self.context.device.end_command_buffer(self.raw) }
            .map_err(Code::of("vkEndCommandBuffer"))
    }

    /// Stores bytes, such as the parameters of a launch, until the submission has completed. Takes blocks from `pool`.
    pub(crate) fn store(
        &mut self,
        pool: &mut Staging<Mapped>,
        bytes: &[u8],
    ) -> Result<Stored, Code> {
        debug_assert!(bytes.len() <= BLOCK_BYTES);
        let (mut block, used) = self.filled;
        let mut start = used.next_multiple_of(ALIGNMENT);
        if start + bytes.len() > BLOCK_BYTES {
            (block, start) = (block + 1, 0);
        }
        if block == self.blocks.len() {
            let create = || Mapped::new(&self.context, POOLED_BYTES, Purpose::Upload);
            self.blocks.push(pool.take(BLOCK_BYTES, create)?);
        }
        let room = &self.blocks[block];
        // SAFETY: the range lies in the block, and neither the device nor other bytes use it: `begin` started over only
        // after the last submission had completed.
        unsafe {
            let target = room.start().add(start);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        self.filled = (block, start + bytes.len());
        let (Mapped { buffer, .. }, first) = room.place();
        let offset = (first + start) as u64;
        Ok(Stored {
            buffer: buffer.raw,
            offset,
            address: buffer.address + offset,
        })
    }

    /// Makes room for a copy of cube counts, until the submission has completed.
    pub(crate) fn store_counts(&mut self, pool: &mut Staging<Mapped>) -> Result<Stored, Code> {
        let stored = self.store(pool, &[0; COPY_BYTES])?;
        let (block, end) = self.filled;
        self.counts.push((block, end - COPY_BYTES));
        Ok(stored)
    }

    /// Logs cube counts of the last submission, which has completed, that exceeded the limits.
    fn report_counts(&mut self) {
        for (block, start) in self.counts.drain(..) {
            let room = &self.blocks[block];
            let flag = start + COPY_BYTES - size_of::<u32>();
            // SAFETY: the place lies in the block, which the device does not use any more.
            let exceeded = unsafe { room.start().add(flag).cast::<u32>().read() };
            if exceeded != 0 {
                let limits = self.context.gpu.limits.max_compute_work_group_count;
                tracing::error!(
                    target: "millstream::vulkan",
                    ?limits,
                    "a cube count that the device wrote exceeds the limits of the device; the launch did nothing"
                );
            }
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.report_counts();
        if let Some((budget, bytes)) = &self.charge {
            budget.release(*bytes);
        }
        // SAFETY: created once, destroyed once with its command buffer, whose submission has completed, or the device
        // is lost.
        unsafe {
            self.context.device.destroy_command_pool(self.pool, None);
            self.context
                .device
                .destroy_query_pool(self.timestamps, None);
        }
    }
}
