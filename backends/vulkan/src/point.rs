//! A point of a queue, for submissions of the application.

use std::sync::Arc;

use ash::vk;

use crate::driver::TimelineSemaphore;

/// A point of a queue: the value of a timeline semaphore that is reached once the queue's tasks up to here have
/// completed. What they wrote is visible to a submission that waits for it.
///
/// The semaphore lives as long as the point. Keep the point until all submissions that wait for it have completed.
#[derive(Clone)]
pub struct VulkanPoint {
    semaphore: Arc<TimelineSemaphore>,
    value: u64,
}

impl VulkanPoint {
    pub(crate) fn new(semaphore: Arc<TimelineSemaphore>, value: u64) -> Self {
        Self { semaphore, value }
    }

    /// Returns the semaphore, which only millstream signals.
    pub fn semaphore(&self) -> vk::Semaphore {
        self.semaphore.raw
    }

    /// Returns the value.
    pub fn value(&self) -> u64 {
        self.value
    }
}

impl std::fmt::Debug for VulkanPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VulkanPoint")
            .field("semaphore", &self.semaphore())
            .field("value", &self.value)
            .finish()
    }
}
