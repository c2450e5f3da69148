//! Vulkan GPUs as devices of millstream.
//!
//! ```text
//!  device thread                                    driver                  a thread per queue
//!  VulkanDevice ── launch, copy ──► command buffer
//!      └── flush: vkQueueSubmit2 ─────────────────► (GPU runs)
//!                 signals the queue's semaphore ──► value = cursor ───────► serve: copies readbacks, publishes it
//! ```
//! A queue has a timeline semaphore whose value is the cursor of the last completed batch. A wait between queues is a
//! wait of a submission for a value. Kernels receive device addresses as push constants, so that a launch writes no
//! descriptors.
//!
//! | module | contents |
//! | --- | --- |
//! | `driver` | safe owners for the driver's objects; the loader is opened at run time |
//! | `device` | [`VulkanDevice`]: the [`Backend`](millstream_protocol::Backend), on the device thread |
//! | `adopted` | adopting the device of an application |
//! | `queue`, `commands` | the command buffers and batches of a queue; `queue::submission` submits them |
//! | `accesses`, `barriers` | which tasks of a queue need a barrier before them; the barriers |
//! | `completer` | progress: the thread that waits for a queue's semaphore |
//! | `held` | batches that a caller completes itself |
//! | `waits` | callers of a driven device that wait for its tasks in the driver, and the points that they can wait for |
//! | `copies`, `fill`, `upload` | copies between host and device and within the device; fills; memory for long uploads |
//! | `trace` | start and end times of tasks, by the device's clock |
//! | `pages` | device memory, and where bindings lie in it |
//! | `compiler`, `kernel` | compiles sources to pipelines; compiled kernels and users' modules |
//! | `module_checks` | the checks of the interface of users' modules |
//! | `wgsl` | translates kernels in WGSL, with the feature `wgsl` |
//! | `parameters` | the parameters of a launch |

mod accesses;
mod adopted;
mod barriers;
mod commands;
mod compiler;
mod completer;
mod copies;
mod device;
mod driver;
mod fill;
mod held;
mod kernel;
mod module_checks;
mod options;
mod pages;
mod parameters;
mod properties;
mod queue;
mod trace;
mod upload;
mod waits;
#[cfg(feature = "wgsl")]
mod wgsl;

pub use crate::kernel::VulkanLaunch;
pub use crate::waits::VulkanPoint;
pub use adopted::{AdoptedDevice, AdoptedFeatures, AdoptedQueue};
pub use device::{VulkanAlias, VulkanBinding, VulkanDevice, VulkanResources};
#[doc(hidden)]
pub use driver::use_loader;
pub use driver::{
    Message, Severity, Validation, cached_pipelines, calibration_extension, loader_version,
};
pub use millstream_gpu::CacheContents;
pub use options::{GpuInfo, Vulkan, gpus};
