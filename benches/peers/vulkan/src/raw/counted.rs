//! The device's functions with counters: the calls of work, not those of setup. Dispatches can be dropped, which leaves
//! the host's part of launches.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use ash::vk::{self, Handle};

use super::Gpu;

static CALLS: AtomicU64 = AtomicU64::new(0);
static ARE_DISPATCHES_DROPPED: AtomicBool = AtomicBool::new(false);

/// A count of calls.
pub(crate) struct Calls(u64);

impl Calls {
    /// Starts counting.
    pub(crate) fn start() -> Self {
        Self(CALLS.load(Ordering::Relaxed))
    }

    /// Returns the number of calls since the start.
    pub(crate) fn end(&self) -> u64 {
        CALLS.load(Ordering::Relaxed) - self.0
    }
}

/// Sets whether dispatches of a counted device reach the driver.
pub(crate) fn set_dispatches(enabled: bool) {
    ARE_DISPATCHES_DROPPED.store(!enabled, Ordering::Relaxed);
}

macro_rules! counted {
    ($($name:ident: $symbol:literal ($($argument:ident: $type:ty),*) -> $result:ty, drop if $dropped:expr;)*) => {
        $(mod $name {
            use super::*;

            pub(super) static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

            /// Counts a call and passes it on.
            ///
            /// # Safety
            /// As for the driver's function.
            pub(super) unsafe extern "system" fn call($($argument: $type),*) -> $result {
                CALLS.fetch_add(1, Ordering::Relaxed);
                if $dropped {
                    return Default::default();
                }
                type Function = unsafe extern "system" fn($($type),*) -> $result;
                // SAFETY: `counting` has stored the driver's function of this name.
                let real: Function = unsafe { std::mem::transmute(REAL.load(Ordering::Relaxed)) };
                // SAFETY: as the caller guarantees.
                unsafe { real($($argument),*) }
            }
        })*

        /// Returns the function that counts calls of `real`, or `real` itself if its calls are not counted.
        fn counting_function(name: &CStr, real: *const c_void) -> *const c_void {
            match name.to_bytes() {
                $($symbol => {
                    $name::REAL.store(real.cast_mut(), Ordering::Relaxed);
                    $name::call as *const c_void
                })*
                _ => real,
            }
        }
    };
}

counted! {
    submit: b"vkQueueSubmit2"(queue: vk::Queue, count: u32, infos: *const vk::SubmitInfo2<'static>, fence: vk::Fence)
        -> vk::Result, drop if false;
    reset: b"vkResetCommandPool"(device: vk::Device, pool: vk::CommandPool, flags: vk::CommandPoolResetFlags)
        -> vk::Result, drop if false;
    begin: b"vkBeginCommandBuffer"(commands: vk::CommandBuffer, info: *const vk::CommandBufferBeginInfo<'static>)
        -> vk::Result, drop if false;
    end: b"vkEndCommandBuffer"(commands: vk::CommandBuffer) -> vk::Result, drop if false;
    bind: b"vkCmdBindPipeline"(commands: vk::CommandBuffer, point: vk::PipelineBindPoint, pipeline: vk::Pipeline)
        -> (), drop if false;
    push: b"vkCmdPushConstants"(
        commands: vk::CommandBuffer, layout: vk::PipelineLayout, stages: vk::ShaderStageFlags, offset: u32, size: u32,
        values: *const c_void
    ) -> (), drop if false;
    dispatch: b"vkCmdDispatch"(commands: vk::CommandBuffer, x: u32, y: u32, z: u32)
        -> (), drop if ARE_DISPATCHES_DROPPED.load(Ordering::Relaxed);
    barrier: b"vkCmdPipelineBarrier2"(commands: vk::CommandBuffer, info: *const vk::DependencyInfo<'static>)
        -> (), drop if false;
    copy: b"vkCmdCopyBuffer"(
        commands: vk::CommandBuffer, from: vk::Buffer, to: vk::Buffer, count: u32, regions: *const vk::BufferCopy
    ) -> (), drop if false;
    wait: b"vkWaitSemaphores"(device: vk::Device, info: *const vk::SemaphoreWaitInfo<'static>, timeout_ns: u64)
        -> vk::Result, drop if false;
    value: b"vkGetSemaphoreCounterValue"(device: vk::Device, semaphore: vk::Semaphore, value: *mut u64)
        -> vk::Result, drop if false;
}

/// Returns the functions of the GPU's device with counters.
pub(crate) fn counting(gpu: &Gpu) -> ash::Device {
    let device = gpu.device.handle();
    debug_assert!(!device.is_null());
    let get = gpu.instance.fp_v1_0().get_device_proc_addr;
    let find = |name: &CStr| {
        // SAFETY: the device is alive, and the name ends with a zero.
        let real = unsafe { get(device, name.as_ptr()) };
        let real = real.map_or(std::ptr::null(), |real| real as *const c_void);
        counting_function(name, real)
    };
    // SAFETY: `find` returns functions of the device, or functions of the same types.
    unsafe { ash::Device::load_with(find, device) }
}
