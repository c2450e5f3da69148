//! Adopting a Vulkan device that an application has created. In Rust for `ash`; all calls are those of C.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use ash::vk::{self, Handle};
use millstream_capi::device::ms_device;
use millstream_capi::kernel::ms_source_kind;
use millstream_capi::status::ms_status;
use millstream_capi::types::{ms_access, ms_type};
use millstream_capi::vulkan::{
    ms_device_adopt_vulkan, ms_vulkan_device, ms_vulkan_feature, ms_vulkan_function,
    ms_vulkan_queue,
};
use millstream_vulkan_conformance::{Application, NoDevice};

use common::{Kernel, Opened, User, ok, source, zeroed};

#[path = "on_vulkan/sharing.rs"]
mod sharing;

/// Returns an application with a device and one queue, or `None` if this machine has no driver.
fn application() -> Option<Application> {
    let is_required = std::env::var("MILLSTREAM_VULKAN").is_ok_and(|value| value == "required");
    match Application::new(1, |_, _, _| vec![ash::khr::push_descriptor::NAME]) {
        Err(NoDevice::Loader(_)) if !is_required => None,
        made => Some(made.unwrap()),
    }
}

fn queue_of(application: &Application) -> ms_vulkan_queue {
    ms_vulkan_queue {
        family: application.family,
        queue: pointer(application.queues[0]),
        ..zeroed()
    }
}

fn given(
    application: &Application,
    queue: &ms_vulkan_queue,
    dropped: &AtomicU32,
) -> ms_vulkan_device {
    // SAFETY: both take a handle and a name, and return a function.
    let loader = unsafe {
        std::mem::transmute::<
            vk::PFN_vkGetInstanceProcAddr,
            unsafe extern "C" fn(*mut c_void, *const c_char) -> ms_vulkan_function,
        >(application.entry.static_fn().get_instance_proc_addr)
    };
    ms_vulkan_device {
        features: ms_vulkan_feature::PushDescriptor as u32,
        loader: Some(loader),
        instance: pointer(application.instance.handle()),
        physical_device: pointer(application.physical),
        device: pointer(application.device.handle()),
        queues: queue,
        queue_count: 1,
        drop: Some(count),
        user: std::ptr::from_ref(dropped).cast_mut().cast(),
        families: &raw const application.family,
        family_count: 1,
        ..zeroed()
    }
}

unsafe extern "C" fn count(user: *mut c_void) {
    // SAFETY: the test passes a counter that outlives the device.
    unsafe { &*user.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
}

fn pointer(handle: impl Handle) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(handle.as_raw() as usize)
}

/// Opens a device on the application's, which outlives it.
fn adopt(given: &ms_vulkan_device, driven: bool) -> Result<Opened, ms_status> {
    // SAFETY: the pointers are NULL or valid.
    Opened::by(driven, |device, driver| unsafe {
        ms_device_adopt_vulkan(given, null(), device, driver)
    })
}

/// Adds one to four numbers on the device.
fn run(device: *const ms_device) {
    let text = b"@group(0) @binding(0) var<storage, read_write> values: array<u32>;
        @compute @workgroup_size(64) fn add_one(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&values) { values[id.x] += 1u; }
        }";
    let user = User::of(device, &[1, 2, 3, 4]);
    let buffer = (&[ms_access::Update][..], ms_type::U32);
    let (none, source) = ((0, ms_type::U32), source(ms_source_kind::Wgsl, text));
    let kernel = Kernel::new(user.client, c"add_one", buffer, none, &source);
    ok(user.launch(&kernel, 1, ms_access::Update, &[]));
    assert_eq!(user.read(), Ok(vec![2, 3, 4, 5]));
}

#[test]
fn an_adopted_device_runs_kernels_and_is_dropped_once() {
    let Some(application) = application() else {
        return eprintln!("SKIPPED: no Vulkan driver");
    };
    let (dropped, queue) = (AtomicU32::new(0), queue_of(&application));
    let given = given(&application, &queue, &dropped);
    run(adopt(&given, false).unwrap().device);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    let shared = ms_vulkan_device {
        share_queues: 1,
        ..given
    };
    let refused = adopt(&shared, false);
    assert!(refused.is_err(), "only a driven device shares queues");
    run(adopt(&shared, true).unwrap().device);
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
}

#[test]
fn incomplete_descriptions_of_a_device_are_refused() {
    let Some(application) = application() else {
        return eprintln!("SKIPPED: no Vulkan driver");
    };
    let (dropped, queue) = (AtomicU32::new(0), queue_of(&application));
    let good = given(&application, &queue, &dropped);
    let without_queue = ms_vulkan_queue {
        queue: null_mut(),
        ..queue
    };
    let spoils: [&dyn Fn(&mut ms_vulkan_device); 10] = [
        &|given| given.size = 0,
        &|given| given.loader = None,
        &|given| given.instance = null_mut(),
        &|given| given.physical_device = null_mut(),
        &|given| given.device = null_mut(),
        &|given| given.queues = null(),
        &|given| given.queue_count = 0,
        &|given| given.queues = &raw const without_queue,
        &|given| given.features = 1 << 20,
        &|given| given.families = null(),
    ];
    for (index, spoil) in spoils.iter().enumerate() {
        let mut given = good;
        spoil(&mut given);
        let refused = adopt(&given, false).err();
        assert_eq!(refused, Some(ms_status::InvalidArgument), "{index}");
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
}
