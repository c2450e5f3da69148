//! The device's functions with counters: the calls of work, not those of setup. Dispatches can be made empty,
//! which leaves the host's part of launches.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use ash::vk::{self, Handle};

use super::Gpu;

static CALLS: AtomicU64 = AtomicU64::new(0);
static ARE_DISPATCHES_EMPTY: AtomicBool = AtomicBool::new(false);

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

/// Sets whether dispatches of a counted device have no cubes.
pub(crate) fn set_empty_dispatches(enabled: bool) {
    ARE_DISPATCHES_EMPTY.store(enabled, Ordering::Relaxed);
}

macro_rules! counted {
    ($($name:ident: $symbol:literal ($($argument:ident: $type:ty),*) -> $result:ty $(, with $changed:ident = $value:expr)?;)*) => {
        $(mod $name {
            use super::*;

            pub(super) static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

            /// Counts a call and passes it on.
            ///
            /// # Safety
            /// As for the driver's function.
            pub(super) unsafe extern "system" fn call($($argument: $type),*) -> $result {
                CALLS.fetch_add(1, Ordering::Relaxed);
                $(let $changed = $value;)?
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
        -> vk::Result;
    reset: b"vkResetCommandPool"(device: vk::Device, pool: vk::CommandPool, flags: vk::CommandPoolResetFlags)
        -> vk::Result;
    begin: b"vkBeginCommandBuffer"(commands: vk::CommandBuffer, info: *const vk::CommandBufferBeginInfo<'static>)
        -> vk::Result;
    end: b"vkEndCommandBuffer"(commands: vk::CommandBuffer) -> vk::Result;
    bind: b"vkCmdBindPipeline"(commands: vk::CommandBuffer, point: vk::PipelineBindPoint, pipeline: vk::Pipeline)
        -> ();
    push: b"vkCmdPushConstants"(
        commands: vk::CommandBuffer, layout: vk::PipelineLayout, stages: vk::ShaderStageFlags, offset: u32, size: u32,
        values: *const c_void
    ) -> ();
    dispatch: b"vkCmdDispatch"(commands: vk::CommandBuffer, x: u32, y: u32, z: u32)
        -> (), with x = match ARE_DISPATCHES_EMPTY.load(Ordering::Relaxed) {
            true => 0,
            false => x,
        };
    barrier: b"vkCmdPipelineBarrier2"(commands: vk::CommandBuffer, info: *const vk::DependencyInfo<'static>)
        -> ();
    copy: b"vkCmdCopyBuffer"(
        commands: vk::CommandBuffer, from: vk::Buffer, to: vk::Buffer, count: u32, regions: *const vk::BufferCopy
    ) -> ();
    wait: b"vkWaitSemaphores"(device: vk::Device, info: *const vk::SemaphoreWaitInfo<'static>, timeout_ns: u64)
        -> vk::Result;
    value: b"vkGetSemaphoreCounterValue"(device: vk::Device, semaphore: vk::Semaphore, value: *mut u64)
        -> vk::Result;
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
