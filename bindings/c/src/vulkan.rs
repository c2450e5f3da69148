//! Adopting a Vulkan device that an engine has created.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use ash::vk::{self, Handle};
use millstream::Vulkan;
use millstream::vulkan::{AdoptedDevice, AdoptedFeatures, AdoptedQueue};

use crate::device::{ms_device, ms_driver};
use crate::native::{Owner, ms_drop_fn};
use crate::opening::{give_opened, ms_device_options, open_kind};
use crate::sized::{read_array, read_options, read_plain, read_struct, sized, with};
use crate::status::{Answer, Fault, ensure, exports};

/// An optional feature of Vulkan that an engine has enabled: a bit of `ms_vulkan_device.features`.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_vulkan_feature {
    /// `shaderFloat64`.
    F64 = 1,
    /// `shaderFloat16`.
    F16 = 2,
    /// `shaderInt16`.
    I16 = 4,
    /// `shaderInt8`.
    I8 = 8,
    /// `storageBuffer16BitAccess`.
    Storage16 = 16,
    /// `storageBuffer8BitAccess`.
    Storage8 = 32,
    /// `shaderBufferInt64Atomics`.
    BufferI64Atomics = 64,
    /// `shaderSharedInt64Atomics`.
    SharedI64Atomics = 128,
    /// The extension `VK_KHR_push_descriptor`, which kernels in WGSL need.
    PushDescriptor = 256,
    /// The extension `VK_KHR_calibrated_timestamps`, or `VK_EXT_calibrated_timestamps` if the device has only that, for
    /// profiles and timelines on the host's time axis.
    CalibratedTimestamps = 512,
}

/// A function of Vulkan.
pub type ms_vulkan_function = Option<unsafe extern "C" fn()>;

/// `vkGetInstanceProcAddr`, cast to this type.
pub type ms_vulkan_loader =
    Option<unsafe extern "C" fn(instance: *mut c_void, name: *const c_char) -> ms_vulkan_function>;

/// A queue of an adopted device. Its family supports compute.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_vulkan_queue {
    /// `sizeof(ms_vulkan_queue)`.
    pub size: u32,
    /// The index of its family.
    pub family: u32,
    /// The `VkQueue`.
    pub queue: *mut c_void,
}

/// A Vulkan device of an engine. The engine has enabled Vulkan 1.2 with `timelineSemaphore`, `bufferDeviceAddress`,
/// `scalarBlockLayout`, `shaderInt64` and `synchronization2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_vulkan_device {
    /// `sizeof(ms_vulkan_device)`.
    pub size: u32,
    /// Enabled features: `ms_vulkan_feature` bits.
    pub features: u32,
    /// `vkGetInstanceProcAddr`.
    pub loader: ms_vulkan_loader,
    /// The `VkInstance`.
    pub instance: *mut c_void,
    /// The `VkPhysicalDevice`.
    pub physical_device: *mut c_void,
    /// The `VkDevice`.
    pub device: *mut c_void,
    /// The queues for millstream.
    pub queues: *const ms_vulkan_queue,
    /// Their number, at least 1.
    pub queue_count: usize,
    /// Not 0: the engine goes on using these queues. Only a driven device may share them, since it uses them on the
    /// threads that call it; the engine uses them on the same thread.
    pub share_queues: u32,
    /// 0.
    pub reserved: u32,
    /// Called once, with `user`, on any thread, when nothing uses the Vulkan device any more. If the call that adopts
    /// it fails it is not called. May be NULL.
    pub drop: ms_drop_fn,
    /// Is handed to `drop`.
    pub user: *mut c_void,
    /// The families of further queues on which the engine will use buffers of `ms_vulkan_buffer_create`.
    pub families: *const u32,
    /// Their number.
    pub family_count: usize,
}

sized!(ms_vulkan_queue: 16, ms_vulkan_device: 80);

exports! {
    /// Opens a device on a Vulkan device of an engine, which is not destroyed with it. If `out_driver` is not NULL the
    /// device is driven, as by `ms_device_open_driven`. `options` may be NULL; its `ordinal` is ignored. Blocks while
    /// it is opened.
    ///
    /// The Vulkan device and its instance must live until `drop` is called, or, without one, until the device is closed
    /// and all objects that were made from it are destroyed. Unless `share_queues` is set, no other code may use the
    /// queues meanwhile.
    ///
    /// Errors: `UNAVAILABLE` if the device lacks something, or this build has no Vulkan; `INVALID_ARGUMENT`.
    fn ms_device_adopt_vulkan(
        adopted: *const ms_vulkan_device, options: *const ms_device_options,
        out_device: *mut *mut ms_device, out_driver: *mut *mut ms_driver,
    ) {
        let out_driver = (!out_driver.is_null()).then_some(out_driver);
        let mut owner = None;
        give_opened(out_device, out_driver, |is_driven| {
            let (given, options) = (read_struct(adopted)?, read_options(options)?);
            let held = owner.insert(Arc::new(Owner::new(given.user, given.drop)));
            let vulkan = Vulkan::adopt(device_of(&given)?.owner(held.clone()));
            let vulkan = with(vulkan, options.queues as usize, Vulkan::queues);
            let vulkan = with(vulkan, options.memory_limit, Vulkan::memory_limit);
            open_kind(vulkan, &options, is_driven)
        })?;
        owner.iter().for_each(|owner| owner.take());
        Ok(())
    }
}

/// # Safety
/// The handles and the loader are those of Vulkan.
unsafe fn device_of(given: &ms_vulkan_device) -> Answer<AdoptedDevice> {
    let handles = [given.instance, given.physical_device, given.device];
    let null = || Fault::argument("a handle or the loader of `ms_vulkan_device` is NULL");
    let has_all = !handles.iter().any(|handle| handle.is_null());
    let loader = given.loader.filter(|_| has_all).ok_or_else(null)?;
    // SAFETY: the caller's promise.
    let given_queues = unsafe { read_array(given.queues, given.queue_count)? };
    let has_queues =
        !given_queues.is_empty() && given_queues.iter().all(|queue| !queue.queue.is_null());
    ensure!(
        has_queues,
        "`ms_vulkan_device` has no queue, or one that is NULL"
    );
    let queues = given_queues.iter().map(|queue| AdoptedQueue {
        family: queue.family,
        raw: vk::Queue::from_raw(queue.queue.expose_provenance() as u64),
    });
    let [instance, physical, device] = handles.map(|handle| handle.expose_provenance() as u64);
    // SAFETY: both are functions of a handle and a name, that return a function; the caller passes that of Vulkan.
    let get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr =
        unsafe { std::mem::transmute(loader) };
    let loader = ash::StaticFn {
        get_instance_proc_addr,
    };
    // SAFETY: the caller passes handles of Vulkan.
    let (instance, device) = unsafe {
        let instance = ash::Instance::load(&loader, vk::Instance::from_raw(instance));
        let device = ash::Device::load(instance.fp_v1_0(), vk::Device::from_raw(device));
        (instance, device)
    };
    let physical = vk::PhysicalDevice::from_raw(physical);
    let adopted = AdoptedDevice::new(instance, physical, device, queues);
    let adopted = adopted.features(features_of(given.features)?);
    // SAFETY: the caller's promise.
    let adopted =
        adopted.families(unsafe { read_plain(given.families, given.family_count, "uint32_t")? });
    Ok(match given.share_queues {
        0 => adopted,
        _ => adopted.share_queues(),
    })
}

fn features_of(bits: u32) -> Answer<AdoptedFeatures> {
    let mut features = AdoptedFeatures::default();
    use ms_vulkan_feature as Bit;
    let mut unknown = bits;
    let mut has = |bit: Bit| {
        unknown &= !(bit as u32);
        bits & bit as u32 != 0
    };
    features.f64 = has(Bit::F64);
    features.f16 = has(Bit::F16);
    features.i16 = has(Bit::I16);
    features.i8 = has(Bit::I8);
    features.storage_16 = has(Bit::Storage16);
    features.storage_8 = has(Bit::Storage8);
    features.buffer_i64_atomics = has(Bit::BufferI64Atomics);
    features.shared_i64_atomics = has(Bit::SharedI64Atomics);
    features.push_descriptor = has(Bit::PushDescriptor);
    features.calibrated_timestamps = has(Bit::CalibratedTimestamps);
    ensure!(unknown == 0, "`features` has unknown bits: {unknown:#x}");
    Ok(features)
}
