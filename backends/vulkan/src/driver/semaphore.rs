//! Timeline semaphores.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ash::vk;
use smallvec::SmallVec;

use super::{Code, Context};

/// The number of semaphores in a wait that need no allocation.
const INLINE: usize = 4;

/// A timeline semaphore with initial value 0.
pub(crate) struct TimelineSemaphore {
    context: Arc<Context>,
    pub(crate) raw: vk::Semaphore,
}

impl TimelineSemaphore {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, Code> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: `info` is valid; timeline semaphores are a feature of every device that this backend opens.
        let raw = unsafe { context.device.create_semaphore(&info, None) }
            .map_err(Code::of("vkCreateSemaphore"))?;
        Ok(Self {
            context: context.clone(),
            raw,
        })
    }

    /// Returns the current value.
    pub(crate) fn value(&self) -> Result<u64, Code> {
        // SAFETY: the semaphore is alive.
        unsafe { self.context.device.get_semaphore_counter_value(self.raw) }
            .map_err(Code::of("vkGetSemaphoreCounterValue"))
    }

    /// Blocks until the value is at least `value`.
    pub(crate) fn wait(&self, value: u64) -> Result<(), Code> {
        while !Self::wait_any(&[(self, value)], Duration::MAX)? {}
        Ok(())
    }

    /// Blocks until the value is at least `value`, but not beyond this time. Returns `false` if the time has passed.
    pub(crate) fn wait_for(&self, value: u64, until: Instant) -> Result<bool, Code> {
        let left = until.saturating_duration_since(Instant::now());
        Self::wait_any(&[(self, value)], left)
    }

    /// Blocks until one of the semaphores has at least its value, but not longer than this. Returns `false` if the time
    /// has passed. All semaphores belong to one device.
    pub(crate) fn wait_any(waits: &[(&Self, u64)], budget: Duration) -> Result<bool, Code> {
        let Some((first, _)) = waits.first() else {
            return Ok(false);
        };
        let semaphores = waits.iter().map(|(semaphore, _)| semaphore.raw);
        let semaphores: SmallVec<[_; INLINE]> = semaphores.collect();
        let values: SmallVec<[_; INLINE]> = waits.iter().map(|(_, value)| *value).collect();
        let info = vk::SemaphoreWaitInfo::default()
            .flags(vk::SemaphoreWaitFlags::ANY)
            .semaphores(&semaphores)
            .values(&values);
        let device = &first.context.device;
        let timeout_ns = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphores are alive.
        match unsafe { device.wait_semaphores(&info, timeout_ns) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(result) => Err(Code::of("vkWaitSemaphores")(result)),
        }
    }
}

impl Drop for TimelineSemaphore {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; no submission uses it any more, or the device is lost.
        unsafe { self.context.device.destroy_semaphore(self.raw, None) };
    }
}
