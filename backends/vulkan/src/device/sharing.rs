//! What custom tasks share with other code on the same device, such as an engine: waits for its semaphores, points that
//! its submissions can wait for, and buffers of its own on the memory of slices.

use std::any::Any;

use ash::vk;
use millstream_protocol::Refused;

use super::VulkanResources;
use super::resources::with_queue;
use crate::driver::Alias;
use crate::queue::Queue;
use crate::waits::VulkanPoint;

/// A buffer of Vulkan on the memory of a binding. It keeps the memory, but not the slice: keep a handle of the slice
/// beside it, because the memory of a dropped slice is reused.
pub struct VulkanAlias(Alias);

impl VulkanAlias {
    /// Returns the buffer, which is destroyed when the alias is dropped.
    pub fn buffer(&self) -> vk::Buffer {
        self.0.raw
    }
}

impl VulkanResources {
    /// Creates a buffer with these usages on exactly the bytes of binding `index`, for code that can use only whole
    /// buffers. Only devices of applications ([`Vulkan::adopt`](crate::Vulkan::adopt)) have memory with aliases.
    ///
    /// # Errors
    /// The binding is empty, the device is not of an application, the driver has no such buffer on this memory, or it
    /// refused a call.
    pub fn alias(&self, index: usize, usage: vk::BufferUsageFlags) -> Result<VulkanAlias, Refused> {
        let refuse = |why: &str| Err(Refused::Task(format!("binding {index} {why}")));
        let Some((binding, Some(memory))) = self.bindings.get(index) else {
            return refuse("is empty, so it can have no buffer of its own");
        };
        if !self.context.is_adopted() {
            return refuse("can have no buffer of its own: the device is not of an application");
        }
        match Alias::new(memory.clone(), binding.offset, binding.bytes, usage)? {
            Some(alias) => Ok(VulkanAlias(alias)),
            None => refuse("can have no buffer with these usages on this device"),
        }
    }

    /// Makes this and all later tasks of the queue wait until a timeline semaphore of the application has this value.
    /// What was written before the semaphore was signalled is visible to them. Afterwards
    /// [`VulkanResources::commands`] is another command buffer. Does nothing outside of the work of a custom task.
    ///
    /// Tasks that wait count as in flight. A queue that is full of them (`max_in_flight`, `max_in_flight_time`) issues no
    /// task until the value is reached, and so submits none.
    ///
    /// # Errors
    /// The driver refused a call.
    ///
    /// # Safety
    /// The semaphore is a timeline semaphore of this device, and lives until the task has completed
    /// ([`VulkanResources::keep`]). Its value will be reached. If the device shares a queue with the application, the
    /// signal was submitted already.
    pub unsafe fn wait_for(&self, semaphore: vk::Semaphore, value: u64) -> Result<(), Refused> {
        let wait = |queue: &mut Queue| {
            // Also after an error: the command buffer may have ended.
            self.commands.set(vk::CommandBuffer::null());
            queue.wait_for_value(semaphore, value)?;
            queue.record_foreign(&[])
        };
        if let Some(recorded) = self.commands().and_then(|_| with_queue(wait)) {
            self.commands.set(recorded?);
        }
        Ok(())
    }

    /// Keeps a value until the custom task has completed; it is dropped on a thread of the runtime. Drops it at once
    /// outside of the work of a custom task.
    pub fn keep(&self, value: impl Any + Send) {
        let value = Box::new(value);
        with_queue(|queue| queue.keep(value));
    }

    /// Calls `call` once the custom task is submitted, with a point after which it has completed. Submissions of the
    /// application to another queue may wait for the point from then on, those to a shared queue also. Drops `call` if
    /// the submission is refused, and outside of the work of a custom task. `call` runs on the thread of the device.
    pub fn when_submitted(&self, call: impl FnOnce(VulkanPoint) + Send + 'static) {
        let call = Box::new(call);
        with_queue(|queue| queue.when_submitted(call));
    }
}
