//! The backend, which the device thread calls. It resolves bindings, records commands and submits them, and never waits
//! for the device.
//!
//! | module | contents |
//! | --- | --- |
//! | `opening` | opens a device |
//! | `backend` | implements the trait `Backend` |
//! | `launching` | one launch |
//! | `replaying` | replays of recordings |
//! | `count_guard` | checks cube counts that the device writes |
//! | `resources` | the resources of custom tasks and guards |
//! | `sharing` | what custom tasks share with an application: waits, points, and aliases of buffers |

mod backend;
mod count_guard;
mod launching;
mod opening;
mod replaying;
mod resources;
mod sharing;

use std::sync::Arc;

use count_guard::CountGuard;
use millstream_gpu::Staging;
use millstream_protocol::{DeviceProperties, Point, QueueId, Refused};
use millstream_sync::credit::Credit;
use replaying::Recordings;
pub use resources::{VulkanBinding, VulkanResources};
pub use sharing::VulkanAlias;

use crate::compiler::VulkanCompiler;
use crate::completer::Shared;
use crate::driver::{Buffer, Code, Context, Mapped};
use crate::pages::Pages;
use crate::parameters::Block;
use crate::queue::Queue;
use crate::trace::Tracer;
use crate::waits::Waits;

/// The number of attempts to wait for the device before it is dropped. The driver may refuse one for lack of memory.
const WAITS_MAX: usize = 16;

/// An open Vulkan device.
pub struct VulkanDevice {
    properties: DeviceProperties,
    compiler: Arc<VulkanCompiler>,
    pub(crate) queues: Vec<Queue>,
    /// Blocks for uploads.
    pub(crate) staging: Staging<Mapped>,
    /// Blocks for bytes that command buffers keep until they are dropped.
    pub(crate) stored: Staging<Mapped>,
    /// Blocks for readbacks.
    pub(crate) readbacks: Staging<Mapped>,
    pub(crate) pages: Pages,
    /// Scratch space for the parameters of one launch.
    block: Block,
    /// Descriptors begin at multiples of this.
    descriptor_alignment: u64,
    /// What the descriptors of empty bindings cover, in one part for each queue.
    pub(crate) nothing: Buffer,
    pub(crate) context: Arc<Context>,
    shared: Arc<Shared>,
    recordings: Recordings,
    /// What secondary command buffers may keep.
    recorded: Arc<Credit>,
    /// Compiled by the first launch with a cube count of the device.
    count_guard: Option<CountGuard>,
    /// `None` if the device has no timestamps.
    tracer: Option<Arc<Tracer>>,
    driven: bool,
    /// How callers wait for a driven device; `None` if the device has threads.
    waits: Option<Arc<Waits>>,
    /// Whether a submission was refused. The order of later tasks would not be guaranteed, so all of them are refused.
    order_lost: bool,
}

impl VulkanDevice {
    /// Returns an error if an earlier submission was refused.
    #[inline]
    fn enter(&self) -> Result<(), Refused> {
        match self.order_lost {
            false => Ok(()),
            true => Err(Refused::Lost("an earlier submission failed".to_owned())),
        }
    }

    /// Ends the device after a refused submission: no thread can wait for the issued tasks any more.
    #[cold]
    fn lose(&mut self, code: &Code) {
        self.order_lost = true;
        self.shared.lose(code);
    }

    /// Enables spans with room for `room` spans per queue; 0 restores the setting from opening.
    fn set_span_recording(&mut self, room: usize) {
        let tracer = self.tracer.clone();
        let tracer = tracer.filter(|tracer| tracer.spans.set_room(room));
        for queue in &mut self.queues {
            queue.tracer.clone_from(&tracer);
        }
    }

    fn wait_for(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        self.enter()?;
        // The wait is kept if the host has observed the end of the tasks: it makes their writes visible to the queue.
        let other = &mut self.queues[point.queue.index()];
        if other.submitted < point.cursor {
            other.flush()?;
        }
        let awaited = other.awaited(point.cursor);
        self.queues[queue.index()].wait_for(&awaited)?;
        Ok(())
    }
}

impl Drop for VulkanDevice {
    /// Waits for the queues, then frees everything. All work of a lost device has ended, by the rules of Vulkan.
    fn drop(&mut self) {
        // First: a wait that began later would keep the semaphores for longer.
        self.waits.iter().for_each(|waits| waits.end());
        // Not `vkDeviceWaitIdle`, which would also concern the queues that an application uses meanwhile.
        let ended = |queue: &Queue| match queue.wait_idle() {
            Ok(()) => true,
            Err(code) => code.is_loss(),
        };
        let all_ended = || self.queues.iter().all(ended);
        if !(0..WAITS_MAX).any(|_| all_ended()) {
            tracing::error!(
                target: "millstream::vulkan",
                "the driver refuses to wait for the device; its memory and its threads are leaked"
            );
            std::mem::forget(std::mem::take(&mut self.queues));
            self.context.leak_pipelines();
            self.pages.free_all().for_each(std::mem::forget);
            return;
        }
        // Joins the queue threads.
        self.queues.clear();
        self.shared.drop_abandoned();
        drop(self.pages.free_all());
    }
}
