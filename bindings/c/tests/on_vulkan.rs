//! Adopting a Vulkan device that an application has created. In Rust for `ash`; all calls are those of C.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use ash::vk::{self, Handle};
use millstream_capi::argument::{ms_argument, ms_value};
use millstream_capi::buffer::{ms_buffer_create_from, ms_buffer_destroy, ms_read_into};
use millstream_capi::client::{ms_client_create, ms_client_destroy};
use millstream_capi::device::{ms_device, ms_device_destroy, ms_driver, ms_driver_destroy};
use millstream_capi::kernel::{
    ms_binding_desc, ms_kernel_create, ms_kernel_desc, ms_kernel_destroy, ms_source, ms_source_kind,
};
use millstream_capi::launch::{ms_cubes, ms_launch};
use millstream_capi::status::{ms_last_error, ms_status};
use millstream_capi::stream::{ms_stream_create, ms_stream_destroy};
use millstream_capi::types::{ms_access, ms_type};
use millstream_capi::vulkan::{
    ms_device_adopt_vulkan, ms_vulkan_device, ms_vulkan_feature, ms_vulkan_function,
    ms_vulkan_queue,
};
use millstream_vulkan_conformance::{Application, NoDevice};

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
        size: size_of::<ms_vulkan_queue>() as u32,
        family: application.family,
        queue: pointer(application.queues[0]),
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
        size: size_of::<ms_vulkan_device>() as u32,
        features: ms_vulkan_feature::PushDescriptor as u32,
        loader: Some(loader),
        instance: pointer(application.instance.handle()),
        physical_device: pointer(application.physical),
        device: pointer(application.device.handle()),
        queues: queue,
        queue_count: 1,
        share_queues: 0,
        reserved: 0,
        drop: Some(count),
        user: std::ptr::from_ref(dropped).cast_mut().cast(),
        families: &raw const application.family,
        family_count: 1,
    }
}
unsafe extern "C" fn count(user: *mut c_void) {
    // SAFETY: the test passes a counter that outlives the device.
    unsafe { &*user.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
}

fn pointer(handle: impl Handle) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(handle.as_raw() as usize)
}

#[track_caller]
fn ok(status: ms_status) {
    // SAFETY: the text ends with NUL.
    let text = unsafe { std::ffi::CStr::from_ptr(ms_last_error()) };
    assert_eq!(status, ms_status::Ok, "{text:?}");
}

/// Adds one to four numbers on the device.
fn run(device: *mut ms_device) {
    let text = c"@group(0) @binding(0) var<storage, read_write> values: array<u32>;
        @compute @workgroup_size(64) fn add_one(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&values) { values[id.x] += 1u; }
        }";
    let binding = ms_binding_desc {
        size: size_of::<ms_binding_desc>() as u32,
        access: ms_access::Update as u32,
        dtype: ms_type::U32 as u32,
        reserved: 0,
        name: c"values".as_ptr(),
    };
    let source = ms_source {
        size: size_of::<ms_source>() as u32,
        kind: ms_source_kind::Wgsl as u32,
        data: text.as_ptr().cast(),
        bytes: 0,
        function: None,
        user: null_mut(),
        drop: None,
    };
    let desc = ms_kernel_desc {
        size: size_of::<ms_kernel_desc>() as u32,
        may_alias: 0,
        name: c"add_one".as_ptr(),
        bindings: &raw const binding,
        binding_count: 1,
        scalars: null(),
        scalar_count: 0,
        sources: &raw const source,
        source_count: 1,
        threads: [64, 1, 1],
        shared_bytes: 0,
        metadata_words: 0,
        reserved: 0,
    };
    let (mut client, mut stream, mut kernel, mut buffer) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    let mut values = [1_u32, 2, 3, 4];
    // SAFETY: all pointers are valid, and each handle is destroyed once.
    unsafe {
        ok(ms_client_create(device, null(), &raw mut client));
        ok(ms_stream_create(client, &raw mut stream));
        ok(ms_kernel_create(client, &raw const desc, &raw mut kernel));
        ok(ms_buffer_create_from(
            stream,
            values.as_ptr().cast(),
            16,
            &raw mut buffer,
        ));
        let argument = ms_argument {
            size: size_of::<ms_argument>() as u32,
            kind: ms_access::Update as u32,
            value: ms_value { buffer },
        };
        ok(ms_launch(
            stream,
            kernel,
            ms_cubes { x: 1, y: 1, z: 1 },
            &raw const argument,
            1,
        ));
        ok(ms_read_into(stream, buffer, values.as_mut_ptr().cast(), 16));
        ok(ms_buffer_destroy(buffer));
        ok(ms_kernel_destroy(kernel));
        ok(ms_stream_destroy(stream));
        ok(ms_client_destroy(client));
    }
    assert_eq!(values, [2, 3, 4, 5]);
}

#[test]
fn an_adopted_device_runs_kernels_and_is_dropped_once() {
    let Some(application) = application() else {
        return eprintln!("SKIPPED: no Vulkan driver");
    };
    let (dropped, queue) = (AtomicU32::new(0), queue_of(&application));
    let mut given = given(&application, &queue, &dropped);
    let (mut device, mut driver) = (null_mut::<ms_device>(), null_mut::<ms_driver>());
    // SAFETY: all pointers are valid, and the application outlives the devices.
    unsafe {
        ok(ms_device_adopt_vulkan(
            &raw const given,
            null(),
            &raw mut device,
            null_mut(),
        ));
        run(device);
        ok(ms_device_destroy(device));
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        given.share_queues = 1;
        let refused = ms_device_adopt_vulkan(&raw const given, null(), &raw mut device, null_mut());
        assert_ne!(refused, ms_status::Ok, "only a driven device shares queues");
        ok(ms_device_adopt_vulkan(
            &raw const given,
            null(),
            &raw mut device,
            &raw mut driver,
        ));
        run(device);
        ok(ms_driver_destroy(driver));
        ok(ms_device_destroy(device));
    }
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
    let bad = [
        ms_vulkan_device { size: 0, ..good },
        ms_vulkan_device {
            loader: None,
            ..good
        },
        ms_vulkan_device {
            instance: null_mut(),
            ..good
        },
        ms_vulkan_device {
            physical_device: null_mut(),
            ..good
        },
        ms_vulkan_device {
            device: null_mut(),
            ..good
        },
        ms_vulkan_device {
            queues: null(),
            ..good
        },
        ms_vulkan_device {
            queue_count: 0,
            ..good
        },
        ms_vulkan_device {
            queues: &raw const without_queue,
            ..good
        },
        ms_vulkan_device {
            features: 1 << 20,
            ..good
        },
        ms_vulkan_device {
            families: null(),
            ..good
        },
    ];
    let mut device = null_mut::<ms_device>();
    for given in &bad {
        // SAFETY: the pointers are NULL or valid.
        let refused = unsafe { ms_device_adopt_vulkan(given, null(), &raw mut device, null_mut()) };
        assert_eq!(refused, ms_status::InvalidArgument);
        assert!(device.is_null());
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
}
