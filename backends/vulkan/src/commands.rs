//! Command buffers of a queue, each with its own pool and room for parameters. They are reused once their submission
//! has completed.
//!
//! A secondary command buffer is recorded once, and then executed by any number of others. They keep it until their
//! submissions have completed.

use std::sync::Arc;

use ash::vk;
use millstream_sync::credit::Credit;

use crate::driver::{Code, Context, Mapped, Purpose};
use crate::properties::QUEUE_DEPTH_MAX;
use crate::trace::Timestamp;

/// Bytes of a block of parameters.
const BLOCK_BYTES: usize = 64 << 10;
/// The most timestamps of a command buffer: two for each task that a queue may have in flight.
const TIMESTAMPS_MAX: u32 = 2 * QUEUE_DEPTH_MAX as u32;
/// Bytes of a copy: three counts, and whether they were replaced.
pub(crate) const COPY_BYTES: usize = 16;
/// Parameters start at multiples of this.
const ALIGNMENT: usize = 16;

/// A command buffer.
pub(crate) struct Commands {
    context: Arc<Context>,
    pool: vk::CommandPool,
    pub(crate) raw: vk::CommandBuffer,
    /// The secondary command buffers that this one executes.
    executed: Vec<Arc<Commands>>,
    /// What a secondary command buffer takes of the device's budget.
    charge: Option<(Arc<Credit>, u64)>,
    /// Parameters of dispatches that do not fit push constants. The number of blocks is bounded by the number of
    /// dispatches of a batch (I12).
    parameters: Vec<Mapped>,
    /// The block that is being filled, and the bytes used in it.
    filled: (usize, usize),
    /// The places of checked cube counts in the blocks.
    counts: Vec<(usize, usize)>,
    /// The pipeline that was bound last.
    pub(crate) bound: vk::Pipeline,
    /// Timestamps, created when the first one is written.
    timestamps: vk::QueryPool,
    /// The number of timestamps written since the last reset.
    stamped: u32,
    /// Whether the timestamps must be reset before the next one.
    is_first_stamp: bool,
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
            parameters: Vec::new(),
            filled: (0, 0),
            counts: Vec::new(),
            bound: vk::Pipeline::null(),
            timestamps: vk::QueryPool::null(),
            stamped: 0,
            is_first_stamp: true,
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
        self.is_first_stamp = true;
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
        if self.is_first_stamp {
            self.is_first_stamp = false;
            self.stamped = 0;
            // SAFETY: this thread records the command buffer; the results of its last submission were read.
            unsafe {
                device.cmd_reset_query_pool(self.raw, self.timestamps, 0, TIMESTAMPS_MAX);
            }
        }
        if self.stamped == TIMESTAMPS_MAX {
            return Ok(None);
        }
        let (query, stage) = (self.stamped, vk::PipelineStageFlags2::BOTTOM_OF_PIPE);
        self.stamped += 1;
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
        let bytes = bytes + (self.parameters.len() * BLOCK_BYTES) as u64;
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

    /// Makes room for `times` blocks of `bytes` bytes of parameters.
    pub(crate) fn reserve(&mut self, bytes: usize, times: usize) -> Result<(), Code> {
        debug_assert!(bytes <= BLOCK_BYTES);
        let mut filled = self.filled;
        for _ in 0..times {
            let (block, used) = place(filled, bytes);
            if block == self.parameters.len() {
                let created = Mapped::new(&self.context, BLOCK_BYTES, Purpose::Upload)?;
                self.parameters.push(created);
            }
            filled = (block, used + bytes);
        }
        Ok(())
    }

    /// Stores the parameters of a launch, for which [`Commands::reserve`] has made room, until the submission has
    /// completed. Returns their device address.
    pub(crate) fn store(&mut self, parameters: &[u8]) -> u64 {
        let (block, used) = place(self.filled, parameters.len());
        let room = &self.parameters[block];
        // SAFETY: the range lies in the block, and neither the device nor other parameters use it: `begin` started
        // over only after the last submission had completed.
        unsafe {
            let target = room.start.as_ptr().add(used);
            std::ptr::copy_nonoverlapping(parameters.as_ptr(), target, parameters.len());
        }
        self.filled = (block, used + parameters.len());
        room.buffer.address + used as u64
    }

    /// Stores bytes to copy from, until the submission has completed. Returns the buffer and the offset of the first.
    pub(crate) fn store_source(&mut self, bytes: &[u8]) -> Result<(vk::Buffer, u64), Code> {
        self.reserve(bytes.len(), 1)?;
        self.store(bytes);
        let (block, end) = self.filled;
        let start = (end - bytes.len()) as u64;
        Ok((self.parameters[block].buffer.raw, start))
    }

    /// Makes room for a copy of cube counts, for which [`Commands::reserve`] has made room, until the submission has
    /// completed. Returns the buffer, the offset and the device address.
    pub(crate) fn store_counts(&mut self) -> (vk::Buffer, u64, u64) {
        let address = self.store(&[0; COPY_BYTES]);
        let (block, end) = self.filled;
        let start = end - COPY_BYTES;
        self.counts.push((block, start));
        let buffer = self.parameters[block].buffer.raw;
        (buffer, start as u64, address)
    }

    /// Logs cube counts of the last submission, which has completed, that exceeded the limits.
    fn report_counts(&mut self) {
        for (block, start) in self.counts.drain(..) {
            let room = &self.parameters[block];
            let flag = start + COPY_BYTES - size_of::<u32>();
            // SAFETY: the place lies in the block, which the device does not use any more.
            let exceeded = unsafe { room.start.as_ptr().add(flag).cast::<u32>().read() };
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

/// Returns the place of the next parameters: the block, and the offset in it. `filled` is the end of the previous ones.
fn place((block, used): (usize, usize), bytes: usize) -> (usize, usize) {
    let start = used.next_multiple_of(ALIGNMENT);
    match start + bytes > BLOCK_BYTES {
        true => (block + 1, 0),
        false => (block, start),
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
