//! Waits for the semaphores of queues outside of the device's thread: by callers of a driven device, in the driver
//! ([`CompletionWait`]), and by submissions of the application, for a [`VulkanPoint`]. The rest of this page is about the
//! former.
//!
//! Each queue has a [`Target`]: its semaphore, and the value of its oldest batch in flight. The thread inside the device
//! sets the value; any number of waiting threads read it and call `vkWaitSemaphores` for the targets of all queues.
//!
//! ```text
//!  the thread inside (poll)                    a waiting thread
//!  the semaphore has reached the value          value = target            (Acquire)
//!  publishes the cursor: rings                  rung since it looked?
//!  target = the next value       (Release)        yes: returns
//!                                                 no: vkWaitSemaphores(value or the next, at most the budget)
//! ```
//! # No completion is slept through
//! The target moves on after the publication. A waiting thread that reads the new value therefore sees the ring, by the
//! Release and the Acquire; one that reads the old value waits for what has completed, and so returns at once. A target
//! that did not move on would make every wait return at once, and callers would poll without a pause.
//!
//! A batch that is submitted after the read is not waited for. The budget bounds the delay.
//!
//! # Devices that are the processor
//! A wait is for any of the targets, except on a device that is the processor: there it is for one of them, and the budget
//! bounds the delay of the others. Mesa's timeline semaphores without support of the kernel, such as lavapipe's, have no
//! wait for any of several: Mesa polls them in a loop, which takes the processor from the kernels.
//!
//! # Loss, close and drop
//! A loss that the driver reports to a wait is kept, and the next pump reports it. A wait that fails otherwise is a nap.
//!
//! No lock is held during the call. The semaphores of a call are alive, because the thread owns the targets meanwhile. The
//! drop of the device takes the targets out: later waits do nothing, and the last wait in flight, which ends within its
//! budget, destroys the semaphores, and with them the logical device. By then all work has ended.
//!
//! `waits` of `vulkan_faults` checks these cases; the mutants `target_stays`, `wait_without_bound`, `wait_for_all`,
//! `wait_hides_loss` and `waits_keep_semaphores` break them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ash::vk;
use millstream_protocol::CompletionWait;
use millstream_sync::facade::{Mutex, lock};
use smallvec::SmallVec;

use crate::driver::{Code, Gpu, TimelineSemaphore};

/// The number of queues with work in flight that need no allocation.
const INLINE: usize = 4;

/// What a queue reaches next.
pub(crate) struct Target {
    semaphore: Arc<TimelineSemaphore>,
    /// The value of the oldest batch in flight; 0 if there is none.
    value: AtomicU64,
}

impl Target {
    pub(crate) fn new(semaphore: Arc<TimelineSemaphore>) -> Arc<Self> {
        Arc::new(Self {
            semaphore,
            value: AtomicU64::new(0),
        })
    }

    /// Sets the value of the oldest batch in flight. Called after the cursors of all earlier batches were published.
    pub(crate) fn set(&self, value: Option<u64>) {
        // Release: pairs with the Acquire in `get`; a thread that reads this value sees the rings of the earlier batches.
        self.value
            .store(value.unwrap_or_default(), Ordering::Release);
    }

    fn get(&self) -> Option<(&TimelineSemaphore, u64)> {
        // Acquire: pairs with the Release in `set`.
        let value = self.value.load(Ordering::Acquire);
        (value > 0).then_some((&self.semaphore, value))
    }
}

/// The waits of callers.
pub(crate) struct Waits {
    /// The targets of all queues; `None` once the device is dropped.
    targets: Mutex<Option<Arc<[Arc<Target>]>>>,
    /// The most targets of a wait.
    targets_max: usize,
    /// The loss that the driver has reported to a wait.
    loss: OnceLock<Code>,
}

impl Waits {
    pub(crate) fn new(gpu: &Gpu, targets: impl Iterator<Item = Arc<Target>>) -> Arc<Self> {
        Arc::new(Self {
            targets: Mutex::new(Some(targets.collect())),
            targets_max: match gpu.kind {
                vk::PhysicalDeviceType::CPU => 1,
                _ => usize::MAX,
            },
            loss: OnceLock::new(),
        })
    }

    /// Returns the loss that a wait has noticed.
    pub(crate) fn loss(&self) -> Option<Code> {
        self.loss.get().copied()
    }

    /// Makes later waits do nothing. Those in flight go on.
    pub(crate) fn end(&self) {
        let targets = lock(&self.targets).take();
        // Outside the lock: this may destroy the semaphores.
        drop(targets);
    }
}

impl CompletionWait for Waits {
    fn wait(&self, budget: Duration, is_over: &dyn Fn() -> bool) -> bool {
        let Some(targets) = lock(&self.targets).clone() else {
            return false;
        };
        let chosen = targets.iter().filter_map(|target| target.get());
        let chosen: SmallVec<[_; INLINE]> = chosen.take(self.targets_max).collect();
        if chosen.is_empty() {
            return false;
        }
        if is_over() {
            return true;
        }
        match TimelineSemaphore::wait_any(&chosen, budget) {
            Ok(_) => true,
            Err(code) => {
                if code.is_loss() {
                    let _ = self.loss.set(code);
                }
                false
            }
        }
    }
}

// A point of a queue, for submissions of the application.

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
