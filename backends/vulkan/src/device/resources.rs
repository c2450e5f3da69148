//! The resources of custom tasks and guards: handles of the driver.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use millstream_protocol::{Access, BoundSlice, Refused};

use super::VulkanDevice;
use crate::driver::{Buffer, Context};
use crate::pages::Location;
use crate::queue::Queue;

/// A binding of a custom task or a guard.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct VulkanBinding {
    /// The buffer; null if the binding is empty.
    pub buffer: vk::Buffer,
    /// The offset of the first byte in the buffer.
    pub offset: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// The device address of the first byte; 0 if the binding is empty.
    pub address: u64,
    /// The access that was declared.
    pub access: Access,
    /// The host's pointer to the first byte, on devices whose memory the host can access.
    mapped: Option<NonNull<u8>>,
}

/// The bound memory and the driver's handles, for a custom task or a guard.
pub struct VulkanResources {
    /// The bindings, each with its memory; `None` for an empty one.
    pub(super) bindings: Vec<(VulkanBinding, Option<Arc<Buffer>>)>,
    pub(super) context: Arc<Context>,
    /// The command buffer of the task; null for a guard, and after [`VulkanResources::finish`].
    pub(super) commands: Cell<vk::CommandBuffer>,
    /// The barriers of the queue before the task; 0 for a guard.
    pub(super) barriers: u64,
}

// SAFETY: handles and pointers to mapped memory, whose use is synchronized by the task or the guard.
unsafe impl Send for VulkanResources {}

impl VulkanResources {
    /// Returns binding `index`.
    pub fn binding(&self, index: usize) -> Option<VulkanBinding> {
        self.bindings.get(index).map(|(binding, _)| *binding)
    }

    /// Returns the functions of the logical device.
    pub fn device(&self) -> &ash::Device {
        &self.context.device
    }

    /// Returns the command buffer of a custom task. Commands that are recorded to it are ordered in place of the task.
    /// The barriers before and after the task cover compute shaders, copies and indirect commands; the task records
    /// barriers between its own commands, and around commands of other stages. `None` for a guard.
    pub fn commands(&self) -> Option<vk::CommandBuffer> {
        Some(self.commands.get()).filter(|commands| *commands != vk::CommandBuffer::null())
    }

    /// Returns the number of barriers between tasks that were recorded to the queue of a custom task so far, with its own.
    /// Tasks without a barrier between them may overlap. 0 for a guard.
    pub fn barriers(&self) -> u64 {
        self.barriers
    }

    /// Submits everything that was recorded to the queue of a custom task before, and waits until it has completed.
    /// Blocks the thread of the device, and so all its clients; it is meant for libraries that take no command buffer.
    /// Afterwards the task has no command buffer any more, and the host may access the memory of its bindings. Does
    /// nothing in a guard, and outside of the work of the task.
    ///
    /// # Errors
    /// The driver refused the submission, or the device is lost.
    pub fn finish(&self) -> Result<(), Refused> {
        let finish = |queue: &mut Queue| {
            // Also after an error: the command buffer may have ended.
            self.commands.set(vk::CommandBuffer::null());
            queue.finish()
        };
        let finished = self.commands().and_then(|_| with_queue(finish));
        finished.transpose()?;
        Ok(())
    }

    /// Returns the host's pointer to the first byte of binding `index`, and its length in bytes, on devices whose memory
    /// the host can access, as on integrated GPUs. `None` for an empty binding.
    ///
    /// The host may access the memory in a guard, and in a custom task after [`VulkanResources::finish`], until the
    /// guard is dropped or the work of the task returns. It may write what is not declared as read.
    pub fn host_pointer(&self, index: usize) -> Option<(NonNull<u8>, u64)> {
        let (binding, _) = self.bindings.get(index)?;
        Some((binding.mapped?, binding.bytes))
    }
}

thread_local! {
    /// The queue whose custom task runs on this thread. Resources may outlive their task, so they hold no pointer.
    static CURRENT: Cell<Option<NonNull<Queue>>> = const { Cell::new(None) };
}

/// Sets the queue of the thread back when it is dropped, also after a panic.
struct Reset(Option<NonNull<Queue>>);

impl Drop for Reset {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Calls `change` with the queue whose custom task runs on this thread, if one does. `change` calls the driver, which may
/// run code of users: a handler of messages ([`Vulkan::on_message`](crate::Vulkan::on_message)). That code finds no task.
pub(super) fn with_queue<T>(change: impl FnOnce(&mut Queue) -> T) -> Option<T> {
    let current = Reset(CURRENT.take());
    let mut queue = current.0?;
    // SAFETY: the pointer is set while the work of a task runs on this thread, and only this function uses the queue
    // meanwhile. It has taken the pointer out, so a call of it within `change` finds none.
    Some(change(unsafe { queue.as_mut() }))
}

/// Runs the work of a custom task on a queue.
pub(super) fn with_current<T>(queue: &mut Queue, work: impl FnOnce() -> T) -> T {
    let _reset = Reset(CURRENT.replace(Some(NonNull::from(queue))));
    work()
}

impl VulkanDevice {
    pub(super) fn bound(&self, bindings: &[BoundSlice]) -> Result<VulkanResources, Refused> {
        let bound = bindings.iter().map(|binding| {
            let memory = self.pages.resolve(binding)?.cloned();
            let mapped = memory.as_ref().and_then(|page| page.mapped);
            let location = Location::of(binding, &self.pages)?;
            let bound = VulkanBinding {
                buffer: location.buffer,
                offset: location.offset,
                bytes: binding.len,
                address: location.address,
                access: binding.access,
                // SAFETY: the binding lies within the page (`resolve`).
                mapped: mapped.map(|start| unsafe { start.add(binding.offset as usize) }),
            };
            Ok((bound, memory))
        });
        Ok(VulkanResources {
            bindings: bound.collect::<Result<_, Refused>>()?,
            context: self.context.clone(),
            commands: Cell::new(vk::CommandBuffer::null()),
            barriers: 0,
        })
    }
}
