//! The intercepted functions: each counts its calls; those with a result may be refused; those that create or destroy
//! objects are noted.
//!
//! Every function is called through the loader's entry for any device, not through that of one device, so that one
//! table suffices.

#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc,
    reason = "the names and the arguments are those of Vulkan"
)]

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use ash::vk::{self, Handle};

use crate::state::{self, Outcome, Waited, count, created, destroyed, enter};

type Allocator = *const vk::AllocationCallbacks<'static>;

static REAL: OnceLock<vk::PFN_vkGetInstanceProcAddr> = OnceLock::new();

/// Replaces the loader of the backend. Returns `false` if there is none.
pub(crate) fn install() -> bool {
    // SAFETY: the initializers of the Vulkan loader may run in any process.
    let Ok(entry) = (unsafe { ash::Entry::load() }) else {
        return false;
    };
    REAL.get_or_init(|| entry.static_fn().get_instance_proc_addr);
    // The loader stays loaded, as the backend's does.
    std::mem::forget(entry);
    // SAFETY: `get_instance` returns functions that behave as the loader's, or refuse calls as a driver may.
    unsafe { millstream_vulkan::use_loader(get_instance) };
    true
}

/// Returns the loader's function of this name.
unsafe fn real(instance: vk::Instance, name: &CStr) -> vk::PFN_vkVoidFunction {
    // SAFETY: the function of the loader, and a name that ends with a zero.
    unsafe { REAL.get().and_then(|get| get(instance, name.as_ptr())) }
}

/// Waits until a device is idle.
pub(crate) fn wait_idle(device: u64) {
    let real = vkDeviceWaitIdle::real();
    // SAFETY: the device is alive: it was not destroyed, and the caller prevents other uses of queues.
    let _ = unsafe { real(vk::Device::from_raw(device)) };
}

unsafe extern "system" fn get_instance(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a name that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: as above.
    let found = unsafe { real(instance, name) }?;
    if name == c"vkGetDeviceProcAddr" && instance != vk::Instance::null() {
        // SAFETY: the instance is alive.
        unsafe { find_all(instance) };
    }
    Some(intercepted(name, Some(found)).unwrap_or(found))
}

unsafe extern "system" fn get_device(
    device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let get = vkGetDeviceProcAddr::real();
    // SAFETY: as the caller guarantees.
    let found = unsafe { get(device, name) }?;
    // SAFETY: the caller passes a name that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    Some(intercepted(name, None).unwrap_or(found))
}

/// The function pointer of the loader for an intercepted function.
struct Slot(AtomicPtr<c_void>);

impl Slot {
    const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    fn set(&self, function: unsafe extern "system" fn()) {
        self.0.store(function as *mut c_void, Ordering::Release);
    }
}

/// How the arguments tell what a call creates or destroys.
macro_rules! note {
    (created $kind:literal $out:ident) => {
        // SAFETY: the call has succeeded, and so has written its result.
        created($kind, unsafe { *$out }.as_raw())
    };
    (destroyed $kind:literal $handle:ident) => {
        destroyed($kind, $handle.as_raw())
    };
}

macro_rules! functions {
    (
        fallible { $($fallible:ident($($farg:ident: $fty:ty),*) $of_device:literal $(creates $fkind:literal $out:ident)? $(holds $held:ident)? $(waits $wait:ident $limit:ident)? $(lists $number_listed:ident $listed:ident)? $(begins $begun:ident)? $(ends $ended:ident)? $(submits $number:ident $infos:ident)?;)* }
        plain { $($plain:ident($($parg:ident: $pty:ty),*) $(destroys $pkind:literal $handle:ident)? $(describes $gpu:ident)?;)* }
    ) => {
        $(mod $fallible {
            use super::*;
            pub(super) static SLOT: Slot = Slot::new();
            type Function = unsafe extern "system" fn($($fty),*) -> vk::Result;
            pub(super) fn real() -> Function {
                // SAFETY: the loader's function of this name, which was found before any caller could have this one.
                unsafe { std::mem::transmute::<*mut c_void, Function>(SLOT.0.load(Ordering::Acquire)) }
            }
            pub(super) unsafe extern "system" fn call($($farg: $fty),*) -> vk::Result {
                count(stringify!($fallible));
                $(state::end_recording($ended.as_raw());)?
                if let Err(result) = enter(stringify!($fallible), $of_device, wait_idle) {
                    $(state::invalidate($ended.as_raw());)?
                    return result;
                }
                $(state::begin_recording($begun.as_raw());)?
                // SAFETY: the caller passes as many infos.
                $(unsafe { note_semaphores($number, $infos) };)?
                $(if state::held() == Some(0) {
                    // SAFETY: the caller passes a pointer to the result.
                    unsafe { *$held = 0 };
                    return vk::Result::SUCCESS;
                })?
                // SAFETY: the caller passes a valid description of the wait.
                $(if let Err(result) = wait_while_held(unsafe { &*$wait }, $limit) {
                    return result;
                })?
                // SAFETY: as the caller guarantees.
                let result = around(stringify!($fallible), || unsafe { real()($($farg),*) });
                if result == vk::Result::SUCCESS {
                    $(match state::held() {
                        // SAFETY: the call has succeeded, and so has written its result.
                        Some(held) => unsafe { *$held = held.min(*$held) },
                        // A loss since the call began has released what was held.
                        None if state::is_lost() => return vk::Result::ERROR_DEVICE_LOST,
                        None => {}
                    })?
                    $(note!(created $fkind $out);)?
                    // SAFETY: the call has succeeded, and so has written its results.
                    $(unsafe { hide($number_listed, $listed) };)?
                }
                result
            }
        })*
        $(mod $plain {
            use super::*;
            pub(super) static SLOT: Slot = Slot::new();
            type Function = unsafe extern "system" fn($($pty),*);
            fn real() -> Function {
                // SAFETY: as for fallible functions.
                unsafe { std::mem::transmute::<*mut c_void, Function>(SLOT.0.load(Ordering::Acquire)) }
            }
            pub(super) unsafe extern "system" fn call($($parg: $pty),*) {
                count(stringify!($plain));
                $(note!(destroyed $pkind $handle);)?
                // SAFETY: as the caller guarantees.
                unsafe { real()($($parg),*) };
                // SAFETY: the call has written its result.
                $(state::pretend(unsafe { &mut *$gpu });)?
            }
        })*
        /// Returns the replacement of a function, and notes the loader's.
        fn intercepted(
            name: &CStr,
            found: vk::PFN_vkVoidFunction,
        ) -> vk::PFN_vkVoidFunction {
            let (slot, function): (&Slot, *const c_void) = match name.to_str().unwrap_or_default() {
                "vkGetDeviceProcAddr" => (&vkGetDeviceProcAddr::SLOT, get_device as *const c_void),
                $(stringify!($fallible) => (&$fallible::SLOT, $fallible::call as *const c_void),)*
                $(stringify!($plain) => (&$plain::SLOT, $plain::call as *const c_void),)*
                _ => return None,
            };
            if let Some(found) = found {
                slot.set(found);
            }
            // SAFETY: a function of the signature that Vulkan has for this name.
            Some(unsafe { std::mem::transmute::<*const c_void, unsafe extern "system" fn()>(function) })
        }

        /// Finds the loader's functions for devices.
        unsafe fn find_all(instance: vk::Instance) {
            let names = [$(stringify!($fallible),)* $(stringify!($plain),)*];
            for name in names {
                let name = std::ffi::CString::new(name).unwrap_or_default();
                // SAFETY: the instance is alive.
                if let found @ Some(_) = unsafe { real(instance, &name) } {
                    intercepted(&name, found);
                }
            }
        }
    };
}

mod vkGetDeviceProcAddr {
    use super::*;
    pub(super) static SLOT: Slot = Slot::new();
    pub(super) fn real() -> vk::PFN_vkGetDeviceProcAddr {
        // SAFETY: the loader's function of this name, which was found before any caller could have `get_device`.
        unsafe {
            std::mem::transmute::<*mut c_void, vk::PFN_vkGetDeviceProcAddr>(
                SLOT.0.load(Ordering::Acquire),
            )
        }
    }
}

/// Blocks a wait while the progress of the device is held. `Err` is the result of a wait that ends here.
fn wait_while_held(info: &vk::SemaphoreWaitInfo<'_>, limit_ns: u64) -> Result<(), vk::Result> {
    // SAFETY: the caller of the driver passes as many values.
    let values =
        unsafe { std::slice::from_raw_parts(info.p_values, info.semaphore_count as usize) };
    let value = match info.flags.contains(vk::SemaphoreWaitFlags::ANY) {
        true => values.iter().min(),
        false => values.iter().max(),
    };
    let value = value.copied().unwrap_or_default();
    match state::wait_while_held(Waited { value, limit_ns }) {
        Outcome::Lost => Err(vk::Result::ERROR_DEVICE_LOST),
        Outcome::TimedOut => Err(vk::Result::TIMEOUT),
        Outcome::Proceeds => Ok(()),
    }
}

/// Counts the semaphores that submissions wait for, and notes the values that they signal.
///
/// # Safety
/// There are `number` infos.
unsafe fn note_semaphores(number: u32, infos: *const vk::SubmitInfo2<'static>) {
    for nth in 0..number as usize {
        // SAFETY: as the caller guarantees.
        let info = unsafe { &*infos.add(nth) };
        (0..info.wait_semaphore_info_count).for_each(|_| count(state::WAITS));
        for signal in 0..info.signal_semaphore_info_count as usize {
            // SAFETY: as the caller guarantees.
            state::signals(unsafe { (*info.p_signal_semaphore_infos.add(signal)).value });
        }
    }
}

/// Renames the extensions that the session hides.
///
/// # Safety
/// `number` is the number of extensions at `to`, unless that is null.
unsafe fn hide(number: *mut u32, to: *mut vk::ExtensionProperties) {
    if to.is_null() {
        return;
    }
    // SAFETY: as the caller guarantees.
    let all = unsafe { std::slice::from_raw_parts_mut(to, *number as usize) };
    for extension in all {
        let name = extension.extension_name_as_c_str().unwrap_or_default();
        if state::is_hidden(name) {
            extension.extension_name[0] = b'-'.cast_signed();
        }
    }
}

/// Calls a function, and applies what the session says about the progress of the device.
fn around(name: &str, call: impl FnOnce() -> vk::Result) -> vk::Result {
    match name {
        "vkWaitSemaphores" => {
            let result = call();
            if result == vk::Result::SUCCESS {
                count(state::REACHED);
            }
            match state::is_lost() {
                true => vk::Result::ERROR_DEVICE_LOST,
                false => result,
            }
        }
        "vkQueueSubmit2" | "vkQueueSubmit2KHR" | "vkQueueWaitIdle" | "vkDeviceWaitIdle" => {
            state::with_queues(call)
        }
        _ => call(),
    }
}

functions! {
    fallible {
        vkEnumerateInstanceVersion(version: *mut u32) false;
        vkEnumerateInstanceLayerProperties(count: *mut u32, to: *mut vk::LayerProperties) false;
        vkCreateInstance(info: *const vk::InstanceCreateInfo<'static>, with: Allocator, out: *mut vk::Instance) false creates "Instance" out;
        vkCreateDebugUtilsMessengerEXT(instance: vk::Instance, info: *const c_void, with: Allocator, out: *mut vk::DebugUtilsMessengerEXT) false creates "DebugUtilsMessengerEXT" out;
        vkEnumeratePhysicalDevices(instance: vk::Instance, count: *mut u32, to: *mut vk::PhysicalDevice) false;
        vkEnumerateDeviceExtensionProperties(gpu: vk::PhysicalDevice, layer: *const c_char, count: *mut u32, to: *mut vk::ExtensionProperties) false lists count to;
        vkCreateDevice(gpu: vk::PhysicalDevice, info: *const c_void, with: Allocator, out: *mut vk::Device) false creates "Device" out;
        vkCreateBuffer(device: vk::Device, info: *const c_void, with: Allocator, out: *mut vk::Buffer) true creates "Buffer" out;
        vkAllocateMemory(device: vk::Device, info: *const c_void, with: Allocator, out: *mut vk::DeviceMemory) true creates "DeviceMemory" out;
        vkMapMemory(device: vk::Device, memory: vk::DeviceMemory, offset: u64, bytes: u64, flags: u32, out: *mut *mut c_void) true;
        vkBindBufferMemory(device: vk::Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64) true;
        vkCreateSemaphore(device: vk::Device, info: *const c_void, with: Allocator, out: *mut vk::Semaphore) true creates "Semaphore" out;
        vkGetSemaphoreCounterValue(device: vk::Device, semaphore: vk::Semaphore, value: *mut u64) true holds value;
        vkWaitSemaphores(device: vk::Device, info: *const vk::SemaphoreWaitInfo<'static>, ns: u64) true waits info ns;
        vkCreateCommandPool(device: vk::Device, info: *const c_void, with: Allocator, out: *mut vk::CommandPool) true creates "CommandPool" out;
        vkAllocateCommandBuffers(device: vk::Device, info: *const c_void, out: *mut vk::CommandBuffer) true;
        vkResetCommandPool(device: vk::Device, pool: vk::CommandPool, flags: u32) true;
        vkBeginCommandBuffer(commands: vk::CommandBuffer, info: *const c_void) true begins commands;
        vkEndCommandBuffer(commands: vk::CommandBuffer) true ends commands;
        vkCreateQueryPool(device: vk::Device, info: *const c_void, with: Allocator, out: *mut vk::QueryPool) true creates "QueryPool" out;
        vkGetQueryPoolResults(device: vk::Device, pool: vk::QueryPool, first: u32, count: u32, bytes: usize, to: *mut c_void, stride: u64, flags: u32) true;
        vkQueueSubmit2(queue: vk::Queue, number: u32, infos: *const vk::SubmitInfo2<'static>, fence: vk::Fence) true submits number infos;
        vkQueueSubmit2KHR(queue: vk::Queue, number: u32, infos: *const vk::SubmitInfo2<'static>, fence: vk::Fence) true submits number infos;
        vkQueueWaitIdle(queue: vk::Queue) true;
        vkDeviceWaitIdle(device: vk::Device) true;
        vkCreateDescriptorSetLayout(device: vk::Device, info: *const c_void, with: Allocator, out: *mut vk::DescriptorSetLayout) true creates "DescriptorSetLayout" out;
        vkCreatePipelineLayout(device: vk::Device, info: *const c_void, with: Allocator, out: *mut vk::PipelineLayout) true creates "PipelineLayout" out;
        vkCreateShaderModule(device: vk::Device, info: *const c_void, with: Allocator, out: *mut vk::ShaderModule) true creates "ShaderModule" out;
        vkCreateComputePipelines(device: vk::Device, cache: vk::PipelineCache, count: u32, infos: *const c_void, with: Allocator, out: *mut vk::Pipeline) true creates "Pipeline" out;
        vkCreatePipelineCache(device: vk::Device, info: *const c_void, with: Allocator, out: *mut vk::PipelineCache) true creates "PipelineCache" out;
        vkGetPhysicalDeviceCalibrateableTimeDomainsEXT(gpu: vk::PhysicalDevice, count: *mut u32, to: *mut c_void) false;
        vkGetPhysicalDeviceCalibrateableTimeDomainsKHR(gpu: vk::PhysicalDevice, count: *mut u32, to: *mut c_void) false;
        vkGetCalibratedTimestampsEXT(device: vk::Device, count: u32, infos: *const c_void, to: *mut u64, deviation_ns: *mut u64) true;
        vkGetCalibratedTimestampsKHR(device: vk::Device, count: u32, infos: *const c_void, to: *mut u64, deviation_ns: *mut u64) true;
        vkGetDeviceFaultInfoEXT(device: vk::Device, counts: *mut c_void, info: *mut c_void) false;
        vkGetPipelineCacheData(device: vk::Device, cache: vk::PipelineCache, bytes: *mut usize, to: *mut c_void) true;
        vkMergePipelineCaches(device: vk::Device, cache: vk::PipelineCache, count: u32, from: *const vk::PipelineCache) true;
    }
    plain {
        vkGetPhysicalDeviceProperties(gpu: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceProperties) describes out;
        vkDestroyInstance(instance: vk::Instance, with: Allocator) destroys "Instance" instance;
        vkDestroyDebugUtilsMessengerEXT(instance: vk::Instance, messenger: vk::DebugUtilsMessengerEXT, with: Allocator) destroys "DebugUtilsMessengerEXT" messenger;
        vkDestroyDevice(device: vk::Device, with: Allocator) destroys "Device" device;
        vkDestroyBuffer(device: vk::Device, buffer: vk::Buffer, with: Allocator) destroys "Buffer" buffer;
        vkFreeMemory(device: vk::Device, memory: vk::DeviceMemory, with: Allocator) destroys "DeviceMemory" memory;
        vkUnmapMemory(device: vk::Device, memory: vk::DeviceMemory);
        vkDestroySemaphore(device: vk::Device, semaphore: vk::Semaphore, with: Allocator) destroys "Semaphore" semaphore;
        vkDestroyCommandPool(device: vk::Device, pool: vk::CommandPool, with: Allocator) destroys "CommandPool" pool;
        vkDestroyQueryPool(device: vk::Device, pool: vk::QueryPool, with: Allocator) destroys "QueryPool" pool;
        vkDestroyDescriptorSetLayout(device: vk::Device, layout: vk::DescriptorSetLayout, with: Allocator) destroys "DescriptorSetLayout" layout;
        vkDestroyPipelineLayout(device: vk::Device, layout: vk::PipelineLayout, with: Allocator) destroys "PipelineLayout" layout;
        vkDestroyShaderModule(device: vk::Device, module: vk::ShaderModule, with: Allocator) destroys "ShaderModule" module;
        vkDestroyPipeline(device: vk::Device, pipeline: vk::Pipeline, with: Allocator) destroys "Pipeline" pipeline;
        vkDestroyPipelineCache(device: vk::Device, cache: vk::PipelineCache, with: Allocator) destroys "PipelineCache" cache;
        vkGetBufferMemoryRequirements(device: vk::Device, buffer: vk::Buffer, to: *mut c_void);
        vkCmdBindPipeline(commands: vk::CommandBuffer, point: vk::PipelineBindPoint, pipeline: vk::Pipeline);
        vkCmdPushConstants(commands: vk::CommandBuffer, layout: vk::PipelineLayout, stages: u32, offset: u32, bytes: u32, from: *const c_void);
        vkCmdPushDescriptorSetKHR(commands: vk::CommandBuffer, point: vk::PipelineBindPoint, layout: vk::PipelineLayout, set: u32, count: u32, writes: *const c_void);
        vkCmdDispatch(commands: vk::CommandBuffer, x: u32, y: u32, z: u32);
        vkCmdDispatchBase(commands: vk::CommandBuffer, x: u32, y: u32, z: u32, xs: u32, ys: u32, zs: u32);
        vkCmdDispatchIndirect(commands: vk::CommandBuffer, buffer: vk::Buffer, offset: u64);
        vkCmdPipelineBarrier2(commands: vk::CommandBuffer, info: *const c_void);
        vkCmdPipelineBarrier2KHR(commands: vk::CommandBuffer, info: *const c_void);
        vkCmdCopyBuffer(commands: vk::CommandBuffer, from: vk::Buffer, to: vk::Buffer, count: u32, regions: *const c_void);
        vkCmdExecuteCommands(commands: vk::CommandBuffer, count: u32, executed: *const c_void);
        vkCmdFillBuffer(commands: vk::CommandBuffer, buffer: vk::Buffer, offset: u64, bytes: u64, word: u32);
        vkCmdResetQueryPool(commands: vk::CommandBuffer, pool: vk::QueryPool, first: u32, count: u32);
        vkCmdWriteTimestamp2(commands: vk::CommandBuffer, stage: u64, pool: vk::QueryPool, query: u32);
        vkCmdWriteTimestamp2KHR(commands: vk::CommandBuffer, stage: u64, pool: vk::QueryPool, query: u32);
    }
}
